#include <doctest/doctest.h>

#include <fstream>
#include <random>

#include "rules/model/rule.hpp"
#include "supervisor/audit/read/reader.hpp"
#include "supervisor/audit/write/log.hpp"
#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
using namespace callgate::audit;

namespace {

/// All fields of an entry.
std::string text(const Entry& entry) {
    std::string all;
    for (const std::string& one :
         {entry.time,       entry.action,      entry.run,           entry.mode,    entry.verdict,
          entry.decided_by, entry.mechanism,   entry.operation,     entry.rule,    entry.error,
          entry.reason,     entry.object,      entry.second_object, entry.domain,  entry.host,
          entry.program,    entry.socket_type, entry.outcome,       entry.workdir, entry.temporary_directory})
        all += std::to_string(one.size()) + ':' + one;
    for (const auto* list : {&entry.operations, &entry.command, &entry.profiles})
        for (const std::string& one : *list) all += ' ' + one;
    for (const std::uint64_t number : {entry.sequence, entry.start_time, entry.of_sequence, entry.torn_bytes})
        all += ' ' + std::to_string(number);
    all += ' ' + std::to_string(entry.pid) + ' ' + std::to_string(entry.parent);
    for (const auto& number : {entry.exit_code, entry.signal})
        all += number ? ' ' + std::to_string(*number) : " none";
    return all + (entry.counts ? " counts" : "");
}

/// A log with decisions on every kind of object; ordinary names, and ones that need escapes.
std::vector<std::string> lines() {
    const tests::TemporaryDirectory base;
    auto log = Log::at_file(base / "x.jsonl", {.run = "k3f9", .mode = Mode::enforce});
    REQUIRE(log);
    REQUIRE((*log)->record(RunStart{}));
    rules::Rule rule;
    rule.id = "r";
    rule.reason = "why not";
    Decision one;
    one.call = "openat";
    one.caller = {.pid = 42, .parent = 7, .start_time = 9, .executable = "/usr/bin/curl", .uid = 0};
    one.operations = {rules::Operation::read, rules::Operation::modify};
    one.input.path = "x";
    one.input.flags = {"O_RDWR"};
    one.input.mode = 0644;
    for (const std::string_view path :
         {"/home/u/file", "/", "/caf\xc3\xa9", "/a\"b\\c", "/new\nline", "/\xff", "/\xe2\x80\xae"}) {
        one.object = rules::FileObject{.path = path};
        one.identity = FileIdentity{.inode = 12, .device = 259};
        one.verdict = {
            .action = rules::Action::deny, .decided_by = rules::DecidedBy::rule, .rule = &rule, .error = 13};
        REQUIRE((*log)->record(one));
    }
    one.identity.reset();
    one.operation = rules::Operation::connect;
    one.operations = rules::Operation::connect;
    for (const bool v6 : {false, true}) {
        for (const auto protocol : {rules::Protocol::tcp, rules::Protocol::udp}) {
            one.object = rules::Endpoint{
                .address = {.bytes = {203, 0, 113, 4}, .v6 = v6}, .port = 53, .protocol = protocol};
            one.verdict = {.action = rules::Action::ask, .error = 111};
            REQUIRE((*log)->record(one));
        }
    }
    one.object = rules::UnixObject{.name = "@socket", .type = rules::UnixType::stream};
    REQUIRE((*log)->record(one));
    REQUIRE((*log)->record(ActFailed{3, 2}));
    REQUIRE((*log)->record(RunEnd{}));
    std::ifstream file(base / "x.jsonl");
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
}

/// Whether the scanner took the line; then both readers agree.
bool agree(const std::string& line, Entry& kept) {
    if (!scan_decision(line, kept)) return false;
    const auto slow = parse_record(line);
    REQUIRE_MESSAGE(slow.has_value(), line);
    CHECK_MESSAGE(text(kept) == text(*slow), line);
    return true;
}

}  // namespace

TEST_CASE("a decision that callgate wrote is read at once, and as by the other way") {
    Entry kept;
    std::size_t taken = 0;
    const auto all = lines();
    for (const std::string& line : all) taken += agree(line, kept);
    // Not run.start, act.failed, run.end, and not the four names with escapes.
    CHECK(taken == all.size() - 7);
}

TEST_CASE("whatever is done to a line, what is read at once is what the other way reads") {
    std::mt19937 random(11);
    const auto below = [&random](std::size_t bound) {
        return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
    };
    constexpr std::string_view pieces[] = {"\"",
                                           "\\",
                                           ",",
                                           ":",
                                           "{",
                                           "}",
                                           "[",
                                           "]",
                                           "null",
                                           "true",
                                           "-1",
                                           "0",
                                           "01",
                                           "1e3",
                                           "1.5",
                                           " ",
                                           "\n",
                                           "\\u0041",
                                           "\\ud800",
                                           "\\n",
                                           "\x01",
                                           "\xc3\xa9",
                                           "\xff",
                                           "\"pid\":5,",
                                           "\"callgate\":{},",
                                           "\"verdict\":\"\",",
                                           "99999999999999999999"};
    const auto all = lines();
    Entry kept;
    std::size_t taken = 0;
    for (int round = 0; round < 60'000; ++round) {
        std::string line = all[below(all.size())];
        for (std::size_t edits = 1 + below(2); edits > 0; --edits) {
            const std::size_t at = below(line.size());
            switch (below(4)) {
                case 0:
                    line.erase(at, 1 + below(8));
                    break;
                case 1:
                    line.insert(at, pieces[below(std::size(pieces))]);
                    break;
                case 2:
                    line[at] = static_cast<char>(below(256));
                    break;
                default:  // another piece of the line: members twice, objects in objects
                    line.insert(at, line.substr(below(line.size()), below(60)));
            }
        }
        taken += agree(line, kept);
    }
    CHECK(taken > 1000);
}
