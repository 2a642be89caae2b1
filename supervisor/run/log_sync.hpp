// The log's fdatasync, off the answering path. Most runs need none, and have no thread for it.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <optional>

#include "supervisor/audit/write/log.hpp"
#include "supervisor/run/event_loop.hpp"

namespace callgate {

/// Both outlive this.
class LogSync {
public:
    LogSync(EventLoop& loop, audit::Log& log) : loop_(loop), log_(log) {}

    /// Any thread.
    void request();
    /// What was asked for is done; once the loop has ended and nobody asks any more.
    void finish();

private:
    void start();
    void sync();

    EventLoop& loop_;
    audit::Log& log_;
    std::atomic<bool> wanted_{false};
    std::optional<boost::asio::thread_pool> thread_;  // loop's thread only
};

}  // namespace callgate
