// The process of callgate-tls: it accepts connections, and gives each a Client and the front the other end.
//
// It has one thread, which waits in epoll_wait(2) alone, and reads nothing but its clients' records.
//
// A client controls its bytes and their timing (client.hpp), and how many connections there are. The front
// bounds their number and time: it closes its end of the one that gives way. Only two kinds are bounded here.
// At most 1,000 handshakes are under way, since each can make OpenSSL keep a message of 128 KiB; then the
// oldest gives way. At most 1,000 clients that the front has closed have 30 s to take the last answer. They
// go first where descriptors run out. Measured, such a handshake takes 166 KiB, an idle connection 15 KiB,
// and one whose client reads nothing 32 KiB.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/unique_fd.hpp"
#include "tls/client.hpp"
#include "tls/context.hpp"

namespace callgate::tls {

class Terminator {
public:
    explicit Terminator(Context context) : context_(std::move(context)), buffer_(max_record) {}
    /// Makes what needs calls that the filter does not allow. Errors: errno.
    [[nodiscard]] bool prepare();
    /// Returns at the front's end, when the last answers have been taken.
    void serve();

private:
    using Clock = std::chrono::steady_clock;
    struct Leaving {
        std::uint64_t number;
        Clock::time_point until;
    };
    bool watch(int operation, int descriptor, std::uint64_t event, std::uint32_t kinds) const;
    void handle(std::uint64_t event, std::uint32_t kinds);
    /// The listener comes, or the end.
    void read_control();
    void accept_some();
    /// Accepts nothing more until something has happened, or for a second.
    void pause();
    void resume();
    void stop_listening();
    void begin(UniqueFd socket, UniqueFd front);
    void advance(std::uint64_t number, Client& client);
    void watch_sides(std::uint64_t number, Client& client) const;
    void drop(std::uint64_t number);
    void drop_late();

    Context context_;
    std::vector<char> buffer_;
    UniqueFd epoll_, listener_;
    std::unordered_map<std::uint64_t, std::unique_ptr<Client>> clients_;
    std::set<std::uint64_t> shaking_;  // their handshakes are under way; the oldest is first
    std::deque<Leaving> leaving_;
    std::uint64_t next_ = 1;
    bool paused_ = false, ending_ = false;
};

}  // namespace callgate::tls
