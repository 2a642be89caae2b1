#include "supervisor/decide/decide.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include "tests/fakes/call_bench.hpp"
#include "tests/unit/rules/rule_maker.hpp"

using namespace callgate;
using namespace callgate::calls;
using fakes::CallBench;
using rules::Action;
using rules::Operation;

namespace {

/// A call of `bench` that is decided without a handler.
struct One {
    explicit One(CallBench& bench, std::string_view name = "openat")
        : entry(*enforce::find_call(name)),
          call(bench.source, bench.notification(entry, {})),
          context(bench.context(entry, call)) {}

    const enforce::CallEntry& entry;
    kernel::PendingCall call;
    Call context;
};

Subject reading(std::string_view path) {
    Subject subject;
    subject.operations = Operation::read;
    subject.object = rules::FileObject{path};
    return subject;
}

std::vector<rules::Rule> allow_open() {
    using rules::tests::path_rule;
    std::vector<rules::Rule> all{path_rule("open", Action::allow, Operation::read, "/open/**"),
                                 path_rule("ended", Action::kill, Operation::read, "/ended/**"),
                                 path_rule("shut", Action::deny, Operation::read, "/open/shut")};
    all.back().error = ENOENT;
    return all;
}

}  // namespace

TEST_CASE("what is allowed is on record before it may be done") {
    CallBench bench(allow_open(), Action::deny);
    One one(bench);
    const Decision decision = decide(one.context, reading("/open/file"));
    CHECK(decision.allowed());
    CHECK(decision.sequence == bench.run.decide.log->records());
    REQUIRE(bench.kept.lines.size() == 1);
    CHECK(bench.kept.count("/open/file") == 1);
    CHECK(bench.source.answers.empty());  // the handler answers
    REQUIRE(bench.run.sink.noted.size() == 1);
    CHECK(bench.run.sink.noted[0].action == Action::allow);
}

TEST_CASE("what is denied is on record, with the rule's own errno") {
    CallBench bench(allow_open(), Action::deny);
    One one(bench);
    CHECK(decide(one.context, reading("/open/shut")).error == ENOENT);
    CHECK(decide(one.context, reading("/elsewhere")).error == EACCES);
    CHECK(bench.kept.count("\"deny\"") == 2);
}

TEST_CASE("what cannot be recorded is denied, whatever the rules say") {
    CallBench bench(allow_open(), Action::deny);
    bench.fill_log();
    One one(bench);
    const Decision decision = decide(one.context, reading("/open/file"));
    CHECK(decision.error == EACCES);
    CHECK(bench.run.decide.log_error.load() == ENOSPC);
    REQUIRE(bench.run.sink.noted.size() == 1);
    CHECK(bench.run.sink.noted[0].action == Action::deny);
}

TEST_CASE("without a log decisions are counted all the same") {
    CallBench bench(allow_open(), Action::deny);
    bench.run.decide.log = nullptr;
    One one(bench);
    const Decision decision = decide(one.context, reading("/open/file"));
    CHECK(decision.allowed());
    CHECK(decision.sequence == 0);
    CHECK(bench.run.sink.noted.size() == 1);
}

TEST_CASE("the stricter of two names decides") {
    CallBench bench(allow_open(), Action::deny);
    One one(bench);
    Subject subject = reading("/open/file");
    subject.second_object = rules::FileObject{"/open/shut"};
    subject.second_operations = Operation::read;
    CHECK(decide(one.context, subject).error == ENOENT);
}

TEST_CASE("a settled verdict holds whatever the rules say") {
    CallBench bench(allow_open(), Action::deny);
    One one(bench);
    Subject subject = reading("/elsewhere");
    subject.settled = allow_all();
    CHECK(decide(one.context, subject).allowed());
}

TEST_CASE("a kill verdict kills the caller before it gets any answer, and ends the run") {
    CallBench bench(allow_open(), Action::deny);
    const pid_t child = ::fork();
    if (child == 0) {
        for (;;) ::pause();
    }
    bench.thread = child;
    One one(bench);
    CHECK(decide(one.context, reading("/ended/file")).error == EPERM);
    CHECK(bench.source.answers.empty());
    CHECK(bench.run.kills == 1);
    CHECK(bench.kept.count("\"kill\"") == 1);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WTERMSIG(status) == SIGKILL);
}

TEST_CASE("a caller whose root or namespaces cannot be told to be ours is denied") {
    CallBench bench(std::vector<rules::Rule>{}, Action::allow);
    bench.thread = 0x3fffffff;  // does not exist
    One one(bench);
    CHECK(decide(one.context, reading("/any")).error == EPERM);
    CHECK(bench.kept.count("another root") == 1);
}

