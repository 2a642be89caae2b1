// callgate_make_log DIRECTORY RECORDS: writes a log as a run would, with its chain and segments, and prints
// its path. Reading can so be measured on more records than a test could make by running programs.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "rules/model/rule.hpp"
#include "supervisor/audit/write/log.hpp"

using namespace callgate;

namespace {

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "callgate_make_log: %s\n", what);
    std::exit(1);
}

/// Objects repeat as those of programs do: a few often, most seldom.
std::string path_of(unsigned long number) {
    const unsigned long directory = (number * 2654435761UL >> 7U) % 97;
    const unsigned long name = number % 3 == 0 ? number % 11 : (number * 40503UL >> 3U) % 20'000;
    return "/home/user/project/node_modules/package-" + std::to_string(directory) + "/lib/file-" +
           std::to_string(name) + ".js";
}

}  // namespace

int main(int count, char** words) {
    if (count != 3) fail("expected DIRECTORY RECORDS");
    const unsigned long records = std::strtoul(words[2], nullptr, 10);
    auto log = audit::Log::in_directory(words[1], {.run = "made00"});
    if (!log) fail(log.error().message().c_str());
    audit::RunStart start;
    start.command = {"npm", "test"};
    start.workdir = "/home/user/project";
    start.temporary_directory = "/tmp/callgate-1000-abcdef";
    if (!(*log)->record(start)) fail("the log cannot be written");
    rules::Rule allowed, denied;
    allowed.id = "workdir";
    allowed.action = rules::Action::allow;
    denied.id = "base.keys";
    denied.reason = "private keys";
    constexpr const char* programs[] = {"/usr/bin/node", "/usr/bin/bash", "/usr/bin/git",
                                        "/usr/bin/python3.11"};
    for (unsigned long number = 0; number < records; ++number) {
        const std::string path = path_of(number);
        const bool refused = number % 50 == 7;
        audit::Decision one;
        one.call = "openat";
        one.caller = {.pid = static_cast<int>(1000 + number % 400),
                      .parent = 999,
                      .start_time = 100 + number % 400,
                      .executable = programs[number % 4],
                      .uid = 1000};
        one.input.path = path;
        one.input.flags = {"O_RDONLY", "O_CLOEXEC"};
        one.operation = rules::Operation::read;
        one.operations = rules::Operation::read;
        one.object = rules::FileObject{path};
        one.identity = audit::FileIdentity{.inode = 1000 + number, .device = 259};
        one.verdict.action = refused ? rules::Action::deny : rules::Action::allow;
        one.verdict.decided_by = rules::DecidedBy::rule;
        one.verdict.rule = refused ? &denied : &allowed;
        one.verdict.error = refused ? EACCES : 0;
        one.mechanism = refused ? audit::Mechanism::error : audit::Mechanism::on_behalf;
        one.duration_ns = static_cast<std::int64_t>(1000 + number % 5000);
        if (!(*log)->record(one)) fail("the log cannot be written");
        if (number % 100'000 == 0) (*log)->sync();  // closes what is full
    }
    audit::RunEnd end;
    end.outcome = Outcome::exited;
    end.exit_code = 0;
    if (!(*log)->record(end)) fail("the log cannot be written");
    (*log)->sync();
    std::printf("%s\n", (*log)->path().c_str());
    return 0;
}
