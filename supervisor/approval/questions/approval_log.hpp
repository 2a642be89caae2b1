// The records of questions and answers. A record is written before a question is shown, and before a call
// gets its answer.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "supervisor/approval/questions/grants.hpp"
#include "supervisor/audit/write/log.hpp"

namespace callgate::approval {

struct Answered {
    Reply reply;
    std::uint64_t grant = 0;
    std::int64_t took_ns = 0;
    std::uint64_t callers = 0;
};

/// The seam over the audit log. Each function returns false if the record could not be written: a question is
/// then not asked, and an answer denies. Any thread, with the queue's lock held.
class ApprovalLog {
public:
    virtual ~ApprovalLog() = default;
    [[nodiscard]] virtual bool shown(const Question& question) = 0;
    [[nodiscard]] virtual bool answered(const Question& question, const Answered& answered) = 0;
    [[nodiscard]] virtual bool withdrawn(const Question& question, std::string_view why) = 0;
    [[nodiscard]] virtual bool revoked(std::uint64_t grant, const audit::Answerer& who) = 0;
};

/// Writes to the run's log; null with `--no-audit`, and nothing is written.
class AuditApprovalLog final : public ApprovalLog {
public:
    /// Called before names can be made at a directory and beneath it; false if that could not be noted.
    using NoteTree = std::function<bool(const std::string& directory)>;
    AuditApprovalLog(audit::Log* log, NoteTree note_tree) : log_(log), note_tree_(std::move(note_tree)) {}
    bool shown(const Question& question) override;
    bool answered(const Question& question, const Answered& answered) override;
    bool withdrawn(const Question& question, std::string_view why) override;
    bool revoked(std::uint64_t grant, const audit::Answerer& who) override;

private:
    template <class Record>
    bool write(const Record& record) {
        return log_ == nullptr || log_->record(record).has_value();
    }
    audit::Log* log_;
    NoteTree note_tree_;  // may be empty
};

}  // namespace callgate::approval
