// Writes answers to a descriptor. A small answer for which there is room is written at once. A thread of its
// own makes and writes all others, so that a slow reader delays no job.
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

/// The thread lasts until the end of the process: nothing can call it away from write(2).
class AnswerWriter {
public:
    /// The writing thread calls both: `written` after each answer that it wrote, and `gone` once, when nobody
    /// reads any more. Later answers are lost. Throws std::system_error.
    AnswerWriter(int descriptor, std::function<void()> written, std::function<void()> gone);
    void start();
    /// Used by one thread. `text` is called now or, in turn, on the writing thread. Until then it holds about
    /// `size` bytes.
    void add(std::function<std::string()> text, std::size_t size);
    /// How many bytes wait. Any thread may ask.
    [[nodiscard]] std::size_t backlog();
    /// Waits until everything is written. Returns false if that failed or took longer than `patience`.
    [[nodiscard]] bool finish(std::chrono::milliseconds patience);

private:
    /// Writes as much as there is room for, and returns the rest. Nothing else may wait.
    [[nodiscard]] std::string write_at_once(std::string text) const;
    [[nodiscard]] bool is_idle();
    void write_all_answers();
    /// Waits for an answer. Returns false if nobody reads any more.
    bool await();
    void reader_gone();

    int descriptor_;
    UniqueFd wake_;
    std::function<void()> on_written_, on_gone_;
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
