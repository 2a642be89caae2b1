#include "relay/connection.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "relay/client_hello.hpp"

namespace callgate::relay {

namespace {

constexpr std::size_t most_at_once =
    1024 * 1024;  // bytes that a connection copies before others have their turn

struct Peeked {
    std::string_view bytes;
    bool ended = false, broken = false;
};

/// Looks at what has come, without taking it. A socket that still connects has nothing yet.
Peeked peek(int socket, std::vector<char>& buffer, std::size_t most) {
    const ssize_t got = ::recv(socket, buffer.data(), std::min(most, buffer.size()), MSG_PEEK | MSG_DONTWAIT);
    if (got > 0) return {{buffer.data(), static_cast<std::size_t>(got)}, false, false};
    if (got == 0) return {{}, true, false};
    return {{}, false, errno != EAGAIN && errno != EINTR};
}

/// Whether the peer has sent its last byte, although bytes still wait to be taken.
bool sent_its_last(int socket) {
    tcp_info info{};
    socklen_t size = sizeof info;
    return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           info.tcpi_state == TCP_CLOSE_WAIT;
}

/// Takes exactly these bytes, which were peeked at.
void take(int socket, std::vector<char>& buffer, std::size_t size, std::string& into) {
    while (size > 0) {
        const ssize_t got = ::recv(socket, buffer.data(), std::min(size, buffer.size()), MSG_DONTWAIT);
        if (got <= 0) return;
        into.append(buffer.data(), static_cast<std::size_t>(got));
        size -= static_cast<std::size_t>(got);
    }
}

}  // namespace

Connection::Connection(std::uint64_t id, std::vector<std::string> names, UniqueFd client, UniqueFd upstream)
    : names_(std::move(names)), client_(std::move(client)), upstream_(std::move(upstream)) {
    judged_.id = id;
    const int on = 1;
    for (const UniqueFd* const socket : {&client_, &upstream_})
        static_cast<void>(::setsockopt(socket->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

Connection::Progress Connection::advance(std::vector<char>& buffer) {
    more_ = false;
    switch (phase_) {
        case Phase::first_hello:
            return read_first_hello(buffer);
        case Phase::first_answer:
        case Phase::second_hello:
            return watch_beginning(buffer);
        case Phase::open:
            return copy(buffer);
        case Phase::refused:
            break;
    }
    return Progress::over;
}

const Judged* Connection::take_judged() {
    if (!judged_known_ || judged_taken_) return nullptr;
    judged_taken_ = true;
    return &judged_;
}

bool Connection::allowed(std::string_view name) const {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
}

/// Returns what becomes of a beginning with this whole hello.
Beginning Connection::judge(const ClientHello& hello) const {
    switch (hello.state) {
        case ClientHello::State::unnamed:
            return Beginning::no_name;
        case ClientHello::State::hidden:
            return Beginning::hidden_name;
        case ClientHello::State::named:
            return allowed(hello.name) ? Beginning::accepted : Beginning::other_name;
        case ClientHello::State::incomplete:
        case ClientHello::State::foreign:
            break;
    }
    return Beginning::not_tls;
}

void Connection::settle(Beginning beginning, std::string_view name) {
    if (judged_known_) return;
    judged_known_ = true;
    judged_.beginning = beginning;
    name.copy(judged_.name.data(), judged_.name.size() - 1);
}

Connection::Progress Connection::read_first_hello(std::vector<char>& buffer) {
    const Peeked server = peek(upstream_.get(), buffer, 1);
    if (server.broken) return break_off();
    if (!server.bytes.empty()) return refuse(Beginning::server_first, {});
    const Peeked client = peek(client_.get(), buffer, longest_hello);
    if (client.broken) return break_off();
    if (server.ended || client.ended) {
        settle(Beginning::abandoned, {});
        return Progress::over;
    }
    const ClientHello hello = read_client_hello(client.bytes);
    if (hello.state == ClientHello::State::incomplete) {
        if (client.bytes.empty() || !sent_its_last(client_.get())) return Progress::waits;
        return refuse(Beginning::not_tls, {});
    }
    const Beginning beginning = judge(hello);
    if (beginning != Beginning::accepted) return refuse(beginning, hello.name);
    take(client_.get(), buffer, hello.length, up_.waiting);
    phase_ = Phase::first_answer;
    return watch_beginning(buffer);
}

Connection::Progress Connection::watch_beginning(std::vector<char>& buffer) {
    if (!flush(upstream_.get(), up_)) return break_off();
    if (phase_ == Phase::first_answer && !watch_answer(buffer)) return break_off();
    if (phase_ == Phase::open) return copy(buffer);
    if (!pass_records(buffer)) return phase_ == Phase::refused ? Progress::over : break_off();
    if (phase_ == Phase::open) return copy(buffer);
    if (phase_ == Phase::second_hello && !pump(upstream_.get(), client_.get(), down_, buffer, most_at_once))
        return break_off();
    // A server that ends here takes no second hello.
    if (down_.closed) return refuse(Beginning::abandoned, {});
    return more_ ? Progress::more : Progress::waits;
}

/// Whether the server asks for a second hello. Its bytes stay where they are until that is known.
bool Connection::watch_answer(std::vector<char>& buffer) {
    const Peeked server = peek(upstream_.get(), buffer, longest_hello);
    if (server.broken) return false;
    FirstAnswer answer = read_first_answer(server.bytes);
    if (answer == FirstAnswer::incomplete &&
        (server.ended || (!server.bytes.empty() && sent_its_last(upstream_.get()))))
        answer = FirstAnswer::other;
    if (answer == FirstAnswer::retry) phase_ = Phase::second_hello;
    if (answer == FirstAnswer::other) open();
    return true;
}

/// No further hello is looked for.
void Connection::open() {
    settle(Beginning::accepted, {});
    phase_ = Phase::open;
}

/// Passes leading records of the client's that cannot be a hello. Early data is such (RFC 8446, 4.2.10).
bool Connection::pass_records(std::vector<char>& buffer) {
    while (up_.waiting.empty() && !up_.ended) {
        const Peeked client = peek(client_.get(), buffer, longest_hello);
        if (client.broken) return false;
        if (client.ended) {
            up_.ended = true;
            return flush(upstream_.get(), up_);
        }
        const bool hello =
            !client.bytes.empty() && static_cast<std::uint8_t>(client.bytes[0]) == Record::handshake;
        if (hello) return phase_ != Phase::second_hello || judge_second_hello(client.bytes);
        const Record record = read_record(client.bytes);
        if (record.length == 0) return client.bytes.size() < Record::header;
        if (client.bytes.size() < record.length) return true;
        take(client_.get(), buffer, record.length, up_.waiting);
        if (!flush(upstream_.get(), up_)) return false;
    }
    return true;
}

bool Connection::judge_second_hello(std::string_view records) {
    const ClientHello hello = read_client_hello(records);
    if (hello.state == ClientHello::State::incomplete) return true;
    const Beginning beginning = judge(hello);
    if (beginning != Beginning::accepted) {
        static_cast<void>(refuse(beginning, hello.name));
        return false;
    }
    open();
    return true;
}

Connection::Progress Connection::copy(std::vector<char>& buffer) {
    if (!pump(client_.get(), upstream_.get(), up_, buffer, most_at_once) ||
        !pump(upstream_.get(), client_.get(), down_, buffer, most_at_once))
        return break_off();
    if (up_.closed && down_.closed) return Progress::over;
    return more_ ? Progress::more : Progress::waits;
}

bool Connection::flush(int to, Flow& flow) {
    while (!flow.waiting.empty()) {
        const ssize_t sent =
            ::send(to, flow.waiting.data(), flow.waiting.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return errno == EAGAIN;
        flow.waiting.erase(0, static_cast<std::size_t>(sent));
    }
    if (flow.ended && !flow.closed) {
        flow.closed = true;
        static_cast<void>(::shutdown(to, SHUT_WR));
    }
    return true;
}

bool Connection::pump(int from, int to, Flow& flow, std::vector<char>& buffer, std::size_t most) {
    if (!flush(to, flow)) return false;
    std::size_t total = 0;
    while (flow.waiting.empty() && !flow.ended) {
        if (total >= most) {
            more_ = true;
            return true;
        }
        const ssize_t got = ::recv(from, buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno == EAGAIN;
        const auto size = static_cast<std::size_t>(got);
        total += size;
        flow.ended = size == 0;
        const ssize_t sent = size == 0 ? 0 : ::send(to, buffer.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
        flow.waiting.assign(buffer.data() + std::max<ssize_t>(sent, 0),
                            size - static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
        if (!flush(to, flow)) return false;
    }
    return true;
}

Connection::Progress Connection::refuse(Beginning beginning, std::string_view name) {
    settle(beginning, name);
    phase_ = Phase::refused;
    return Progress::over;
}

/// Tells a TLS client by an alert. What it has sent is taken first: closing a socket with unread bytes would
/// reset the connection, and the alert would be lost.
void Connection::tell_refused() {
    static constexpr std::string_view access_denied("\x15\x03\x03\x00\x02\x02\x31", 7);
    if (phase_ != Phase::refused) return;
    std::vector<char> unread(longest_hello);
    static_cast<void>(::recv(client_.get(), unread.data(), unread.size(), MSG_DONTWAIT));
    if (judged_.beginning != Beginning::not_tls && judged_.beginning != Beginning::server_first)
        static_cast<void>(
            ::send(client_.get(), access_denied.data(), access_denied.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

/// Both peers see a reset, as the one of them would natively.
Connection::Progress Connection::break_off() {
    settle(Beginning::abandoned, {});
    const linger reset{1, 0};
    for (const UniqueFd* const socket : {&client_, &upstream_})
        static_cast<void>(::setsockopt(socket->get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset));
    return Progress::over;
}

}  // namespace callgate::relay
