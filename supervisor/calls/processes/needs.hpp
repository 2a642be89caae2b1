// The needs of the handlers of calls that name processes.
#pragma once

#include "supervisor/calls/call.hpp"
#include "supervisor/calls/opaque.hpp"

namespace callgate::calls {

struct ProcessNeeds {
    pid_t guardian = -1;
    OpaqueMemories& opaque;
};

struct ProcessCall : Call {
    const ProcessNeeds& processes;
};

}  // namespace callgate::calls
