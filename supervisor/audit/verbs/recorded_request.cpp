// Turns a line of a log back into the request that was judged.
#include <sys/sysmacros.h>

#include <algorithm>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "base/number.hpp"
#include "rules/model/address.hpp"
#include "supervisor/audit/read/reader.hpp"
#include "supervisor/audit/verbs/replay.hpp"

namespace callgate::audit {

namespace {

using namespace json_read;

/// The bytes. If the text could not hold them, the record has them beside it.
std::string bytes_of(const json& shown, const json& whole) {
    if (whole.is_string())
        if (auto bytes = decode_base64(text(whole))) return *bytes;
    return text(shown);
}

rules::OperationSet operations_of(const json& names) {
    rules::OperationSet set;
    if (!names.is_array()) return set;
    for (const json& name : names)
        if (const auto one = rules::parse_operations(text(name))) set |= *one;
    return set;
}

void read_object(RecordedRequest& request, const json& record, const json& ours) {
    const json& destination = member(record, "destination");
    const json& whole = member(ours, "object_b64");
    if (const json& ip = member(destination, "ip"); ip.is_string()) {
        if (const auto address = rules::parse_address(text(ip))) {
            const json& port = member(destination, "port");
            const bool udp = text(member(member(record, "network"), "transport")) == "udp";
            request.endpoint = rules::Endpoint{
                *address,
                static_cast<std::uint16_t>(port.is_number_unsigned() ? port.get<std::uint64_t>() : 0),
                udp ? rules::Protocol::udp : rules::Protocol::tcp};
            request.endpoint->of_run = text(member(ours, "server")) == "run";
            request.names = texts(member(ours, "names"));
        }
        return;
    }
    if (const json& name = member(member(member(record, "dns"), "question"), "name"); name.is_string()) {
        request.object = text(name);
        request.look_up = true;
        return;
    }
    if (const json& type = member(ours, "socket_type"); type.is_string()) {
        const std::string word = text(type);
        request.unix_type = word == "datagram"    ? rules::UnixType::datagram
                            : word == "seqpacket" ? rules::UnixType::seqpacket
                                                  : rules::UnixType::stream;
        request.object = bytes_of(member(destination, "address"), whole);
        return;
    }
    request.object = bytes_of(member(member(record, "file"), "path"), whole);
    request.unlinked = member(ours, "unlinked") == true;
}

/// `holder` is the input of a decision, or the record's own part for a question.
void read_arguments(RecordedRequest& request, const json& holder) {
    const json& all = member(holder, "argv");
    if (!all.is_array()) return;
    request.arguments_known = !holder.contains("argv_cut");
    for (const json& one : all) {
        request.arguments.push_back(text(one));
        if (request.arguments.back().find("[redacted]") != std::string::npos) request.arguments_known = false;
    }
}

void read_operations(RecordedRequest& request, const json& ours) {
    request.first = operations_of(member(ours, "operations"));
    const json& second = member(ours, "second_object");
    if (!second.is_string()) return;
    request.has_second = true;
    request.second_object = bytes_of(second, member(ours, "second_object_b64"));
    request.first = operations_of(member(ours, "first_operations"));
    request.second = operations_of(member(ours, "second_operations"));
}

/// A host with a malformed address is ignored, as if it were not on record.
void read_hosts(rules::LoadSnapshot& snapshot, const json& hosts) {
    if (!hosts.is_array()) return;
    for (const json& host : hosts) {
        std::vector<rules::IpAddress> addresses;
        const std::vector<std::string> shown = texts(member(host, "addresses"));
        for (const std::string& one : shown)
            if (const auto address = rules::parse_address(one)) addresses.push_back(*address);
        if (addresses.size() == shown.size())
            snapshot.hosts[text(member(host, "name"))] = std::move(addresses);
    }
}

void read_links(rules::LoadSnapshot& snapshot, const json& links) {
    if (!links.is_array()) return;
    std::map<std::string, std::string>& known = snapshot.links.emplace();
    for (const json& one : links) known[text(member(one, "name"))] = text(member(one, "target"));
}

bool had_landlock_unix(const json& ours) {
    const std::vector<std::string> degraded = texts(member(ours, "degraded"));
    const bool copied = std::ranges::find(degraded, "descriptor-copy") == degraded.end();
    return rules::tells_own_sockets(static_cast<std::int64_t>(number(member(ours, "landlock_abi"))), copied);
}

void read_start(RecordedRequest& request, const json& ours) {
    request.home = bytes_of(member(ours, "home"), member(ours, "home_b64"));
    request.user_home = bytes_of(member(ours, "user_home"), member(ours, "user_home_b64"));
    request.config = bytes_of(member(ours, "config"), member(ours, "config_b64"));
    request.snapshot.git_common = bytes_of(member(ours, "git_common"), member(ours, "git_common_b64"));
    request.snapshot.git_admin = bytes_of(member(ours, "git_admin"), member(ours, "git_admin_b64"));
    request.snapshot.landlock_unix = had_landlock_unix(ours);
    read_hosts(request.snapshot, member(ours, "hosts"));
    read_links(request.snapshot, member(ours, "links"));
    const json& expanded = member(ours, "expanded");
    if (!expanded.is_array()) return;
    for (const json& one : expanded)
        request.snapshot.expanded.push_back(
            {text(member(one, "pattern")), truth(member(one, "followed")), texts(member(one, "paths"))});
}

/// "inode":"81","device":"259:2"
void read_identity(RecordedRequest& request, const json& file) {
    const std::string device = text(member(file, "device"));
    const std::size_t colon = device.find(':');
    if (colon == std::string::npos) return;
    const auto inode = parse_number<std::uint64_t>(text(member(file, "inode")));
    const auto major = parse_number<unsigned>(std::string_view(device).substr(0, colon));
    const auto minor = parse_number<unsigned>(std::string_view(device).substr(colon + 1));
    if (inode && major && minor) request.identity = FileIdentity{*inode, gnu_dev_makedev(*major, *minor)};
}

/// Reads the fields that decisions and questions share; `holder` has the arguments.
void read_asked(RecordedRequest& request, const json& record, const json& ours, const json& holder) {
    request.rule = text(member(record, "rule", "name"));
    request.program = bytes_of(member(record, "process", "executable"), member(holder, "program_b64"));
    request.entity = text(member(record, "process", "entity_id"));
    request.by_nested = truth(member(ours, "by_nested"));
    const std::string party = text(member(ours, "party"));
    for (const rules::Party one : {rules::Party::agent, rules::Party::tools})
        if (rules::name(one) == party) request.party = one;
    read_operations(request, ours);
    read_object(request, record, ours);
    read_identity(request, member(record, "file"));
    read_arguments(request, holder);
}

void read_answer(RecordedRequest& request, const json& ours) {
    request.key = text(member(ours, "key"));
    request.operation = text(member(ours, "operation"));
    request.answer = text(member(ours, "answer"));
    request.scope = text(member(ours, "scope"));
    request.question = number(member(ours, "question"));
    request.grant = number(member(ours, "grant"));
}

}  // namespace

Expected<RecordedRequest> parse_request(std::string_view line) {
    const json record = json::parse(line, nullptr, false);
    if (record.is_discarded()) return Problem{"not JSON"};
    const json& ours = member(record, "callgate");
    if (!ours.is_object() || !member(record, "event").is_object()) return Problem{"not a record of callgate"};
    if (auto known = check_schema(text(member(ours, "schema"))); !known) return known.error();
    RecordedRequest request;
    request.call = text(member(member(record, "event"), "action"));
    request.sequence = number(member(record, "event", "sequence"));
    request.starts_run = request.call == "run.start";
    request.workdir = text(member(ours, "workdir"));
    request.temporary_directory = text(member(ours, "temporary_directory"));
    request.rules_sha256 = text(member(ours, "rules_sha256"));
    if (request.starts_run) read_start(request, ours);
    request.was = text(member(ours, "verdict"));
    request.decided_by = text(member(ours, "decided_by"));
    request.reason = text(member(ours, "reason"));
    read_answer(request, ours);
    if (request.was.empty()) {
        if (request.call == "prompt.shown") read_asked(request, record, ours, ours);
        if (request.call == "prompt.answered")
            request.object = bytes_of(member(ours, "object"), member(ours, "object_b64"));
        return request;
    }
    request.interpreter_of = bytes_of(member(ours, "interpreter_of"), member(ours, "interpreter_of_b64"));
    request.of_sequence = number(member(ours, "of_sequence"));
    request.count = std::max<std::uint64_t>(number(member(ours, "count")), 1);
    read_asked(request, record, ours, member(ours, "input"));
    return request;
}

}  // namespace callgate::audit
