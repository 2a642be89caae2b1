#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

#include "rules/model/rule.hpp"
#include "supervisor/audit/write/chain.hpp"
#include "supervisor/audit/write/format.hpp"

using namespace callgate;
using namespace callgate::audit;
using nlohmann::json;

namespace {

template <typename Record>
std::string line_of(const Record& record, std::uint64_t sequence = 412, Mode mode = Mode::enforce) {
    Buffer out(16);
    const std::size_t at = format(out, {"k3f9", mode}, record);
    const std::size_t start = put_sequence(out, at, sequence);
    return std::string(out.view().substr(start));
}

template <typename Record>
json json_of(const Record& record) {
    return json::parse(line_of(record));
}

rules::Rule secrets_rule() {
    rules::Rule rule;
    rule.id = "secrets";
    rule.reason = "credentials";
    return rule;
}

Decision denied_open(const rules::Rule& rule) {
    Decision decision;
    decision.call = "openat";
    decision.caller = {
        .pid = 4312, .parent = 4300, .start_time = 88123, .executable = "/usr/bin/python3.12", .uid = 1000};
    decision.input.working_directory = "/work";
    decision.input.path = "../u/.ssh/config";
    decision.input.flags = {"O_RDONLY", "O_CLOEXEC"};
    decision.operations = rules::Operation::read;
    decision.object = rules::FileObject{.path = "/home/u/.ssh/config"};
    decision.identity = FileIdentity{.inode = 81, .device = gnu_dev_makedev(259, 2)};
    decision.verdict = {.action = rules::Action::deny,
                        .decided_by = rules::DecidedBy::rule,
                        .rule = &rule,
                        .operation = rules::Operation::read,
                        .error = EACCES};
    decision.duration_ns = 1834000;
    return decision;
}

std::string from_base64(std::string_view text) {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bytes;
    unsigned group = 0;
    int bits = 0;
    for (const char one : text) {
        if (one == '=') break;
        group = group << 6 | static_cast<unsigned>(digits.find(one));
        bits += 6;
        if (bits >= 8) bytes += static_cast<char>(group >> (bits -= 8) & 0xFF);
    }
    return bytes;
}

/// Every member of `value` must be declared by `schema`, and every required one present.
void check_against(const json& value, const json& schema, const std::string& where) {
    INFO(where);
    const json empty = json::object();
    const json& properties = schema.contains("properties") ? schema["properties"] : empty;
    for (const auto& item : value.items()) {
        const std::string name = item.key();  // doctest captures it: no structured binding
        const json& member = item.value();
        INFO(name);
        REQUIRE(properties.contains(name));
        if (member.is_object()) check_against(member, properties[name], where + "." + name);
    }
    if (!schema.contains("required")) return;
    for (const json& name : schema["required"]) CHECK(value.contains(name.get<std::string>()));
}

json schema() {
    std::ifstream file(TESTDATA "/../../supervisor/audit/audit.schema.json");
    return json::parse(file);
}

}  // namespace

TEST_CASE("a denied open is recorded field by field as the format has it") {
    const rules::Rule rule = secrets_rule();
    json record = json_of(denied_open(rule));
    const auto when = record["@timestamp"].get<std::string>();
    CHECK(when.size() == std::string("2026-11-20T10:11:12.123456789Z").size());
    CHECK(when.back() == 'Z');
    record.erase("@timestamp");
    const json expected = json::parse(R"({
      "ecs":{"version":"8.11.0"},
      "event":{"kind":"event","category":["file"],"type":["access"],"action":"openat","outcome":"failure",
               "sequence":412,"duration":1834000},
      "process":{"pid":4312,"entity_id":"4312@88123","executable":"/usr/bin/python3.12","parent":{"pid":4300}},
      "user":{"id":"1000"},"file":{"path":"/home/u/.ssh/config","inode":"81","device":"259:2"},
      "rule":{"name":"secrets"},
      "callgate":{"schema":"1.0","run":"k3f9","mode":"enforce","operation":"read","operations":["read"],
        "verdict":"deny","decided_by":"rule","mechanism":"errno","errno":"EACCES","tier":"contested",
        "reason":"credentials","count":1,
        "input":{"dirfd":null,"cwd":"/work","path":"../u/.ssh/config","path_b64":null,
                 "flags":["O_RDONLY","O_CLOEXEC"],"mode":null}},
      "integrity":{"previous":"","hash":""}})");
    const std::string open(64, '0');
    CHECK(record["integrity"]["previous"] == open);
    CHECK(record["integrity"]["hash"] == open);
    record["integrity"] = expected["integrity"];
    CHECK(record == expected);
}

