// Parses `limits` and `environment`.
#include <algorithm>
#include <charconv>

#include "rules/load/rule_fields.hpp"

namespace callgate::rules {
namespace {

bool known_limit(std::string_view key) {
    const auto all = known_keys(KeyPlace::limit);
    return std::find(all.begin(), all.end(), key) != all.end();
}

std::optional<std::uint64_t>* size_limit(Limits& limits, std::string_view key) {
    if (key == "memory") return &limits.memory;
    if (key == "file_size") return &limits.file_size;
    if (key == "disk") return &limits.disk;
    return nullptr;
}

std::optional<std::uint64_t>* count_limit(Limits& limits, std::string_view key) {
    if (key == "processes") return &limits.processes;
    if (key == "open_files") return &limits.open_files;
    return nullptr;
}

std::optional<std::chrono::milliseconds>* time_limit(Limits& limits, std::string_view key) {
    if (key == "cpu") return &limits.cpu;
    if (key == "wall") return &limits.wall;
    if (key == "idle") return &limits.idle;
    return nullptr;
}

std::optional<std::uint64_t> parse_count(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

template <typename T>
bool put(std::optional<T>* into, const std::optional<T>& parsed) {
    if (!parsed || *parsed == T{}) return false;
    *into = parsed;
    return true;
}

void parse_limit(const ParseState& state, const JsonMember& member, Limits& into) {
    Limits one;
    std::string_view what;
    bool good = false;
    const std::string_view text = member.value.text();
    const bool scalar =
        member.value.kind() == JsonValue::Kind::string || member.value.kind() == JsonValue::Kind::number;
    if (auto* size = size_limit(one, member.key)) {
        what = "a size above 0 such as \"512M\"";
        good = scalar && put(size, parse_size(text));
    } else if (auto* count = count_limit(one, member.key)) {
        what = "a whole number above 0";
        good = scalar && put(count, parse_count(text));
    } else if (auto* time = time_limit(one, member.key)) {
        what = "a time above 0 such as \"30s\"";
        good = scalar && put(time, parse_duration(text));
    }
    if (!good) return wrong_type(state, member.value, what);
    into = into.tighter(one);
}

/// Whether an environment can hold the name and a shell can use it.
bool variable_name(std::string_view name) {
    const auto allowed = [](char byte) {
        return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') ||
               byte == '_';
    };
    return !name.empty() && !(name.front() >= '0' && name.front() <= '9') &&
           std::all_of(name.begin(), name.end(), allowed);
}

void parse_names(const ParseState& state, const JsonValue& value, std::vector<std::string>& into) {
    constexpr std::string_view what = "the name of a variable or a list of them";
    for_each_value(state, value, what, [&](const JsonValue& one) {
        const std::optional<std::string_view> text = want_text(state, one, what);
        if (!text) return;
        if (!variable_name(*text))
            return state.error(one, in_quotes(*text) + " is not the name of a variable");
        if (std::find(into.begin(), into.end(), *text) == into.end()) into.emplace_back(*text);
    });
}

void parse_set(const ParseState& state, const JsonValue& value, Environment& into) {
    if (!want_object(state, value, "an object such as {\"CI\": \"1\"}")) return;
    for (const JsonMember& member : value.members()) {
        if (!variable_name(member.key)) {
            state.error(member, in_quotes(member.key) + " is not the name of a variable");
            continue;
        }
        if (member.value.kind() != JsonValue::Kind::string) {
            wrong_type(state, member.value, "a text");
            continue;
        }
        Expected<std::string> text = state.patterns.expand_literal(member.value.text(), false);
        if (text)
            into.set[std::string(member.key)] = std::move(*text);
        else
            state.error(member.value, in_quotes(member.value.text()) + ": " + text.error().text);
    }
}

}  // namespace

void parse_limits(const ParseState& state, const JsonValue& value, Limits& into) {
    if (!want_object(state, value, "an object such as {\"wall\": \"60s\"}")) return;
    for (const JsonMember& member : value.members()) {
        if (known_limit(member.key))
            parse_limit(state, member, into);
        else
            unknown_key(state, member, KeyPlace::limit);
    }
}

void parse_environment(const ParseState& state, const JsonValue& value, Environment& into) {
    if (!want_object(state, value, "an object with \"pass\", \"agent\" and \"set\"")) return;
    for (const JsonMember& member : value.members()) {
        if (member.key == "pass")
            parse_names(state, member.value, into.pass);
        else if (member.key == "agent")
            parse_names(state, member.value, into.agent);
        else if (member.key == "set")
            parse_set(state, member.value, into);
        else
            unknown_key(state, member, KeyPlace::environment);
    }
}

}  // namespace callgate::rules
