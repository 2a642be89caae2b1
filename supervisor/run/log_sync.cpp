#include "supervisor/run/log_sync.hpp"

#include <boost/asio/post.hpp>
#include <exception>

namespace callgate {

void LogSync::request() {
    if (!wanted_.exchange(true)) loop_.run_soon([this] { start(); });
}

void LogSync::start() {
    try {
        if (!thread_) thread_.emplace(1);
        boost::asio::post(*thread_, [this] { sync(); });
    } catch (const std::exception&) {
        sync();  // no thread can be made
    }
}

void LogSync::sync() {
    wanted_.store(false);
    log_.sync();
}

void LogSync::finish() {
    if (thread_) thread_->join();
    if (wanted_.load()) sync();
}

}  // namespace callgate
