#include "supervisor/jobs/run_request.hpp"

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <tuple>

namespace callgate::jobs {

namespace {

constexpr std::size_t most = 8;

struct Message {
    Message() {
        part.iov_base = numbers.data();
        part.iov_len = sizeof numbers;
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        header.msg_control = room;
        header.msg_controllen = sizeof room;
    }
    Message(const Message&) = delete;
    Message& operator=(const Message&) = delete;

    std::array<int, most> numbers{};
    iovec part{};
    alignas(cmsghdr) char room[CMSG_SPACE(most * sizeof(int))] = {};
    msghdr header{};
};

}  // namespace

bool send_run_request(int socket, std::span<const std::pair<int, int>> descriptors) {
    if (descriptors.empty() || descriptors.size() > most) return false;
    Message message;
    std::array<int, most> here{};
    for (std::size_t at = 0; at < descriptors.size(); ++at)
        std::tie(here[at], message.numbers[at]) = descriptors[at];
    const std::size_t bytes = descriptors.size() * sizeof(int);
    message.part.iov_len = bytes;
    message.header.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* const note = CMSG_FIRSTHDR(&message.header);
    note->cmsg_level = SOL_SOCKET;
    note->cmsg_type = SCM_RIGHTS;
    note->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(note), here.data(), bytes);
    return ::sendmsg(socket, &message.header, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

std::optional<Connected> receive_run_request(int socket) {
    Message message;
    const ssize_t got = ::recvmsg(socket, &message.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const cmsghdr* const note = got > 0 ? CMSG_FIRSTHDR(&message.header) : nullptr;
    if (note == nullptr || note->cmsg_type != SCM_RIGHTS) return std::nullopt;
    Connected connected((note->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (std::size_t at = 0; at < connected.size(); ++at) {
        int here = -1;
        std::memcpy(&here, CMSG_DATA(note) + at * sizeof here, sizeof here);
        connected[at] = {UniqueFd(here), message.numbers.at(at)};
    }
    // Fewer than were sent: this process may not open so many.
    if (connected.size() * sizeof(int) != static_cast<std::size_t>(got)) return std::nullopt;
    return connected;
}

}  // namespace callgate::jobs
