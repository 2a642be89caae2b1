// Nested runs: `callgate run` within a run. The supervisor of the run around judges their calls, too.
//
// The inner callgate sends its rules over the channel, and gets a token. Its launcher enters its own Landlock
// domain, and connects to the reserved name with the token. The supervisor then marks that very process, and
// no other can be marked by it. The mark is the hard limit RLIMIT_LOCKS, by which the kernel has enforced
// nothing since Linux 2.4. Children inherit it, and execve(2) keeps it. The filter refuses every change of
// it, for the process itself and for others. Marks descend, and the supervisor lowers a limit once. So a mark
// is never another's, and none leads back.
//
// A marked process's call is judged by the rules of every level, and the strictest verdict holds. It is
// continued only where the plans of all levels hold it statically, because the Landlock domains of all levels
// hold. What the filter of the run around does not notify, the nested run must leave to the kernel: otherwise
// it is refused.
//
// An attacker is any process of the run, also the inner callgate. It sends any rules and any numbers: it
// narrows itself, and nothing else. A token works once, for a child of the guardian that was named, and only
// for a process of the level that registered the rules. Whoever learns a token first narrows itself. The
// rules are read on the channel's thread; their size, alone and together, and the numbers of levels and of
// nested runs are bounded. No two have one name, so none speaks for another in the log. The answer tells
// of no directory that the sender could not list.
//
// When the inner callgate or its guardian is gone, its mark means nothing: contested calls of what may be
// left are denied. Otherwise the guardian's number could become that of a process outside the run. Its rules
// go with the last call, connection or look-up that they judge. What it made and left is removed at the end
// of the run around.
#pragma once

#include <sys/resource.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "agent/created_ipc.hpp"
#include "rules/plan/plan.hpp"
#include "supervisor/calls/files/shared_memory.hpp"
#include "supervisor/nested/channel.hpp"
#include "supervisor/receive/families.hpp"

namespace callgate::nested {

/// Levels of nested runs. Each takes a layer of Landlock's sixteen.
inline constexpr int max_levels = 12;
/// Nested runs that have not ended, or that left objects behind.
inline constexpr std::size_t max_runs = 1000;
/// Nested runs in the life of one run, which keeps their names.
inline constexpr std::size_t max_names = 1'000'000;

/// Gathers the denials of a nested run, for its own report.
class Report : public calls::DecisionSink {
public:
    /// Returns one JSON value.
    [[nodiscard]] virtual std::string json() const = 0;
};

/// The run around.
struct Outermost {
    calls::DecideNeeds& decide;
    const Families& families;
    const rules::Plan& plan;
    bool audit_mode = false, keep_capabilities = false;
    agent::CreatedIpc& made;  // what nested runs make, for the guardian to remove if the supervisor is lost
    /// Makes the report of a nested run with these rules.
    std::function<std::unique_ptr<Report>(std::shared_ptr<const rules::RuleSet> rules)> make_report;
};

class Level;

class Runs final : public NestedRuns {
public:
    /// All of `around` outlives it. Call it before the first call is handled.
    Runs(Outermost around, Channel& channel);
    Runs(const Runs&) = delete;
    Runs& operator=(const Runs&) = delete;
    ~Runs() override;

    std::shared_ptr<const Judges> of(pid_t thread) override;
    /// Removes what nested runs made and left. Call it when no process of the run is left.
    void remove_created();
    /// errno of the first record that could not be written; 0: none.
    [[nodiscard]] int log_error() const;

private:
    void add(Channel::Peer& peer, const nlohmann::json& request, const Channel::Answer& answer);
    void enter(calls::NetworkCall& context, std::string_view token);
    [[nodiscard]] std::shared_ptr<Level> level_of(const calls::DecideNeeds* needs) const;
    [[nodiscard]] std::shared_ptr<Level> keep(std::unique_ptr<Level> made, std::size_t rules_bytes);
    /// The runs that are not gone, and what the others left. A thread that outlives this object may hold the
    /// last one.
    struct Kept {
        std::mutex lock;
        std::vector<std::shared_ptr<agent::SharedObjects>> made{};
        std::size_t rules_bytes = 0;  // as they were sent
        int log_error = 0;
    };

    Outermost around_;
    calls::IpcObjects all_objects_;  // of nested runs; each run has its own list of what is its own
    calls::SharedMemory all_files_;
    const Judges outermost_;
    const std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
    rlim_t unmarked_ = RLIM_INFINITY;           // of processes in no nested run
    rlim_t first_ = 0;                          // the mark of the first nested run
    std::set<std::string, std::less<>> names_;  // of all that there ever were; on the channel's thread
    mutable std::mutex lock_;
    std::map<rlim_t, std::shared_ptr<Level>> levels_;                    // by mark; guarded by lock_
    std::map<std::string, std::shared_ptr<Level>, std::less<>> tokens_;  // guarded by lock_
};

}  // namespace callgate::nested
