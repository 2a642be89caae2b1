// The state of one send of one socket while it is decided and done (send.cpp, send_many.cpp).
//
// Lives as long as the call. send.cpp says what an attacker controls, and why the judged message is the one
// that is sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "supervisor/calls/network/message.hpp"
#include "supervisor/calls/network/needs.hpp"
#include "supervisor/calls/network/send_batch.hpp"

namespace callgate::calls {

/// The outcome of one message: bytes sent, or an errno. `answer` is false if nobody waits for one.
struct Outcome {
    std::size_t sent = 0;
    int error = 0;
    std::uint64_t sequence = 0;  // of the decision to send; 0 none
    bool whole = false;          // all of it was sent
    bool answer = true;
};

/// A flag of the kernel's own (MSG_CMSG_COMPAT), which sendmsg(2) and sendmmsg(2) refuse before they look at
/// anything, and sendto(2) ignores.
inline constexpr int internal_flag = static_cast<int>(0x80000000U);

/// A send of one socket, from reading to answer.
class Sending {
public:
    Sending(NetworkCall& context, PinnedSocket& socket, Message& message, int flags)
        : context_(context), socket_(socket), message_(message), flags_(flags & ~MSG_ZEROCOPY) {
        zero_copy_ = (flags & MSG_ZEROCOPY) != 0;
    }

    Outcome run();
    /// For a batch whose first element this message is: judges for all; then sends as many as go.
    Outcome judge_batch(Batch& batch);
    Outcome send_batch(Batch& batch, std::size_t& count);

private:
    int judge_destination();
    int judge_internet();
    int judge_unix();
    int judge_unix_path(const std::string& name);
    int weigh(const Subject& subject);
    int without_zero_copy() const;
    std::size_t copied_at_once() const;
    template <class Send>
    ssize_t announced(int flags, Send send);
    ssize_t send_piece(std::span<std::byte> piece, std::size_t beyond, int flags);
    void send_all();
    void note_broken_pipe();

    NetworkCall& context_;
    PinnedSocket& socket_;
    Message& message_;
    int flags_;
    bool zero_copy_ = false;
    std::optional<UnixPeer> peer_;
    Outcome outcome_;
};

}  // namespace callgate::calls
