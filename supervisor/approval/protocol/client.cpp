#include "supervisor/approval/protocol/client.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>

#include "base/clock.hpp"
#include "supervisor/approval/protocol/runtime_directory.hpp"

namespace callgate::approval {

Result<Client> Client::open(const std::string& directory, const std::string& run) {
    auto fd = connect_to(directory, run);
    if (!fd) return fd.error();
    const auto token = read_token(directory, run);
    if (!token) return token.error();
    Client client(std::move(*fd), run);
    if (!client.send(auth_line(*token))) return errno_code(ECONNREFUSED);
    return client;
}

bool Client::send(std::string_view text) {
    while (!text.empty()) {
        const ssize_t sent = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

bool Client::receive() {
    std::array<char, 65536> bytes;
    const ssize_t got = ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    input_.append(bytes.data(), static_cast<std::size_t>(got));
    return got > 0;
}

std::optional<FromRun> Client::next() {
    const std::size_t end = input_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    FromRun message = parse_from_run(std::string_view(input_).substr(0, end), monotonic_ns());
    if (message.ask) message.ask->run = run_;
    input_.erase(0, end + 1);
    return message;
}

std::optional<FromRun> Client::wait_for(std::string_view type, int timeout_ms) {
    const std::int64_t end = monotonic_ns() + timeout_ms * std::int64_t{1'000'000};
    for (;;) {
        while (auto message = next())
            if (message->type == type) return message;
        const std::int64_t left = (end - monotonic_ns()) / 1'000'000;
        pollfd waiting{fd_.get(), POLLIN, 0};
        if (left <= 0 || ::poll(&waiting, 1, static_cast<int>(left)) <= 0 || !receive()) return std::nullopt;
    }
}

}  // namespace callgate::approval
