// socket, for UDP where look-ups of names are decided.
//
// An attacker controls the scalars, which cannot change any more. The filter notifies only internet datagram
// sockets. The program gets a socket of the room (names/room.hpp): it reaches the run's name server and
// nothing else, so no send on it is judged. No path leads from here to a real UDP socket. Never continued.
#include <netinet/in.h>
#include <sys/socket.h>

#include "supervisor/calls/handlers.hpp"
#include "supervisor/calls/network/needs.hpp"
#include "supervisor/decide/parties.hpp"
#include "supervisor/decide/refusals.hpp"
#include "supervisor/names/service.hpp"

namespace callgate::calls {

names::Asker asker_of(NetworkCall& context) {
    static_cast<void>(context.caller.cache.look_up(context.thread(), context.caller.executable));
    const auto status = kernel::status(context.thread());
    const pid_t process = status ? status->process : context.thread();
    const auto found = kernel::identity(process);
    names::Asker asker{process, found ? found->parent : 0, found ? found->start_time : 0,
                       context.caller.executable};
    if (context.needs.parties != nullptr) asker.party = party_of(context);
    return asker;
}

void handle_socket(NetworkCall& context) {
    constexpr int kind_mask = 0xf, known_flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
    const int family = context.integer(0), type = context.integer(1), protocol = context.integer(2);
    if ((type & ~(kind_mask | known_flags)) != 0) return context.fail(EINVAL);
    const bool udp = (family == AF_INET || family == AF_INET6) && (type & kind_mask) == SOCK_DGRAM &&
                     (protocol == 0 || protocol == IPPROTO_UDP);
    if (!udp || context.network.look_ups == nullptr) return context.fail(EPROTONOSUPPORT);
    auto made = context.network.look_ups->udp_socket(family, type & ~SOCK_CLOEXEC, asker_of(context));
    if (!made) {
        const int error = made.error().value();
        if (error == EPROTONOSUPPORT && context.network.refusals != nullptr)
            context.network.refusals->note(context.needs, context.caller, context.call.notification(),
                                           {&enforce::refused::udp_look_ups, error});
        return context.fail(error);
    }
    int error = 0;
    static_cast<void>(context.call.hand_over(std::move(*made), (type & SOCK_CLOEXEC) != 0, error));
}

}  // namespace callgate::calls
