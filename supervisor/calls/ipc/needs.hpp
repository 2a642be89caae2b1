// The needs of the handlers of System V objects and message queues.
#pragma once

#include "supervisor/calls/call.hpp"
#include "supervisor/calls/ipc/ipc_objects.hpp"

namespace callgate::calls {

struct IpcCall : Call {
    IpcObjects& objects;
};

}  // namespace callgate::calls
