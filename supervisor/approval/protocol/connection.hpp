// The descriptor of one approver, and the bytes between it and its protocol session.
//
// The peer may stop reading, send without end, or go away. Output that waits for it is bounded; beyond the
// bound the connection is closed. It belongs to the event loop's thread. The loop calls `closed` once, never
// from within a function of this class.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <string>

#include "supervisor/approval/protocol/protocol_session.hpp"

namespace callgate::approval {

class Connection {
public:
    /// Bytes that wait for a peer that does not read.
    static constexpr std::size_t max_output = 8 << 20;

    Connection(boost::asio::io_context& loop, UniqueFd fd, ProtocolSession session);
    void on_close(std::function<void()> closed) { closed_ = std::move(closed); }
    void start();
    /// To be called when the session has more output.
    void flush();
    [[nodiscard]] ProtocolSession& session() { return session_; }

private:
    void read();
    void write();
    void close();

    boost::asio::posix::stream_descriptor stream_;
    ProtocolSession session_;
    std::function<void()> closed_;
    std::array<char, 16384> input_;
    std::string output_, writing_;
    bool closing_ = false, gone_ = false;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

/// The process at the other end of a connected unix socket; its pid is 0 if it is not known.
[[nodiscard]] audit::Answerer peer_of(int fd, std::string channel);

}  // namespace callgate::approval
