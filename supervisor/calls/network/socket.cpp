// socket and socketpair. The first is notified for UDP where look-ups of names are decided, and for all where
// a profile refuses pidfd_getfd. The second is notified for unix datagrams where no rule opens them.
//
// An attacker controls the scalars, which cannot change any more, and the filter has judged them. Where
// descriptors cannot be copied from the run, callgate makes each socket and keeps a copy
// (kernel/kept_sockets.hpp). Identity and capabilities of its maker are the caller's.
//
// The program gets a socket of the room for UDP without a rule (names/room.hpp). It reaches the run's name
// server and nothing else, so no send on it is judged. No path leads from here to a real UDP socket. The call
// is never continued.
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
#include "supervisor/decide/decide.hpp"
#include "supervisor/decide/parties.hpp"
#include "supervisor/decide/refusals.hpp"
#include "supervisor/kernel/kept_sockets.hpp"
#include "supervisor/kernel/target_memory.hpp"
#include "supervisor/names/service.hpp"

namespace callgate::calls {

names::Asker asker_of(NetworkCall& context) {
    context.caller.look(context.thread());
    const auto status = kernel::status(context.thread());
    const pid_t process = status ? status->process : context.thread();
    const auto found = kernel::identity(process);
    names::Asker asker{process, found ? found->parent : 0, found ? found->start_time : 0,
                       context.caller.executable};
    if (context.needs.parties != nullptr) asker.party = party_of(context);
    if (!context.needs.nested.empty() && check_enabled("nested-look-ups"))
        asker.judges = context.needs.self.lock();
    return asker;
}

namespace {

/// A run that holds too many sockets for callgate.
void deny_more(NetworkCall& context) {
    Subject subject;
    subject.operations = rules::Operation::connect;
    subject.object = rules::FileObject{};
    deny_failure(context, subject, EMFILE,
                 "overload: callgate keeps a copy of each socket that is not connected, as the container's "
                 "seccomp profile refuses pidfd_getfd, and may open no more files");
}

/// Gives the caller a socket, of which `kept` keeps a copy (null: none is kept). An invalid one fails with
/// errno.
void hand_over(NetworkCall& context, UniqueFd socket, kernel::KeptSockets* kept) {
    const bool close_on_exec = (context.integer(1) & SOCK_CLOEXEC) != 0;
    if (!socket) return errno == EMFILE ? deny_more(context) : context.fail(errno);
    if (kept == nullptr) {
        int error = 0;
        static_cast<void>(context.call.hand_over(std::move(socket), close_on_exec, error));
        return;
    }
    const auto inode = kept->add(socket.get(), context.thread());
    if (!inode) return deny_more(context);
    const auto number = context.call.install(socket, close_on_exec);
    socket.reset();
    if (!number) {
        kept->forget(*inode);
        return context.fail(number.error().value());
    }
    kept->given(*inode);
    context.call.succeed(*number);
}

}  // namespace

void handle_socket(NetworkCall& context) {
    constexpr int kind_mask = 0xf, known_flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
    const int family = context.integer(0), type = context.integer(1), protocol = context.integer(2);
    if ((type & ~(kind_mask | known_flags)) != 0) return context.fail(EINVAL);
    kernel::KeptSockets* const kept = kernel::KeptSockets::in_use();
    const bool udp = (family == AF_INET || family == AF_INET6) && (type & kind_mask) == SOCK_DGRAM &&
                     (protocol == 0 || protocol == IPPROTO_UDP);
    const bool from_room = udp && context.network.look_ups != nullptr && !context.network.udp;
    if (!from_room && kept != nullptr)
        return hand_over(context, UniqueFd(::socket(family, type | SOCK_CLOEXEC, protocol)), kept);
    if (!from_room) return context.fail(EPROTONOSUPPORT);
    const names::Asker asker = asker_of(context);
    auto made = context.network.look_ups->server_of(asker)->udp_socket(family, type & ~SOCK_CLOEXEC, asker);
    if (!made) {
        const int error = made.error().value();
        if (error == EPROTONOSUPPORT && context.network.refusals != nullptr)
            context.network.refusals->note(context.needs, context.caller, context.call.notification(),
                                           {&enforce::refused::udp_look_ups, error});
        return context.fail(error);
    }
    hand_over(context, std::move(*made), kept);
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
