// The two parties of a run, where its rules tell them apart: the agent, which callgate starts, and its tools.
//
// The agent is one process: the command, from the moment at which the agent's own program runs in it, until
// it executes anything else. Everything else is tools: each child, from its fork on, whatever it executes.
// The change to tools is for ever. So no name, wrapper or descriptor leads from the tools to the agent.
//
// An attacker controls every process but that one, and may run the agent's own program itself: it is a tool
// then. It may end and start processes until a number comes again. A handle on the agent's process tells the
// two apart. Other ways into a process are closed to tools elsewhere: by the filter, by the rule
// callgate-parties, and by calls/processes. Thread-safe.
//
// Not held: what the agent itself hands out or runs in its own process, such as a plug-in.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "rules/model/request.hpp"
#include "supervisor/audit/write/record.hpp"
#include "supervisor/kernel/memory_places.hpp"

namespace callgate::calls {

struct CallContext;

class Parties {
public:
    enum class Stage : std::uint8_t {
        waiting,  // the command has not executed anything
        by_env,   // env(1) runs in it, as the agent's script says, and will execute an interpreter
        agent,
        tools,
    };

    /// `process` waits to become the command. `program` is the file of the agent's own program; nothing: the
    /// command is no agent. `variables` are the agent's alone.
    Parties(pid_t process, std::optional<audit::FileIdentity> program, std::vector<std::string> variables);

    /// The stage of the command's process if `thread` is one of it, else tools.
    [[nodiscard]] Stage stage_of(pid_t thread) const;
    [[nodiscard]] bool is_agent(pid_t thread) const { return stage_of(thread) == Stage::agent; }
    [[nodiscard]] bool is_own(const audit::FileIdentity& file) const;
    /// Whether `file` is what runs in the agent: its program, or the interpreter of that.
    [[nodiscard]] bool is_image(const audit::FileIdentity& file) const;
    /// Whether this is the agent's memory, or a copy of it. True if either is not known.
    [[nodiscard]] bool is_memory(const std::optional<kernel::MemoryPlaces>& places) const;

    /// Names of the variables that the agent has, and nothing that it executes.
    [[nodiscard]] const std::vector<std::string>& variables() const { return variables_; }

    /// The command's process goes on to `next`, and runs `image` now. Nothing leads back from tools.
    void go_on(Stage next, const audit::FileIdentity& image,
               const std::optional<kernel::MemoryPlaces>& places);
    void leave() { stage_.store(Stage::tools); }

private:
    pid_t process_;
    UniqueFd handle_;  // pidfd
    std::optional<audit::FileIdentity> program_;
    const std::vector<std::string> variables_;
    std::atomic<Stage> stage_;
    std::atomic<std::uint64_t> inode_{0}, device_{0};  // of the image; 0: none yet
    mutable std::mutex lock_;
    std::optional<kernel::MemoryPlaces> places_;  // guarded by lock_
};

/// The caller's party: tools where the rules know no parties. Read once for each call.
[[nodiscard]] rules::Party party_of(CallContext& context);

}  // namespace callgate::calls
