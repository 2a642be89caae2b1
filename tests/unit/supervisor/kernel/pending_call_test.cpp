#include "supervisor/kernel/pending_call.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <vector>

using namespace callgate;
using namespace callgate::kernel;

namespace {

/// Remembers what the kernel was told; fails as it is told to.
class FakeSource final : public NotificationSource {
public:
    std::vector<Answer> answers;
    std::vector<int> answer_errors;  // errno of each attempt in turn; 0 or none left: taken
    int add_error = 0;
    int added = -1;
    bool source_was_open_when_answered = false;

    Result<Notification> receive() override { return errno_code(ENOENT); }
    Result<void> answer(std::uint64_t, const Answer& answer) override {
        if (!answer_errors.empty()) {
            const int error = answer_errors.front();
            answer_errors.erase(answer_errors.begin());
            if (error != 0) return errno_code(error);
        }
        source_was_open_when_answered = added >= 0 && ::fcntl(added, F_GETFD) >= 0;
        answers.push_back(answer);
        return {};
    }
    Result<int> add_descriptor(std::uint64_t, int fd, bool) override {
        if (add_error != 0) return errno_code(add_error);
        added = fd;
        return 42;
    }
    bool waits = true;
    bool waiting(std::uint64_t) override { return waits; }
    bool finished() override { return false; }
    bool pending() override { return false; }
    bool wake_synchronously(bool) override { return true; }
};

}  // namespace

TEST_CASE("a pending call that nobody answers is denied") {
    FakeSource source;
    { const PendingCall call(source, Notification{.id = 7}); }
    REQUIRE(source.answers.size() == 1);
    CHECK(source.answers[0].error == EPERM);
    CHECK_FALSE(source.answers[0].let_continue);
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
    CHECK(source.answers[0].error == ENOENT);
}

TEST_CASE("an interrupted answer is given again, and only then") {
    FakeSource source;
    source.answer_errors = {EINTR, EINTR, 0};
    PendingCall call(source, Notification{});
    CHECK(call.let_continue());
    CHECK(source.answers.size() == 1);
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
    PendingCall call(source, Notification{});
    int error = -1;
    CHECK(call.hand_over(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), true, error));
    CHECK(error == 0);
    REQUIRE(source.answers.size() == 1);
    CHECK(source.answers[0].value == 42);
    CHECK_FALSE(source.source_was_open_when_answered);
}

TEST_CASE("the caller's own descriptor limit is passed on") {
    FakeSource source;
    source.add_error = EMFILE;
    PendingCall call(source, Notification{});
    int error = 0;
    call.hand_over(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), false, error);
    CHECK(error == EMFILE);
    REQUIRE(source.answers.size() == 1);
    CHECK(source.answers[0].error == EMFILE);
}

TEST_CASE("a call that nobody waits for any longer says so") {
    FakeSource source;
    PendingCall call(source, Notification{});
    CHECK(call.waiting());
    source.waits = false;  // the caller died: its number may be another's now
    CHECK_FALSE(call.waiting());
    source.waits = true;
    CHECK(call.fail(EPERM));
    CHECK_FALSE(call.waiting());
}
