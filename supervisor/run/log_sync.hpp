// The fdatasync of the log and its counts of equal denials, on a thread of its own. Most runs need none, and
// never make the thread.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <optional>
#include <string>

#include "supervisor/audit/write/log.hpp"
#include "supervisor/run/event_loop.hpp"

namespace callgate {

/// `loop` and `log` outlive it.
class LogSync {
public:
    LogSync(EventLoop& loop, audit::Log& log) : loop_(loop), log_(log) {}

    /// Syncs soon. Any thread.
    void request();
    /// Writes counts of equal denials in a second, and again until none is left. Any thread.
    void count_soon();
    /// Prints a line on stderr. The loop's thread calls it.
    void say(std::string line);
    /// Completes every request. Call it after the loop has ended, when no thread requests any more.
    void finish();

private:
    void start();
    void sync();
    void wait_for_counts();
    void post(const std::function<void()>& what);
    void write_counts();

    EventLoop& loop_;
    audit::Log& log_;
    boost::asio::steady_timer timer_{loop_.context()};
    std::atomic<bool> wanted_{false}, counting_{false};
    std::optional<boost::asio::thread_pool> thread_;  // used by the loop's thread
};

}  // namespace callgate
