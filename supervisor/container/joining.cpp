#include "supervisor/container/joining.hpp"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <thread>
#include <vector>

#include "base/descriptor_message.hpp"
#include "base/directory.hpp"
#include "base/result.hpp"
#include "base/sha256.hpp"
#include "base/test_switch.hpp"

namespace callgate::container {

namespace {

struct Added {
    std::array<char, 64> digest{};  // of id, rules and profile
    pid_t first = 0;                // 0: the runtime did not say
};

enum class Reply : char { taken = 't', another = 'a', traced = 'p' };

Added description(const ProcessState& state) {
    Added added;
    const std::string digest = sha256_hex(state.id + '\0' + state.rules + '\0' + state.metadata);
    std::copy_n(digest.begin(), added.digest.size(), added.digest.begin());
    added.first = state.first;
    return added;
}

std::string begin_of_name(const std::string& id) { return sha256_hex(id).substr(0, 16) + '-'; }

/// The names in `directory` that begin so.
std::vector<std::string> names_in(const std::string& directory, const std::string& begin) {
    std::vector<std::string> names;
    const Directory entries(::opendir(directory.c_str()));
    while (const dirent* const entry = entries ? ::readdir(entries.get()) : nullptr)
        if (std::string name = entry->d_name; name.front() != '.' && name.starts_with(begin))
            names.push_back(std::move(name));
    return names;
}

/// Connects to the supervisor at this path; an errno if that fails.
Result<UniqueFd> connect_to(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return errno_code(ENAMETOOLONG);
    path.copy(address.sun_path, path.size());
    UniqueFd connection(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!connection ||
        ::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return errno_code();
    return connection;
}

/// The reply is absent if no supervisor answers at this path.
std::optional<Reply> offer(const std::string& path, const ProcessState& added) {
    const auto connection = connect_to(path);
    if (!connection) return std::nullopt;
    DescriptorMessage<Added, 1> message;
    message.content = description(added);
    const int listener = added.listener.get();
    message.attach({&listener, 1});
    Reply reply{};
    if (::sendmsg(connection->get(), &message.header, MSG_NOSIGNAL) != sizeof(Added) ||
        ::recv(connection->get(), &reply, 1, 0) != 1)
        return std::nullopt;
    return reply;
}

Reply judge(const Added& added, const ProcessState& container, bool may_trace) {
    Added own = description(container);
    const bool same = added.digest == own.digest && (added.first == 0 || added.first == own.first);
    if (!same && check_enabled("container-joins-own")) return Reply::another;
    return may_trace && check_enabled("container-joins-traced") ? Reply::traced : Reply::taken;
}

}  // namespace

std::string meeting_name(const ProcessState& first) {
    return begin_of_name(first.id) + std::to_string(first.first);
}

void remove_dead_names(const std::string& directory) {
    for (const std::string& name : names_in(directory, ""))
        if (const auto answers = connect_to(directory + '/' + name);
            !answers && answers.error().value() == ECONNREFUSED)
            ::unlink((directory + '/' + name).c_str());
}

Expected<void> hand_to_supervisor(const std::string& directory, const ProcessState& added,
                                  std::chrono::milliseconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    const std::string begin = begin_of_name(added.id) + (added.first == 0 ? "" : std::to_string(added.first));
    for (;;) {
        for (const std::string& name : names_in(directory, begin)) {
            const std::optional<Reply> reply = offer(directory + '/' + name, added);
            if (reply == Reply::taken) return {};
            if (reply == Reply::traced)
                return Problem{
                    "a process was added, and its programs have CAP_SYS_PTRACE: they could trace the "
                    "runtime"};
            if (reply)
                return Problem{"a process was added whose rules or seccomp profile are not the container's"};
        }
        if (std::chrono::steady_clock::now() > end)
            return Problem{"a process was added, and the container has no supervisor"};
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

UniqueFd take_added(const UniqueFd& meeting, const ProcessState& container, bool may_trace) {
    const UniqueFd connection(::accept4(meeting.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection) return {};
    const timeval patience{1, 0};  // it sends as soon as it is there, or has been killed
    ::setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    DescriptorMessage<Added, 1> message;
    const ssize_t got = ::recvmsg(connection.get(), &message.header, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    std::array<int, 1> numbers{-1};
    UniqueFd listener(got >= 0 && message.take(numbers) == 1 ? numbers[0] : -1);
    if (got != sizeof(Added) || !listener) return {};
    const Reply reply = judge(message.content, container, may_trace);
    static_cast<void>(::send(connection.get(), &reply, 1, MSG_NOSIGNAL));
    return reply == Reply::taken ? std::move(listener) : UniqueFd();
}

}  // namespace callgate::container
