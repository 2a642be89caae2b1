// Requests from a descriptor: small ones are read and parsed as they come, by the loop's own thread. From the
// first on that is large, or has to wait for others, a thread of its own does it, so that it delays nobody.
//
// Whoever sends them controls every byte, and when they come. What is read ahead is bounded.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "supervisor/jobs/job.hpp"

namespace callgate::jobs {

/// Lasts until the end of the process: its thread cannot be called away from read(2).
class Requests {
public:
    /// Both are called on the thread that reads: the loop's, or later one of its own; `ended` at the end of
    /// the input, or where it cannot be read.
    Requests(boost::asio::io_context& loop, int descriptor,
             std::function<void(Request, std::size_t size)> arrived, std::function<void()> ended);
    /// By the loop's thread. Where the descriptor cannot be read without waiting (a file, a terminal, kernels
    /// that lack RWF_NOWAIT for it) the thread of its own begins at once.
    void start();
    /// Something that was told by `arrived`, of this size, waits no longer.
    void taken(std::size_t size);

private:
    void watch();
    void read_ready();
    /// Whether these bytes are small requests that need not wait.
    [[nodiscard]] bool are_small(std::string_view bytes);
    /// From here on a thread reads, beginning with these.
    void read_by_thread(std::string_view bytes = {});
    void read_all();
    void end_input();
    void receive(std::string_view bytes);
    void hand_over(std::string_view line);

    int descriptor_;
    /// An epoll(7) of it alone: the loop makes what it waits for non-blocking, and the input is not ours
    /// alone.
    boost::asio::posix::stream_descriptor ready_;
    std::function<void(Request, std::size_t)> arrived_;
    std::function<void()> ended_;
    std::string line_;
    bool skipping_ = false;  // the rest of a line that is too long
    std::mutex mutex_;
    std::condition_variable room_;
    std::size_t waiting_ = 0, waiting_bytes_ = 0;
};

/// Appends all that comes, or a little more than `most` where there is more. False with errno of read(2).
[[nodiscard]] bool read_whole(int descriptor, std::size_t most, std::string& text);

}  // namespace callgate::jobs
