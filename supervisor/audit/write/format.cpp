#include "supervisor/audit/write/format.hpp"

#include <arpa/inet.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "base/escape.hpp"
#include "rules/model/rule.hpp"
#include "supervisor/audit/write/chain.hpp"
#include "supervisor/audit/write/format_common.hpp"

namespace callgate::audit {

namespace {

/// ECS event.category and event.type.
std::string_view event_class(const Decision& decision) {
    using rules::Operation;
    const bool no = refused(decision);
    switch (decision.operation) {
        case Operation::read:
            return R"("category":["file"],"type":["access"])";
        case Operation::modify:
            return R"("category":["file"],"type":["change"])";
        case Operation::create:
            return R"("category":["file"],"type":["creation"])";
        case Operation::remove:
            return R"("category":["file"],"type":["deletion"])";
        case Operation::metadata:
            return R"("category":["file"],"type":["change"])";
        case Operation::execute:
            return R"("category":["process"],"type":["start"])";
        case Operation::connect:
            return no ? R"("category":["network"],"type":["connection","denied"])"
                      : R"("category":["network"],"type":["connection"])";
        case Operation::bind:
            return no ? R"("category":["network"],"type":["start","denied"])"
                      : R"("category":["network"],"type":["start"])";
    }
    return R"("category":["process"],"type":["info"])";
}

void append_file(Buffer& out, const rules::FileObject& file, const std::optional<FileIdentity>& identity) {
    out << R"(,"file":{"path":)";
    append_json_string(out, file.path);
    if (identity) {
        out << R"(,"inode":")" << identity->inode << R"(","device":")" << gnu_dev_major(identity->device)
            << ':' << gnu_dev_minor(identity->device) << '"';
    }
    out << '}';
}

/// Returns the name that the deciding rule is about, else the first.
std::string_view domain(const rules::Rule* rule, std::span<const std::string> names) {
    for (const std::string& name : names) {
        if (rule != nullptr && std::ranges::any_of(rule->when.host, [&name](const rules::HostPattern& host) {
                return host.matches(name);
            }))
            return name;
    }
    return names.empty() ? std::string_view() : std::string_view(names.front());
}

void append_endpoint(Buffer& out, const rules::Endpoint& endpoint, const rules::Rule* rule) {
    out << R"(,"destination":{"ip":")";
    append_address(out, endpoint.address);
    out << R"(","port":)" << endpoint.port;
    if (const std::string_view named = domain(rule, endpoint.names); !named.empty()) {
        out << R"(,"domain":)";
        append_json_string(out, named);
    }
    out << R"(},"network":{"type":")" << (endpoint.address.v6 ? "ipv6" : "ipv4") << R"(","transport":")"
        << (endpoint.protocol == rules::Protocol::udp ? "udp" : "tcp") << R"("})";
}

/// Appends what ECS has no field for: bytes of the object that are not UTF-8, its other name, its socket
/// type.
void append_object_rest(Buffer& out, const Decision& decision) {
    const auto exact = [&out](std::string_view bytes) {
        if (is_utf8(bytes)) return;
        out << R"(,"object_b64":")";
        append_base64(out, bytes);
        out << '"';
    };
    if (const auto* endpoint = std::get_if<rules::Endpoint>(&decision.object)) {
        if (!endpoint->names.empty()) append_strings(out, "names", endpoint->names);
        if (endpoint->of_run) out << R"(,"server":"run")";
    }
    if (const auto* file = std::get_if<rules::FileObject>(&decision.object)) {
        exact(file->path);
        if (file->unlinked) out << R"(,"unlinked":true)";
    } else if (const auto* local = std::get_if<rules::UnixObject>(&decision.object)) {
        exact(local->name);
        append_socket_type(out, local->type);
    }
    if (!decision.second_object) return;
    append_bytes(out, "second_object", decision.second_object->path);
    append_operations(out, "first_operations", decision.first_operations);
    append_operations(out, "second_operations", decision.second_operations);
}

void append_input(Buffer& out, const CallInput& input, std::string_view program) {
    out << R"(,"input":{"dirfd":)";
    if (input.directory_fd) {
        out << *input.directory_fd;
    } else {
        out << "null";
    }
    if (input.working_directory.empty()) {
        out << R"(,"cwd":null)";
    } else {
        append_bytes(out, "cwd", input.working_directory);
    }
    // A call without a path has a null view; an empty path (AT_EMPTY_PATH) is a view of no bytes.
    if (input.path.data() == nullptr) {
        out << R"(,"path":null,"path_b64":null)";
    } else {
        append_bytes(out, "path", input.path);
        if (is_utf8(input.path)) out << R"(,"path_b64":null)";
    }
    if (input.second_path.data() != nullptr) append_bytes(out, "second_path", input.second_path);
    out << R"(,"flags":[)";
    for (std::size_t index = 0; index < input.flags.size(); ++index) {
        if (index != 0) out << ',';
        append_json_string(out, input.flags[index]);
    }
    out << R"(],"mode":)";
    if (input.mode) {
        append_octal(out, *input.mode);
    } else {
        out << "null";
    }
    if (!input.arguments.empty()) append_arguments(out, "argv", input.arguments);
    append_exact_program(out, program);
    out << '}';
}

