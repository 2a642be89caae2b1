// The words between `callgate exec --http` and callgate-tls, over one socket of kind SOCK_SEQPACKET.
//
// callgate-tls first reports: `ready`, or `of_certificate` or `of_key` and a problem's text. The service then
// sends the listener, and hands its end of the socket to the front. From then on each message is a connection
// for the front. Either end's closing ends the other process. No client writes to this socket.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <span>

#include "base/descriptor_message.hpp"
#include "base/unique_fd.hpp"

namespace callgate::tls {

/// Lies beside callgate itself.
inline constexpr const char* program_name = "callgate-tls";

/// Descriptors that callgate-tls is started with.
inline constexpr int control_descriptor = 3, certificate_descriptor = 4, key_descriptor = 5;

/// The first byte of the report.
inline constexpr char ready = '+', of_certificate = 'c', of_key = 'k';
inline constexpr std::size_t max_report = 1024;

/// A connection costs callgate-tls two descriptors. Each process keeps some more for itself.
inline constexpr std::size_t max_connections = 10'000, kept_descriptors = 32;

/// Waits where `control` is full. Errors: errno of sendmsg(2).
[[nodiscard]] inline bool send_descriptor(int control, int descriptor) {
    DescriptorMessage<char, 1> message;
    message.attach(std::span(&descriptor, 1));
    ssize_t sent = -1;
    while ((sent = ::sendmsg(control, &message.header, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
    }
    return sent >= 0;
}

/// Errors: EAGAIN: nothing has come; EPIPE: the other end is closed; ECONNABORTED: no descriptor came with
/// the message.
[[nodiscard]] inline UniqueFd receive_descriptor(int control) {
    DescriptorMessage<char, 1> message;
    ssize_t got = -1;
    while ((got = ::recvmsg(control, &message.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0 &&
           errno == EINTR) {
    }
    if (got < 0) return {};
    int descriptor = -1;
    if (message.take(std::span<int, 1>(&descriptor, 1)) == 0) errno = got == 0 ? EPIPE : ECONNABORTED;
    return UniqueFd(descriptor);
}

}  // namespace callgate::tls
