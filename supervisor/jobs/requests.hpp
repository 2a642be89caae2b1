// Requests from a descriptor: a thread of its own reads and parses them, so that a large one delays nobody.
//
// Whoever sends them controls every byte, and when they come. What is read ahead is bounded.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "supervisor/jobs/job.hpp"

namespace callgate::jobs {

/// The thread lasts until the end of the process: it cannot be called away from read(2).
class Requests {
public:
    /// Both are called on the reading thread; `ended` at the end of the input, or where it cannot be read.
    Requests(int descriptor, std::function<void(Request, std::size_t size)> arrived,
             std::function<void()> ended);
    void start();
    /// Something that was told by `arrived`, of this size, waits no longer.
    void taken(std::size_t size);

private:
    void read_all();
    void receive(std::string_view bytes);
    void hand_over(std::string_view line);

    int descriptor_;
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
