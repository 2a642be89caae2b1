#include "rules/load/digest.hpp"

#include "base/sha256.hpp"
#include "rules/model/address.hpp"

namespace callgate::rules {
namespace {

/// Writes each part after its length, so that no two lists of parts give the same bytes.
void put(std::string& into, std::string_view part) {
    into += std::to_string(part.size()) + ':' + std::string(part);
}

void put(std::string& into, const Conditions& conditions) {
    for (const Glob& glob : conditions.path) put(into, "path " + glob.text());
    for (const HostPattern& host : conditions.host) put(into, "host " + host.text);
    for (const Cidr& block : conditions.address) put(into, "address " + text(block));
    for (const PortRange& ports : conditions.port) put(into, "port " + text(ports));
    if (conditions.run_server) put(into, "server run");
    const Protocols& protocol = conditions.protocol;
    for (const bool stated : {protocol.tcp, protocol.udp, protocol.stream, protocol.datagram})
        put(into, stated ? "1" : "0");
    for (const Glob& glob : conditions.unix_socket) put(into, "unix " + glob.text());
    for (const Glob& glob : conditions.program) put(into, "program " + glob.text());
    if (conditions.party) put(into, "party " + std::string(name(*conditions.party)));
    if (!conditions.argv) return;
    put(into, "argv");
    for (const Glob& glob : *conditions.argv) put(into, glob.text());
}

void put(std::string& into, const Rule& rule) {
    put(into, rule.id);
    put(into, name(rule.action));
    put(into, names(rule.operations));
    put(into, rule.when);
    put(into, rule.except ? "except" : "");
    if (rule.except) put(into, *rule.except);
    put(into, rule.reason);
    put(into, std::to_string(rule.error.value_or(0)));
    put(into, rule.tls_pass ? "pass" : "");
}

}  // namespace

std::string digest(const RuleFiles& files, const RuleSources& sources) {
    std::string bytes;
    for (const auto& file : files.all()) put(bytes, file->parsed.sha256);
    put(bytes, "options");
    for (const Rule& rule : sources.option_rules) put(bytes, rule);
    for (const auto& [rule, pattern] : sources.exceptions) {
        put(bytes, rule);
        put(bytes, pattern);
    }
    put(bytes, sources.fallback ? name(*sources.fallback) : std::string_view());
    return sha256_hex(bytes);
}

}  // namespace callgate::rules
