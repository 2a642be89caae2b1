// sendto, sendmsg, sendmmsg: notified only if datagram sockets can be made (docs/dev/architecture.md).
//
// An attacker controls all parts of the message (message.hpp) and the descriptor's number (the very socket is
// copied). The copied message is judged, and sent from the copy. No part is read twice, and no call
// continued. A stream ignores the address (the filter refuses MSG_FASTOPEN), and a send without one goes
// where connect was judged to go. Passed descriptors are copied from the caller and sent as our copies;
// credentials name the supervisor (docs/differences.md).
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "supervisor/calls/descriptor_unavailable.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/calls/network/needs.hpp"
#include "supervisor/calls/network/sending.hpp"
#include "supervisor/kernel/acting_identity.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

using rules::Operation;

/// Decides on the destination. 0: on record, send now. Otherwise the errno.
int Sending::weigh(const Subject& subject) {
    const rules::Verdict verdict = evaluate(context_, subject);
    if (restricted(context_, subject, verdict)) {
        if (const int error = refused_send(socket_, *message_.address, message_.size, flags_)) return error;
    }
    const Decision decision = decide_with(context_, subject, verdict);
    if (decision.allowed()) outcome_.sequence = decision.sequence;
    return decision.error;
}

int Sending::judge_internet() {
    const auto endpoint = endpoint_of(*message_.address, socket_.kind, Role::destination);
    // The kernel itself refuses an address that names no endpoint. AF_UNSPEC on IPv6 goes where connect was
    // judged to go.
    if (!endpoint) return 0;
    if (is_of_room(context_, socket_)) return 0;
    Subject subject;
    subject.operations = Operation::connect;
    subject.object = *endpoint;
    if (const int error = weigh(subject)) return error;
    make_destination_concrete(*message_.address);
    return 0;
}

int Sending::judge_unix_path(const std::string& name) {
    auto peer = find_unix_peer(context_, name);
    if (!context_.call.waiting()) {
        outcome_.answer = false;
        return ESRCH;
    }
    if (!peer) {
        // The message's own errors come first. A send to a name that certainly does not exist shows them.
        message_.address = unix_path_address("/proc/self/fd/none");
        return -peer.error().value();
    }
    peer_ = std::move(*peer);
    message_.address = peer_->address;
    const Object& object = peer_->object;
    if (!S_ISSOCK(object.status.st_mode)) return 0;  // there is no listener: the kernel refuses
    if (object.unlinked) return ECONNREFUSED;
    Subject subject;
    subject.operations = Operation::connect;
    subject.object = rules::UnixObject{object.path, socket_.kind.unix_type()};
    subject.identity = identity_of(object.status);
    subject.input = input_of(peer_->given);
    return weigh(subject);
}

int Sending::judge_unix() {
    const auto name = unix_name(*message_.address);
    if (!name) return 0;  // no name of a unix socket: EINVAL by the kernel
    if (!name->abstract) return judge_unix_path(name->name);
    const std::string shown = "@" + name->name;
    Subject subject;
    subject.operations = Operation::connect;
    subject.object = rules::UnixObject{shown, socket_.kind.unix_type()};
    return weigh(subject);
}

/// Judges the address and replaces it by the one to use. Returns 0, an errno, or a negative errno that comes
/// after the kernel's own.
int Sending::judge_destination() {
    if (!message_.address) return 0;
    const SocketKind& kind = socket_.kind;
    if (kind.internet() && kind.type != SOCK_DGRAM) {
        message_.address.reset();  // TCP does not look at it
        return 0;
    }
    if (kind.internet()) return judge_internet();
    // Connected kinds refuse or ignore an address by themselves, and netlink's peer is the kernel.
    if (kind.domain != AF_UNIX || kind.type != SOCK_DGRAM) return 0;
    return judge_unix();
}

/// ENOBUFS if the socket sends without copying: pages of ours would change while the kernel still sends them.
int Sending::without_zero_copy() const {
    int on = 0;
    socklen_t size = sizeof on;
    const bool asked = ::getsockopt(socket_.fd.get(), SOL_SOCKET, SO_ZEROCOPY, &on, &size) == 0 && on != 0;
    return asked ? ENOBUFS : 0;
}

/// Bytes of the payload that are copied at once. A stream takes any pieces, a message is whole or nothing. If
/// it is longer than the socket's buffer, the kernel refuses it without looking at it.
std::size_t Sending::copied_at_once() const {
    if (message_.size <= usual_payload) return message_.size;
    if (socket_.kind.type == SOCK_STREAM) return usual_payload;
    int buffer = 0;
    socklen_t size = sizeof buffer;
    if (::getsockopt(socket_.fd.get(), SOL_SOCKET, SO_SNDBUF, &buffer, &size) != 0) return 0;
    return message_.size <= static_cast<std::size_t>(buffer) ? message_.size : 0;
}

/// Announces a send that may block, so that other threads receive meanwhile.
template <class Send>
ssize_t Sending::announced(int flags, Send send) {
    const bool declared = context_.blocking.expects_blocking() && (flags & MSG_DONTWAIT) == 0 &&
                          (::fcntl(socket_.fd.get(), F_GETFL) & O_NONBLOCK) == 0;
    if (declared && !context_.blocking.enter()) {
        errno = ENOBUFS;
        return -1;
    }
    ssize_t sent = -1;
    int error = EPERM;
    if (const kernel::SendingAsCaller sending(context_.thread()); sending.ready()) {
        sent = send();
        error = errno;
    }
    if (declared) context_.blocking.leave();
    errno = error;
    return sent;
}

