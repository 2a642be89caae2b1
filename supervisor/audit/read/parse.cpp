// Parses a line of a log into a value.

#include <algorithm>
#include <charconv>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "supervisor/audit/read/reader.hpp"

namespace callgate::audit {

namespace {

using namespace json_read;

std::optional<int> small_number(const json& value) {
    if (!value.is_number_integer()) return std::nullopt;
    const auto wide = value.get<std::int64_t>();
    if (wide < INT32_MIN || wide > INT32_MAX) return std::nullopt;
    return static_cast<int>(wide);
}

std::string object_of(const json& record) {
    if (const json& path = member(record, "file", "path"); path.is_string()) return text(path);
    if (const json& address = member(record, "destination", "address"); address.is_string())
        return text(address);
    if (const json& name = member(member(member(record, "dns"), "question"), "name"); name.is_string())
        return text(name);
    const std::string ip = text(member(record, "destination", "ip"));
    if (ip.empty()) return {};
    const std::string port = std::to_string(number(member(record, "destination", "port")));
    const bool udp = text(member(record, "network", "transport")) == "udp";
    return (ip.find(':') == std::string::npos ? ip : '[' + ip + ']') + ':' + port + (udp ? "/udp" : "");
}

Counts counts_of(const json& value) {
    Counts counts;
    for (const auto& [name, place] : count_members) counts.*place = number(member(value, name));
    return counts;
}

void read_decision(Entry& entry, const json& record, const json& ours) {
    entry.verdict = text(member(ours, "verdict"));
    entry.decided_by = text(member(ours, "decided_by"));
    entry.mechanism = text(member(ours, "mechanism"));
    entry.operation = text(member(ours, "operation"));
    entry.operations = texts(member(ours, "operations"));
    entry.rule = text(member(record, "rule", "name"));
    entry.object = object_of(record);
    entry.second_object = text(member(ours, "second_object"));
    entry.domain = text(member(record, "destination", "domain"));
    entry.host = entry.domain.empty() ? text(member(record, "destination", "ip")) : entry.domain;
    if (record.contains("dns")) entry.host = entry.object;
    entry.program = text(member(record, "process", "executable"));
    entry.socket_type = text(member(ours, "socket_type"));
    entry.count = std::max<std::uint64_t>(number(member(ours, "count")), 1);
}

void read_run(Entry& entry, const json& ours) {
    entry.call = text(member(ours, "call"));
    entry.kind = text(member(ours, "kind"));
    entry.of_sequence = number(member(ours, "of_sequence"));
    entry.torn_bytes = number(member(ours, "torn_bytes"));
    entry.command = texts(member(ours, "command"));
    entry.profiles = texts(member(ours, "profiles"));
    entry.workdir = text(member(ours, "workdir"));
    entry.temporary_directory = text(member(ours, "temporary_directory"));
    entry.outcome = text(member(ours, "outcome"));
    entry.exit_code = small_number(member(ours, "exit_code"));
    entry.signal = small_number(member(ours, "signal"));
    if (const json& counts = member(ours, "counts"); counts.is_object()) entry.counts = counts_of(counts);
}

}  // namespace

std::uint64_t start_of(std::string_view entity) {
    const std::size_t at = entity.find('@');
    std::uint64_t start = 0;
    if (at != std::string_view::npos)
        std::from_chars(entity.data() + at + 1, entity.data() + entity.size(), start);
    return start;
}

namespace {

/// A parsed value may be written out again, and each level of nesting takes stack. A record has a few levels;
/// a hostile line could have more than the stack holds.
bool too_deep(std::string_view line) {
    constexpr int deepest = 32;
    int depth = 0;
    bool in_string = false;
    for (std::size_t at = 0; at < line.size(); ++at) {
        const char one = line[at];
        if (in_string && one == '\\') {
            ++at;
        } else if (one == '"') {
            in_string = !in_string;
        } else if (!in_string && (one == '{' || one == '[')) {
            if (++depth > deepest) return true;
        } else if (!in_string && (one == '}' || one == ']')) {
            --depth;
        }
    }
    return false;
}

}  // namespace

Expected<void> check_schema(const std::string& schema) {
    if (schema.empty() || schema.starts_with("1.")) return {};
    return Problem{"a record of schema " + terminal_safe(schema) +
                   ", which this version does not know (it reads 1.x)"};
}

Expected<Entry> parse_record(std::string_view line) {
    const json record = json::parse(line, nullptr, false);
    if (record.is_discarded()) return Problem{"not JSON"};
    if (too_deep(line)) return Problem{"nested deeper than a record is"};
    const json& ours = member(record, "callgate");
    Entry entry;
    entry.time = text(member(record, "@timestamp"));
    entry.action = text(member(record, "event", "action"));
    entry.sequence = number(member(record, "event", "sequence"));
    if (!ours.is_object() || entry.time.empty() || entry.action.empty() || entry.sequence == 0)
        return Problem{
            "not a record of callgate (it lacks @timestamp, event.action, event.sequence or callgate)"};
    if (const auto known = check_schema(text(member(ours, "schema"))); !known) return known.error();
    entry.run = text(member(ours, "run"));
    entry.mode = text(member(ours, "mode"));
    entry.pid = small_number(member(record, "process", "pid")).value_or(0);
    entry.parent = small_number(member(record, "process", "parent", "pid")).value_or(0);
    entry.start_time = start_of(text(member(record, "process", "entity_id")));
    entry.error = text(member(ours, "errno"));
    entry.reason = text(member(ours, "reason"));
    read_decision(entry, record, ours);
    read_run(entry, ours);
    return entry;
}

}  // namespace callgate::audit
