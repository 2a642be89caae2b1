#include "tls/terminator.hpp"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "tls/protocol.hpp"

namespace callgate::tls {

namespace {

constexpr std::size_t max_handshakes = 1000, max_leaving = 1000;
constexpr int pair_buffer = 32768;  // the kernel keeps twice as much
constexpr std::chrono::seconds leave_time{30}, end_time{2};
constexpr int max_accepted = 16;  // before others have their turn

// A client, whose number is at least 1, has two descriptors. The lowest bit of its events says which.
constexpr std::uint64_t control_event = 0, listener_event = 1;
constexpr std::uint64_t socket_event(std::uint64_t number) { return 2 * number; }
constexpr std::uint64_t front_event(std::uint64_t number) { return 2 * number + 1; }

}  // namespace

bool Terminator::prepare() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 2 * max_connections + kept_descriptors);
    const int few = 1;  // the kernel's least: the front has not many connections waiting for it
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    return epoll_ && ::setrlimit(RLIMIT_NOFILE, &limit) == 0 &&
           ::setsockopt(control_descriptor, SOL_SOCKET, SO_SNDBUF, &few, sizeof few) == 0 &&
           watch(EPOLL_CTL_ADD, control_descriptor, control_event, EPOLLIN);
}

void Terminator::serve() {
    while (!ending_ || !clients_.empty()) {
        std::array<epoll_event, 256> events;
        const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                       leaving_.empty() && !paused_ ? -1 : 1000);
        if (count < 0 && errno != EINTR) return;
        resume();
        for (int index = 0; index < count; ++index)
            handle(events[static_cast<std::size_t>(index)].data.u64,
                   events[static_cast<std::size_t>(index)].events);
        drop_late();
    }
}

bool Terminator::watch(int operation, int descriptor, std::uint64_t event, std::uint32_t kinds) const {
    epoll_event wanted{};
    wanted.events = kinds;
    wanted.data.u64 = event;
    return ::epoll_ctl(epoll_.get(), operation, descriptor, &wanted) == 0;
}

void Terminator::handle(std::uint64_t event, std::uint32_t kinds) {
    if (event == control_event) return read_control();
    if (event == listener_event) return accept_some();
    const std::uint64_t number = event / 2;
    const auto found = clients_.find(number);
    if (found == clients_.end()) return;  // dropped by an earlier event of the same turn
    Client& client = *found->second;
    const bool of_front = event == front_event(number);
    if (!of_front && (kinds & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) != 0) return drop(number);
    if (of_front && (kinds & (EPOLLERR | EPOLLHUP)) != 0 && !client.leaving()) {
        if (client.handshaking()) return drop(number);
        client.front_closed(buffer_);
        if (leaving_.size() >= max_leaving) drop(leaving_.front().number);
        leaving_.push_back({number, Clock::now() + (ending_ ? end_time : leave_time)});
    }
    advance(number, client);
}

void Terminator::advance(std::uint64_t number, Client& client) {
    if (!client.advance(buffer_)) return drop(number);
    if (!client.handshaking()) shaking_.erase(number);
    watch_sides(number, client);
}

void Terminator::watch_sides(std::uint64_t number, Client& client) const {
    const std::uint32_t socket = client.socket_events(), front = client.front_events();
    if (socket != std::exchange(client.socket_watched, socket))
        watch(EPOLL_CTL_MOD, client.socket(), socket_event(number), socket);
    if (!client.leaving() && front != std::exchange(client.front_watched, front))
        watch(EPOLL_CTL_MOD, client.front(), front_event(number), front);
}

void Terminator::read_control() {
    UniqueFd come = receive_descriptor(control_descriptor);
    if (come && !listener_) {
        listener_ = std::move(come);
        paused_ = true;  // so that it is watched from now on
        watch(EPOLL_CTL_ADD, listener_.get(), listener_event, 0);
        return resume();
    }
    if (errno == EAGAIN) return;
    ending_ = true;
    stop_listening();
    watch(EPOLL_CTL_DEL, control_descriptor, 0, 0);
    for (Leaving& one : leaving_) one.until = std::min(one.until, Clock::now() + end_time);
}

void Terminator::accept_some() {
    for (int count = 0; count < max_accepted && listener_; ++count) {
        UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket && (errno == EINTR || errno == ECONNABORTED)) continue;
        if (!socket) return errno == EAGAIN ? void() : pause();
        std::array<int, 2> pair{};
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()) != 0)
            return pause();
        UniqueFd ours(pair[0]);
        const UniqueFd theirs(pair[1]);
        for (const int end : pair)
            static_cast<void>(::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &pair_buffer, sizeof pair_buffer));
        if (!send_descriptor(control_descriptor, theirs.get())) {
            if (errno == EPIPE) return stop_listening();
            continue;  // it is closed
        }
        begin(std::move(socket), std::move(ours));
    }
}

void Terminator::pause() {
    if (!leaving_.empty()) return drop(leaving_.front().number);
    paused_ = watch(EPOLL_CTL_MOD, listener_.get(), listener_event, 0);
}

void Terminator::resume() {
    if (std::exchange(paused_, false) && listener_)
        watch(EPOLL_CTL_MOD, listener_.get(), listener_event, EPOLLIN);
}

/// The service has the listener, too, so it stays in the set until it is taken out.
void Terminator::stop_listening() {
    if (listener_) watch(EPOLL_CTL_DEL, listener_.get(), 0, 0);
    listener_.reset();
}

void Terminator::begin(UniqueFd socket, UniqueFd front) {
    Session session(::SSL_new(context_.get()));
    if (!session) return;
    if (shaking_.size() >= max_handshakes) drop(*shaking_.begin());
    const std::uint64_t number = next_++;
    auto client = std::make_unique<Client>(std::move(socket), std::move(front), std::move(session));
    if (!watch(EPOLL_CTL_ADD, client->socket(), socket_event(number), EPOLLIN) ||
        !watch(EPOLL_CTL_ADD, client->front(), front_event(number), 0))
        return;
    client->socket_watched = EPOLLIN;
    clients_.emplace(number, std::move(client));
    shaking_.insert(number);
}

void Terminator::drop(std::uint64_t number) {
    shaking_.erase(number);
    std::erase_if(leaving_, [number](const Leaving& one) { return one.number == number; });
    clients_.erase(number);
}

void Terminator::drop_late() {
    while (!leaving_.empty() && leaving_.front().until <= Clock::now()) drop(leaving_.front().number);
}

}  // namespace callgate::tls
