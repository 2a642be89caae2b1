#include "supervisor/decide/ask.hpp"

#include <doctest/doctest.h>

#include "supervisor/approval/questions/question_queue.hpp"
#include "supervisor/decide/decide.hpp"
#include "tests/fakes/approval_log.hpp"
#include "tests/fakes/call_bench.hpp"
#include "tests/fakes/hand_clock.hpp"
#include "tests/unit/rules/rule_maker.hpp"

using namespace callgate;
using namespace callgate::calls;
using approval::QuestionQueue;
using fakes::CallBench;
using rules::Action;
using rules::Operation;

namespace {

/// Every modification is asked about; a queue whose clock is moved by hand.
struct AskBench : CallBench, approval::QueueOwner {
    AskBench()
        : CallBench(std::vector{rules::tests::rule("ask", Action::ask, Operation::modify)}, Action::deny),
          queue({}, journal, *this) {
        queue.open(true);
        run.decide.questions = &queue;
    }
    std::int64_t now_ns() override { return clock.now_ns; }
    bool has_signal(pid_t) override { return false; }
    void resume(approval::ParkedCalls calls) override { resumed.splice(resumed.end(), calls); }
    void questions_changed() override {}
    bool find_approver() override { return false; }
    void kill_run() override {}

    fakes::HandClock clock;
    fakes::ApprovalLog journal;
    approval::ParkedCalls resumed;
    QuestionQueue queue;

    QuestionQueue::Applied answer(Action action, approval::Scope scope = approval::Scope::once) {
        const auto open = queue.questions().at(0);
        return queue.answer(open.question->id, open.question->key, {.action = action, .scope = scope});
    }
};

/// A call that asks about `path`, new or taken up again with its answers.
struct One {
    explicit One(AskBench& bench)
        : call(bench.source, bench.notification(entry, {})), context(bench.context(entry, call)) {}
    One(AskBench& bench, approval::ParkedCall& parked)
        : call(std::move(parked.call)), context(bench.context(entry, call)) {
        context.approvals = &parked.approvals;
    }

    Decision decide(std::string_view path) {
        Subject subject;
        subject.operations = Operation::modify;
        subject.object = rules::FileObject{path};
        return calls::decide(context, subject);
    }

    const enforce::CallEntry& entry = *enforce::find_call("openat");
    kernel::PendingCall call;
    Call context;
};

}  // namespace

TEST_CASE("where nobody can be asked, what the rules ask about is denied on record") {
    AskBench bench;
    bench.run.decide.questions = nullptr;
    One one(bench);
    CHECK(one.decide("/file").error == EACCES);
    CHECK(bench.kept.count("no one to ask") == 1);
}

TEST_CASE("a queue whose answerer is gone denies") {
    AskBench bench;
    bench.queue.open(false);
    One one(bench);
    CHECK(one.decide("/file").error == EACCES);
    CHECK(bench.kept.count("no one to ask") == 1);
    CHECK(bench.queue.questions().empty());
}

TEST_CASE("a question that cannot be recorded is not asked, and the call is denied") {
    AskBench bench;
    bench.journal.writable = false;
    One one(bench);
    CHECK(one.decide("/file").error == EACCES);
    CHECK(bench.kept.count("could not be recorded") == 1);
    CHECK(bench.queue.questions().empty());
}

TEST_CASE("a call that waits for its answer is neither answered nor on record, and no longer the handler's") {
    AskBench bench;
    One one(bench);
    CHECK_FALSE(one.decide("/file").allowed());
    CHECK(one.call.answered());  // taken: what the handler answers does nothing
    one.context.fail(EPERM);
    CHECK(bench.source.answers.empty());
    CHECK(bench.kept.lines.empty());
    CHECK(bench.queue.questions().size() == 1);
}

TEST_CASE("an answer allows the very subject that it was given for") {
    AskBench bench;
    One first(bench);
    CHECK_FALSE(first.decide("/file").allowed());
    CHECK(bench.answer(Action::allow) == QuestionQueue::Applied::yes);
    REQUIRE(bench.resumed.size() == 1);
    One again(bench, bench.resumed.front());
    CHECK(again.decide("/file").allowed());
    CHECK(bench.kept.count("\"person\"") == 1);
}

