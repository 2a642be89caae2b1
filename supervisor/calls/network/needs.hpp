// The needs of the handlers of sockets.
#pragma once

#include "supervisor/calls/call.hpp"
#include "supervisor/calls/name_lock.hpp"
#include "supervisor/calls/network/bound_names.hpp"
#include "supervisor/names/asker.hpp"

namespace callgate::front {
class TlsFront;
}

namespace callgate::names {
class Service;
}

namespace callgate::calls {

class OwnServers;
class OwnSockets;
class ReservedName;
class Refusals;

struct NetworkNeeds {
    NameLock& names;  // FileNeeds::names
    BoundNames bound_names{};
    OwnServers* own_servers = nullptr;   // null: no rule is about servers of the run's own
    OwnSockets* own_sockets = nullptr;   // null: every socket that the rules allow is connected to
    bool udp = false;                    // the filter lets UDP sockets be
    names::Service* look_ups = nullptr;  // null: no look-up is decided
    front::TlsFront* front = nullptr;    // null: the names of TLS servers are not checked
    Refusals* refusals = nullptr;        // null: refusals are not put on record
    ReservedName* reserved = nullptr;    // null: nobody answers at the reserved name
};

struct NetworkCall : Call {
    NetworkNeeds& network;
};

/// The calling process, as look-ups know it: a program's threads look names up for each other.
[[nodiscard]] names::Asker asker_of(NetworkCall& context);

}  // namespace callgate::calls
