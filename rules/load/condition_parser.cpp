// Conditions: path, host, address, port, server, protocol, unix, program, party, argv.
#include <algorithm>
#include <array>
#include <charconv>

#include "rules/load/rule_fields.hpp"
#include "rules/model/address.hpp"

namespace callgate::rules {
namespace {

struct ConditionKind {
    std::string_view key;
    OperationSet for_operations;
    std::string_view what;
    void (*parse)(const ParseState&, const JsonValue&, Conditions&);
};

constexpr std::string_view path_words = "a path pattern or a list of them";

void parse_patterns(const ParseState& state, const JsonValue& value, bool unix_socket, std::string_view what,
                    std::vector<Glob>& into) {
    for_each_value(state, value, what, [&](const JsonValue& one) {
        const std::optional<std::string_view> text = want_text(state, one, what);
        if (!text) return;
        const Expected<void> made = state.patterns.make(*text, unix_socket, into);
        if (!made) state.error(one, "pattern " + in_quotes(*text) + ": " + made.error().text);
    });
}

void parse_path(const ParseState& state, const JsonValue& value, Conditions& into) {
    parse_patterns(state, value, false, path_words, into.path);
}

void parse_program(const ParseState& state, const JsonValue& value, Conditions& into) {
    parse_patterns(state, value, false, path_words, into.program);
}

void parse_party(const ParseState& state, const JsonValue& value, Conditions& into) {
    constexpr std::array<std::string_view, 2> words{"agent", "tools"};
    const std::optional<std::string_view> text = want_text(state, value, "\"agent\" or \"tools\"");
    if (!text) return;
    for (const Party one : {Party::agent, Party::tools})
        if (name(one) == *text) into.party = one;
    if (!into.party) state.error(value, unknown_word("party", *text, words));
}

void parse_unix(const ParseState& state, const JsonValue& value, Conditions& into) {
    parse_patterns(state, value, true, "a pattern of socket paths or \"@name\", or a list of them",
                   into.unix_socket);
}

void parse_hosts(const ParseState& state, const JsonValue& value, Conditions& into) {
    constexpr std::string_view what = "a host name or a list of them";
    for_each_value(state, value, what, [&](const JsonValue& one) {
        const std::optional<std::string_view> text = want_text(state, one, what);
        if (!text) return;
        Expected<HostPattern> host = parse_host(*text);
        if (!host) return state.error(one, "host " + in_quotes(*text) + ": " + host.error().text);
        into.host.push_back(std::move(*host));
    });
}

void parse_addresses(const ParseState& state, const JsonValue& value, Conditions& into) {
    constexpr std::string_view what =
        "an address such as \"192.0.2.1\" or \"2001:db8::/32\", \"${own}\", or a list of them";
    for_each_value(state, value, what, [&](const JsonValue& one) {
        const std::optional<std::string_view> text = want_text(state, one, what);
        if (!text) return;
        if (*text == own_name_of_host) {
            const std::vector<Cidr> own = state.patterns.own_blocks();
            into.address.insert(into.address.end(), own.begin(), own.end());
            into.own_address = true;
            return;
        }
        const Expected<Cidr> block = parse_cidr(*text);
        if (!block) return state.error(one, "address " + in_quotes(*text) + ": " + block.error().text);
        into.address.push_back(*block);
    });
}

void parse_port_list(const ParseState& state, const JsonValue& value, Conditions& into) {
    constexpr std::string_view what = "a port such as 443 or \"8000-8999\", or a list of them";
    for_each_value(state, value, what, [&](const JsonValue& one) {
        const bool number = one.kind() == JsonValue::Kind::number;
        if (!number && one.kind() != JsonValue::Kind::string) return wrong_type(state, one, what);
        const Expected<PortRange> ports = parse_ports(one.text());
        if (!ports)
            return state.error(
                one, "port " + (number ? describe(one) : in_quotes(one.text())) + ": " + ports.error().text);
        into.port.push_back(*ports);
    });
}

void parse_server(const ParseState& state, const JsonValue& value, Conditions& into) {
    constexpr std::array<std::string_view, 1> words{"run"};
    const std::optional<std::string_view> text = want_text(state, value, "\"run\"");
    if (!text) return;
    if (*text != words.front()) return state.error(value, unknown_word("server", *text, words));
    into.run_server = true;
}

void parse_protocols(const ParseState& state, const JsonValue& value, Conditions& into) {
    constexpr std::array<std::string_view, 4> words{"tcp", "udp", "stream", "datagram"};
    constexpr std::string_view what = "a protocol or a list of them";
    for_each_value(state, value, what, [&](const JsonValue& one) {
        const std::optional<std::string_view> text = want_text(state, one, what);
        if (!text) return;
        if (*text == "tcp")
            into.protocol.tcp = true;
        else if (*text == "udp")
            into.protocol.udp = true;
        else if (*text == "stream")
            into.protocol.stream = true;
        else if (*text == "datagram")
            into.protocol.datagram = true;
        else
            state.error(one, unknown_word("protocol", *text, words));
    });
}

void parse_argv(const ParseState& state, const JsonValue& value, Conditions& into) {
    if (value.kind() != JsonValue::Kind::array)
        return wrong_type(state, value, "a list of patterns, one for each argument");
    into.argv.emplace();
    for (const JsonValue& one : value.items()) {
        if (one.kind() != JsonValue::Kind::string) {
            wrong_type(state, one, "a pattern of one argument");
            continue;
        }
        Expected<Glob> glob = Glob::compile(one.text(), GlobKind::text);
        if (glob)
            into.argv->push_back(std::move(*glob));
        else
            state.error(one, "pattern " + in_quotes(one.text()) + ": " + glob.error().text);
    }
}

constexpr std::array<ConditionKind, 10> kinds{{
    {"path", file_operations, "file operations", parse_path},
    {"host", network_operations, "connect and bind", parse_hosts},
    {"address", network_operations, "connect and bind", parse_addresses},
    {"port", network_operations, "connect and bind", parse_port_list},
    {"server", network_operations, "connect and bind", parse_server},
    {"protocol", network_operations, "connect and bind", parse_protocols},
    {"unix", network_operations, "connect and bind", parse_unix},
    {"program", file_operations | network_operations, "everything", parse_program},
    {"party", file_operations | network_operations, "everything", parse_party},
    {"argv", OperationSet{Operation::execute}, "execute", parse_argv},
}};

/// Blocks of loopback addresses alone.
bool on_loopback(const std::vector<Cidr>& blocks) {
    constexpr int whole_v4 = 8, whole_v6 = 128;
    return !blocks.empty() && std::ranges::all_of(blocks, [](const Cidr& block) {
        return is_loopback(block.address) && block.prefix >= (block.address.v6 ? whole_v6 : whole_v4);
    });
}

const ConditionKind* find_kind(std::string_view key) {
    for (const ConditionKind& kind : kinds)
        if (kind.key == key) return &kind;
    return nullptr;
}

}  // namespace

bool is_condition(std::string_view key) { return find_kind(key) != nullptr; }

void parse_condition(const ParseState& state, const JsonMember& member, OperationSet operations,
                     Conditions& into) {
    const ConditionKind& kind = *find_kind(member.key);
    if (const OperationSet strange = operations - kind.for_operations; !strange.empty())
        state.error(member, in_quotes(member.key) + " has no meaning for " + names(strange) + ": it is for " +
                                std::string(kind.what));
    kind.parse(state, member.value, into);
}

void check_conditions(const ParseState& state, const JsonValue& object, const Conditions& conditions) {
    const std::optional<JsonMember> unix_key = object.member("unix");
    const std::optional<JsonMember> protocol_key = object.member("protocol");
    for (const std::string_view key : {"host", "address", "port"}) {
        const std::optional<JsonMember> member = object.member(key);
        if (unix_key && member)
            state.error(*member, in_quotes(key) + " beside \"unix\" can never match: expected two rules");
    }
    const Protocols& protocol = conditions.protocol;
    if (const std::optional<JsonMember> server_key = object.member("server");
        server_key && (protocol.udp || !on_loopback(conditions.address)))
        state.error(*server_key,
                    "\"server\" is about TCP, and needs loopback addresses beside it: "
                    "\"address\": [\"127.0.0.0/8\", \"::1\"]");
    if (!protocol_key) return;
    if (unix_key && (protocol.tcp || protocol.udp))
        state.error(protocol_key->value, "beside \"unix\" the protocol is \"stream\" or \"datagram\"");
    if (!unix_key && (protocol.stream || protocol.datagram))
        state.error(protocol_key->value,
                    "the protocol is \"tcp\" or \"udp\" (\"stream\" and \"datagram\" stand beside \"unix\")");
}

}  // namespace callgate::rules
