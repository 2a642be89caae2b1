#include "supervisor/container/process_state.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/descriptor_message.hpp"
#include "base/json_read.hpp"
#include "base/test_switch.hpp"

namespace callgate::container {

namespace {

using json_read::member;
using nlohmann::json;

constexpr std::size_t max_state = 1 << 18, max_descriptors = 8, max_name = 100;
constexpr std::string_view annotation = "callgate.rules";

struct Message {
    json state;
    std::vector<UniqueFd> descriptors;
};

/// The object that `text` is; nothing if it is none, or not whole yet.
std::optional<json> parsed(const std::string& text) {
    constexpr int max_depth = 32;
    const auto shallow = [](int depth, json::parse_event_t, json&) {
        if (depth > max_depth) throw std::length_error("too deep");
        return true;
    };
    try {
        json value = json::parse(text, shallow, true);
        if (value.is_object()) return value;
    } catch (const std::exception&) {
    }
    return std::nullopt;
}

/// The runtime sends one JSON object. runc leaves the connection open behind it.
Expected<Message> receive(int connection, std::chrono::milliseconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    Message message;
    std::string text;
    for (;;) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        pollfd entry{connection, POLLIN, 0};
        if (left.count() <= 0 || ::poll(&entry, 1, static_cast<int>(left.count())) == 0)
            return Problem{"the message did not end in time"};
        DescriptorMessage<std::array<char, 65536>, max_descriptors> part;
        const ssize_t got = ::recvmsg(connection, &part.header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got < 0) return Problem{std::string("the message cannot be read: ") + std::strerror(errno)};
        std::array<int, max_descriptors> here{};
        // More descriptors than there is room for are lost.
        const std::size_t came = part.take(here);
        for (std::size_t index = 0; index < came; ++index) message.descriptors.emplace_back(here[index]);
        if (message.descriptors.size() > max_descriptors)
            return Problem{"the message has too many descriptors"};
        if (got == 0) return Problem{"the message is no whole JSON object"};
        text.append(part.content.data(), static_cast<std::size_t>(got));
        if (text.size() > max_state) return Problem{"the message is too long"};
        if (auto state = parsed(text)) {
            message.state = std::move(*state);
            return message;
        }
    }
}

pid_t process_number(const json& value) {
    const std::uint64_t number = json_read::number(value);
    return number > 1 && number <= INT_MAX ? static_cast<pid_t>(number) : 0;
}

bool is_listener(int fd) {
    char target[64] = {};
    const ssize_t length =
        ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target, sizeof target - 1);
    return length > 0 && std::string_view(target) == "anon_inode:seccomp notify";
}

/// The descriptors have names in the state, in their order.
UniqueFd listener_of(const json& state, std::vector<UniqueFd> descriptors) {
    const std::vector<std::string> names = json_read::texts(member(state, "fds"));
    for (std::size_t index = 0; index < std::min(names.size(), descriptors.size()); ++index)
        if (names[index] == "seccompFd") return std::move(descriptors[index]);
    return {};
}

}  // namespace

bool is_trusted_peer(int connection) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
    return peer.uid == 0 || peer.uid == ::geteuid() || !check_enabled("container-peer");
}

bool is_plain_name(const std::string& name) {
    const auto plain = [](char one) {
        return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || (one >= '0' && one <= '9') ||
               one == '.' || one == '_' || one == '-';
    };
    return !name.empty() && name.size() <= max_name && name.front() != '.' &&
           std::ranges::all_of(name, plain);
}

Expected<ProcessState> receive_process_state(int connection, std::chrono::milliseconds patience) {
    auto message = receive(connection, patience);
    if (!message) return message.error();
    const json& state = message->state;
    ProcessState found;
    const json& container = member(state, "state");
    found.id = json_read::text(member(container, "id"));
    found.process = process_number(member(state, "pid"));
    found.first = process_number(member(container, "pid"));
    found.metadata = json_read::text(member(state, "metadata"));
    if (const json& all = member(container, "annotations"); all.is_object() && all.contains(annotation))
        found.rules = json_read::text(all.at(std::string(annotation)));
    if (found.id.empty()) return Problem{"the message lacks a container's id"};
    if (found.first == 0) found.first = found.process;
    found.listener = listener_of(state, std::move(message->descriptors));
    if (!found.listener || !is_listener(found.listener.get()))
        return Problem{"container " + found.id + ": the message carries no seccomp listener"};
    return found;
}

}  // namespace callgate::container
