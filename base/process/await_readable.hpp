// Waits on a loop until a descriptor is readable, and calls the handler only then.
//
// Asio alone does not promise that. It keeps the state of a closed descriptor for the next one that is
// assigned. If an event of the closed one came in the same epoll_wait(2), the next one's wait ends with it. A
// handler that reads without waiting may use `async_wait`. One that takes the call itself for an answer, such
// as "the process has ended", uses this.
#pragma once

#include <poll.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <utility>

namespace callgate {

/// Whether poll(2) reports `descriptor` as readable or hung up now.
[[nodiscard]] inline bool is_readable(int descriptor) {
    pollfd entry{descriptor, POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
}

/// As `descriptor.async_wait(wait_read, handler)`. If the handler is called without an error the descriptor
/// is readable. `handler` keeps `descriptor` alive, and is called on the loop's thread.
template <typename Handler>
void await_readable(boost::asio::posix::stream_descriptor& descriptor, Handler handler) {
    descriptor.async_wait(
        boost::asio::posix::stream_descriptor::wait_read,
        [&descriptor, handler = std::move(handler)](const boost::system::error_code& error) mutable {
            if (!error && !is_readable(descriptor.native_handle()))
                return await_readable(descriptor, std::move(handler));
            handler(error);
        });
}

}  // namespace callgate
