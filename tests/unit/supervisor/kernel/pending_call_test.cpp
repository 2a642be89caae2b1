#include "supervisor/kernel/listener.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include "tests/fakes/notification_source.hpp"

using namespace callgate;
using namespace callgate::kernel;
using FakeSource = callgate::fakes::NotificationSource;

TEST_CASE("a pending call that nobody answers is denied") {
    FakeSource source;
    { const PendingCall call(source, Notification{.id = 7}); }
    REQUIRE(source.answers.size() == 1);
    CHECK(source.answers[0].answer.error == EPERM);
    CHECK_FALSE(source.answers[0].answer.let_continue);
}

TEST_CASE("a pending call is answered once, whoever moves it") {
    FakeSource source;
    {
        PendingCall call(source, Notification{.id = 7});
        PendingCall moved(std::move(call));
        CHECK(moved.fail(ENOENT));
        CHECK_FALSE(moved.succeed(3));
    }
    REQUIRE(source.answers.size() == 1);
    CHECK(source.answers[0].answer.error == ENOENT);
}

TEST_CASE("an interrupted answer is given again, and only then") {
    FakeSource source;
    source.answer_errors = {EINTR, EINTR, 0};
    PendingCall call(source, Notification{});
    CHECK(call.let_continue());
    CHECK(source.answers.size() == 1);
}

TEST_CASE("a call that may not be continued is denied") {
    FakeSource source;
    source.unheld = true;
    PendingCall call(source, Notification{});
    CHECK_FALSE(call.may_continue());
    call.let_continue();
    CHECK_FALSE(call.continued());
    REQUIRE(source.answers.size() == 1);
    CHECK(source.answers[0].answer.error == EACCES);
    CHECK_FALSE(source.answers[0].answer.let_continue);
}

TEST_CASE("an answer to a caller that died is reported as lost") {
    FakeSource source;
    source.answer_errors = {ENOENT};
    PendingCall call(source, Notification{});
    CHECK_FALSE(call.succeed(0));
    CHECK(call.answered());
}

TEST_CASE("a descriptor is handed over and closed before the answer") {
    FakeSource source;
    bool open_when_answered = true;
    source.on_answer = [&](std::uint64_t, const Answer&) {
        open_when_answered = ::fcntl(source.added.at(0).number, F_GETFD) >= 0;
    };
    PendingCall call(source, Notification{});
    int error = -1;
    CHECK(call.hand_over(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), true, error));
    CHECK(error == 0);
    REQUIRE(source.answers.size() == 1);
    CHECK(source.answers[0].answer.value == FakeSource::number_in_caller);
    CHECK_FALSE(open_when_answered);
}

TEST_CASE("the caller's own descriptor limit is passed on") {
    FakeSource source;
    source.add_error = EMFILE;
    PendingCall call(source, Notification{});
    int error = 0;
    call.hand_over(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), false, error);
    CHECK(error == EMFILE);
    REQUIRE(source.answers.size() == 1);
    CHECK(source.answers[0].answer.error == EMFILE);
}

TEST_CASE("a call that nobody waits for any longer says so") {
    FakeSource source;
    PendingCall call(source, Notification{});
    CHECK(call.waiting());
    source.nobody_waits = true;  // the caller died: its number may be another's now
    CHECK_FALSE(call.waiting());
    source.nobody_waits = false;
    CHECK(call.fail(EPERM));
    CHECK_FALSE(call.waiting());
}