void append_verdict(Buffer& out, const Decision& decision) {
    out << R"(,"verdict":")" << rules::name(decision.verdict.action) << R"(","decided_by":")"
        << rules::name(decision.verdict.decided_by) << R"(","mechanism":")" << name(decision.mechanism)
        << R"(","errno":)";
    if (decision.mechanism == Mechanism::error) {
        append_errno(out, decision.verdict.error);
    } else {
        out << "null";
    }
    out << R"(,"tier":")" << (decision.tier == Tier::kernel ? "kernel" : "contested") << R"(","reason":)";
    const std::string_view reason = decision.reason.empty() ? decision.verdict.reason() : decision.reason;
    if (reason.empty()) {
        out << "null";
    } else {
        append_json_string(out, reason);
    }
    out << R"(,"count":)" << decision.count;
    if (decision.counted) out << R"(,"counted":true)";
}

void append_rule(Buffer& out, const rules::Verdict& verdict) {
    out << R"(,"rule":{"name":)";
    if (verdict.rule == nullptr && verdict.decided_by == rules::DecidedBy::failure) {
        out << "null}";
        return;
    }
    append_json_string(out, verdict.rule_name());
    out << '}';
}

struct CachedSecond {
    std::time_t second = -1;
    char text[64] = {};
    std::size_t length = 0;
};

void fill(CachedSecond& cache, std::time_t second) {
    std::tm parts{};
    ::gmtime_r(&second, &parts);
    cache.length = std::strftime(cache.text, sizeof cache.text, "%Y-%m-%dT%H:%M:%S", &parts);
    cache.second = second;
}

}  // namespace

void append_string(Buffer& out, std::string_view name, std::string_view value) {
    out << ",\"" << name << "\":";
    append_json_string(out, value);
}

void begin_line(Buffer& out) {
    out.clear();
    std::fill_n(out.reserve(head_room), head_room, ' ');
    out.advance(head_room);
    std::timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    out << R"({"@timestamp":")";
    append_timestamp(out, now);
    out << R"(","ecs":{"version":"8.11.0"},"event":{"kind":"event",)";
}

void begin_callgate(Buffer& out, const RunContext& context) {
    out << R"(,"callgate":{"schema":"1.0","run":)";
    append_json_string(out, context.run);
    out << R"(,"mode":")" << name(context.mode) << '"';
}

void end_line(Buffer& out) {
    out << '}';
    append_open_integrity(out);
}

void append_caller(Buffer& out, const Caller& caller) {
    out << R"(,"process":{"pid":)" << caller.pid;
    if (caller.start_time != 0) out << R"(,"entity_id":")" << caller.pid << '@' << caller.start_time << '"';
    if (!caller.executable.empty()) {
        out << R"(,"executable":)";
        append_json_string(out, caller.executable);
    }
    if (caller.parent != 0) out << R"(,"parent":{"pid":)" << caller.parent << '}';
    out << R"(},"user":{"id":")" << caller.uid << R"("})";
}

void append_object(Buffer& out, const rules::Object& object, const std::optional<FileIdentity>& identity,
                   const rules::Rule* rule) {
    if (const auto* file = std::get_if<rules::FileObject>(&object)) {
        append_file(out, *file, identity);
    } else if (const auto* endpoint = std::get_if<rules::Endpoint>(&object)) {
        append_endpoint(out, *endpoint, rule);
    } else if (const auto* local = std::get_if<rules::UnixObject>(&object)) {
        out << R"(,"destination":{"address":)";
        append_json_string(out, local->name);
        out << R"(},"network":{"transport":"unix"})";
    } else if (const auto* host = std::get_if<rules::HostName>(&object)) {
        out << R"(,"dns":{"question":{"name":)";
        append_json_string(out, host->name);
        out << "}}";
    }
}

void append_socket_type(Buffer& out, rules::UnixType type) {
    constexpr std::string_view types[] = {"stream", "datagram", "seqpacket"};
    append_string(out, "socket_type", types[static_cast<std::size_t>(type)]);
}

void append_exact_program(Buffer& out, std::string_view program) {
    if (is_utf8(program)) return;
    out << R"(,"program_b64":")";
    append_base64(out, program);
    out << '"';
}

void append_bytes(Buffer& out, std::string_view name, std::string_view bytes) {
    out << ",\"" << name << "\":";
    if (append_json_string(out, bytes)) return;
    out << ",\"" << name << "_b64\":\"";
    append_base64(out, bytes);
    out << '"';
}

void append_strings(Buffer& out, std::string_view name, std::span<const std::string> values) {
    out << ",\"" << name << "\":[";
    bool first = true;
    for (const std::string& one : values) {
        if (!first) out << ',';
        first = false;
        append_json_string(out, one);
    }
    out << ']';
}

