#include "supervisor/calls/network/message.hpp"
#include "supervisor/calls/network/needs.hpp"

#include <linux/capability.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>

#include "base/test_switch.hpp"
#include "supervisor/kernel/acting_identity.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

namespace {

constexpr std::size_t max_parts = 1024;                    // UIO_MAXIOV
constexpr std::size_t max_passed = 253;                    // SCM_MAX_FD
constexpr std::size_t max_control = std::size_t{1} << 20;  // far above net.core.optmem_max
constexpr std::size_t max_payload = 0x7ffff000;            // MAX_RW_COUNT

Result<void> read_address_of(NetworkCall& context, const msghdr& header, Message& message) {
    if (header.msg_name == nullptr) return {};
    const auto given = static_cast<int>(header.msg_namelen);
    if (given < 0) return errno_code(EINVAL);
    if (given == 0) return {};
    // Here, and only here, the kernel cuts a length that is too long.
    const int length = std::min(given, static_cast<int>(sizeof(sockaddr_storage)));
    const auto address =
        read_address(context.thread(), reinterpret_cast<std::uint64_t>(header.msg_name), length);
    if (!address) return address.error();
    message.address = *address;
    return {};
}

Result<void> read_parts(NetworkCall& context, const msghdr& header, Message& message) {
    if (header.msg_iovlen > max_parts) return errno_code(EMSGSIZE);
    message.parts.resize(header.msg_iovlen);
    auto read = kernel::read_memory(context.thread(), reinterpret_cast<std::uint64_t>(header.msg_iov),
                                    std::as_writable_bytes(std::span(message.parts)));
    if (!read) return read.error();
    for (iovec& part : message.parts) {
        if (part.iov_len > SSIZE_MAX) return errno_code(EINVAL);
        part.iov_len = std::min(part.iov_len, max_payload - message.size);
        message.size += part.iov_len;
    }
    return {};
}

Result<void> read_control(NetworkCall& context, const msghdr& header, Message& message) {
    if (header.msg_controllen == 0) return {};
    if (header.msg_controllen > max_control) return errno_code(ENOBUFS);
    message.control.resize(header.msg_controllen);
    return kernel::read_memory(context.thread(), reinterpret_cast<std::uint64_t>(header.msg_control),
                               message.control);
}

/// Whether this option sends a packet elsewhere than to the judged address.
bool routes_elsewhere(const cmsghdr& part) {
    constexpr int ip_retopts = 7, ipv6_2292rthdr = 5, ipv6_rthdr = 57;
    if (!check_enabled("routing-data")) return false;
    if (part.cmsg_level == IPPROTO_IP) return part.cmsg_type == ip_retopts;
    return part.cmsg_level == IPPROTO_IPV6 &&
           (part.cmsg_type == ipv6_rthdr || part.cmsg_type == ipv6_2292rthdr);
}

/// Whether the ids are the caller's (net/core/scm.c). Where a caller may change its own, the kernel would
/// accept callgate's real and saved ones, too, or any (SendingAsCaller).
bool may_name(const kernel::Status& caller, const ucred& given) {
    const kernel::Credentials* const as = kernel::identity_in_use();
    if (as == nullptr) return true;
    const auto holds = [as](int number) { return (as->capabilities & capability(number)) != 0; };
    return (given.uid == caller.real_uid || given.uid == caller.effective_uid ||
            given.uid == caller.saved_uid || holds(CAP_SETUID)) &&
           (given.gid == caller.real_gid || given.gid == caller.effective_gid ||
            given.gid == caller.saved_gid || holds(CAP_SETGID));
}

/// The caller may only name itself. The kernel then finds the same about this process.
Result<void> translate_credentials(NetworkCall& context, std::byte* data) {
    ucred given{};
    std::memcpy(&given, data, sizeof given);
    const auto caller = kernel::status(context.thread());
    if (!caller) return caller.error();
    // In a container the caller's own number is another one than callgate knows it by.
    const auto numbers = kernel::own_numbers(context.thread());
    if (!numbers) return numbers.error();
    if (given.pid != numbers->process || (!may_name(*caller, given) && check_enabled("identity-forged")))
        return errno_code(EPERM);
    given.pid = ::getpid();
    std::memcpy(data, &given, sizeof given);
    return {};
}

/// Whether only a copy from the caller would do, and the kernel lets none be taken (kernel/kept_sockets.hpp).
bool kept_elsewhere(int error) {
    return kernel::KeptSockets::in_use() != nullptr && (error == EPERM || error == ENOTSOCK);
}

/// Replaces the caller's descriptors by copies of ours.
Result<void> translate_rights(NetworkCall& context, Message& message, std::byte* data, std::size_t count) {
    if (message.passed.size() + count > max_passed) return errno_code(EINVAL);
    for (std::size_t index = 0; index < count; ++index) {
        int number = 0;
        std::memcpy(&number, data + index * sizeof number, sizeof number);
        auto copy = context.caller.cache.descriptor_copy(context.thread(), number);
        if (!copy) return kept_elsewhere(copy.error().value()) ? errno_code(EACCES) : copy.error();
        number = copy->get();
        std::memcpy(data + index * sizeof number, &number, sizeof number);
        message.passed.push_back(std::move(*copy));
    }
    return {};
}

/// Translates what the kernel would look up in the caller into terms of this process.
Result<void> translate_control(NetworkCall& context, Message& message, const SocketKind& kind) {
    msghdr walk{};
    walk.msg_control = message.control.data();
    walk.msg_controllen = message.control.size();
    for (cmsghdr* part = CMSG_FIRSTHDR(&walk); part != nullptr; part = CMSG_NXTHDR(&walk, part)) {
        if (kind.internet() && routes_elsewhere(*part)) return errno_code(EPERM);
        if (kind.domain != AF_UNIX || part->cmsg_level != SOL_SOCKET) continue;
        // The target chose the length; only the header is known to fit (net/core/scm.c, CMSG_OK).
        const auto* begin = reinterpret_cast<const std::byte*>(part);
        const auto left = static_cast<std::size_t>(message.control.data() + message.control.size() - begin);
        if (part->cmsg_len < CMSG_LEN(0) || part->cmsg_len > left) return errno_code(EINVAL);
        const std::size_t size = part->cmsg_len - CMSG_LEN(0);
        auto* data = reinterpret_cast<std::byte*>(CMSG_DATA(part));
        Result<void> done;
        if (part->cmsg_type == SCM_CREDENTIALS && size == sizeof(ucred)) {
            done = translate_credentials(context, data);
        } else if (part->cmsg_type == SCM_RIGHTS) {
            done = translate_rights(context, message, data, size / sizeof(int));
        }
        if (!done) return done.error();
    }
    return {};
}

}  // namespace

