// One approver's descriptor: bytes between it and its conversation.
//
// The peer may stop reading, send without end, or go away: what waits for it is bounded, and then it is
// closed. Belongs to the event loop's thread; `closed` is called once, from the loop, never from within a
// function of this class.
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
    /// The most that waits for a peer that does not read.
    static constexpr std::size_t max_output = 8 << 20;

    Connection(boost::asio::io_context& loop, UniqueFd fd, ProtocolSession conversation);
    void on_close(std::function<void()> closed) { closed_ = std::move(closed); }
    void start();
    /// After the conversation has more to say.
    void flush();
    [[nodiscard]] ProtocolSession& conversation() { return conversation_; }

private:
    void read();
    void write();
    void close();

    boost::asio::posix::stream_descriptor stream_;
    ProtocolSession conversation_;
    std::function<void()> closed_;
    std::array<char, 16384> input_;
    std::string output_, writing_;
    bool closing_ = false, gone_ = false;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

/// Who is at the other end of a connected unix socket; its pid is 0 where it is not known.
[[nodiscard]] audit::Answerer peer_of(int fd, std::string channel);

}  // namespace callgate::approval
