#include "supervisor/approval/protocol/runtime_directory.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/temporary_directory.hpp"

using namespace callgate;

TEST_SUITE("sockets of runs") {
    TEST_CASE("nobody waits for a run that accepts no connection") {
        const tests::TemporaryDirectory place;
        const auto run = approval::open_run_socket(place.path, "stopped");
        REQUIRE(run.has_value());
        std::vector<UniqueFd> connected;
        auto next = approval::connect_to(place.path, "stopped");
        for (; next.has_value() && connected.size() < 10'000;
             next = approval::connect_to(place.path, "stopped"))
            connected.push_back(std::move(*next));
        CHECK_FALSE(connected.empty());
        REQUIRE_FALSE(next.has_value());
        CHECK(next.error().value() == EAGAIN);
        CHECK(approval::runs_at(place.path) == std::vector<std::string>{"stopped"});
    }
}

TEST_SUITE("who waits for questions") {
    TEST_CASE("an approver is seen while it lives") {
        const tests::TemporaryDirectory place;
        CHECK_FALSE(approval::approver_waits(place.path));
        {
            const auto first = approval::announce_approver(place.path);
            const auto second = approval::announce_approver(place.path);
            REQUIRE(first.has_value());
            REQUIRE(second.has_value());
            CHECK(approval::approver_waits(place.path));
        }
        CHECK_FALSE(approval::approver_waits(place.path));
    }

    TEST_CASE("runs that look at the same time see no approver, and keep none out") {
        const tests::TemporaryDirectory place;
        REQUIRE(approval::announce_approver(place.path).has_value());  // makes the file
        std::atomic<bool> over = false;
        std::atomic<long> seen = 0;
        std::thread other([&] {
            while (!over) seen += approval::approver_waits(place.path) ? 1 : 0;
        });
        for (int look = 0; look < 20'000; ++look) seen += approval::approver_waits(place.path) ? 1 : 0;
        over = true;
        other.join();
        CHECK(seen == 0);
    }
}