TEST_CASE("an answer does not count for what the call was changed to meanwhile") {
    AskBench bench;
    One first(bench);
    CHECK_FALSE(first.decide("/file").allowed());
    CHECK(bench.answer(Action::allow) == QuestionQueue::Applied::yes);
    REQUIRE(bench.resumed.size() == 1);
    One again(bench, bench.resumed.front());
    CHECK(again.decide("/secret").error == EACCES);
    CHECK(bench.kept.count("it has changed since it was asked about") == 1);
    CHECK(bench.queue.questions().empty());
}

TEST_CASE("an allowing answer has no effect where the decision cannot be recorded") {
    AskBench bench;
    One first(bench);
    CHECK_FALSE(first.decide("/file").allowed());
    CHECK(bench.answer(Action::allow) == QuestionQueue::Applied::yes);
    bench.fill_log();
    One again(bench, bench.resumed.front());
    CHECK(again.decide("/file").error == EACCES);
}

TEST_CASE("a denying answer denies") {
    AskBench bench;
    One first(bench);
    CHECK_FALSE(first.decide("/file").allowed());
    CHECK(bench.answer(Action::deny) == QuestionQueue::Applied::yes);
    One again(bench, bench.resumed.front());
    CHECK(again.decide("/file").error == EACCES);
}

TEST_CASE("a question that nobody answers in time denies") {
    AskBench bench;
    One first(bench);
    CHECK_FALSE(first.decide("/file").allowed());
    bench.clock.now_ns += 61 * fakes::HandClock::second;
    bench.queue.tick();
    REQUIRE(bench.resumed.size() == 1);
    One again(bench, bench.resumed.front());
    CHECK(again.decide("/file").error == EACCES);
    CHECK(bench.kept.count("\"timeout\"") == 1);
}

TEST_CASE("a grant allows without a question, until it is revoked") {
    AskBench bench;
    One first(bench);
    CHECK_FALSE(first.decide("/file").allowed());
    CHECK(bench.answer(Action::allow, approval::Scope::object) == QuestionQueue::Applied::yes);
    One by_grant(bench);
    CHECK(by_grant.decide("/file").allowed());
    CHECK(bench.kept.count("\"grant\"") == 1);

    CHECK(bench.queue.revoke(bench.queue.grants().at(0).number, {}) == QuestionQueue::Applied::yes);
    One asked(bench);
    CHECK_FALSE(asked.decide("/file").allowed());
    CHECK(bench.queue.questions().size() == 1);
}

TEST_CASE("a grant that is revoked between judging and recording does not allow") {
    AskBench bench;
    One first(bench);
    CHECK_FALSE(first.decide("/file").allowed());
    CHECK(bench.answer(Action::allow, approval::Scope::object) == QuestionQueue::Applied::yes);
    One one(bench);
    Subject subject;
    subject.operations = Operation::modify;
    subject.object = rules::FileObject{"/file"};
    const Questioned granted = put_question(one.context, subject, evaluate(one.context, subject));
    CHECK(granted.verdict.action == Action::allow);
    CHECK(bench.queue.revoke(bench.queue.grants().at(0).number, {}) == QuestionQueue::Applied::yes);
    CHECK(decide_with(one.context, subject, granted).error == EACCES);
    CHECK(bench.kept.count("taken back meanwhile") == 1);
}

TEST_CASE("a call that is half done is not asked about") {
    AskBench bench;
    One later(bench);
    later.context.asking = Asking::later;
    CHECK(later.decide("/file").error == EAGAIN);  // its caller comes again with the rest
    One never(bench);
    never.context.asking = Asking::never;
    CHECK(never.decide("/file").error == EACCES);
    CHECK(bench.kept.count("it is too late to ask") == 1);
    CHECK(bench.queue.questions().empty());
}
