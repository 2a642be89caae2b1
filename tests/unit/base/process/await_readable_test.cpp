#include "base/process/await_readable.hpp"

#include <unistd.h>

#include <doctest/doctest.h>
#include <boost/asio/io_context.hpp>
#include <chrono>

namespace callgate {

namespace {

using boost::asio::posix::stream_descriptor;

struct Pipe {
    Pipe() { REQUIRE(::pipe(ends) == 0); }
    ~Pipe() { ::close(ends[1]); }
    void write() const { REQUIRE(::write(ends[1], "x", 1) == 1); }
    int ends[2] = {-1, -1};
};

/// How often the wait for a third descriptor ends that begins while an event of a closed one is still to be
/// handled. `wait` begins it.
template <typename Wait>
int ends_of_wait(Wait wait, bool written) {
    boost::asio::io_context loop;
    const Pipe first, second, third;
    stream_descriptor one(loop, first.ends[0]), other(loop, second.ends[0]), later(loop);
    int ends = 0;
    const auto on_event = [&](stream_descriptor& closed) {
        return [&](const boost::system::error_code& error) {
            if (error) return;
            closed.close();
            later.assign(third.ends[0]);
            wait(later, [&](const boost::system::error_code& ended) { ends += ended ? 0 : 1; });
            if (written) third.write();
        };
    };
    one.async_wait(stream_descriptor::wait_read, on_event(other));
    other.async_wait(stream_descriptor::wait_read, on_event(one));
    first.write();
    second.write();
    loop.run_for(std::chrono::milliseconds(written ? 10'000 : 50));
    return ends;
}

}  // namespace

TEST_CASE("await_readable: an event of a closed descriptor does not end the wait for the next one") {
    const auto plain = [](stream_descriptor& one, auto handler) {
        one.async_wait(stream_descriptor::wait_read, handler);
    };
    const auto checked = [](stream_descriptor& one, auto handler) { await_readable(one, handler); };
    CHECK(ends_of_wait(plain, false) == 1);  // the control: asio reuses the state
    CHECK(ends_of_wait(checked, false) == 0);
    CHECK(ends_of_wait(checked, true) == 1);
}

TEST_CASE("is_readable: bytes and the end of the writers count") {
    const Pipe pipe;
    CHECK_FALSE(is_readable(pipe.ends[0]));
    pipe.write();
    CHECK(is_readable(pipe.ends[0]));
    CHECK_FALSE(is_readable(-1));
    ::close(pipe.ends[0]);
}

}  // namespace callgate
