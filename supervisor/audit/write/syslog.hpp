// Sends a copy of the log's records to the system's log, live (RFC 5424 over the datagram socket /dev/log).
//
// callgate does not wait for that daemon (docs/dev/architecture.md, invariant 5): one thread sends records
// from a queue. Records that do not fit into the queue, or that the daemon does not take, are counted.
// `finish` returns how many were lost, so that no loss is silent. The log itself has them all.
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
    /// The maximum size of all records that wait.
    static constexpr std::size_t max_waiting = 32U << 20;

    /// Connects to the socket at `path`. Errors: those of socket(2) and connect(2).
    static Result<std::unique_ptr<Syslog>> open(const std::string& path);
    Syslog(const Syslog&) = delete;
    Syslog& operator=(const Syslog&) = delete;
    ~Syslog();

    /// Queues a record's line, with or without its newline. Any thread may call it; it never waits for the
    /// daemon. The first call starts the thread that sends.
    void post(std::string_view line);

    struct Lost {
        std::uint64_t records = 0;
        boost::system::error_code why;  // of the first lost record
    };
    /// Waits until all records were sent, at most `patience`. Nothing is sent after it.
    [[nodiscard]] Lost finish(std::chrono::milliseconds patience);

private:
    struct State;
    explicit Syslog(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

/// The message of one record: facility 13 (log audit), severity by its verdict, the line as MSG.
[[nodiscard]] std::string syslog_message(std::string_view line, std::string_view host, int pid);

}  // namespace callgate::audit
