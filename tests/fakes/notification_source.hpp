// The kernel's side of notifications, for all tests and fuzzers: remembers every answer and descriptor, and
// fails as it is told to.
//
// The hooks run first: a test sees there the world just before the kernel takes an answer or a descriptor.
// Any thread may call the virtual functions; everything else belongs to the test.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "supervisor/kernel/listener.hpp"

namespace callgate::fakes {

class NotificationSource final : public kernel::NotificationSource {
public:
    struct Sent {
        std::uint64_t id = 0;
        kernel::Answer answer;
    };
    struct Added {
        int number = -1;  // ours
        bool close_on_exec = false;
        UniqueFd copy;  // with `keep_copies`
    };
    static constexpr int number_in_caller = 42;

    // Remembered, in order. An attempt that was interrupted is no answer.
    std::vector<Sent> answers;
    std::vector<Added> added;

    // Set by the test.
    std::vector<int> answer_errors;  // errno of each attempt in turn; 0, or none left: taken
    int add_error = 0;
    std::set<std::uint64_t> gone;  // callers that no longer wait
    bool unheld = false;           // no call may be continued
    bool nobody_waits = false;
    bool keep_copies = false;
    std::function<Result<kernel::Notification>()> on_receive;
    std::function<void(std::uint64_t id, const kernel::Answer& answer)> on_answer;
    std::function<void(int fd)> on_add;
    std::function<bool()> on_pending;

    Result<kernel::Notification> receive() override {
        return on_receive ? on_receive() : Result<kernel::Notification>(errno_code(ENOENT));
    }
    Result<void> answer(std::uint64_t id, const kernel::Answer& answer) override {
        if (on_answer) on_answer(id, answer);
        const std::lock_guard lock(mutex_);
        int error = waiting(id) ? 0 : ENOENT;
        if (!answer_errors.empty()) {
            error = answer_errors.front();
            answer_errors.erase(answer_errors.begin());
        }
        if (error != EINTR) answers.push_back({id, answer});
        if (error != 0) return errno_code(error);
        return {};
    }
    Result<int> add_descriptor(std::uint64_t, int fd, bool close_on_exec) override {
        if (on_add) on_add(fd);
        if (add_error != 0) return errno_code(add_error);
        const std::lock_guard lock(mutex_);
        UniqueFd copy(keep_copies ? ::fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1);
        added.push_back({fd, close_on_exec, std::move(copy)});
        return number_in_caller;
    }
    bool may_continue(const kernel::Notification& /*call*/) override { return !unheld; }
    bool waiting(std::uint64_t id) override { return !nobody_waits && !gone.contains(id); }
    bool finished() override { return false; }
    bool pending() override { return on_pending && on_pending(); }
    bool wake_synchronously(bool) override { return true; }

    /// The last answer to a call; nothing if there was none.
    [[nodiscard]] std::optional<kernel::Answer> answer_to(std::uint64_t id) const {
        for (std::size_t index = answers.size(); index-- > 0;)
            if (answers[index].id == id) return answers[index].answer;
        return std::nullopt;
    }

private:
    std::mutex mutex_;
};

}  // namespace callgate::fakes
