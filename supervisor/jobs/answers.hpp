// Answers to a descriptor: a small one that its reader has room for is written at once; all others a thread
// of its own makes and writes, so that a reader who takes his time delays nobody.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/unique_fd.hpp"

namespace callgate::jobs {

/// The thread lasts until the end of the process: it cannot be called away from write(2).
class Answers {
public:
    /// Both are called on the writing thread: `written` after each answer of its; `gone` once, when nobody is
    /// there to read any more: what is written then is lost. Errors of making it: std::system_error.
    Answers(int descriptor, std::function<void()> written, std::function<void()> gone);
    void start();
    /// By one thread: `text` is called now, or on the writing thread, in turn; until then it holds about
    /// `size` bytes.
    void add(std::function<std::string()> text, std::size_t size);
    /// Any thread: how many bytes wait.
    [[nodiscard]] std::size_t backlog();
    /// Waits until everything is written; false where it could not be, or not in time.
    [[nodiscard]] bool finish(std::chrono::milliseconds patience);

private:
    /// What could not be written at once of the only answer there is.
    [[nodiscard]] std::string write_at_once(std::string text) const;
    [[nodiscard]] bool is_idle();
    void write_all_answers();
    /// Until there is an answer; false where nobody reads any more.
    bool await();
    void lost();

    int descriptor_;
    UniqueFd wake_;
    std::function<void()> told_written_, gone_;
    std::mutex mutex_;
    std::condition_variable written_;
    struct Waiting {
        std::function<std::string()> text;
        std::size_t size = 0;
    };
    std::deque<Waiting> waiting_;
    std::size_t backlog_ = 0;
    bool writing_ = false, lost_ = false;
};

}  // namespace callgate::jobs
