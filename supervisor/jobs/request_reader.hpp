// Reads requests from a descriptor. The loop's thread reads and parses small requests as they arrive. The
// first request that is large or has to wait starts a thread that reads from then on, so that it delays no
// job.
//
// The sender controls every byte, and when bytes arrive. The amount that is read ahead is bounded.
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

/// Lasts until the end of the process: nothing can call its thread away from read(2).
class RequestReader {
public:
    /// The thread that reads calls both: the loop's, or later one of its own. `ended` is called at the end of
    /// the input, and when reading fails. Where it is not `bounded`, the sender bounds what waits.
    RequestReader(boost::asio::io_context& loop, int descriptor,
                  std::function<void(Request, std::size_t size)> arrived, std::function<void()> ended,
                  bool bounded);
    /// Called by the loop's thread. If the kernel cannot read this descriptor without waiting (a file, a
    /// terminal, a kernel without RWF_NOWAIT), the thread of its own begins at once.
    void start();
    /// Call this when a request that `arrived` got, of this size, waits no longer.
    void accepted(std::size_t size);

private:
    void watch();
    void read_ready();
    /// Whether these bytes are small requests that need not wait.
    [[nodiscard]] bool are_small(std::string_view bytes);
    /// Starts the thread that reads from here on. It begins with these bytes.
    void read_by_thread(std::string_view bytes = {});
    void read_all();
    void end_input();
    void receive(std::string_view bytes);
    void hand_over(std::string_view line);

    int descriptor_;
    /// An epoll(7) descriptor for the input alone. The loop makes its descriptors non-blocking, but other
    /// processes share the input.
    boost::asio::posix::stream_descriptor ready_;
    std::function<void(Request, std::size_t)> arrived_;
    std::function<void()> ended_;
    std::string line_;
    bool skipping_ = false;  // the rest of a line that is too long
    std::mutex mutex_;
    std::condition_variable room_;
    std::size_t waiting_ = 0, waiting_bytes_ = 0;
    const std::size_t max_waiting_, max_waiting_bytes_;
};

}  // namespace callgate::jobs