/// After the piece follow `beyond` bytes that are in no memory: the kernel faults there if it comes that far.
ssize_t Sending::send_piece(std::span<std::byte> piece, std::size_t beyond, int flags) {
    constexpr std::uintptr_t nowhere = 8;
    iovec parts[2] = {{piece.data(), piece.size()}, {reinterpret_cast<void*>(nowhere), beyond}};  // NOLINT
    msghdr header{};
    header.msg_iov = parts;
    header.msg_iovlen = beyond == 0 ? 1 : 2;
    if (message_.address) {
        header.msg_name = message_.address->bytes.data();
        header.msg_namelen = message_.address->length;
    }
    if (!message_.control.empty()) {
        header.msg_control = message_.control.data();
        header.msg_controllen = message_.control.size();
    }
    return announced(flags, [&] { return ::sendmsg(socket_.fd.get(), &header, flags | MSG_NOSIGNAL); });
}

void Sending::send_all() {
    if (!message_.copied.empty()) {
        const ssize_t sent = send_piece(message_.copied, 0, flags_);
        if (sent < 0) outcome_.error = errno;
        outcome_.sent = static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
        return;
    }
    const std::size_t limit = copied_at_once();
    const auto buffer = std::make_unique_for_overwrite<std::byte[]>(std::max<std::size_t>(limit, 1));
    do {
        const std::size_t left = message_.size - outcome_.sent;
        const std::size_t wanted = std::min(limit, left);
        const std::size_t got =
            copy_payload(context_.thread(), message_, outcome_.sent, {buffer.get(), wanted});
        if (!context_.call.waiting()) {
            outcome_.answer = false;
            return;
        }
        const bool last = wanted == left || got < wanted || limit == 0;
        const int flags = last ? flags_ : flags_ & ~(MSG_OOB | MSG_EOR);
        const ssize_t sent = send_piece({buffer.get(), got}, last ? left - got : 0, flags);
        if (sent < 0) {
            if (outcome_.sent == 0) outcome_.error = errno;
            return;
        }
        outcome_.sent += static_cast<std::size_t>(sent);
        message_.control.clear();
        if (last || static_cast<std::size_t>(sent) < wanted) return;
    } while (outcome_.sent < message_.size);
}

/// SIGPIPE goes to the caller's thread, as natively.
void Sending::note_broken_pipe() {
    if (outcome_.error != EPIPE || socket_.kind.type != SOCK_STREAM || (flags_ & MSG_NOSIGNAL) != 0) return;
    if (!context_.call.waiting()) return;  // its number may be another's after a send that took its time
    kernel::signal_thread(context_.thread(), SIGPIPE);
}

Outcome Sending::run() {
    const int refused = judge_destination();
    outcome_.error = std::max(refused, 0);
    if (outcome_.error == 0 && zero_copy_) outcome_.error = without_zero_copy();
    if (outcome_.error == 0 && outcome_.answer) send_all();
    if (refused < 0 && outcome_.error == ENOENT) outcome_.error = -refused;
    message_.passed.clear();  // the caller must not meet a second holder
    note_broken_pipe();
    outcome_.whole = outcome_.error == 0 && outcome_.sent == message_.size;
    return outcome_;
}

Outcome Sending::judge_batch(Batch& batch) {
    outcome_.error = std::max(judge_destination(), 0);
    batch.address = message_.address;  // as it was judged
    return outcome_;
}

Outcome Sending::send_batch(Batch& batch, std::size_t& count) {
    const ssize_t sent = announced(
        flags_, [&] { return static_cast<ssize_t>(batch.send(socket_.fd.get(), flags_ | MSG_NOSIGNAL)); });
    if (sent < 0) outcome_.error = errno;
    count = static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
    outcome_.whole = count == batch.size();
    return outcome_;
}

namespace {

void answer(NetworkCall& context, PinnedSocket& socket, const Outcome& outcome) {
    if (!outcome.answer) return;
    finish(context, socket, outcome.sequence, static_cast<std::int64_t>(outcome.sent), outcome.error);
}

}  // namespace

void handle_sendto(NetworkCall& context) {
    auto socket = pin_socket(context, context.integer(0));
    if (!socket)
        return fail_descriptor_unavailable(context, rules::Operation::connect, socket.error().value(),
                                           {4, 5});
    auto message = read_plain_message(context.thread(), context.word(1), context.word(2), context.word(4),
                                      context.integer(5));
    if (!context.call.waiting()) return;
    if (!message) return refuse(context, *socket, message.error().value());
    if (message->address->length == 0) {
        // No address at all, but to an internet datagram socket one that is too short.
        if (socket->kind.internet() && socket->kind.type == SOCK_DGRAM) {
            message->address->length = 1;
        } else {
            message->address.reset();
        }
    }
    const int flags = context.integer(3) & ~internal_flag;
    answer(context, *socket, Sending(context, *socket, *message, flags).run());
}

void handle_sendmsg(NetworkCall& context) {
    if ((context.integer(2) & internal_flag) != 0) return context.fail(EINVAL);
    auto socket = pin_socket(context, context.integer(0));
    if (!socket)
        return fail_descriptor_unavailable(context, rules::Operation::connect, socket.error().value());
    const auto header = kernel::read_object<msghdr>(context.thread(), context.word(1));
    if (!header) return refuse(context, *socket, header.error().value());
    auto message = read_message(context, *header, socket->kind);
    if (!context.call.waiting()) return;
    if (!message && message.error().value() == EACCES)
        return fail_descriptor_unavailable(context, rules::Operation::connect, EACCES);
    if (!message) return refuse(context, *socket, message.error().value());
    answer(context, *socket, Sending(context, *socket, *message, context.integer(2)).run());
}

}  // namespace callgate::calls
