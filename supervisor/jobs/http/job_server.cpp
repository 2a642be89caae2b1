#include "supervisor/jobs/http/front_process.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

namespace callgate::jobs::http {

void Front::advance_server(std::uint32_t kinds) {
    if ((kinds & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_server();
}

void Front::read_server() {
    std::array<char, max_piece> bytes;
    for (int round = 0; round < 64 && answers_ < max_answers; ++round) {
        const ssize_t got = ::recv(jobs_descriptor, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) return server_gone();
        std::string_view arrived(bytes.data(), static_cast<std::size_t>(got));
        for (std::size_t end = 0; (end = arrived.find('\n')) != std::string_view::npos;
             arrived.remove_prefix(end + 1)) {
            line_ += arrived.substr(0, end);
            take_line(std::exchange(line_, {}));
        }
        line_ += arrived;
    }
}

void Front::watch_server() {
    if (server_ended_) return;
    static_cast<void>(to_server_.send(jobs_descriptor));  // its end is seen by reading
    const std::uint32_t wanted = (answers_ < max_answers ? std::uint32_t{EPOLLIN} : 0U) |
                                 (to_server_.size() == 0 ? 0U : std::uint32_t{EPOLLOUT});
    if (wanted != std::exchange(server_watched_, wanted))
        watch(EPOLL_CTL_MOD, jobs_descriptor, jobs_event, wanted);
}

void Front::finish_drain() {
    if (!draining_ || server_ended_ || input_ended_ || !in_flight_.empty() || to_server_.size() > 0) return;
    input_ended_ = true;
    ::shutdown(jobs_descriptor, SHUT_WR);
}

void Front::server_gone() {
    server_ended_ = true;
    answers_until_ = now_ + last_time;
    watch(EPOLL_CTL_DEL, jobs_descriptor, 0, 0);
    watch(EPOLL_CTL_DEL, listener_descriptor, 0, 0);
    if (settings_.tls)
        ::shutdown(listener_descriptor, SHUT_RD);  // so that callgate-tls waits for no room there
    draining_ = true;
    in_flight_.clear();
    std::vector<std::shared_ptr<Connection>> waiting;
    for (const auto& [number, one] : connections_)
        if (one->phase == Phase::busy) waiting.push_back(one);
    for (const auto& client : waiting) {
        if (!client->streams) refuse(*client, {502, "the job server has ended; the job may have run"});
        advance(*client);
    }
}

}  // namespace callgate::jobs::http
