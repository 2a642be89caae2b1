#include "supervisor/jobs/http/front_process.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "tls/protocol.hpp"

namespace callgate::jobs::http {

namespace {
/// The output of a job is not read while so much of it waits for its client.
constexpr std::size_t max_streamed = std::size_t{1} << 20U;
}  // namespace

void Front::accept_all() {
    for (;;) {
        UniqueFd socket = next_client();
        if (!socket && (errno == EINTR || errno == ECONNABORTED)) continue;
        if (!socket) return;
        if (connections_.size() >= max_ && !make_room()) continue;  // it is closed
        auto one = std::make_shared<Connection>();
        one->number = next_connection_++;
        one->deadline = now_ + head_time;
        one->watched = EPOLLIN;
        one->socket = std::move(socket);
        if (!watch(EPOLL_CTL_ADD, one->socket.get(), one->number, one->watched)) continue;
        connections_.emplace(one->number, std::move(one));
    }
}

UniqueFd Front::next_client() {
    if (!settings_.tls)
        return UniqueFd(::accept4(listener_descriptor, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    UniqueFd handed_over = tls::receive_descriptor(listener_descriptor);
    tls_ended_ = !handed_over && errno == EPIPE && !server_ended_;
    return handed_over;
}

bool Front::make_room() {
    std::shared_ptr<Connection> first;
    for (const auto& [number, one] : connections_)
        if ((one->phase == Phase::head || one->phase == Phase::last) &&
            (!first || one->deadline < first->deadline))
            first = one;
    if (first) drop(*first);
    return first != nullptr;
}

void Front::drop(Connection& one) {
    if (!connections_.contains(one.number)) return;
    hold(one, false);
    if (const auto job = in_flight_.find(one.job); one.phase == Phase::busy && job != in_flight_.end()) {
        job->second.connection = 0;
        ++counts_.cancelled;
        to_server_.add("{\"cancel\":" + std::to_string(one.job) + "}\n");
    } else if (one.phase == Phase::busy) {
        interrupt_cells(one.number);
    }
    release_body(one);
    answers_ -= one.out.size();
    one.socket.reset();
    connections_.erase(one.number);
}

void Front::release_body(Connection& one) {
    bodies_ -= std::exchange(one.held, 0);
    one.body.reset();
}

void Front::end_late() {
    if (now_ < next_look_) return;
    next_look_ = now_ + std::chrono::milliseconds(500);
    end_slow_readers();
    std::vector<std::shared_ptr<Connection>> late;
    for (const auto& [number, one] : connections_)
        if (one->deadline <= now_) late.push_back(one);
    for (const auto& one : late) {
        const bool reading = (one->phase == Phase::head && !one->in.empty()) || one->phase == Phase::body;
        if (!reading || one->out.size() > 0) {
            drop(*one);
            continue;
        }
        refuse(*one, {408, "the request did not come in time"});
        advance(*one);
    }
}

void Front::end_slow_readers() {
    while (answers_ >= max_answers) {
        std::shared_ptr<Connection> slowest;
        for (const auto& [number, one] : connections_)
            if (one->behind <= now_ - behind_time && (!slowest || one->behind < slowest->behind))
                slowest = one;
        if (!slowest) return;
        drop(*slowest);
    }
}

bool Front::receive(Connection& one) {
    std::array<char, max_piece> bytes;
    for (int round = 0; round < 16 && one.wants_bytes(); ++round) {
        const ssize_t got = ::recv(one.socket.get(), bytes.data(), bytes.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
        one.hung_up = got == 0;
        if (one.phase == Phase::last) continue;  // read, so that the last answer is not lost by a reset
        if (one.in.empty() && one.phase == Phase::head) one.deadline = now_ + head_time;
        one.in.append(bytes.data(), static_cast<std::size_t>(got));
        take(one);
    }
    return true;
}

void Front::take(Connection& one) {
    for (bool goes_on = true; goes_on && !one.in.empty();) {
        if (one.done || one.out.size() >= max_unread) return;
        goes_on = one.phase == Phase::head ? take_head(one) : one.phase == Phase::body && take_body(one);
    }
}

bool Front::take_head(Connection& one) {
    const std::size_t end = one.in.find("\r\n\r\n");
    if (end == std::string::npos || end + 4 > max_head) {
        if (one.in.size() >= max_head || end != std::string::npos)
            return refuse(one, {431, "the head is longer than 16 KiB"});
        if (no_head(one.in))
            return refuse(one, {400,
                                "the request holds a line that does not end with CR LF, or a byte "
                                "that is not printable"});
        return false;
    }
    auto head = parse_head(std::string_view(one.in).substr(0, end + 4));
    one.in.erase(0, end + 4);
    if (auto* const refused = std::get_if<Refused>(&head)) return refuse(one, *refused);
    one.head = std::get<Head>(std::move(head));
    one.closes = one.closes || draining_;
    if (const auto refused = route(one)) return refuse(one, *refused);
    return true;
}

bool Front::take_body(Connection& one) {
    const std::size_t before = one.body->bytes().size();
    one.in.erase(0, one.body->take(one.in));
    const std::size_t more = one.body->bytes().size() - before;
    bodies_ += more;
    one.held += more;
    if (one.body->refused()) return refuse(one, *one.body->refused());
    while (held_bodies() > max_bodies)
        if (!end_oldest_body(one)) return false;
    if (one.body->whole()) start_job(one);
    return one.phase == Phase::head;
}

bool Front::end_oldest_body(Connection& reading) {
    std::shared_ptr<Connection> oldest;
    for (const auto& [number, one] : connections_)
        if (one->held > 0 &&
            (!oldest || std::pair(one->deadline, number) < std::pair(oldest->deadline, oldest->number)))
            oldest = one;
    const Refused why{503, "too many bodies are being read"};
    if (!oldest || oldest->number == reading.number) return refuse(reading, why);
    refuse(*oldest, why);
    advance(*oldest);
    return true;
}

std::size_t Front::held_bodies() const { return bodies_ + to_server_.size(); }

void Front::put(Connection& one, std::string_view text) {
    one.out.add(text);
    answers_ += text.size();
    if (one.out.size() >= max_streamed) hold(one, true);
}

void Front::hold(Connection& one, bool on) {
    const auto job = in_flight_.find(one.streamed);
    if (job == in_flight_.end() || one.holds == on) return;
    one.holds = on;
    int& holders = job->second.holders;
    holders += on ? 1 : -1;
    if (holders == (on ? 1 : 0))
        to_server_.add("{\"pause\":" + std::to_string(one.streamed) + (on ? ",\"on\":true}\n" : "}\n"));
}

void Front::advance(Connection& one) {
    if (!connections_.contains(one.number)) return;
    for (bool goes_on = true; goes_on;) {
        const std::size_t unsent = one.out.size(), before = one.in.size();
        const bool good = one.write(now_);
        answers_ -= unsent - one.out.size();
        if (!good) return drop(one);
        if (one.out.size() < max_unread) hold(one, false);
        if (one.out.size() == 0) take(one);
        goes_on = one.in.size() != before;
    }
    if (one.out.size() == 0 && one.hung_up) return drop(one);
    if (one.out.size() == 0 && one.done && one.phase == Phase::head) {
        ::shutdown(one.socket.get(), SHUT_WR);
        one.phase = Phase::last;
        one.in.clear();
        one.deadline = now_ + last_time;
    }
    const std::uint32_t wanted = (one.wants_bytes() ? std::uint32_t{EPOLLIN} : 0U) |
                                 (one.out.size() > 0 ? std::uint32_t{EPOLLOUT} : 0U) |
                                 (one.phase == Phase::busy ? std::uint32_t{EPOLLRDHUP} : 0U);
    if (wanted != std::exchange(one.watched, wanted))
        watch(EPOLL_CTL_MOD, one.socket.get(), one.number, wanted);
}

}  // namespace callgate::jobs::http