TEST_CASE("the integrity member is the last of every line and a line has one newline") {
    const rules::Rule rule = secrets_rule();
    RunStart start;
    start.command = {"a\nb"};
    for (const std::string& line :
         {line_of(denied_open(rule)), line_of(start), line_of(RunEnd{}),
          line_of(ActFailed{.of_sequence = 1, .error = ENOSPC}),
          line_of(AnswerLost{.of_sequence = 1, .why = "x"}), line_of(Recovered{}), line_of(Checkpoint{})}) {
        CHECK(take_apart(std::string_view(line).substr(0, line.size() - 1)).has_value());
        CHECK(line.find('\n') == line.size() - 1);
        CHECK(line.front() == '{');
    }
}

TEST_CASE("a sequence number of any length fits") {
    for (const std::uint64_t sequence : {1ULL, 99ULL, 1234567890ULL, 18446744073709551615ULL}) {
        CHECK(json::parse(line_of(RunEnd{}, sequence))["event"]["sequence"].get<std::uint64_t>() == sequence);
    }
}

TEST_CASE("every byte of a path comes back from path or path_b64") {
    const rules::Rule rule = secrets_rule();
    for (int byte = 0; byte < 256; ++byte) {
        const std::string path = std::string("/a") + static_cast<char>(byte) + "z";
        Decision decision = denied_open(rule);
        decision.input.path = path;
        decision.object = rules::FileObject{.path = path};
        decision.second_object = rules::FileObject{.path = path};
        const std::string line = line_of(decision);
        for (const char one : line.substr(0, line.size() - 1)) REQUIRE((one >= 0x20 && one < 0x7F));
        const json record = json::parse(line);
        const json& input = record["callgate"]["input"];
        const std::string back = input["path_b64"].is_null()
                                     ? input["path"].get<std::string>()
                                     : from_base64(input["path_b64"].get<std::string>());
        CHECK(back == path);
        CHECK(input["path_b64"].is_null() == (byte < 0x80));
        CHECK(record["callgate"].contains("object_b64") == (byte >= 0x80));
        CHECK(record["callgate"].contains("second_object_b64") == (byte >= 0x80));
        if (byte >= 0x80) CHECK(from_base64(record["callgate"]["object_b64"].get<std::string>()) == path);
    }
}

TEST_CASE("a denied connect names its destination and the rule's host") {
    rules::Rule rule = secrets_rule();
    rules::IpAddress address;
    ::inet_pton(AF_INET6, "2001:db8::1", address.bytes.data());
    address.v6 = true;
    rule.when.host.push_back({.text = "example.org", .suffix = false});
    Decision decision = denied_open(rule);
    decision.call = "connect";
    decision.input = {};
    decision.operation = rules::Operation::connect;
    decision.operations = rules::Operation::connect;
    const std::vector<std::string> names{"other.example.net", "example.org"};
    decision.object =
        rules::Endpoint{.address = address, .port = 443, .protocol = rules::Protocol::tcp, .names = names};
    decision.identity.reset();
    const json record = json_of(decision);
    CHECK(record["callgate"]["names"] == json(names));
    CHECK(record["destination"] == json::parse(R"({"ip":"2001:db8::1","port":443,"domain":"example.org"})"));
    CHECK(record["network"] == json::parse(R"({"type":"ipv6","transport":"tcp"})"));
    CHECK(record["event"]["category"] == json::parse(R"(["network"])"));
    CHECK(record["event"]["type"] == json::parse(R"(["connection","denied"])"));
    CHECK_FALSE(record.contains("file"));
    CHECK(record["callgate"]["input"]["path"].is_null());
}

TEST_CASE("an abstract unix socket and its type are recorded") {
    const rules::Rule rule = secrets_rule();
    Decision decision = denied_open(rule);
    decision.operation = rules::Operation::connect;
    decision.object =
        rules::UnixObject{.name = std::string_view("@a\0b", 4), .type = rules::UnixType::seqpacket};
    const json record = json_of(decision);
    CHECK(record["destination"]["address"].get<std::string>() == std::string("@a\0b", 4));
    CHECK(record["network"]["transport"] == "unix");
    CHECK(record["callgate"]["socket_type"] == "seqpacket");
}

