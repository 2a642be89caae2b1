#include "supervisor/jobs/run_request.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "supervisor/jobs/zygote.hpp"

namespace {

using namespace callgate;
using namespace callgate::jobs;

TEST_CASE("what a run is connected to arrives as it was sent, and in order") {
    auto sockets = make_sockets();
    REQUIRE(sockets);
    auto one = make_pipe();
    auto other = make_pipe();
    REQUIRE((one && other));
    CHECK_FALSE(receive_run_request(sockets->theirs.get()));  // nothing is there
    CHECK(send_run_request(sockets->ours.get(),
                           std::array{std::pair(one->write.get(), 1), std::pair(other->write.get(), 6)}));
    CHECK(send_run_request(sockets->ours.get(), std::array{std::pair(other->write.get(), 3)}));
    const auto both = receive_run_request(sockets->theirs.get());
    const auto last = receive_run_request(sockets->theirs.get());
    REQUIRE((both && last));
    REQUIRE(both->size() == 2);
    REQUIRE(last->size() == 1);
    CHECK((*both)[0].second == 1);
    CHECK((*both)[1].second == 6);
    CHECK(last->front().second == 3);
    for (const auto& [here, there] : *both) {
        CHECK((::fcntl(here.get(), F_GETFD) & FD_CLOEXEC) != 0);
        const char number = static_cast<char>(there);
        CHECK(::write(here.get(), &number, 1) == 1);
    }
    char told = 0;
    CHECK((::read(one->read.get(), &told, 1) == 1 && told == 1));
    CHECK((::read(other->read.get(), &told, 1) == 1 && told == 6));
}

TEST_CASE("a request that nobody can take is refused at once") {
    auto sockets = make_sockets();
    REQUIRE(sockets);
    const auto send = [&](std::size_t count) {
        const std::vector<std::pair<int, int>> all(count, {sockets->ours.get(), 1});
        return send_run_request(sockets->ours.get(), all);
    };
    CHECK_FALSE(send(0));
    CHECK_FALSE(send(9));
    CHECK(send(8));
    int sent = 1;
    while (sent < 100'000 && send(1)) ++sent;
    CHECK(sent < 100'000);  // too many wait
    sockets->theirs.reset();
    CHECK_FALSE(send(1));
}

TEST_CASE("what is no request is none") {
    auto sockets = make_sockets();
    REQUIRE(sockets);
    CHECK(::send(sockets->ours.get(), "words", 5, MSG_NOSIGNAL) == 5);
    CHECK_FALSE(receive_run_request(sockets->theirs.get()));
    sockets->ours.reset();
    CHECK_FALSE(receive_run_request(sockets->theirs.get()));
}

}  // namespace
