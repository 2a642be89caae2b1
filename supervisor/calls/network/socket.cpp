// socket, for UDP where look-ups of names are decided, and socketpair, for unix datagrams where no rule opens
// them.
//
// An attacker controls the scalars, which cannot change any more. The filter notifies only internet datagram
// sockets. The program gets a socket of the room (names/room.hpp): it reaches the run's name server and
// nothing else, so no send on it is judged. No path leads from here to a real UDP socket. Never continued.
//
// An end of a pair of datagram sockets could send to any other socket, by an address in memory. So the pair
// is one of sequenced packets: it keeps boundaries too, and sends to its other end whatever the address says.
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <span>

#include "base/test_switch.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/calls/network/needs.hpp"
#include "supervisor/decide/parties.hpp"
#include "supervisor/decide/refusals.hpp"
#include "supervisor/kernel/target_memory.hpp"
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
    if (!context.needs.nested.empty() && check_enabled("nested-look-ups")) asker.judges = &context.needs;
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

void handle_socketpair(NetworkCall& context) {
    constexpr int kind_mask = 0xf, known_flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
    const int type = context.integer(1), protocol = context.integer(2);
    if ((type & ~(kind_mask | known_flags)) != 0) return context.fail(EINVAL);
    using Numbers = std::array<int, 2>;
    const auto written = [&](const Numbers& numbers) {
        return bool(
            kernel::write_memory(context.thread(), context.word(3), std::as_bytes(std::span(numbers))));
    };
    // The kernel looks at the memory first, too.
    const auto before = kernel::read_object<Numbers>(context.thread(), context.word(3));
    if (!context.call.waiting()) return;
    if (!before || !written(*before)) return context.fail(EFAULT);
    if (protocol != 0 && protocol != PF_UNIX) return context.fail(EPROTONOSUPPORT);
    const int kind = check_enabled(context.entry.name) ? SOCK_SEQPACKET : SOCK_DGRAM;
    Numbers ends{};
    if (::socketpair(AF_UNIX, kind | (type & SOCK_NONBLOCK) | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return context.fail(errno);
    const std::array<UniqueFd, 2> ours{UniqueFd(ends[0]), UniqueFd(ends[1])};
    Numbers theirs{};
    for (std::size_t end = 0; end < ours.size(); ++end) {
        const auto number = context.call.install(ours[end], (type & SOCK_CLOEXEC) != 0);
        if (!number) return context.fail(number.error().value());
        theirs[end] = *number;
    }
    if (!context.call.waiting()) return;
    if (!written(theirs)) return context.fail(EFAULT);
    context.call.succeed(0);
}

}  // namespace callgate::calls
