// `callgate plan`: the rules that the kernel enforces alone, the contested calls, and the reasons.
#include <cstring>

#include "base/escape.hpp"
#include "base/json_writer.hpp"
#include "base/words.hpp"
#include "rules/model/address.hpp"
#include "supervisor/cli/describe.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/enforce/call_classes.hpp"
#include "supervisor/enforce/filter_spec.hpp"

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

/// A cell of a table, padded with at least one space.
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
                terminal_safe(joined(grant.rules, ", ")) +
                (grant.notify_only_execute ? " (execute: notify-only)" : "") +
                (grant.notify_only_read ? " (read: notify-only)" : "") + "\n";
    const auto ports = [&text](std::string_view operation, const std::string& protocol,
                               const rules::HeldPorts& held) {
        if (held.all) text += "  " + cell(std::string(operation), 20) + "every " + protocol + " port\n";
        for (const rules::PortRange& range : held.ports)
            text += "  " + cell(std::string(operation), 20) + protocol + " port " + rules::text(range) + "\n";
    };
    ports("connect", "TCP", plan.tcp_connect);
    ports("bind", "TCP", plan.tcp_bind);
    ports("connect", "UDP", plan.udp_connect);
    ports("bind", "UDP", plan.udp_bind);
    if (plan.sockets_held)
        text += "  " + cell("connect", 20) + "unix sockets that the run itself has bound\n";
    if (plan.messages_held)
        text += "  " + cell("connect", 20) + "by sendmsg: unix sockets that the run itself has made\n";
    return text;
}

std::string tiers_text(const rules::Plan& plan) {
    std::string text = "\nRules, and who decides them:\n";
    for (const rules::RuleTier& one : plan.tiers)
        text += "  " + cell(std::string(tier_name(one.tier)), 11) + terminal_safe(describe(*one.rule)) +
                "\n             " + terminal_safe(one.why) + "\n";
    return text;
}

std::string contests_text(const rules::Plan& plan) {
    if (plan.notified.empty()) return "\nNothing is contested: no call waits for callgate.\n";
    std::string text = "\nContested, decided call by call:\n";
    for (const rules::Contest& one : plan.contests)
        text += "  " + cell(std::string(rules::name(one.operation)), 11) + terminal_safe(one.why) +
                "\n             because of " + terminal_safe(joined(one.because, ", ")) + "\n";
    if (plan.notify_only)
        text += "  Every read is performed by callgate: something that may be executed may not be read.\n";
    if (plan.notify_only_execute)
        text +=
            "  Every execve is decided twice, before it and on the program that then runs: execution is "
            "notify-only somewhere, and the kernel reads the path a second time.\n";
    text += "\nSockets: TCP and unix streams" +
            std::string(plan.unix_closed ? " (unix ones only in pairs)" : "") + (plan.udp ? ", UDP" : "") +
            (plan.unix_datagram ? ", unix datagrams" : "") + "\n";
    return text;
}

std::string variables_text(const std::vector<std::string>& agents_own) {
    if (agents_own.empty()) return "";
    return "\nVariables that the agent has, and nothing that it executes:\n  " + joined(agents_own, ", ") +
           "\n";
}

std::string calls_text(const rules::Plan& plan) {
    std::string text = "\nSystem calls that wait for callgate, and because of what:\n";
    for (const enforce::NotifiedCall& call : enforce::notified_calls(plan))
        text += "  " + cell(std::string(call.name), 20) + terminal_safe(joined(call.because, ", ")) + "\n";
    text += "\nSystem calls that are refused in every run:\n";
    for (const enforce::ClosedCall& call : enforce::closed_calls())
        text += "  " + cell(std::string(call.name), 20) + cell(::strerrorname_np(call.error), 14) +
                std::string(call.why) + "\n";
    return text;
}

void write_ports(JsonWriter& json, std::string_view name, const rules::HeldPorts& held) {
    if (held.all) {
        json.member(name, "all");
    } else {
        json.list(name, held.ports, [&](const rules::PortRange& range) { json.value(rules::text(range)); });
    }
}

void write_grant(JsonWriter& json, const rules::Grant& grant) {
    json.begin_object()
        .member("path", grant.path)
        .member("directory", grant.directory)
        .member("operations", rules::names(grant.operations))
        .member("rules", grant.rules)
        .member("notify_only_read", grant.notify_only_read)
        .member("notify_only_execute", grant.notify_only_execute)
        .end_object();
}

void write_tier(JsonWriter& json, const rules::RuleTier& one) {
    json.begin_object().key("rule");
    write_rule(json, *one.rule);
    json.member("tier", tier_name(one.tier)).member("why", one.why).end_object();
}

void write_calls(JsonWriter& json, const rules::Plan& plan) {
    json.list("notified_calls", enforce::notified_calls(plan), [&](const enforce::NotifiedCall& call) {
        json.begin_object()
            .member("call", call.name)
            .member("operations", rules::names(call.operations))
            .member("because", call.because)
            .end_object();
    });
    json.list("closed_calls", enforce::closed_calls(), [&](const enforce::ClosedCall& call) {
        json.begin_object()
            .member("call", call.name)
            .member("errno", ::strerrorname_np(call.error))
            .member("why", call.why)
            .end_object();
    });
}

void write_plan(JsonWriter& json, const rules::Plan& plan, const CompiledRules& compiled) {
    json.begin_object()
        .member("landlock_abi", plan.landlock_abi)
        .member("default", rules::name(compiled.loaded.rules->fallback()))
        .list("grants", plan.grants, [&](const rules::Grant& one) { write_grant(json, one); });
    write_ports(json, "connect_ports", plan.tcp_connect);
    write_ports(json, "bind_ports", plan.tcp_bind);
    write_ports(json, "udp_connect_ports", plan.udp_connect);
    write_ports(json, "udp_bind_ports", plan.udp_bind);
    json.member("sockets_held", plan.sockets_held).member("messages_held", plan.messages_held);
    json.list("rules", plan.tiers, [&](const rules::RuleTier& one) { write_tier(json, one); });
    json.list("contested", plan.contests, [&](const rules::Contest& one) {
        json.begin_object()
            .member("operation", rules::name(one.operation))
            .member("because", one.because)
            .member("why", one.why)
            .end_object();
    });
    write_calls(json, plan);
    json.member("notify_only", plan.notify_only)
        .member("notify_only_execute", plan.notify_only_execute)
        .member("udp", plan.udp)
        .member("unix_datagram", plan.unix_datagram)
        .member("agents_own", compiled.loaded.environment.agent)
        .end_object();
}

}  // namespace

int plan(const Arguments& arguments) {
    const CompiledRules compiled = Inspection(arguments).compile();
    if (arguments.has("json")) {
        print(json_text([&](JsonWriter& json) { write_plan(json, compiled.plan, compiled); }) + "\n");
        return 0;
    }
    print(grants_text(compiled.plan) + tiers_text(compiled.plan) + "  default    " +
          std::string(rules::name(compiled.loaded.rules->fallback())) + ", where no rule decides\n" +
          contests_text(compiled.plan) + variables_text(compiled.loaded.environment.agent) +
          calls_text(compiled.plan));
    return 0;
}

}  // namespace callgate::cli
