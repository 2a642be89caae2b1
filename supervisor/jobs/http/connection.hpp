// A client's connection: what was read of its request, and what waits to be sent to it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "supervisor/jobs/http/outgoing.hpp"
#include "supervisor/jobs/http/request.hpp"
#include "supervisor/jobs/http/sandbox_fusion.hpp"

namespace callgate::jobs::http {

using Clock = std::chrono::steady_clock;

/// The time that a client has for each, until its connection is closed.
inline constexpr std::chrono::seconds head_time{10}, body_time{60}, idle_time{60}, write_time{60},
    last_time{2}, behind_time{10};
/// Further requests of a connection are read when at most so much of its answers is left.
inline constexpr std::size_t max_unread = 65536;

enum class Phase : std::uint8_t {
    head,
    body,
    busy,  // its job is in the server
    last,  // its last answer was sent; the rest of what it sends is dropped
};

struct Connection {
    UniqueFd socket;
    std::uint64_t number = 0;
    Phase phase = Phase::head;
    std::string in;
    Outgoing out;
    Head head;
    std::optional<Body> body;
    std::size_t held = 0;  // bytes of the body, of those of all bodies
    Clock::time_point deadline = Clock::time_point::max();
    /// Since then it has been behind with reading what is sent to it.
    Clock::time_point behind = Clock::time_point::max();

    std::uint64_t job = 0;                   // that it waits for
    decltype(&fusion_job) fusion = nullptr;  // makes the job of the body, where that is none
    std::string rex;                         // the path, where it is one of SWE-ReX's
    std::string e2b;                         // the path, where it is one of E2B's
    std::uint64_t input_job = 0;             // the body is input for this job
    std::uint64_t streamed = 0;              // the job whose output it gets as it is written
    bool holds = false;                      // that output, until it has been sent what there is
    bool closes = false;                     // after the next answer
    bool done = false;                       // its last answer is there
    bool hung_up = false, streams = false;
    std::uint32_t watched = 0;  // events of epoll_ctl(2)

    [[nodiscard]] bool wants_bytes() const {
        if (hung_up || phase == Phase::last) return !hung_up;
        return phase != Phase::busy && !done && out.size() < max_unread;
    }

    /// Sends what there is room for. A client that reads nothing has until a deadline. Returns false if the
    /// connection is broken.
    [[nodiscard]] bool write(Clock::time_point now) {
        const std::size_t before = out.size();
        if (!out.send(socket.get())) return false;
        behind = out.size() < max_unread ? Clock::time_point::max() : std::min(behind, now);
        if (out.size() > 0 && (out.size() != before || deadline == Clock::time_point::max()))
            deadline = now + write_time;
        if (out.size() == 0 && before > 0 && phase == Phase::busy) deadline = Clock::time_point::max();
        return true;
    }
};

}  // namespace callgate::jobs::http
