#include "supervisor/jobs/request_reader.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "base/unique_fd.hpp"

using namespace callgate;

namespace {

/// The number of requests that arrive of so many lines, while none of them is accepted. It waits for
/// `expected`.
int arrived(bool bounded, int lines, int expected) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const UniqueFd writes(ends[1]);
    struct Seen {
        std::atomic<int> count{0};
        std::promise<void> enough;
    };
    const auto seen = std::make_shared<Seen>();
    // The reader's thread lasts as long as the process. The leak checker still finds both by these.
    static std::pair<boost::asio::io_context*, jobs::RequestReader*> kept[2];
    auto& [loop, reader] = kept[bounded ? 0 : 1];
    loop = new boost::asio::io_context(1);
    reader = new jobs::RequestReader(
        *loop, ends[0],
        [seen, expected](const jobs::Request&, std::size_t) {
            if (++seen->count == expected) seen->enough.set_value();
        },
        [] {}, bounded);
    std::string text;
    for (int line = 0; line < lines; ++line) text += "{\"cancel\":1}\n";
    REQUIRE(::write(writes.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    reader->start();
    auto enough = seen->enough.get_future();
    while (enough.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
        loop->run_one_for(std::chrono::milliseconds(10));
    return seen->count;
}

}  // namespace

TEST_CASE("requests are read ahead to a bound, or all where the sender bounds them") {
    CHECK(arrived(true, 1500, 1000) == 1000);
    CHECK(arrived(false, 1500, 1500) == 1500);
}
