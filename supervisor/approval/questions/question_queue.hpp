// The queue of questions: which calls wait for which answer.
//
// A call that the rules ask about is parked here; no thread waits with it. Equal questions are one, limited
// in number and rate. Each is answered, times out (deny), or is withdrawn when no caller waits any more. A
// call goes back to a worker with its answer, and is resolved and decided anew. The answer counts only if the
// question would then be the one that was shown. So a change in the meantime (memory, names, rules) never
// takes effect unseen.
//
// Thread-safe by one lock, which a call that a rule decides never takes. The queue reads no descriptor and no
// clock: QueueOwner knows the time, and whether a caller has a signal.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "supervisor/approval/questions/approval_log.hpp"
#include "supervisor/approval/questions/grants.hpp"
#include "supervisor/approval/questions/question.hpp"
#include "supervisor/kernel/listener.hpp"

namespace callgate::approval {

/// Waits for an answer in place of a call: the look-up of a name, for which no call is stopped.
class Waiter {
public:
    virtual ~Waiter() = default;
    /// Whether somebody still wants the answer. With the queue's lock held.
    [[nodiscard]] virtual bool waiting() const = 0;
    /// Takes the answer. Not called if the question is withdrawn.
    virtual void answered(const Approval& approval) = 0;
};

/// A stopped call that waits for an answer. Destroyed unanswered, it denies.
struct ParkedCall {
    kernel::PendingCall call;
    std::int64_t started_ns = 0;
    std::vector<Approval> approvals;
    std::shared_ptr<Waiter> waiter{};  // set: it waits, and `call` is none
};
using ParkedCalls = std::list<ParkedCall>;

/// The run, as the queue uses it. Any thread calls these, without the queue's lock unless noted.
class QueueOwner {
public:
    /// The time, monotonic. With the lock held.
    [[nodiscard]] virtual std::int64_t now_ns() = 0;
    /// Whether a thread has a signal to handle, which interrupts its call (docs/dev/kernel-facts.md 10b).
    /// With the lock held.
    [[nodiscard]] virtual bool has_signal(pid_t thread) = 0;
    /// Takes answered calls, to decide them again.
    virtual void resume(ParkedCalls calls) = 0;
    /// Questions came, went, or changed their count. Cheap.
    virtual void questions_changed() = 0;
    /// Whether anybody can answer. Called before the first question, unless `open` was.
    [[nodiscard]] virtual bool find_approver() = 0;
    /// An answer ends the whole run.
    virtual void kill_run() = 0;

protected:
    ~QueueOwner() = default;
};

class QuestionQueue {
public:
    struct Settings {
        std::int64_t timeout_ns = 60'000'000'000;
        std::size_t open_questions = 33;  // one is shown, 32 wait behind it
        std::size_t new_per_minute = 10;  // for one rule, without those that somebody has answered
        std::size_t calls = 16'384;       // parked
    };

    /// `log` and `owner` outlive the queue.
    QuestionQueue(Settings settings, ApprovalLog& log, QueueOwner& owner)
        : settings_(settings), log_(log), owner_(owner) {}

    /// Says whether anybody can answer. False: questions are denied at once, those that wait too.
    void open(bool reachable);
    /// Whether anybody can answer now. Looks for an approver if that is not known yet.
    [[nodiscard]] bool is_reachable();

    struct Granted {
        rules::Action action;
        std::uint64_t grant, question;
        rules::DecidedBy by = rules::DecidedBy::grant;
        std::string tree{};  // what scope `tree` reaches; else ""
    };
    [[nodiscard]] std::optional<Granted> granted(const Subject& asked);
    /// Records a use: calls `record` with the grant that decides now. Meanwhile no grant can be given or
    /// taken back, so the order of the log is true. Returns false and calls nothing if no grant answers
    /// `asked` with `action` any more.
    [[nodiscard]] bool while_granted(const Subject& asked, rules::Action action,
                                     const std::function<void(const Granted&)>& record) const;

    /// See Grants.
    [[nodiscard]] bool gained_by_move(std::string_view old_path, std::string_view new_path) const;

    enum class Admission : std::uint8_t {
        parked,
        unknown,
        nobody,
        too_many,
        too_often,
        unrecorded,
        denied_all  // every question of this run is denied
    };
    /// Parks a call with an open question of this key, or returns `unknown`. The call is moved from only if
    /// it is parked.
    [[nodiscard]] Admission join(std::string_view key, ParkedCall& call);
    /// Asks a new question, or joins an equal one that was asked meanwhile.
    [[nodiscard]] Admission ask(Question question, ParkedCall& call);

    struct Open {
        std::shared_ptr<const Question> question;
        std::uint64_t callers = 0;  // callers that wait now
        std::uint64_t count = 0;    // callers that asked, all in all
        std::int64_t deadline_ns = 0;
    };
    [[nodiscard]] std::vector<Open> questions() const;

    enum class Applied : std::uint8_t { yes, unknown_question, other_question, not_offered, unrecorded };
    /// `key` must be the question's own. An allow of scope `once` lets the caller that waits longest go on;
    /// every other answer is for all callers. A wrong scope or key denies the question. A denial of scope
    /// `run` answers all questions that wait.
    Applied answer(std::uint64_t question, std::string_view key, Reply reply);
    /// The person has begun to answer, so the countdown stops for up to ten minutes.
    void rest(std::uint64_t question);

    [[nodiscard]] std::vector<Grant> grants() const;
    [[nodiscard]] Applied revoke(std::uint64_t grant, const audit::Answerer& who);

    /// Ends questions whose time is over, withdraws those without callers, and interrupts callers that have a
    /// signal. To be called every `tick_interval_ms` while it returns true.
    bool tick();
    static constexpr int tick_interval_ms = 20;

private:
    struct Asked {
        std::shared_ptr<const Question> question;
        ParkedCalls calls;  // the oldest first
        ParkedCalls::iterator next_look = calls.end();
        std::uint64_t count = 0;
        std::int64_t asked_ns = 0, deadline_ns = 0;
        std::int64_t deserted_ns = 0;  // when the last caller left for a signal; 0: callers wait
        bool rested = false;
    };
    using Questions = std::list<Asked>;

    void find_out_reachability();

    // With lock_ held.
    Admission park(Asked& asked, ParkedCall& call);
    [[nodiscard]] bool too_often(const std::string& rule, std::int64_t now);
    void note_answer(const Question& question, const Reply& reply);
    Questions::iterator find(std::string_view key);
    void look_at_callers(Asked& asked, std::size_t max_looks);
    bool settle(Questions::iterator asked, const Reply& reply, ParkedCalls& out);
    void give(ParkedCalls& from, ParkedCalls::iterator call, const Approval& approval, ParkedCalls& out);

    Settings settings_;
    ApprovalLog& log_;
    QueueOwner& owner_;
    mutable std::mutex lock_;
    std::optional<bool> reachable_;
    Questions questions_;
    Grants grants_;
    std::map<std::string, std::vector<std::int64_t>, std::less<>> recent_;  // when each rule asked
    std::set<std::string, std::less<>> denied_once_;                        // keys of questions
    std::size_t parked_ = 0;
    std::uint64_t last_id_ = 0;
};

}  // namespace callgate::approval
