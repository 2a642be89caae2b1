// execve through its handler: recorded before the kernel goes on, and denied if recording fails.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "tests/fakes/call_bench.hpp"
#include "tests/unit/rules/rule_maker.hpp"
#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
using fakes::at;
using fakes::CallBench;
using fakes::denied;
using fakes::number;
using rules::Action;
using rules::Operation;

namespace {

/// A plan by which Landlock alone lets `/usr/**` execute.
rules::Plan held_plan(rules::RecordMode record = rules::RecordMode::contested) {
    rules::Plan plan;
    plan.record = record;
    plan.grants.push_back(
        {.path = "/usr", .directory = true, .operations = Operation::execute, .rules = {"programs"}});
    return plan;
}

std::vector<rules::Rule> programs() {
    return {rules::tests::path_rule("programs", Action::allow, Operation::execute, "/usr/**")};
}

const std::string program = std::filesystem::canonical("/bin/sh");

struct ExecuteBench : tests::TemporaryDirectory, CallBench {
    explicit ExecuteBench(rules::Plan plan = held_plan(), std::vector<rules::Rule> all = programs(),
                          Action fallback = Action::deny)
        : CallBench(std::move(all), fallback, std::move(plan)) {}

    kernel::Answer execute(const std::string& path) {
        const std::array<const char*, 2> words{path.c_str(), nullptr};
        return handle("execve", {at(path.c_str()), at(words.data()), 0});
    }
    std::string script(const std::string& interpreter) {
        std::ofstream(*this / "script") << "#!" << interpreter << "\n";
        std::filesystem::permissions(*this / "script", std::filesystem::perms::owner_all);
        return *this / "script";
    }
};

}  // namespace

TEST_CASE("the kernel goes on with an execution after its record") {
    ExecuteBench bench(held_plan(rules::RecordMode::all));
    std::size_t answers_at_record = 1;
    bench.kept.on_record = [&] { answers_at_record = bench.source.answers.size(); };
    CHECK(bench.execute(program).let_continue);
    CHECK(answers_at_record == 0);
    CHECK(bench.kept.count(program) == 1);
}

TEST_CASE("where the log cannot be written nothing is executed") {
    ExecuteBench bench(held_plan(rules::RecordMode::all));
    bench.fill_log();
    CHECK(denied(bench.execute(program), EACCES));
}

TEST_CASE("what Landlock holds alone needs no record") {
    ExecuteBench bench;
    bench.fill_log();
    CHECK(bench.execute(program).let_continue);
}

TEST_CASE("an execution that is not allowed is on record, and the kernel does not go on") {
    ExecuteBench bench;
    CHECK(denied(bench.execute(bench.script(program)), EPERM));
    CHECK(bench.kept.count("\"deny\"") == 1);
    bench.fill_log();
    CHECK(denied(bench.execute(bench / "script"), EACCES));
}

TEST_CASE("a file without a name that the default allows is executed after its record, and not without one") {
    const std::array<const char*, 2> words{"program", nullptr};
    const UniqueFd file(::memfd_create("program", MFD_CLOEXEC));
    REQUIRE(file);
    const auto execute = [&](ExecuteBench& bench) {
        return bench.handle("execveat",
                            {number(file.get()), at(""), at(words.data()), 0, number(AT_EMPTY_PATH)});
    };
    ExecuteBench bench(held_plan(), {}, Action::allow);
    std::size_t answers_at_record = 1;
    bench.kept.on_record = [&] { answers_at_record = bench.source.answers.size(); };
    CHECK(execute(bench).let_continue);
    CHECK(answers_at_record == 0);
    CHECK(bench.kept.count("\"continue\"") == 1);

    bench.fill_log();
    CHECK(denied(execute(bench), EACCES));

    ExecuteBench strict;
    CHECK(denied(execute(strict), EPERM));
}

TEST_CASE("an interpreter that is not allowed denies its script") {
    rules::Plan plan = held_plan();
    ExecuteBench bench(plan, {rules::tests::path_rule("all", Action::allow, Operation::execute, "/**"),
                              rules::tests::path_rule("sh", Action::deny, Operation::execute, program)});
    CHECK(denied(bench.execute(bench.script(program)), EPERM));
    CHECK(bench.kept.count("\"sh\"") == 1);
}

TEST_CASE("what the rules ask about is denied where nobody can be asked") {
    ExecuteBench bench(rules::Plan{},
                       {rules::tests::path_rule("ask", Action::ask, Operation::execute, "/**")});
    CHECK(denied(bench.execute(program), EPERM));
    CHECK(bench.kept.count("no one to ask") == 1);
}

TEST_CASE("what is allowed but not held by the kernel is denied") {
    ExecuteBench bench(rules::Plan{}, programs());
    CHECK(denied(bench.execute(program), EACCES));
    CHECK(bench.kept.count("not held by the kernel") == 1);
}

TEST_CASE("a path that leads nowhere is answered, where Landlock holds execution alone too") {
    ExecuteBench bench;
    CHECK(denied(bench.execute(bench / "none"), ENOENT));
    CHECK(bench.kept.lines.empty());
}

TEST_CASE("elsewhere the kernel does not go on with it: by then it could lead elsewhere") {
    rules::Plan plan = held_plan();
    plan.notify_only_execute = true;
    ExecuteBench bench(plan);
    CHECK(denied(bench.execute(bench / "none"), ENOENT));
    CHECK(denied(bench.execute(bench.path), EACCES));  // a directory
    CHECK(denied(bench.handle("execve", {8, 8, 0}), EFAULT));
    CHECK(bench.kept.lines.empty());
}

TEST_CASE("too many calls that block deny an execution that must be watched") {
    rules::Plan plan = held_plan();
    plan.notify_only_execute = true;
    ExecuteBench bench(plan);
    bench.blocking.room = false;
    CHECK(denied(bench.execute(program), EAGAIN));
    CHECK(bench.kept.count("overload") == 1);
}

TEST_CASE("a caller that cannot be held is not let execute what must be watched") {
    rules::Plan plan = held_plan();
    plan.notify_only_execute = true;
    ExecuteBench bench(plan);
    CHECK(denied(bench.execute(program), EPERM));  // no process can trace itself
    CHECK(bench.kept.count("cannot be held by ptrace") == 1);
}

TEST_CASE("audit mode executes, and records each file of a script that enforcement would have refused") {
    rules::Plan plan = held_plan();
    plan.grants.front().path = "/";
    ExecuteBench bench(plan, {rules::tests::path_rule("all", Action::allow, Operation::execute, "/**")});
    const rules::RuleSet observed({}, Action::deny);
    rules::Plan strict;
    strict.notified = Operation::execute;
    const calls::Observation observation(observed, strict, true);
    bench.run.decide.observation = &observation;
    CHECK(bench.execute(bench.script(program)).let_continue);
    REQUIRE(bench.kept.lines.size() == 2);
    CHECK(bench.kept.lines[0].find(bench / "script") != std::string::npos);
    CHECK(bench.kept.count("\"continue\"") == 2);

    bench.fill_log();
    CHECK(denied(bench.execute(bench / "script"), EACCES));
}
