// A message over a unix socket that carries descriptors (SCM_RIGHTS, unix(7)), to be sent or received.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstring>
#include <span>

namespace callgate {

/// `Content` is sent with the descriptors, copied as bytes. A message has at most `most` descriptors.
/// Async-signal-safe.
template <class Content, std::size_t most>
struct DescriptorMessage {
    DescriptorMessage() {
        part.iov_base = &content;
        part.iov_len = sizeof content;
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        header.msg_control = room;
        header.msg_controllen = CMSG_LEN(most * sizeof(int));  // the padding has room for one more
    }
    DescriptorMessage(const DescriptorMessage&) = delete;
    DescriptorMessage& operator=(const DescriptorMessage&) = delete;

    /// Call it before sending, with at least one and at most `most` descriptors.
    void attach(std::span<const int> descriptors) {
        header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* const note = CMSG_FIRSTHDR(&header);
        note->cmsg_level = SOL_SOCKET;
        note->cmsg_type = SCM_RIGHTS;
        note->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(note), descriptors.data(), descriptors.size_bytes());
    }
    /// Call it after receiving. Returns how many descriptors came; the caller owns them from now on.
    std::size_t take(std::span<int, most> into) const {
        const cmsghdr* const note = CMSG_FIRSTHDR(&header);
        if (note == nullptr || note->cmsg_type != SCM_RIGHTS) return 0;
        const std::size_t bytes = note->cmsg_len - CMSG_LEN(0);
        std::memcpy(into.data(), CMSG_DATA(note), bytes);
        return bytes / sizeof(int);
    }

    Content content{};
    iovec part{};
    alignas(cmsghdr) char room[CMSG_SPACE(most * sizeof(int))] = {};
    msghdr header{};
};

}  // namespace callgate