void append_operations(Buffer& out, std::string_view name, rules::OperationSet operations) {
    out << ",\"" << name << "\":[";
    bool first = true;
    for (const rules::Operation one : operations) {
        out << (first ? "\"" : ",\"") << rules::name(one) << '"';
        first = false;
    }
    out << ']';
}

std::size_t format(Buffer& out, const RunContext& context, const Decision& decision) {
    begin_line(out);
    out << event_class(decision) << R"(,"action":")" << decision.call << R"(","outcome":")"
        << (refused(decision) ? "failure" : "unknown") << R"(","sequence":)";
    const std::size_t sequence_at = out.size();
    out << R"(,"duration":)" << decision.duration_ns << '}';
    append_caller(out, decision.caller);
    append_object(out, decision.object, decision.identity, decision.verdict.rule);
    append_rule(out, decision.verdict);
    begin_callgate(out, context);
    if (decision.caller.party) append_string(out, "party", rules::name(*decision.caller.party));
    if (!decision.caller.nested.empty()) append_string(out, "nested", decision.caller.nested);
    if (decision.verdict.nested) out << R"(,"by_nested":true)";
    out << R"(,"operation":")" << rules::name(decision.operation) << '"';
    append_operations(out, "operations", decision.operations);
    if (decision.question != 0) out << R"(,"question":)" << decision.question;
    if (decision.grant != 0) out << R"(,"grant":)" << decision.grant;
    if (!decision.interpreter_of.empty()) append_bytes(out, "interpreter_of", decision.interpreter_of);
    if (decision.of_sequence != 0) out << R"(,"of_sequence":)" << decision.of_sequence;
    append_verdict(out, decision);
    append_object_rest(out, decision);
    append_input(out, decision.input, decision.caller.executable);
    end_line(out);
    return sequence_at;
}

std::size_t put_sequence(Buffer& out, std::size_t sequence_at, std::uint64_t sequence) {
    char digits[20];
    const auto count =
        static_cast<std::size_t>(std::to_chars(digits, digits + sizeof digits, sequence).ptr - digits);
    const std::size_t start = head_room - count;
    std::memmove(out.data() + start, out.data() + head_room, sequence_at - head_room);
    std::memcpy(out.data() + sequence_at - count, digits, count);
    return start;
}

void append_errno(Buffer& out, int error) {
    const char* const known = ::strerrorname_np(error);
    out << '"';
    if (known != nullptr) {
        out << std::string_view(known);
    } else {
        out << error;
    }
    out << '"';
}

void append_address(Buffer& out, const rules::IpAddress& address) {
    char text[INET6_ADDRSTRLEN] = {};
    ::inet_ntop(address.v6 ? AF_INET6 : AF_INET, address.bytes.data(), text, sizeof text);
    out << std::string_view(text);
}

std::string_view name(Mechanism mechanism) {
    constexpr std::string_view words[] = {"errno", "on_behalf", "continue", "kill", "filtered"};
    return words[static_cast<std::size_t>(mechanism)];
}

bool refused(const Decision& decision) {
    return decision.verdict.action != rules::Action::allow &&
           (decision.mechanism == Mechanism::error || decision.mechanism == Mechanism::kill);
}

void append_timestamp(Buffer& out, const std::timespec& when) {
    thread_local CachedSecond cache;
    if (cache.second != when.tv_sec) fill(cache, when.tv_sec);
    out << std::string_view(cache.text, cache.length) << '.';
    char* const digits = out.reserve(9);
    auto rest = when.tv_nsec;
    for (int index = 8; index >= 0; --index, rest /= 10) digits[index] = static_cast<char>('0' + rest % 10);
    out.advance(9);
    out << 'Z';
}

std::optional<std::timespec> read_timestamp(std::string_view text) {
    constexpr std::string_view form = "0000-00-00T00:00:00.000000000Z";
    if (text.size() != form.size()) return std::nullopt;
    for (std::size_t index = 0; index < form.size(); ++index) {
        const bool digit = text[index] >= '0' && text[index] <= '9';
        if (form[index] == '0' ? !digit : text[index] != form[index]) return std::nullopt;
    }
    const auto number = [text](std::size_t at, std::size_t count) {
        int value = 0;
        std::from_chars(text.data() + at, text.data() + at + count, value);
        return value;
    };
    using namespace std::chrono;
    const year_month_day date{year(number(0, 4)), month(static_cast<unsigned>(number(5, 2))),
                              day(static_cast<unsigned>(number(8, 2)))};
    const int hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
    if (!date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
    const auto since = sys_days(date).time_since_epoch() + hours(hour) + minutes(minute) + seconds(second);
    return std::timespec{duration_cast<seconds>(since).count(), number(20, 9)};
}

std::optional<std::int64_t> parse_timestamp(std::string_view text) {
    constexpr std::int64_t latest = INT64_MAX / 1'000'000'000 - 1;
    const std::optional<std::timespec> when = read_timestamp(text);
    if (!when || when->tv_sec < -latest || when->tv_sec > latest) return std::nullopt;
    return when->tv_sec * 1'000'000'000 + when->tv_nsec;
}

}  // namespace callgate::audit
