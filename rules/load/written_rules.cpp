#include "rules/load/written_rules.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "base/escape.hpp"
#include "base/json_writer.hpp"
#include "rules/load/load_snapshot.hpp"
#include "rules/load/rule_parser.hpp"
#include "rules/model/address.hpp"

namespace callgate::rules {

namespace {

std::vector<std::string_view> texts(const std::vector<Glob>& globs) {
    std::vector<std::string_view> all;
    for (const Glob& glob : globs) all.push_back(glob.text());
    return all;
}

void write_patterns(JsonWriter& json, std::string_view key, const std::vector<Glob>& globs) {
    if (!globs.empty()) json.member(key, texts(globs));
}

void write_protocols(JsonWriter& json, const Protocols& protocol) {
    std::vector<std::string_view> words;
    if (protocol.tcp) words.emplace_back("tcp");
    if (protocol.udp) words.emplace_back("udp");
    if (protocol.stream) words.emplace_back("stream");
    if (protocol.datagram) words.emplace_back("datagram");
    if (!words.empty()) json.member("protocol", words);
}

void write(JsonWriter& json, const Conditions& conditions) {
    write_patterns(json, "path", conditions.path);
    write_patterns(json, "unix", conditions.unix_socket);
    write_patterns(json, "program", conditions.program);
    if (conditions.argv) json.member("argv", texts(*conditions.argv));
    std::vector<std::string> hosts, addresses, ports;
    for (const HostPattern& host : conditions.host) hosts.push_back(host.text);
    for (const Cidr& block : conditions.address) addresses.push_back(text(block));
    if (conditions.own_address) addresses.emplace_back(own_name_of_host);
    for (const PortRange& range : conditions.port) ports.push_back(text(range));
    if (!hosts.empty()) json.member("host", hosts);
    if (!addresses.empty()) json.member("address", addresses);
    if (!ports.empty()) json.member("port", ports);
    if (conditions.run_server) json.member("server", "run");
    write_protocols(json, conditions.protocol);
}

/// The word for an errno that a rule may state; "" if it is none.
std::string_view errno_word(int error) {
    const auto names = errno_names();
    const auto found =
        std::ranges::find_if(names, [error](auto name) { return errno_number(name) == error; });
    return found == names.end() ? std::string_view() : *found;
}

void write(JsonWriter& json, const Rule& rule, const std::string& id) {
    json.begin_object().member("id", id);
    std::vector<std::string_view> operations;
    for (const Operation one : rule.operations) operations.push_back(name(one));
    if (rule.links) operations.push_back(name(Operation::create));
    json.member(name(rule.action), operations);
    write(json, rule.when);
    if (rule.except) {
        json.begin_object("except");
        write(json, *rule.except);
        json.end_object();
    }
    if (!rule.reason.empty()) json.member("reason", rule.reason);
    if (rule.error) json.member("errno", errno_word(*rule.error));
    if (rule.filtered) json.member("filtered", true);
    if (rule.told_on_failure) {
        json.member("quiet", "success");
    } else if (rule.quiet) {
        json.member("quiet", true);
    }
    if (rule.links) json.member("links", true);
    if (rule.tls_pass) json.member("tls", "pass");
    if (rule.needs_landlock_unix) json.member("needs", "landlock-unix");
    json.end_object();
}

bool are_text(const std::vector<Glob>& globs) {
    return std::ranges::all_of(globs, [](const Glob& glob) { return is_utf8(glob.text()); });
}

bool is_text(const Conditions& conditions) {
    return are_text(conditions.path) && are_text(conditions.unix_socket) && are_text(conditions.program) &&
           (!conditions.argv || are_text(*conditions.argv));
}

/// Whether JSON can hold all of it.
bool is_text(const Rule& rule) {
    return is_text(rule.when) && (!rule.except || is_text(*rule.except)) && is_utf8(rule.reason) &&
           is_utf8(rule.id);
}

/// Ids in the text differ from each other, and hold no "=".
class Ids {
public:
    std::string of(const Rule& rule) {
        std::string id = rule.id;
        std::ranges::replace(id, '=', '-');
        const std::string plain = id;
        for (int number = 2; !taken_.insert(id).second; ++number) id = plain + '#' + std::to_string(number);
        return id;
    }

private:
    std::set<std::string> taken_;
};

}  // namespace

Expected<std::string> written_rules(const RuleSet& rules) {
    if (rules.needs_party())
        return Problem{
            "these rules tell an agent from its tools, which a nested run cannot: run the agent "
            "outside, or give rules without \"party\""};
    for (const auto all : {rules.rules(), rules.quiet_rules()})
        for (const Rule& rule : all)
            if (!is_text(rule))
                return Problem{"rule " + rule.id +
                               " names bytes that are not UTF-8, which a nested run "
                               "cannot hand over: start it in a directory with another name"};
    return json_text([&rules](JsonWriter& json) {
        Ids ids;
        json.begin_object().member("version", 1).member("default", name(rules.fallback()));
        json.begin_list("rules");
        for (const auto all : {rules.rules(), rules.quiet_rules()})
            for (const Rule& rule : all) write(json, rule, ids.of(rule));
        json.end_list().end_object();
    });
}

}  // namespace callgate::rules
