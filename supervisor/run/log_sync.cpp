#include "supervisor/run/log_sync.hpp"

#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <utility>

#include "base/write_error.hpp"

namespace callgate {

void LogSync::request() {
    if (!wanted_.exchange(true)) loop_.run_soon([this] { start(); });
}

void LogSync::start() {
    post([this] { sync(); });
}

void LogSync::post(const std::function<void()>& what) {
    try {
        if (!thread_) thread_.emplace(1);
        boost::asio::post(*thread_, what);
    } catch (const std::exception&) {
        what();  // no thread can be made
    }
}

void LogSync::say(std::string line) {
    post([text = std::move(line)] { write_error(text); });
}

void LogSync::count_soon() {
    if (!counting_.load(std::memory_order_relaxed) && !counting_.exchange(true))
        loop_.run_soon([this] { wait_for_counts(); });
}

void LogSync::wait_for_counts() {
    timer_.expires_after(std::chrono::seconds(1));
    timer_.async_wait([this](const boost::system::error_code& error) {
        if (!error) post([this] { write_counts(); });
    });
}

void LogSync::write_counts() {
    counting_.store(false);
    if (!log_.write_counts()) count_soon();
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
