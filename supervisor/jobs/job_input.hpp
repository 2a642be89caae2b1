// Writes to the stdin of a job, piece by piece, as the job reads.
//
// The job controls whether and when it reads. The sender controls how much it sends. What waits is bounded,
// and each piece is answered once.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "base/unique_fd.hpp"

namespace callgate::jobs {

/// A further piece is refused while so much waits. A piece for which nothing waits may be longer.
inline constexpr std::size_t max_waiting_input = std::size_t{16} << 20U;

/// Used by the loop's thread. Keeps itself alive while it writes.
class JobInput : public std::enable_shared_from_this<JobInput> {
public:
    /// Gets "" once the pipe has the bytes, else the reason why it does not get them.
    using Done = std::function<void(const std::string& why)>;

    JobInput(boost::asio::io_context& loop, UniqueFd end) : descriptor_(loop, end.release()) {}
    /// `last`: the pipe is closed behind these bytes. `done` may be null.
    void add(std::string bytes, bool last, Done done);
    /// Call this when the job has ended. The rest is never written.
    void close();

private:
    struct Piece {
        std::string bytes;
        bool last = false;
        Done done;
    };
    void write_next();
    void written();
    void fail(const std::string& why);

    boost::asio::posix::stream_descriptor descriptor_;
    std::deque<Piece> pieces_;
    std::size_t waiting_ = 0;  // bytes of memory
    std::string over_;         // why nothing more is taken
};

}  // namespace callgate::jobs
