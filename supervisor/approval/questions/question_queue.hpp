// The question broker: who waits for which answer, and what came of it.
//
// A call that the rules ask about is parked here; no thread waits with it. Equal questions are one, limited
// in number and rate; each is answered, times out (deny), or is withdrawn when nobody waits any more. With
// its answer a call goes back to a receiver, which resolves and judges it anew: the answer counts only if
// what is asked then is what was shown. So nothing that changes meanwhile (memory, names, rules) is acted on
// unseen.
//
// Thread-safe by one lock, which no call that a rule decides ever takes. No descriptor is read here and no
// clock: time comes from `Environment`, and so does whether a caller lives.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "supervisor/approval/questions/grants.hpp"
#include "supervisor/approval/questions/approval_log.hpp"
#include "supervisor/approval/questions/question.hpp"
#include "supervisor/kernel/pending_call.hpp"

namespace callgate::approval {

/// One stopped call that waits for an answer. Destroyed unanswered, it denies.
struct ParkedCall {
    kernel::PendingCall call;
    std::int64_t started_ns = 0;
    std::vector<Approval> approvals;
};
using ParkedCalls = std::list<ParkedCall>;

class QuestionQueue {
public:
    struct Settings {
        std::int64_t timeout_ns = 60'000'000'000;
        std::size_t open_questions = 33;  // one shown, 32 queued
        std::size_t new_per_minute = 10;  // of one rule
        std::size_t calls = 16'384;       // parked
    };
    struct Environment {
        std::function<std::int64_t()> now_ns;
        /// Whether a thread has a signal to handle; its call is then interrupted (kernel-facts 10b).
        std::function<bool(pid_t thread)> has_signal;
        /// Answered calls, to be handled again.
        std::function<void(ParkedCalls)> resume;
        /// Questions came, went, or changed their count. Any thread, cheap.
        std::function<void()> changed;
        /// Before the first question, unless `open` was called: whether anybody can answer. Any thread.
        std::function<bool()> seek;
        /// An answer ends the whole run.
        std::function<void()> kill;
    };

    QuestionQueue(Settings settings, ApprovalLog& journal, Environment environment)
        : settings_(settings), journal_(journal), environment_(std::move(environment)) {}

    /// Whether anybody can answer; false: what is asked is denied at once, and what waits too.
    void open(bool reachable);

    struct Granted {
        rules::Action action;
        std::uint64_t grant, question;
        rules::DecidedBy by = rules::DecidedBy::grant;
    };
    [[nodiscard]] std::optional<Granted> granted(const Subject& asked);
    /// Puts a use on record: `record` is run with the grant that decides now, while none can be given or
    /// taken back, so that the log's order is the truth. False, and nothing was run: `asked` is not answered
    /// by a grant any more, or not by `action`.
    [[nodiscard]] bool while_granted(const Subject& asked, rules::Action action,
                                     const std::function<void(const Granted&)>& record) const;

    /// See Grants.
    [[nodiscard]] bool gained_by_move(std::string_view old_path, std::string_view new_path) const;

    enum class Admission : std::uint8_t { parked, unknown, nobody, too_many, too_often, unrecorded };
    /// Parks a call with an open question of this key; `unknown`: there is none. The call is taken only where
    /// it is parked.
    [[nodiscard]] Admission join(std::string_view key, ParkedCall& call);
    /// Asks a new question, or joins one that has been asked meanwhile.
    [[nodiscard]] Admission ask(Question question, ParkedCall& call);

    struct Open {
        std::shared_ptr<const Question> question;
        std::uint64_t callers = 0;  // that wait now
        std::uint64_t count = 0;    // that asked, all in all
        std::int64_t deadline_ns = 0;
    };
    [[nodiscard]] std::vector<Open> questions() const;

    enum class Applied : std::uint8_t { yes, unknown_question, other_question, not_offered, unrecorded };
    /// `key` must be the question's own. An allow of scope `once` lets the caller that waits longest go on;
    /// every other answer is for all. What is not applied for its scope or key denies the question.
    Applied answer(std::uint64_t question, std::string_view key, Reply reply);
    /// The person has begun to answer: the countdown rests, ten minutes at most.
    void rest(std::uint64_t question);

    [[nodiscard]] std::vector<Grant> grants() const;
    [[nodiscard]] Applied revoke(std::uint64_t grant, const audit::Answerer& who);

    /// Times out, withdraws what nobody waits for, interrupts callers that have a signal. To be called every
    /// `tick_interval_ms` while it returns true.
    bool tick();
    static constexpr int tick_interval_ms = 20;

private:
    struct Asked {
        std::shared_ptr<const Question> question;
        ParkedCalls calls;  // the oldest first
        ParkedCalls::iterator next_look = calls.end();
        std::uint64_t count = 0;
        std::int64_t asked_ns = 0, deadline_ns = 0;
        std::int64_t deserted_ns = 0;  // since when nobody waits, after a signal; 0: somebody does
        bool rested = false;
    };
    using Questions = std::list<Asked>;

    void find_reach();

    // With lock_ held.
    Admission park(Asked& asked, ParkedCall& call);
    [[nodiscard]] bool too_often(const std::string& rule, std::int64_t now);
    Questions::iterator find(std::string_view key);
    void look_at_callers(Asked& asked, std::size_t most);
    bool settle(Questions::iterator asked, const Reply& reply, ParkedCalls& out);
    void give(ParkedCalls& from, ParkedCalls::iterator call, const Approval& approval, ParkedCalls& out);

    Settings settings_;
    ApprovalLog& journal_;
    Environment environment_;
    mutable std::mutex lock_;
    std::optional<bool> reachable_;
    Questions questions_;
    Grants grants_;
    std::map<std::string, std::vector<std::int64_t>, std::less<>> recent_;  // when each rule asked
    std::size_t parked_ = 0;
    std::uint64_t last_id_ = 0;
};

}  // namespace callgate::approval
