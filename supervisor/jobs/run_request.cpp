#include "supervisor/jobs/run_request.hpp"

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <tuple>

#include "base/descriptor_message.hpp"

namespace callgate::jobs {

namespace {

constexpr std::size_t most = 8;
using Message = DescriptorMessage<std::array<int, most>, most>;

}  // namespace

bool send_run_request(int socket, std::span<const std::pair<int, int>> descriptors) {
    if (descriptors.empty() || descriptors.size() > most) return false;
    Message message;
    std::array<int, most> here{};
    for (std::size_t at = 0; at < descriptors.size(); ++at)
        std::tie(here[at], message.content[at]) = descriptors[at];
    const std::span<const int> attached(here.data(), descriptors.size());
    message.part.iov_len = attached.size_bytes();
    message.attach(attached);
    return ::sendmsg(socket, &message.header, MSG_DONTWAIT | MSG_NOSIGNAL) ==
           static_cast<ssize_t>(attached.size_bytes());
}

std::optional<Connected> receive_run_request(int socket) {
    Message message;
    const ssize_t got = ::recvmsg(socket, &message.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got <= 0) return std::nullopt;
    std::array<int, most> here{};
    Connected connected(message.take(here));
    for (std::size_t at = 0; at < connected.size(); ++at)
        connected[at] = {UniqueFd(here.at(at)), message.content.at(at)};
    // Fewer than were sent: this process may not open so many.
    if (connected.size() * sizeof(int) != static_cast<std::size_t>(got)) return std::nullopt;
    return connected;
}

}  // namespace callgate::jobs
