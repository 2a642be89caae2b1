#include "supervisor/jobs/job_message.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <tuple>

#include "base/descriptor_message.hpp"
#include "base/number.hpp"
#include "base/process/spawn.hpp"

namespace callgate::jobs {

namespace {

constexpr std::size_t max_descriptors = 8;

/// The first part of the message: for each descriptor that it carries, the number in the run.
struct Numbers {
    std::size_t count = 0;
    std::array<int, max_descriptors> in_run{};
};

/// The packed job is the second part.
struct Message : DescriptorMessage<Numbers, max_descriptors> {
    explicit Message(std::span<char> text) : parts{part, {text.data(), text.size()}} {
        header.msg_iov = parts.data();
        header.msg_iovlen = parts.size();
    }
    std::array<iovec, 2> parts;
};

}  // namespace

// A packed job is the number of words, then words and variables, each ended by a NUL.

std::optional<std::string> pack(const JobMessage& job) {
    std::string message = std::to_string(job.words.size()) + '\0';
    for (const std::vector<std::string>* const all : {&job.words, &job.variables}) {
        for (const std::string& one : *all) {
            if (one.find('\0') != std::string::npos || message.size() + one.size() >= max_message)
                return std::nullopt;
            message += one;
            message += '\0';
        }
    }
    return message;
}

std::optional<JobMessage> unpack(std::string_view message) {
    if (message.empty() || message.back() != '\0') return std::nullopt;
    std::vector<std::string> all;
    while (!message.empty()) {
        const std::size_t end = message.find('\0');
        all.emplace_back(message.substr(0, end));
        message.remove_prefix(end + 1);
    }
    const auto count = parse_number<std::size_t>(all.front());
    if (!count || *count >= all.size()) return std::nullopt;
    const auto first = all.begin() + 1, middle = first + static_cast<std::ptrdiff_t>(*count);
    return JobMessage{{std::make_move_iterator(first), std::make_move_iterator(middle)},
                      {std::make_move_iterator(middle), std::make_move_iterator(all.end())}};
}

Result<void> send_job(int socket, const std::string& packed,
                      std::span<const std::pair<int, int>> descriptors) {
    if (descriptors.empty() || descriptors.size() > max_descriptors) return errno_code(EINVAL);
    std::string text = packed;
    Message message(text);
    std::array<int, max_descriptors> here{};
    for (std::size_t at = 0; at < descriptors.size(); ++at)
        std::tie(here[at], message.content.in_run[at]) = descriptors[at];
    message.content.count = descriptors.size();
    message.attach({here.data(), descriptors.size()});
    if (::sendmsg(socket, &message.header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return errno_code();
    return {};
}

Result<ReceivedJob> receive_job(int socket) {
    std::string text(max_message, '\0');  // its pages are touched before they are needed
    Message message(text);
    ssize_t got = -1;
    while ((got = ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
    }
    if (got < 0) return errno_code();
    if (got == 0) return errno_code(ECONNRESET);
    std::array<int, max_descriptors> here{};
    ReceivedJob received;
    received.connected.resize(message.take(here));
    bool all_moved = true;
    for (std::size_t at = 0; at < received.connected.size(); ++at) {
        const UniqueFd low(here[at]);
        auto& [descriptor, number] = received.connected[at];
        descriptor.reset(::fcntl(low.get(), F_DUPFD_CLOEXEC, first_descriptor));
        number = message.content.in_run[at];
        all_moved = all_moved && descriptor;
    }
    const auto size = static_cast<std::size_t>(got);
    if (size < sizeof(Numbers) || (message.header.msg_flags & MSG_TRUNC) != 0) return errno_code(EBADMSG);
    if (!all_moved || received.connected.size() != message.content.count) return errno_code(EMFILE);
    auto job = unpack({text.data(), size - sizeof(Numbers)});
    if (!job) return errno_code(EBADMSG);
    received.job = std::move(*job);
    return received;
}

}  // namespace callgate::jobs
