// sendto, sendmsg, sendmmsg: trapped only where datagram sockets can be made (architecture.md).
//
// An attacker controls headers, addresses, payload and control data in memory: all is copied once, judged,
// and sent from the copy on the very socket that was taken; nothing is read twice and nothing continued. A
// stream ignores the address (MSG_FASTOPEN is refused by the filter), and a send without one goes where
// connect was judged to go. Passed descriptors are taken from the caller and sent as our copies; credentials
// name the supervisor (docs/differences.md).
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "rules/test_switch.hpp"
#include "supervisor/calls/arguments.hpp"
#include "supervisor/calls/decide.hpp"
#include "supervisor/calls/socket_address.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

namespace {

using rules::Operation;

constexpr std::size_t max_payload = std::size_t{16}
                                    << 20;   // a single send larger than this is cut, as a stream may
constexpr std::size_t max_control = 20'480;  // net.core.optmem_max
constexpr std::size_t max_passed = 253;      // SCM_MAX_FD
constexpr std::size_t max_vector = 1024;     // UIO_MAXIOV

/// One message, copied.
struct Message {
    std::optional<SocketAddress> address;
    std::vector<std::byte> payload;
    std::vector<std::byte> control;
    std::vector<UniqueFd> descriptors;  // what `control` passes, ours
};

enum class Sent : std::uint8_t { done, refused };  // refused: the call was answered

Result<void> read_payload(pid_t thread, std::uint64_t address, std::size_t size,
                          std::vector<std::byte>& into) {
    const std::size_t before = into.size();
    into.resize(before + std::min(size, max_payload - before));
    return kernel::read_memory(thread, address, std::span(into).subspan(before));
}

Result<void> read_vector(pid_t thread, const msghdr& header, std::vector<std::byte>& into) {
    if (header.msg_iovlen > max_vector) return errno_code(EMSGSIZE);
    for (std::size_t index = 0; index < header.msg_iovlen; ++index) {
        const auto address = reinterpret_cast<std::uint64_t>(header.msg_iov) + index * sizeof(iovec);
        const auto part = kernel::read_object<iovec>(thread, address);
        if (!part) return part.error();
        const auto read =
            read_payload(thread, reinterpret_cast<std::uint64_t>(part->iov_base), part->iov_len, into);
        if (!read) return read.error();
    }
    return {};
}

/// Options that send a packet elsewhere than to the address that is judged.
bool routes_elsewhere(const cmsghdr& part) {
    constexpr int ip_retopts = 7, ipv6_2292rthdr = 5, ipv6_rthdr = 57;
    if (!check_enabled("routing-data")) return false;
    if (part.cmsg_level == IPPROTO_IP) return part.cmsg_type == ip_retopts;
    return part.cmsg_level == IPPROTO_IPV6 &&
           (part.cmsg_type == ipv6_rthdr || part.cmsg_type == ipv6_2292rthdr);
}

/// Replaces the caller's descriptor numbers and credentials by ours, and refuses what would reroute. EBADF,
/// EINVAL as the kernel; EPERM.
Result<void> translate_control(CallContext& context, Message& message, const SocketKind& kind) {
    msghdr walk{};
    walk.msg_control = message.control.data();
    walk.msg_controllen = message.control.size();
    for (cmsghdr* part = CMSG_FIRSTHDR(&walk); part != nullptr; part = CMSG_NXTHDR(&walk, part)) {
        if (kind.internet() && routes_elsewhere(*part)) return errno_code(EPERM);
        if (kind.domain != AF_UNIX || part->cmsg_level != SOL_SOCKET) continue;
        // The length is the target's word; only the header is known to fit (net/core/scm.c, CMSG_OK).
        const auto* begin = reinterpret_cast<const std::byte*>(part);
        const auto left = static_cast<std::size_t>(message.control.data() + message.control.size() - begin);
        if (part->cmsg_len < CMSG_LEN(0) || part->cmsg_len > left) return errno_code(EINVAL);
        const std::size_t size = part->cmsg_len - CMSG_LEN(0);
        if (part->cmsg_type == SCM_CREDENTIALS && size >= sizeof(ucred)) {
            const pid_t own = ::getpid();
            std::memcpy(CMSG_DATA(part) + offsetof(ucred, pid), &own, sizeof own);
        }
        if (part->cmsg_type != SCM_RIGHTS) continue;
        if (size > max_passed * sizeof(int)) return errno_code(EINVAL);
        for (std::size_t at = 0; at + sizeof(int) <= size; at += sizeof(int)) {
            int number = 0;
            std::memcpy(&number, CMSG_DATA(part) + at, sizeof number);
            auto copy = kernel::descriptor_copy(context.thread(), number);
            if (!copy) return copy.error();
            number = copy->get();
            std::memcpy(CMSG_DATA(part) + at, &number, sizeof number);
            message.descriptors.push_back(std::move(*copy));
        }
    }
    return {};
}

Result<Message> read_message(CallContext& context, const msghdr& header, const SocketKind& kind) {
    Message message;
    if (header.msg_name != nullptr && header.msg_namelen != 0) {
        const auto address = read_address(context.thread(), reinterpret_cast<std::uint64_t>(header.msg_name),
                                          static_cast<int>(header.msg_namelen));
        if (!address) return address.error();
        message.address = *address;
    }
    if (header.msg_controllen > max_control) return errno_code(ENOBUFS);
    message.control.resize(header.msg_controllen);
    auto read = kernel::read_memory(context.thread(), reinterpret_cast<std::uint64_t>(header.msg_control),
                                    message.control);
    if (read) read = read_vector(context.thread(), header, message.payload);
    if (read) read = translate_control(context, message, kind);
    if (!read) return read.error();
    return message;
}

/// Judges the address of a message and puts the one to use in its place; the pin keeps a unix socket's inode.
Sent judge_address(CallContext& context, const SocketKind& kind, Message& message, UniqueFd& pin,
                   std::uint64_t& sequence) {
    if (!message.address || kind.type != SOCK_DGRAM) {
        if (kind.type != SOCK_DGRAM) message.address.reset();
        return Sent::done;
    }
    Subject subject;
    subject.operations = Operation::connect;
    if (kind.internet()) {
        const auto endpoint = endpoint_of(*message.address, kind, Role::destination);
        if (!endpoint) {
            // AF_UNSPEC on IPv6 goes where connect was judged to go; an address that was not judged goes
            // nowhere.
            if (message.address->family() != AF_UNSPEC) {
                context.fail(EAFNOSUPPORT);
                return Sent::refused;
            }
            message.address.reset();
            return Sent::done;
        }
        subject.object = *endpoint;
        make_destination_concrete(*message.address);
        return decide(context, subject, &sequence) == Ruling::proceed ? Sent::done : Sent::refused;
    }
    const auto name = kind.domain == AF_UNIX ? unix_name(*message.address) : std::nullopt;
    if (!name) {
        context.fail(EINVAL);
        return Sent::refused;
    }
    const std::string abstract = "@" + name->name;
    if (name->abstract) {
        subject.object = rules::UnixObject{abstract, kind.unix_type()};
        return decide(context, subject, &sequence) == Ruling::proceed ? Sent::done : Sent::refused;
    }
    context.scratch.path = name->name;
    UniqueFd base;
    if (!name->name.starts_with('/')) {
        if (auto directory = kernel::working_directory(context.thread())) base = std::move(*directory);
    }
    auto object = resolve_object({context.thread(), base.get(), name->name, Follow::yes, 0});
    if (!object || !S_ISSOCK(object->status.st_mode) || object->nameless) {
        context.fail(object ? ECONNREFUSED : object.error().value());
        return Sent::refused;
    }
    subject.object = rules::UnixObject{object->path, kind.unix_type()};
    subject.identity = identity_of(object->status);
    subject.input.path = context.scratch.path;
    if (decide(context, subject, &sequence) == Ruling::refused) return Sent::refused;
    message.address = unix_path_address("/proc/self/fd/" + std::to_string(object->pin.get()));
    pin = std::move(object->pin);
    return Sent::done;
}

/// Sends the copy: the number of bytes, or -1 with errno. SIGPIPE goes to the caller's thread, as natively.
ssize_t send_copy(CallContext& context, int fd, Message& message, int flags) {
    msghdr header{};
    iovec part{message.payload.data(), message.payload.size()};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (message.address) {
        header.msg_name = message.address->bytes.data();
        header.msg_namelen = message.address->length;
    }
    if (!message.control.empty()) {
        header.msg_control = message.control.data();
        header.msg_controllen = message.control.size();
    }
    const bool declared = context.blocking.expects_blocking() && (flags & MSG_DONTWAIT) == 0 &&
                          (::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0;
    if (declared && !context.blocking.enter()) {
        errno = ENOBUFS;
        return -1;
    }
    const ssize_t sent = ::sendmsg(fd, &header, flags | MSG_NOSIGNAL);
    const int error = errno;
    if (declared) context.blocking.leave();
    errno = error;
    if (sent < 0 && errno == EPIPE && (flags & MSG_NOSIGNAL) == 0) {
        if (const auto caller = kernel::status(context.thread())) {
            ::syscall(SYS_tgkill, caller->process, context.thread(), SIGPIPE);
        }
        errno = EPIPE;
    }
    return sent;
}

void answer_sent(CallContext& context, std::uint64_t sequence, ssize_t sent) {
    if (sent >= 0) {
        if (!context.call.succeed(sent)) note_lost_answer(context, sequence);
        return;
    }
    const int error = errno;
    if (error == EINTR && context.blocking.interruption() != Blocking::Interruption::none) {
        if (!context.call.interrupt()) note_lost_answer(context, sequence);
        return;
    }
    note_failed_act(context, sequence, error);
    context.fail(error);
}

struct Taken {
    UniqueFd fd;
    SocketKind kind;
};

Result<Taken> take_socket(CallContext& context) {
    auto copy = kernel::descriptor_copy(context.thread(), context.integer(0));
    if (!copy) return copy.error();
    const auto kind = socket_kind(copy->get());
    if (!kind) return kind.error();
    return Taken{std::move(*copy), *kind};
}

}  // namespace

void handle_sendto(CallContext& context) {
    const auto taken = take_socket(context);
    if (!taken) return context.fail(taken.error().value());
    Message message;
    const auto address = read_address(context.thread(), context.word(4), context.integer(5));
    if (!address) return context.fail(address.error().value());
    if (address->length > 0) message.address = *address;
    const auto read = read_payload(context.thread(), context.word(1), context.word(2), message.payload);
    if (!context.call.waiting()) return;
    if (!read) return context.fail(read.error().value());
    UniqueFd pin;
    std::uint64_t sequence = 0;
    if (judge_address(context, taken->kind, message, pin, sequence) == Sent::refused) return;
    answer_sent(context, sequence, send_copy(context, taken->fd.get(), message, context.integer(3)));
}

void handle_sendmsg(CallContext& context) {
    const auto taken = take_socket(context);
    if (!taken) return context.fail(taken.error().value());
    const auto header = kernel::read_object<msghdr>(context.thread(), context.word(1));
    if (!header) return context.fail(header.error().value());
    auto message = read_message(context, *header, taken->kind);
    if (!context.call.waiting()) return;
    if (!message) return context.fail(message.error().value());
    UniqueFd pin;
    std::uint64_t sequence = 0;
    if (judge_address(context, taken->kind, *message, pin, sequence) == Sent::refused) return;
    answer_sent(context, sequence, send_copy(context, taken->fd.get(), *message, context.integer(2)));
}

void handle_sendmmsg(CallContext& context) {
    const auto taken = take_socket(context);
    if (!taken) return context.fail(taken.error().value());
    const std::size_t count = std::min<std::size_t>(static_cast<unsigned>(context.integer(2)), max_vector);
    std::int64_t done = 0;
    for (std::size_t index = 0; index < count; ++index) {
        const std::uint64_t at = context.word(1) + index * sizeof(mmsghdr);
        const auto element = kernel::read_object<mmsghdr>(context.thread(), at);
        auto message =
            element ? read_message(context, element->msg_hdr, taken->kind) : Result<Message>(element.error());
        if (!context.call.waiting()) return;
        // As natively: what was sent before an error counts, and the error shows only where nothing was.
        if (!message) {
            if (done == 0) return context.fail(message.error().value());
            break;
        }
        UniqueFd pin;
        std::uint64_t sequence = 0;
        // A refused element after sent ones ends the call there; the caller sees the denial when it tries
        // again.
        if (done > 0 && message->address && taken->kind.type == SOCK_DGRAM) {
            Subject subject;
            subject.operations = Operation::connect;
            const auto endpoint = endpoint_of(*message->address, taken->kind, Role::destination);
            if (!endpoint) break;
            subject.object = *endpoint;
            if (judge(context, subject).action != rules::Action::allow) break;
        }
        if (judge_address(context, taken->kind, *message, pin, sequence) == Sent::refused) return;
        const ssize_t sent = send_copy(context, taken->fd.get(), *message, context.integer(3));
        if (sent < 0) {
            if (done == 0) return answer_sent(context, sequence, sent);
            note_failed_act(context, sequence, errno);
            break;
        }
        const auto length = static_cast<unsigned>(sent);
        const auto written = kernel::write_memory(context.thread(), at + offsetof(mmsghdr, msg_len),
                                                  std::as_bytes(std::span<const unsigned, 1>(&length, 1)));
        if (!written && done == 0) return context.fail(EFAULT);
        ++done;
    }
    context.call.succeed(done);
}

}  // namespace callgate::calls
