// The needs of the handlers of sockets.
#pragma once

#include <shared_mutex>

#include "supervisor/calls/call.hpp"
#include "supervisor/calls/network/bound_names.hpp"

namespace callgate::calls {

struct NetworkNeeds {
    std::shared_mutex& names;  // FileNeeds::names
    BoundNames bound_names{};
};

struct NetworkCall : Call {
    NetworkNeeds& network;
};

}  // namespace callgate::calls
