// A message of sendto, sendmsg or sendmmsg, copied out of the target.
//
// An attacker controls header, address, vector, control data and payload, and may change them at any time.
// Each is read once; the copy is judged and sent. Lengths inside them are never believed. A long payload of a
// stream is copied piece by piece. The pieces are not judged, since a stream goes where connect was judged to
// go.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/unique_fd.hpp"
#include "supervisor/calls/network/needs.hpp"
#include "supervisor/calls/network/pinned_socket.hpp"

namespace callgate::calls {

struct Message {
    std::optional<SocketAddress> address;
    std::vector<iovec> parts;       // of the payload, in the target
    std::size_t size = 0;           // of the payload, as the kernel counts it
    std::vector<std::byte> copied;  // all of the payload, if it was read with the rest
    std::vector<std::byte> control;
    std::vector<UniqueFd> passed;  // descriptors that `control` passes, ours
};

/// A message by its header in the target, with all that the header points at but the payload. Errors in the
/// kernel's order: EINVAL, EFAULT, EMSGSIZE, ENOBUFS; for unix control data EBADF, EINVAL and EPERM. EPERM
/// also for options that would send the packet elsewhere than to its address. EACCES: a descriptor that is
/// passed cannot be copied.
[[nodiscard]] Result<Message> read_message(NetworkCall& context, const msghdr& header,
                                           const SocketKind& kind);

/// A message of one part and no control data (sendto), and its address of `length` bytes. A payload that is
/// short is read with the address. EINVAL for a negative or too large length, EFAULT.
[[nodiscard]] Result<Message> read_plain_message(pid_t thread, std::uint64_t payload, std::size_t size,
                                                 std::uint64_t address, int length);

/// Bytes of the payload that are copied at once, unless something else limits them.
inline constexpr std::size_t usual_payload = std::size_t{64} << 10;

/// The payload from `offset` on, as much as `into` takes; less where the target's memory cannot be read.
[[nodiscard]] std::size_t copy_payload(pid_t thread, const Message& message, std::size_t offset,
                                       std::span<std::byte> into);

}  // namespace callgate::calls
