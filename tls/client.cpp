#include "tls/client.hpp"

#include <openssl/err.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace callgate::tls {

namespace {

/// Records that a connection passes on in each direction before others have their turn.
constexpr int max_rounds = 16;

constexpr std::string_view plain_answer =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 46\r\nConnection: close\r\n\r\n"
    "this address speaks TLS: begin it by https://\n";

bool would_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Client::Client(UniqueFd socket, UniqueFd front, Session session)
    : socket_(std::move(socket)), front_(std::move(front)), session_(std::move(session)) {
    ::SSL_set_fd(session_.get(), socket_.get());
    ::SSL_set_accept_state(session_.get());
}

bool Client::advance(std::span<char> buffer) {
    if (!shaken_)
        if (const Step step = shake_hands(); step != Step::moved) return step == Step::waits;
    for (int round = 0; round < max_rounds; ++round) {
        const Step in = to_front_.empty() ? read_client(buffer) : send_to_front();
        if (in == Step::over) return false;
        const Step out = to_client_.empty() ? read_front(buffer) : send_to_client();
        if (out == Step::over) return false;
        if (in == Step::waits && out == Step::waits) return true;
    }
    return true;
}

Client::Step Client::wait_for(int result, std::uint32_t& wants) {
    switch (::SSL_get_error(session_.get(), result)) {
        case SSL_ERROR_WANT_READ:
            wants = EPOLLIN;
            return Step::waits;
        case SSL_ERROR_WANT_WRITE:
            wants = EPOLLOUT;
            return Step::waits;
        default:
            return Step::over;
    }
}

Client::Step Client::shake_hands() {
    ::ERR_clear_error();
    const int result = ::SSL_accept(session_.get());
    read_wants_ = 0;
    if (result == 1) {
        shaken_ = true;
        return Step::moved;
    }
    const Step step = wait_for(result, read_wants_);
    const unsigned long error = ::ERR_peek_error();
    if (step == Step::over && ERR_GET_LIB(error) == ERR_LIB_SSL &&
        ERR_GET_REASON(error) == SSL_R_HTTP_REQUEST)
        answer_plain_request();
    return step;
}

/// It was not encrypted, so neither is the answer. The rest is read, because unread bytes would reset the
/// connection.
void Client::answer_plain_request() const {
    static_cast<void>(::send(socket_.get(), plain_answer.data(), plain_answer.size(), MSG_NOSIGNAL));
    std::array<char, max_record> rest;
    static_cast<void>(::recv(socket_.get(), rest.data(), rest.size(), MSG_DONTWAIT));
}

Client::Step Client::read_client(std::span<char> buffer) {
    read_wants_ = 0;
    if (client_ended_ || !front_) return Step::waits;
    ::ERR_clear_error();
    const int got = ::SSL_read(session_.get(), buffer.data(), static_cast<int>(buffer.size()));
    if (got > 0) {
        to_front_.assign(buffer.data(), static_cast<std::size_t>(got));
        return send_to_front();
    }
    // A connection that ends without the client's word for it is broken: its request may have been cut off.
    if (::SSL_get_error(session_.get(), got) != SSL_ERROR_ZERO_RETURN) return wait_for(got, read_wants_);
    client_ended_ = true;
    ::shutdown(front_.get(), SHUT_WR);
    return Step::moved;
}

Client::Step Client::send_to_front() {
    const ssize_t sent =
        ::send(front_.get(), to_front_.data(), to_front_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return would_wait() ? Step::waits : Step::over;
    to_front_.erase(0, static_cast<std::size_t>(sent));
    if (to_front_.empty()) to_front_.shrink_to_fit();
    return Step::moved;
}

Client::Step Client::read_front(std::span<char> buffer) {
    if (front_ended_) return say_goodbye();
    const ssize_t got = ::recv(front_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0) return would_wait() ? Step::waits : Step::over;
    front_ended_ = got == 0;
    to_client_.assign(buffer.data(), static_cast<std::size_t>(got));
    return front_ended_ ? Step::moved : send_to_client();
}

Client::Step Client::send_to_client() {
    write_wants_ = 0;
    ::ERR_clear_error();
    const int size = static_cast<int>(std::min(to_client_.size(), max_record));
    const int sent = ::SSL_write(session_.get(), to_client_.data(), size);
    if (sent <= 0) return wait_for(sent, write_wants_);
    to_client_.erase(0, static_cast<std::size_t>(sent));
    if (to_client_.empty()) to_client_.shrink_to_fit();
    return Step::moved;
}

/// After the last byte of the front. The client may still send, until the front closes its end.
Client::Step Client::say_goodbye() {
    if (goodbye_said_) return front_ ? Step::waits : Step::over;
    write_wants_ = 0;
    ::ERR_clear_error();
    if (const int result = ::SSL_shutdown(session_.get()); result < 0) return wait_for(result, write_wants_);
    ::shutdown(socket_.get(), SHUT_WR);
    goodbye_said_ = true;
    return Step::moved;
}

void Client::front_closed(std::span<char> buffer) {
    for (ssize_t got = 0; (got = ::recv(front_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT)) > 0;)
        to_client_.append(buffer.data(), static_cast<std::size_t>(got));
    front_ended_ = true;
    to_front_.clear();
    front_.reset();
}

std::uint32_t Client::socket_events() const {
    if (!shaken_) return read_wants_;
    const bool reads = to_front_.empty() && !client_ended_ && front_;
    const bool writes = !to_client_.empty() || (front_ended_ && !goodbye_said_);
    // A turn may end before the operation has said what it waits for.
    return (reads ? read_wants_ != 0 ? read_wants_ : std::uint32_t{EPOLLIN} : 0U) |
           (writes ? write_wants_ != 0 ? write_wants_ : std::uint32_t{EPOLLOUT} : 0U) |
           // A client that has gone is seen, although what it sent before cannot be passed on.
           (to_front_.empty() ? 0U : std::uint32_t{EPOLLRDHUP});
}

std::uint32_t Client::front_events() const {
    return (to_front_.empty() ? 0U : std::uint32_t{EPOLLOUT}) |
           (shaken_ && to_client_.empty() && !front_ended_ ? std::uint32_t{EPOLLIN} : 0U);
}

}  // namespace callgate::tls
