// A copy of the log's records to the system's log, live (RFC 5424 over the datagram socket /dev/log).
//
// Nobody waits for that daemon (architecture.md, invariant 5): records stand in a queue that one thread sends
// from. What does not fit into the queue, or that the daemon does not take, is counted, never forgotten in
// silence: `finish` says how many. The log itself has them all.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace callgate::audit {

class Syslog {
public:
    /// What waits may take so many bytes.
    static constexpr std::size_t max_waiting = 32U << 20;

    /// Connects to the socket at `path`. Errors: what socket(2) and connect(2) give.
    static Result<std::unique_ptr<Syslog>> open(const std::string& path);
    Syslog(const Syslog&) = delete;
    Syslog& operator=(const Syslog&) = delete;
    ~Syslog();

    /// A record's line, with or without its newline. Any thread; never waits for the daemon. The first call
    /// starts the thread that sends.
    void post(std::string_view line);

    struct Lost {
        std::uint64_t records = 0;
        boost::system::error_code why;  // of the first
    };
    /// Waits until all was sent, at most `patience`; nothing is sent after it.
    [[nodiscard]] Lost finish(std::chrono::milliseconds patience);

private:
    struct State;
    explicit Syslog(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

/// The message of one record: facility 13 (log audit), severity by its verdict, the line as MSG.
[[nodiscard]] std::string syslog_message(std::string_view line, std::string_view host, int pid);

}  // namespace callgate::audit