TEST_CASE("outcome is failure only for what is refused") {
    const rules::Rule rule = secrets_rule();
    Decision decision = denied_open(rule);
    decision.mechanism = Mechanism::continued;  // audit mode
    json record = json_of(decision);
    CHECK(record["event"]["outcome"] == "unknown");
    CHECK(record["callgate"]["verdict"] == "deny");
    CHECK(record["callgate"]["mechanism"] == "continue");
    CHECK(record["callgate"]["errno"].is_null());

    decision.verdict.action = rules::Action::allow;
    decision.mechanism = Mechanism::on_behalf;
    record = json_of(decision);
    CHECK(record["event"]["outcome"] == "unknown");
    CHECK(record["callgate"]["mechanism"] == "on_behalf");
    decision.mechanism = Mechanism::error;  // allowed, but the call itself fails: no refusal
    CHECK(json_of(decision)["event"]["outcome"] == "unknown");

    decision.verdict = {
        .action = rules::Action::deny, .decided_by = rules::DecidedBy::failure, .error = EACCES};
    decision.mechanism = Mechanism::error;
    decision.reason = "overload";
    record = json_of(decision);
    CHECK(record["event"]["outcome"] == "failure");
    CHECK(record["rule"]["name"].is_null());
    CHECK(record["callgate"]["reason"] == "overload");
    CHECK(record["callgate"]["decided_by"] == "failure");
}

TEST_CASE("each operation has its ECS category and type") {
    const rules::Rule rule = secrets_rule();
    const auto type = [&rule](rules::Operation operation) {
        Decision decision = denied_open(rule);
        decision.operation = operation;
        const json record = json_of(decision);
        return record["event"]["category"][0].get<std::string>() + "/" +
               record["event"]["type"][0].get<std::string>();
    };
    CHECK(type(rules::Operation::read) == "file/access");
    CHECK(type(rules::Operation::modify) == "file/change");
    CHECK(type(rules::Operation::create) == "file/creation");
    CHECK(type(rules::Operation::remove) == "file/deletion");
    CHECK(type(rules::Operation::metadata) == "file/change");
    CHECK(type(rules::Operation::execute) == "process/start");
    CHECK(type(rules::Operation::connect) == "network/connection");
    CHECK(type(rules::Operation::bind) == "network/start");
}

TEST_CASE("a rename records both names, a descriptor and a mode are numbers as the call has them") {
    const rules::Rule rule = secrets_rule();
    Decision decision = denied_open(rule);
    decision.input.directory_fd = 7;
    decision.input.second_path = "new";
    decision.input.mode = 0644;
    decision.operations = rules::OperationSet{rules::Operation::remove, rules::Operation::create};
    decision.second_object = rules::FileObject{.path = "/w/new"};
    const json record = json_of(decision);
    CHECK(record["callgate"]["input"]["dirfd"] == 7);
    CHECK(record["callgate"]["input"]["second_path"] == "new");
    CHECK(record["callgate"]["input"]["mode"] == "0644");
    CHECK(record["callgate"]["second_object"] == "/w/new");
    CHECK(record["callgate"]["operations"] == json::parse(R"(["create","delete"])"));
}