TEST_CASE("a failure on our side is denied on record, with its reason") {
    CallBench bench(std::vector<rules::Rule>{}, Action::allow);
    One one(bench);
    deny_failure(one.context, reading("/any"), EAGAIN, "overload");
    REQUIRE(bench.source.answers.size() == 1);
    CHECK(fakes::denied(bench.source.answers[0].answer, EAGAIN));
    CHECK(bench.kept.count("overload") == 1);
}

TEST_CASE("what the kernel goes on with is recorded where all is, and before") {
    rules::Plan plan;
    plan.record = rules::RecordMode::all;
    CallBench bench(allow_open(), Action::deny, plan);
    std::size_t answers_at_record = 1;
    bench.kept.on_record = [&] { answers_at_record = bench.source.answers.size(); };
    One one(bench);
    let_continue(one.context, reading("/open/file"));
    CHECK(answers_at_record == 0);
    REQUIRE(bench.source.answers.size() == 1);
    CHECK(bench.source.answers[0].answer.let_continue);
    CHECK(bench.kept.lines.size() == 1);

    bench.fill_log();
    One other(bench);
    let_continue(other.context, reading("/open/file"));
    CHECK(fakes::denied(bench.source.answers.at(1).answer, EACCES));
}

TEST_CASE("what the kernel goes on with alone is otherwise not recorded") {
    CallBench bench(allow_open(), Action::deny);
    bench.fill_log();
    One one(bench);
    let_continue(one.context, reading("/open/file"));
    CHECK(bench.source.answers.at(0).answer.let_continue);
    CHECK(bench.run.sink.noted.empty());
}

namespace {

/// Everything is allowed but `/ended`; `allow_open` is observed.
struct AuditBench : CallBench {
    AuditBench()
        : CallBench(std::vector{rules::tests::path_rule("kept", Action::deny, Operation::read, "/kept")},
                    Action::allow),
          observed(allow_open(), Action::deny) {
        plan.notified = Operation::read;
        observation.emplace(observed, plan, true);
        run.decide.observation = &*observation;
    }
    rules::RuleSet observed;
    rules::Plan plan;
    std::optional<Observation> observation;
};

}  // namespace

TEST_CASE("audit mode lets a call go on, and records what enforcement would have said") {
    AuditBench bench;
    One one(bench);
    const Decision decision = decide(one.context, reading("/open/shut"));
    CHECK(decision.allowed());
    CHECK(decision.sequence > 0);
    CHECK(bench.kept.count("\"deny\"") == 1);
    REQUIRE(bench.run.sink.noted.size() == 1);
    CHECK(bench.run.sink.noted[0].action == Action::deny);
    CHECK(bench.run.sink.noted[0].mechanism == audit::Mechanism::on_behalf);
}

TEST_CASE("audit mode still denies what its own rules deny") {
    AuditBench bench;
    One one(bench);
    CHECK(decide(one.context, reading("/kept")).error == EACCES);
    CHECK(bench.run.sink.noted.at(0).mechanism == audit::Mechanism::error);
}

TEST_CASE("audit mode refuses what it cannot record") {
    AuditBench bench;
    bench.fill_log();
    One one(bench);
    CHECK(decide(one.context, reading("/open/file")).error == EACCES);
    One other(bench);
    let_continue(other.context, reading("/open/file"));
    CHECK(fakes::denied(bench.source.answers.at(0).answer, EACCES));
}

TEST_CASE("audit mode judges a second time by the observed rules") {
    AuditBench bench;
    One one(bench);
    std::vector<const Basis*> asked;
    const Decision decision = decide(one.context, reading("/any"), [&](const Basis& basis) {
        asked.push_back(&basis);
        return &basis == &bench.run.enforced ? allow_all() : failure(Operation::create, EXDEV);
    });
    CHECK(decision.allowed());
    CHECK(asked == std::vector{&bench.run.enforced, &bench.observation->basis()});
    CHECK(bench.kept.count("\"deny\"") == 1);
}

TEST_CASE(
    "audit mode records the object that enforcement would have named first, then others it would refuse") {
    AuditBench bench;
    One one(bench);
    Subject script = reading("/open/script");
    script.others = {reading("/open/fine"), reading("/open/shut"), reading("/elsewhere")};
    CHECK(decide(one.context, script).allowed());
    REQUIRE(bench.kept.lines.size() == 2);
    CHECK(bench.kept.lines[0].find("/open/shut") != std::string::npos);
    CHECK(bench.kept.lines[1].find("/elsewhere") != std::string::npos);
}
