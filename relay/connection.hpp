// A connection through the front, from a target's socket to the upstream socket that the supervisor
// connected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "relay/client_hello.hpp"
#include "relay/protocol.hpp"

namespace callgate::relay {

/// Bytes on their way in one direction: at most one buffer's worth waits for the receiver.
struct Flow {
    std::string waiting;  // taken from the sender, not yet taken by the receiver
    bool ended = false;   // the sender has sent its last byte
    bool closed = false;  // and the receiver was told
};

/// Owns both sockets, which are non-blocking. One thread.
class Connection {
public:
    Connection(std::uint64_t id, std::vector<std::string> names, UniqueFd client, UniqueFd upstream);

    enum class Progress : std::uint8_t {
        waits,  // for an event on either socket
        more,   // there is more to do at once, after the others had their turn
        over,   // both directions are closed, or the connection broke
    };
    /// Does what can be done without waiting. `buffer` is memory of the caller's to copy through.
    [[nodiscard]] Progress advance(std::vector<char>& buffer);

    /// Returns once what became of the beginning. Returns nullptr before that is known, and after it was
    /// taken.
    [[nodiscard]] const Judged* take_judged();
    /// Sends a refused client its alert. Call it once the supervisor was told: the client may end the run at
    /// once.
    void tell_refused();
    [[nodiscard]] std::uint64_t id() const { return judged_.id; }

private:
    enum class Phase : std::uint8_t {
        first_hello,   // nothing has gone to the server
        first_answer,  // the hello has gone; records that cannot be a second hello may follow
        second_hello,  // the server asked for it
        open,          // bytes are copied
        refused,       // nothing more passes
    };

    Progress read_first_hello(std::vector<char>& buffer);
    Progress watch_beginning(std::vector<char>& buffer);
    Progress copy(std::vector<char>& buffer);
    bool watch_answer(std::vector<char>& buffer);
    bool pass_records(std::vector<char>& buffer);
    bool judge_second_hello(std::string_view records);
    void open();
    /// Copies up to `most` bytes one way. Returns false if the connection broke.
    bool pump(int from, int to, Flow& flow, std::vector<char>& buffer, std::size_t most);
    bool flush(int to, Flow& flow);
    Progress refuse(Beginning beginning, std::string_view name);
    Progress break_off();
    void settle(Beginning beginning, std::string_view name);
    [[nodiscard]] Beginning judge(const ClientHello& hello) const;
    [[nodiscard]] bool allowed(std::string_view name) const;

    std::vector<std::string> names_;
    UniqueFd client_, upstream_;
    Flow up_, down_;
    Phase phase_ = Phase::first_hello;
    Judged judged_;
    bool judged_known_ = false, judged_taken_ = false;
    bool more_ = false;
};

}  // namespace callgate::relay