TEST_CASE("run.start has the command without its secrets, and only so much of it") {
    RunStart start{.command = {"curl", "--token", "s3cret", "http://u:pw@h/"},
                   .workdir = "/w",
                   .temporary_directory = "/tmp/x",
                   .home = "/home/u",
                   .config = "/home/u/.config/callgate",
                   .rules_sha256 = "ab",
                   .kernel = "6.1.0",
                   .host = "box",
                   .snapshot = {.expanded = {{"/w/**/.env", true, {"/w/.env", "/w/a\\[/.env"}},
                                             {"/w/**/.huge", false, {std::string(1 << 20, 'x')}},
                                             {"/w/**/.odd", false, {"/w/\xff"}}},
                                .hosts = {{"${own}", {}}},
                                .links = {{{"/bin", "/usr/bin"}}}},
                   .landlock_abi = 3,
                   .degraded = {"capabilities"},
                   .profiles = {"agent"},
                   .pid = 9};
    json record = json_of(start);
    CHECK(record["event"]["action"] == "run.start");
    CHECK(record["callgate"]["command"] ==
          json::parse(R"(["curl","--token","[redacted]","http://u:[redacted]@h/"])"));
    CHECK(record["callgate"]["landlock_abi"] == 3);
    CHECK(record["callgate"]["degraded"] == json::parse(R"(["capabilities"])"));
    CHECK(record["callgate"]["profiles"] == json::parse(R"(["agent"])"));
    CHECK_FALSE(record["callgate"].contains("command_cut"));
    CHECK(record["callgate"]["home"] == "/home/u");
    CHECK(record["callgate"]["config"] == "/home/u/.config/callgate");
    // Values that are too long, or are not text, are left out.
    CHECK(record["callgate"]["expanded"] ==
          json::parse(R"([{"pattern":"/w/**/.env","followed":true,"paths":["/w/.env","/w/a\\[/.env"]}])"));
    CHECK(record["callgate"]["hosts"] == json::parse(R"([{"name":"${own}","addresses":[]}])"));
    CHECK(record["callgate"]["links"] == json::parse(R"([{"name":"/bin","target":"/usr/bin"}])"));
    // A single invalid value drops the whole list.
    start.snapshot.links->emplace("/\xff", "/w");
    CHECK_FALSE(json_of(start)["callgate"].contains("links"));

    start.command = {"x", std::string(3 << 20, '\xff')};
    const std::string line = line_of(start);
    CHECK(line.size() < max_line);
    CHECK(json::parse(line)["callgate"]["command_cut"] == true);
}

TEST_CASE("run.end, act.failed, answer.lost and recovered say what happened") {
    const RunEnd end{.outcome = Outcome::signaled,
                     .exit_code = std::nullopt,
                     .signal = 9,
                     .duration_ms = 812,
                     .counts = {.allow = 41, .ask = 1, .deny = 2, .kill = 0, .would_deny = 0}};
    json record = json_of(end);
    CHECK(record["event"]["outcome"] == "failure");
    CHECK(record["event"]["duration"] == 812000000);
    CHECK(record["callgate"]["outcome"] == "signaled");
    CHECK(record["callgate"]["exit_code"].is_null());
    CHECK(record["callgate"]["signal"] == 9);
    CHECK(record["callgate"]["counts"]["deny"] == 2);
    CHECK(record["callgate"]["counts"]["ask"] == 1);

    record = json_of(ActFailed{.of_sequence = 7, .error = ENOSPC});
    CHECK(record["event"]["action"] == "act.failed");
    CHECK(record["callgate"]["of_sequence"] == 7);
    CHECK(record["callgate"]["errno"] == "ENOSPC");

    record = json_of(Refused{.call = "socket",
                             .kind = "UDP sockets",
                             .consequence = "no names",
                             .caller = {.pid = 7, .executable = "/bin/a"},
                             .error = EPROTONOSUPPORT,
                             .count = 9,
                             .of_sequence = 3});
    CHECK(record["event"]["action"] == "call.refused");
    CHECK(record["process"]["executable"] == "/bin/a");
    CHECK(record["callgate"]["call"] == "socket");
    CHECK(record["callgate"]["kind"] == "UDP sockets");
    CHECK(record["callgate"]["errno"] == "EPROTONOSUPPORT");
    CHECK(record["callgate"]["reason"] == "no names");
    CHECK(record["callgate"]["count"] == 9);
    CHECK(record["callgate"]["of_sequence"] == 3);
    CHECK_FALSE(json_of(Refused{})["callgate"].contains("of_sequence"));

    record = json_of(AnswerLost{.of_sequence = 8, .why = "the caller died"});
    CHECK(record["event"]["action"] == "answer.lost");
    CHECK(record["callgate"]["reason"] == "the caller died");

    record = json_of(Recovered{.bytes = 17, .set_aside = "/x.torn"});
    CHECK(record["callgate"]["torn_bytes"] == 17);
    CHECK(record["callgate"]["set_aside"] == "/x.torn");
}

TEST_CASE("the schema declares every member of every record and nothing required is missing") {
    rules::Rule rule = secrets_rule();
    const json document = schema();
    Decision file = denied_open(rule);
    file.input.path = "a\xff";
    file.input.second_path = "b\xff";
    file.input.working_directory = "/\xff";
    file.caller.executable = "/\xff";
    file.object = rules::FileObject{.path = "/\xff", .unlinked = true};
    file.second_object = rules::FileObject{.path = "/\xfe"};
    Decision network = denied_open(rule);
    const std::vector<std::string> names{"h"};
    network.object = rules::Endpoint{.address = {}, .names = names};
    Decision look_up = denied_open(rule);
    look_up.object = rules::HostName{"x.example.org"};
    Decision local = denied_open(rule);
    local.object = rules::UnixObject{.name = "@x"};
    Refused refused;
    refused.caller.executable = "/\xff";
    refused.of_sequence = 1;
    for (const json& record :
         {json_of(denied_open(rule)), json_of(file), json_of(network), json_of(local), json_of(look_up),
          json_of(RunStart{}), json_of(Checkpoint{}), json_of(RunEnd{}), json_of(ActFailed{}),
          json_of(AnswerLost{}), json_of(Recovered{}), json_of(Refused{}), json_of(refused)}) {
        check_against(record, document, "record");
    }
}
