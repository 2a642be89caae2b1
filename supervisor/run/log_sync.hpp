// The fdatasync of the log, on a thread of its own. Most runs need none, and never make the thread.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <optional>

#include "supervisor/audit/write/log.hpp"
#include "supervisor/run/event_loop.hpp"

namespace callgate {

/// `loop` and `log` outlive it.
class LogSync {
public:
    LogSync(EventLoop& loop, audit::Log& log) : loop_(loop), log_(log) {}

    /// Syncs soon. Any thread.
    void request();
    /// Completes every request. Call it after the loop has ended, when no thread requests any more.
    void finish();

private:
    void start();
    void sync();

    EventLoop& loop_;
    audit::Log& log_;
    std::atomic<bool> wanted_{false};
    std::optional<boost::asio::thread_pool> thread_;  // used by the loop's thread
};

}  // namespace callgate
