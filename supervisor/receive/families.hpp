// The needs of all families of handlers, for one receiving thread.
#pragma once

#include <memory>

#include "supervisor/calls/exec/needs.hpp"
#include "supervisor/calls/files/needs.hpp"
#include "supervisor/calls/ipc/needs.hpp"
#include "supervisor/calls/network/needs.hpp"
#include "supervisor/calls/processes/needs.hpp"
#include "supervisor/decide/refusals.hpp"
#include "supervisor/kernel/acting_identity.hpp"

namespace callgate {

/// Shared by all receiving threads.
struct Families {
    const calls::FileNeeds& files;
    const calls::ExecNeeds& exec;
    calls::NetworkNeeds& network;
    calls::IpcObjects& ipc;
    const calls::ProcessNeeds& processes;
};

/// Judges of a caller's calls: those of the run, or those of the nested run that it is of.
struct Judges {
    calls::DecideNeeds& decide;
    const Families& families;
};

class NestedRuns {
public:
    virtual ~NestedRuns() = default;
    /// Any thread. Null: the caller is of a nested run that is over, or of none that is known. The caller
    /// holds it while it judges.
    [[nodiscard]] virtual std::shared_ptr<const Judges> of(pid_t thread) = 0;
    /// Whether there was ever one.
    std::atomic<bool> any{false};
};

/// The needs of receiving and handling calls. Outlives all receiving threads.
struct WorkerNeeds {
    calls::DecideNeeds& decide;
    Families families;
    /// With capabilities a caller may change its identity: calls are then made under its own. `identity` is
    /// that of the start, with the capabilities that are kept (0: none).
    CapabilitySet keep_capabilities = 0;
    kernel::Credentials identity{};
    /// Calls that the filter refuses, and that are notified only to be put on record.
    const enforce::RefusedCalls* refused = nullptr;  // null: there are none
    calls::Refusals* refusals = nullptr;             // set where `refused` is
    NestedRuns* nested = nullptr;                    // null: there are none
    /// Calls that were notified, and those of them that the kernel continued by itself.
    std::atomic<std::uint64_t> notifications{0}, continued{0};
};

}  // namespace callgate
