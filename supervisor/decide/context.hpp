// The state that deciding one call works on: needs that all calls of a run share, and the call itself.
//
// `DecideNeeds` outlives all receiving threads; everything in it is immutable, thread-safe, or a short lock.
// A `CallContext` belongs to the one thread that handles the call.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rules/match/rule_set.hpp"
#include "rules/plan/plan.hpp"
#include "rules/plan/rename_check.hpp"
#include "supervisor/approval/questions/question.hpp"
#include "supervisor/audit/write/log.hpp"
#include "supervisor/decide/sink.hpp"
#include "supervisor/enforce/call_table.hpp"
#include "supervisor/kernel/caller_cache.hpp"
#include "supervisor/kernel/listener.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::approval {
class QuestionQueue;
}

namespace callgate::calls {

class Observation;
struct Subject;
class Parties;

/// Rules by which a call can be judged: those that hold, or those that audit mode observes (observe.hpp).
struct Basis {
    const rules::RuleSet& rules;
    const rules::StaticGrants& grants;
    const rules::RenameCheck& moves;
};

struct DecideNeeds {
    const Basis& enforced;
    rules::RecordMode record_mode = rules::RecordMode::contested;
    const Observation* observation = nullptr;      // audit mode; null: the run is enforced
    audit::Log* log = nullptr;                     // null: --no-audit
    approval::QuestionQueue* questions = nullptr;  // null: nobody can be asked
    std::string home{};  // home directory of the person who answers: no grant ever covers it
    DecisionSink& sink;
    Parties* parties = nullptr;  // null: the rules know no parties
    pid_t guardian = -1;
    uid_t uid = 0;
    /// The nested run whose calls are judged; "": those of the run itself.
    std::string nested{};
    /// These needs, where they are a nested run's. Empty: they live as long as the run.
    std::weak_ptr<DecideNeeds> self{};
    /// The denial of what the rules allow or ask, because the object is not the run's
    /// (calls/files/shared_memory). Any thread.
    std::function<std::optional<rules::Verdict>(const Subject&, const rules::Verdict&)> refuses_object{};

    /// Whether an address is this machine's now; unset: nobody looks. Any thread.
    std::function<bool(const rules::IpAddress&)> is_own_address{};

    /// A `kill` verdict: ends the whole tree. Any thread.
    std::function<void()> kill_tree{};
    /// A denial was recorded: sync the log soon. Any thread, cheap.
    std::function<void()> sync_log{};
    /// A denial was only counted: its count is written within about a second. Any thread, cheap.
    std::function<void()> count_soon{};
    /// errno of the first record that could not be written; 0: none.
    std::atomic<int> log_error{0};

    /// For whoever uses these needs after the call.
    [[nodiscard]] std::shared_ptr<DecideNeeds> hold() {
        auto held = self.lock();
        return held != nullptr ? held : std::shared_ptr<DecideNeeds>(std::shared_ptr<void>(), this);
    }
};

/// Whether a call may wait for an answer when the rules ask.
enum class Asking : std::uint8_t {
    may,    // park the call
    later,  // part of it is done: the caller gets that part as result, and calls again for the rest
    never,  // it is done: deny
};

/// The caller of the current call, and a cache of earlier ones. Lives as long as the receiving thread.
struct CallerInfo {
    std::string executable;                      // path of the current caller's; "": not read yet
    std::optional<kernel::Identity> identity{};  // of the current caller, as `party`; nothing: not read yet
    std::optional<rules::Party> party{};
    kernel::CallerCache cache;

    /// Reads identity and executable of the current caller, once for each call: so what decides is also what
    /// the record says. Roots that can change are looked at each time.
    const kernel::Identity& look(pid_t thread) {
        if (!identity || kernel::CallerCache::other_roots_expected())
            identity = cache.look_up(thread, executable);
        return *identity;
    }
    /// Before each call.
    void forget() {
        executable.clear();
        identity.reset();
        party.reset();
    }
};

using enforce::CallEntry;

struct CallContext {
    DecideNeeds& needs;
    kernel::PendingCall& call;
    CallerInfo& caller;
    const CallEntry& entry;
    std::int64_t started_ns = 0;

    /// Earlier answers to questions about this call; null: it asked none yet.
    std::vector<approval::Approval>* approvals = nullptr;
    unsigned approvals_used = 0;  // bits
    Asking asking = Asking::may;
    /// The question and the grant that decided last; 0: none.
    std::uint64_t question = 0, grant = 0;
    /// The subject that this grant allowed. The grant must still allow it at the moment of recording.
    std::optional<approval::Subject> granted{};

    [[nodiscard]] pid_t thread() const { return call.notification().thread; }
    [[nodiscard]] int integer(int index) const { return call.notification().integer(index); }
    [[nodiscard]] std::uint64_t word(int index) const {
        return call.notification().arguments[static_cast<std::size_t>(index)];
    }
    /// Answers with an errno of the kernel's own; nothing is recorded.
    void fail(int error) { call.fail(error); }
};

}  // namespace callgate::calls
