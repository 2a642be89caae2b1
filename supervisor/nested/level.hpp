// A level is one nested run among those of a run: its rules, and what its calls are judged by.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "agent/created_ipc.hpp"
#include "base/unique_fd.hpp"
#include "rules/plan/rename_check.hpp"
#include "supervisor/calls/files/shared_memory.hpp"
#include "supervisor/calls/network/own_servers.hpp"
#include "supervisor/calls/network/own_sockets.hpp"
#include "supervisor/nested/nested_runs.hpp"
#include "supervisor/receive/families.hpp"

namespace callgate::nested {

/// The judges of one nested run: those of the level around it, narrowed. Whoever judges by them holds the
/// level.
class Level final : calls::DecisionSink {
public:
    struct Given {
        std::string run, workdir;
        pid_t guardian = -1;
        UniqueFd guardian_handle;  // pidfd
        bool asks = true;
        std::shared_ptr<rules::RuleSet> rules;  // narrowed already
        rules::Plan plan;
        rules::RecordMode record = rules::RecordMode::contested;
        std::unique_ptr<Report> report;
        std::shared_ptr<agent::SharedObjects> made;
        rlim_t mark = 0;
        int depth = 1;
        std::shared_ptr<Level> around{};  // null: the run itself
        calls::IpcObjects& all_objects;
        calls::SharedMemory& all_files;
    };
    Level(Given given, const Judges& judges, const rules::Plan& plan);

    const rlim_t mark;
    const int depth;
    const std::shared_ptr<Level> around;
    const std::shared_ptr<agent::SharedObjects> made;

    /// Whether the guardian has ended, so that its number may be another process's.
    [[nodiscard]] bool lost_guardian() const;
    /// Whether something is left of what it made.
    [[nodiscard]] bool left_objects();

private:
    /// On record already, so the levels around count it, too.
    void note(const audit::Decision& decision) override {
        report->note(decision);
        outer_.decide.sink.note(decision);
    }

    /// A rule says that the tree ends. Where a level around may have said it, all of that ends.
    void kill();
    [[nodiscard]] calls::FileNeeds narrowed_files();

    const UniqueFd guardian_handle_;
    const std::shared_ptr<rules::RuleSet> rules_;
    const rules::Plan plan_;
    const Judges outer_;
    std::mutex ending_;

public:
    const std::unique_ptr<Report> report;
    std::atomic<bool> over{false}, entered{false};
    std::function<void()> hang_up;  // ends the connection, and so the inner callgate; guarded by ending()
    [[nodiscard]] std::mutex& ending() { return ending_; }
    [[nodiscard]] const rules::Plan& plan() const { return plan_; }

private:
    const rules::StaticGrants grants_;
    const rules::RenameCheck moves_;
    const calls::Basis enforced_{*rules_, grants_, moves_};
    calls::IpcObjects ipc_;
    calls::SharedMemory memory_;
    calls::NetworkNeeds network_;
    std::optional<calls::OwnServers> servers_;
    std::optional<calls::OwnSockets> sockets_;

public:
    calls::DecideNeeds decide;

private:
    const calls::FileNeeds files_;
    calls::ExecNeeds exec_;
    const calls::ProcessNeeds processes_;
    const Families families_;

public:
    const Judges judged;
};

}  // namespace callgate::nested
