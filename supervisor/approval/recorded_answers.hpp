// The questions, answers and grants of a log, followed as the run followed them.
//
// A question is made again from its record, and its key is computed again. A grant is made again from its
// answer, and the same matching (grants.hpp) says what it covers. The log is hostile: at most `max_kept`
// bytes of it and `Grants::max_grants` grants are kept. One thread.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "supervisor/approval/questions/grants.hpp"
#include "supervisor/audit/verbs/replay.hpp"

namespace callgate::approval {

class RecordedAnswers final : public audit::AnswerCheck {
public:
    /// Beyond `max_kept` bytes the oldest questions are forgotten; their calls are then undecidable.
    explicit RecordedAnswers(std::size_t max_kept = 32U << 20) : max_kept_(max_kept) {}

    Found look_at(const audit::RecordedRequest& record) override;

private:
    struct Answer {
        Reply reply;
        std::string by, verdict;
        std::uint64_t grant = 0;
    };
    struct Known {
        Question question;
        bool whole = true;  // its record holds all that its key was computed from
        bool withdrawn = false;
        std::vector<Answer> answers;
        std::set<std::string> callers;  // those that an allow of scope once let go on
        std::size_t bytes = 0;
    };
    struct History {
        std::uint64_t revoked_at = 0;  // sequence; 0: not
        bool arguments_known = true;
    };

    void begin();
    Found shown(const audit::RecordedRequest& record);
    Found answer(const audit::RecordedRequest& record);
    Found grant(const audit::RecordedRequest& record, Known& known, const Reply& reply);
    Found withdrawn(const audit::RecordedRequest& record);
    Found revoked(const audit::RecordedRequest& record);
    Found by_answer(const audit::RecordedRequest& record);
    Found by_grant(const audit::RecordedRequest& record);
    Found unknown(std::uint64_t question) const;
    void forget_oldest();

    std::size_t max_kept_, kept_ = 0;
    std::map<std::uint64_t, Known> questions_;
    std::uint64_t forgotten_ = 0;  // the last question that was forgotten
    Grants grants_;
    std::map<std::uint64_t, History> given_;
};

}  // namespace callgate::approval
