// One program that decides one question (`callgate approve --exec`).
//
// It gets the question's message on its stdin and answers on its stdout. What it says is nonsense until it is
// parsed, more than a message is long is no answer, and its failure is none either. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "supervisor/approval/questions/question_view.hpp"

namespace callgate::approval {

class Decider {
public:
    Decider() = default;
    Decider(const Decider&) = delete;
    Decider& operator=(const Decider&) = delete;
    ~Decider() { end(); }

    /// Starts `program`, found on PATH, on a question of `run`. False where it could not be forked or given
    /// the question. Signals that the caller blocks are not blocked in it.
    [[nodiscard]] bool start(const std::string& program, const std::string& run, const QuestionView& shown);
    /// Whether a question is being decided: this one.
    [[nodiscard]] bool busy() const { return id_ != 0; }
    [[nodiscard]] bool decides(const std::string& run, std::uint64_t id) const {
        return id_ == id && run_ == run;
    }
    [[nodiscard]] const std::string& run() const { return run_; }
    /// What it says comes here; -1: nothing runs.
    [[nodiscard]] int descriptor() const { return output_ ? output_.get() : -1; }
    [[nodiscard]] bool overdue(std::int64_t now_ns) const;

    /// When the descriptor can be read: its answer once it has ended, and what is wrong with it (`problem`).
    /// The question is still its own until `end`.
    [[nodiscard]] std::optional<ProgramAnswer> take();
    /// Kills it, where it still runs.
    void end();

private:
    pid_t pid_ = -1;
    UniqueFd output_;
    std::string text_, run_;
    std::int64_t deadline_ns_ = 0;
    std::uint64_t id_ = 0;
};

}  // namespace callgate::approval
