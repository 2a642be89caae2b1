// One message of sendto, sendmsg or sendmmsg, copied out of the target.
//
// An attacker controls header, address, vector, control data and payload, and may change them at any time:
// each is read once, and what was read is judged and sent. Lengths inside them are never believed. The
// payload is not all copied where it is long: of a stream piece by piece, each judged by nobody, since a
// stream goes where connect was judged to go.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/unique_fd.hpp"
#include "supervisor/calls/network/pinned_socket.hpp"

namespace callgate::calls {

struct Message {
    std::optional<SocketAddress> address;
    std::vector<iovec> parts;       // of the payload, in the target
    std::size_t size = 0;           // of the payload, as the kernel counts it
    std::vector<std::byte> copied;  // all of the payload, where it was read with the rest
    std::vector<std::byte> control;
    std::vector<UniqueFd> passed;  // descriptors that `control` passes, ours
};

/// What a header in the target says, with all that it points at but the payload. Errors in the kernel's
/// order: EINVAL, EFAULT, EMSGSIZE, ENOBUFS; of unix control data EBADF, EINVAL and EPERM; EPERM for options
/// that would send the packet elsewhere than to its address.
[[nodiscard]] Result<Message> read_message(CallContext& context, const msghdr& header,
                                           const SocketKind& kind);

/// A message of one part and no control data (sendto), and its address of `length` bytes. A payload that is
/// short is read with the address. EINVAL for a negative or too large length, EFAULT.
[[nodiscard]] Result<Message> read_plain_message(pid_t thread, std::uint64_t payload, std::size_t size,
                                                 std::uint64_t address, int length);

/// Bytes of the payload that are copied at once, at most, where none limits it by itself.
inline constexpr std::size_t usual_payload = std::size_t{64} << 10;

/// The payload from `offset` on, as much as `into` takes; less where the target's memory cannot be read.
[[nodiscard]] std::size_t copy_payload(pid_t thread, const Message& message, std::size_t offset,
                                       std::span<std::byte> into);

}  // namespace callgate::calls
