// Runs a program that decides one question (`callgate approve --exec`).
//
// The program gets the question's message on its stdin and answers on its stdout. Its output counts only once
// it is parsed. An output longer than a message is no answer, nor is that of a program that fails. One
// thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "supervisor/approval/questions/question_view.hpp"

namespace callgate::approval {

class ExternalDecider {
public:
    ExternalDecider() = default;
    ExternalDecider(const ExternalDecider&) = delete;
    ExternalDecider& operator=(const ExternalDecider&) = delete;
    ~ExternalDecider() { end(); }

    /// Starts `program`, found on PATH, on a question of `run`. False if it cannot be forked or cannot get
    /// the question. The program starts with no signal blocked.
    [[nodiscard]] bool start(const std::string& program, const std::string& run, const QuestionView& shown);
    /// Whether a question is being decided, and whether it is this one.
    [[nodiscard]] bool busy() const { return id_ != 0; }
    [[nodiscard]] bool decides(const std::string& run, std::uint64_t id) const {
        return id_ == id && run_ == run;
    }
    [[nodiscard]] const std::string& run() const { return run_; }
    /// The end of its output that is read, or the program itself once that is closed; -1 if none runs.
    [[nodiscard]] int descriptor() const { return output_ ? output_.get() : -1; }
    [[nodiscard]] bool overdue(std::int64_t now_ns) const;

    /// To be called when the descriptor can be read. Returns the answer once the program has ended; `problem`
    /// says what is wrong with it. The question stays the program's until `end`.
    [[nodiscard]] std::optional<ProgramAnswer> take();
    /// Kills the program if it still runs.
    void end();

private:
    pid_t pid_ = -1;
    UniqueFd output_;
    std::string text_, run_;
    std::int64_t deadline_ns_ = 0;
    std::uint64_t id_ = 0;
};

}  // namespace callgate::approval
