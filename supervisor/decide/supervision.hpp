// What every call of a run shares, and what the handling of one call has at hand.
//
// `Supervision` outlives all receivers; everything in it is immutable, thread-safe, or a short lock. A
// `CallContext` belongs to the one thread that handles the call.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "rules/plan/rename_check.hpp"
#include "rules/plan/plan.hpp"
#include "rules/match/rule_set.hpp"
#include "supervisor/approval/questions/question.hpp"
#include "supervisor/audit/write/log.hpp"
#include "supervisor/audit/write/record.hpp"
#include "supervisor/calls/network/bound_names.hpp"
#include "supervisor/calls/resolve.hpp"
#include "supervisor/calls/files/static_paths.hpp"
#include "supervisor/calls/ipc/ipc_objects.hpp"
#include "supervisor/enforce/call_table.hpp"
#include "supervisor/kernel/caller_cache.hpp"
#include "supervisor/kernel/pending_call.hpp"
#include "supervisor/kernel/target.hpp"
#include "supervisor/run/report.hpp"

namespace callgate::approval {
class QuestionQueue;
}

namespace callgate::calls {

class CrossDirectoryRename;

/// What may be done where the rules ask.
enum class Asking : std::uint8_t {
    may,    // park the call
    later,  // part of it is done: the caller is told so, and comes again with the rest
    never,  // it is done: deny
};

/// Audit mode: what the user's rules would have said. It is recorded and decides nothing; then the `rules` of
/// the run allow everything but what invariant 9 protects, and plan, grants and moves are theirs.
struct Observation {
    const rules::RuleSet& rules;
    const rules::Plan& plan;  // as enforcement would have it
    rules::StaticGrants grants;
    rules::RenameCheck moves;
    /// `--record minimal`: what would have been allowed is left out.
    bool allowed_too = true;

    Observation(const rules::RuleSet& would_be, const rules::Plan& planned, bool record_allowed)
        : rules(would_be),
          plan(planned),
          grants(planned),
          moves(rules, grants),
          allowed_too(record_allowed) {}
};

struct Supervision {
    const rules::RuleSet& rules;
    const rules::Plan& plan;
    const rules::StaticGrants& grants;
    const rules::RenameCheck& moves;
    const Observation* observed = nullptr;  // null: the run is enforced
    audit::Log* log = nullptr;              // null: --no-audit
    approval::QuestionQueue* broker = nullptr;     // null: nobody can be asked
    std::string home{};                     // of who answers: never a directory that a grant covers
    RunReport& report;
    pid_t guardian = -1;
    uid_t uid = 0;
    int terminal = -1;  // N of /dev/pts/N, where the run was given one
    /// The identity at the start: with capabilities a caller may change its own, and is then refused.
    bool keep_capabilities = false;
    kernel::Status identity;

    /// Held shared from judging a name to acting on it, exclusively by renames of directories: so that no
    /// directory moves between the two.
    std::shared_mutex names;

    BoundNames bound_names;
    IpcObjects& ipc_objects;

    /// Set where Landlock forbids callgate's own threads to move anything to another directory (ABI 1).
    CrossDirectoryRename* cross_directory_rename = nullptr;

    /// A `kill` verdict: ends the whole tree. Any thread.
    std::function<void()> kill_tree;
    /// A denial was recorded: sync the log soon. Any thread, cheap.
    std::function<void()> sync_log;
    /// errno of the first record that could not be written, 0 none.
    std::atomic<int> log_error{0};
    /// Calls that were notified, and those of them that the kernel went on with itself.
    std::atomic<std::uint64_t> notifications{0}, continued{0};
};

/// How a handler says that what it does next may block: others go on receiving meanwhile, and the call is
/// interrupted when its caller dies or has a signal to handle.
class Blocking {
public:
    virtual ~Blocking() = default;
    /// False: too many are blocked already (the call is to be denied).
    virtual bool enter() = 0;
    virtual void leave() = 0;
    /// Whether calls lately blocked unannounced: what usually returns at once is then announced too.
    virtual bool expects_blocking() = 0;
    enum class Interruption : std::uint8_t { none, signal, gone };
    /// Why a blocking call of ours returned EINTR.
    virtual Interruption interruption() = 0;
};

/// Buffers that live as long as the receiving thread, so that a call allocates little.
struct WorkerBuffers {
    std::string path, second_path, executable, directory, directory_second;
    std::vector<std::string_view> flags;
    unsigned umask = 0;
    bool shares_umask = false;  // with every thread of the process
    kernel::CallerCache callers;
    StaticPaths static_paths;
};

using enforce::CallEntry;
using enforce::PathArgument;

struct CallContext {
    Supervision& run;
    kernel::PendingCall& call;
    Blocking& blocking;
    WorkerBuffers& buffers;
    const CallEntry& entry;
    std::int64_t started_ns = 0;

    /// What was answered about this call, where it waited for an answer; null: nothing was asked yet.
    std::vector<approval::Approval>* approvals = nullptr;
    unsigned approvals_used = 0;  // bits
    Asking asking = Asking::may;
    /// The question and the grant that decided last; 0: none.
    std::uint64_t question = 0, grant = 0;
    /// What that grant answered for: it must still when that goes on record.
    std::optional<approval::Subject> granted{};

    [[nodiscard]] pid_t thread() const { return call.notification().thread; }
    [[nodiscard]] int integer(int index) const { return call.notification().integer(index); }
    [[nodiscard]] std::uint64_t word(int index) const {
        return call.notification().arguments[static_cast<std::size_t>(index)];
    }
    /// Answers with an errno of the kernel's own; nothing is recorded.
    void fail(int error) { call.fail(error); }
};

/// While it lives, what this thread creates gets the caller's umask. The umask is the thread's own (receivers
/// unshare CLONE_FS); where a container's profile refuses that it is the whole process's, like the working
/// directory: then one thread at a time has it, and gives back what was there. Nothing may be done meanwhile
/// that waits for others.
class WithUmask {
public:
    WithUmask(WorkerBuffers& buffers, unsigned mask);
    WithUmask(const WithUmask&) = delete;
    WithUmask& operator=(const WithUmask&) = delete;
    ~WithUmask();

private:
    std::unique_lock<std::mutex> lock_;
    unsigned before_ = 0;
};

}  // namespace callgate::calls