Result<Message> read_message(NetworkCall& context, const msghdr& header, const SocketKind& kind) {
    Message message;
    auto read = read_address_of(context, header, message);
    if (read) read = read_parts(context, header, message);
    if (read) read = read_control(context, header, message);
    if (read) read = translate_control(context, message, kind);
    if (!read) return read.error();
    return message;
}

Result<Message> read_plain_message(pid_t thread, std::uint64_t payload, std::size_t size,
                                   std::uint64_t address, int length) {
    constexpr std::size_t max_at_once = 4096;
    Message message;
    message.size = std::min(size, max_payload);
    message.parts.push_back({reinterpret_cast<void*>(payload), message.size});  // NOLINT: the target's
    SocketAddress& name = message.address.emplace();
    if (length < 0 || static_cast<std::size_t>(length) > name.bytes.size()) return errno_code(EINVAL);
    name.length = static_cast<socklen_t>(length);
    const std::size_t with_it = message.size <= max_at_once ? message.size : 0;
    std::array<std::byte, sizeof(sockaddr_storage) + max_at_once> raw;
    const iovec places[2] = {{reinterpret_cast<void*>(address), name.length},  // NOLINT
                             {message.parts[0].iov_base, with_it}};
    const std::size_t got =
        kernel::read_scattered(thread, places, std::span(raw.data(), name.length + with_it));
    if (got < name.length) return errno_code(EFAULT);
    std::memcpy(name.bytes.data(), raw.data(), name.length);
    if (got == name.length + with_it) message.copied.assign(raw.data() + name.length, raw.data() + got);
    return message;
}

std::size_t copy_payload(pid_t thread, const Message& message, std::size_t offset,
                         std::span<std::byte> into) {
    std::vector<iovec> wanted;
    std::size_t room = into.size();
    for (const iovec& part : message.parts) {
        if (room == 0) break;
        const std::size_t skipped = std::min(offset, part.iov_len);
        offset -= skipped;
        const std::size_t size = std::min(part.iov_len - skipped, room);
        if (size == 0) continue;
        wanted.push_back({static_cast<std::byte*>(part.iov_base) + skipped, size});
        room -= size;
    }
    return kernel::read_scattered(thread, wanted, into);
}

}  // namespace callgate::calls
