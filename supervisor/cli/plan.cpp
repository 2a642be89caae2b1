// `callgate plan`: what the kernel decides alone, what is contested, and why.
#include <cstring>

#include "rules/model/address.hpp"
#include "base/escape.hpp"
#include "supervisor/enforce/call_classes.hpp"
#include "supervisor/enforce/filter_spec.hpp"
#include "supervisor/cli/describe.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/json_text.hpp"
#include "supervisor/cli/verbs.hpp"

namespace callgate::cli {

namespace {

std::string_view tier_name(rules::Tier tier) {
    switch (tier) {
        case rules::Tier::filter:
            return "filter";
        case rules::Tier::landlock:
            return "landlock";
        case rules::Tier::contested:
            return "contested";
    }
    return "contested";
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
}

/// One cell of a table, and at least one space after it.
std::string cell(std::string text, std::size_t width) {
    text = terminal_safe(text);
    text.append(text.size() < width ? width - text.size() : 1, ' ');
    return text;
}

std::string grants_text(const rules::Plan& plan) {
    std::string text = "Granted to the kernel's Landlock (ABI " + std::to_string(plan.landlock_abi) + "):\n";
    for (const rules::Grant& grant : plan.grants)
        text += "  " + cell(rules::names(grant.operations), 20) +
                cell(grant.path + (grant.directory ? (grant.path == "/" ? "**" : "/**") : ""), 36) +
                terminal_safe(joined(grant.rules)) +
                (grant.notify_only_execute ? " (lets execute, which is trapped)" : "") +
                (grant.notify_only_read ? " (reads are trapped)" : "") + "\n";
    const auto ports = [&text](std::string_view operation, bool all,
                               const std::vector<rules::PortRange>& list) {
        if (all) text += "  " + cell(std::string(operation), 20) + "every TCP port\n";
        for (const rules::PortRange& range : list)
            text += "  " + cell(std::string(operation), 20) + "TCP port " + rules::text(range) + "\n";
    };
    ports("connect", plan.all_connect, plan.connect_ports);
    ports("bind", plan.all_bind, plan.bind_ports);
    return text;
}

std::string tiers_text(const rules::Plan& plan) {
    std::string text = "\nRules, and who decides them:\n";
    for (const rules::RuleTier& one : plan.tiers)
        text += "  " + cell(std::string(tier_name(one.tier)), 11) +
                terminal_safe(describe(*one.rule)) + "\n             " +
                terminal_safe(one.why) + "\n";
    return text;
}

std::string contests_text(const rules::Plan& plan) {
    if (plan.notified.empty()) return "\nNothing is contested: no call waits for callgate.\n";
    std::string text = "\nContested, decided call by call:\n";
    for (const rules::Contest& one : plan.contests)
        text += "  " + cell(std::string(rules::name(one.operation)), 11) + terminal_safe(one.why) +
                "\n             because of " + terminal_safe(joined(one.because)) + "\n";
    if (plan.notify_only)
        text += "  Every read is performed by callgate: something that may be executed may not be read.\n";
    if (plan.notify_only_execute)
        text +=
            "  Every execve is judged twice, before and on what then runs: where the trap alone holds "
            "execution, a path that is read again could lead.\n";
    text += "\nSockets: TCP and unix streams" +
            std::string(plan.unix_closed ? " (unix ones only in pairs)" : "") + (plan.udp ? ", UDP" : "") +
            (plan.unix_datagram ? ", unix datagrams" : "") + "\n";
    return text;
}

std::string calls_text(const rules::Plan& plan) {
    std::string text = "\nSystem calls that wait for callgate, and because of what:\n";
    for (const enforce::NotifiedCall& call : enforce::notified_calls(plan))
        text += "  " + cell(std::string(call.name), 20) + terminal_safe(joined(call.because)) + "\n";
    text += "\nSystem calls that are refused in every run:\n";
    for (const enforce::ClosedCall& call : enforce::closed_calls())
        text += "  " + cell(std::string(call.name), 20) + cell(::strerrorname_np(call.error), 14) +
                std::string(call.why) + "\n";
    return text;
}

std::string notified_json(const rules::Plan& plan) {
    std::vector<std::string> list;
    for (const enforce::NotifiedCall& call : enforce::notified_calls(plan))
        list.push_back(JsonObject()
                           .add("call", call.name)
                           .add("operations", rules::names(call.operations))
                           .raw("because", json_list(call.because))
                           .text());
    return json_array(list);
}

std::string closed_json() {
    std::vector<std::string> list;
    for (const enforce::ClosedCall& call : enforce::closed_calls())
        list.push_back(JsonObject()
                           .add("call", call.name)
                           .add("errno", ::strerrorname_np(call.error))
                           .add("why", call.why)
                           .text());
    return json_array(list);
}

std::string ports_json(bool all, const std::vector<rules::PortRange>& ports) {
    if (all) return "\"all\"";
    std::vector<std::string> texts;
    for (const rules::PortRange& range : ports) texts.push_back(rules::text(range));
    return json_list(texts);
}

std::string as_json(const rules::Plan& plan, const CompiledRules& compiled) {
    std::vector<std::string> grants, tiers, contests;
    for (const rules::Grant& grant : plan.grants)
        grants.push_back(JsonObject()
                             .add("path", grant.path)
                             .add("directory", grant.directory)
                             .add("operations", rules::names(grant.operations))
                             .raw("rules", json_list(grant.rules))
                             .add("trap_only_read", grant.notify_only_read)
                             .add("trap_only_execute", grant.notify_only_execute)
                             .text());
    for (const rules::RuleTier& one : plan.tiers)
        tiers.push_back(JsonObject()
                            .raw("rule", rule_json(*one.rule))
                            .add("tier", tier_name(one.tier))
                            .add("why", one.why)
                            .text());
    for (const rules::Contest& one : plan.contests)
        contests.push_back(JsonObject()
                               .add("operation", rules::name(one.operation))
                               .raw("because", json_list(one.because))
                               .add("why", one.why)
                               .text());
    return JsonObject()
               .add("landlock_abi", plan.landlock_abi)
               .add("default", rules::name(compiled.loaded.rules->fallback()))
               .raw("grants", json_array(grants))
               .raw("connect_ports", ports_json(plan.all_connect, plan.connect_ports))
               .raw("bind_ports", ports_json(plan.all_bind, plan.bind_ports))
               .raw("rules", json_array(tiers))
               .raw("contested", json_array(contests))
               .raw("trapped_calls", notified_json(plan))
               .raw("closed_calls", closed_json())
               .add("trap_only", plan.notify_only)
               .add("trap_only_execute", plan.notify_only_execute)
               .add("udp", plan.udp)
               .add("unix_datagram", plan.unix_datagram)
               .text() +
           "\n";
}

}  // namespace

int plan(const Arguments& arguments) {
    const CompiledRules compiled = Inspection(arguments).compile();
    if (arguments.has("json")) {
        print(as_json(compiled.plan, compiled));
        return 0;
    }
    print(grants_text(compiled.plan) + tiers_text(compiled.plan) + "  default    " +
          std::string(rules::name(compiled.loaded.rules->fallback())) + ", where no rule decides\n" +
          contests_text(compiled.plan) + calls_text(compiled.plan));
    return 0;
}

}  // namespace callgate::cli
