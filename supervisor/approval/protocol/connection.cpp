#include "supervisor/approval/protocol/connection.hpp"

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

namespace callgate::approval {

namespace asio = boost::asio;

Connection::Connection(asio::io_context& loop, UniqueFd fd, ProtocolSession session)
    : stream_(loop, fd.release()), session_(std::move(session)) {}

void Connection::start() {
    read();
    flush();
}

void Connection::read() {
    stream_.async_read_some(
        asio::buffer(input_),
        [this, alive = std::weak_ptr(alive_)](const boost::system::error_code& error, std::size_t got) {
            if (alive.expired()) return;
            if (error) return close();
            if (!session_.receive({input_.data(), got})) closing_ = true;
            flush();
            if (!closing_ && !gone_) read();
        });
}

void Connection::flush() {
    output_ += session_.take_output();
    if (output_.size() > max_output) return close();
    if (!writing_.empty() || gone_) return;
    if (output_.empty()) {
        if (closing_) close();
        return;
    }
    write();
}

void Connection::write() {
    writing_ = std::exchange(output_, {});
    asio::async_write(
        stream_, asio::buffer(writing_),
        [this, alive = std::weak_ptr(alive_)](const boost::system::error_code& error, std::size_t) {
            if (alive.expired()) return;
            writing_.clear();
            if (error) return close();
            flush();
        });
}

/// The owner destroys this object, so it is told when no function of it runs.
void Connection::close() {
    if (std::exchange(gone_, true)) return;
    boost::system::error_code ignored;
    const auto executor = stream_.get_executor();
    stream_.close(ignored);
    asio::post(executor, [closed = closed_, alive = std::weak_ptr(alive_)] {
        if (!alive.expired()) closed();
    });
}

audit::Answerer peer_of(int fd, std::string channel) {
    ucred peer{};
    socklen_t size = sizeof peer;
    audit::Answerer who;
    who.channel = std::move(channel);
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
        who.uid = peer.uid;
        who.pid = peer.pid;
    }
    return who;
}

}  // namespace callgate::approval
