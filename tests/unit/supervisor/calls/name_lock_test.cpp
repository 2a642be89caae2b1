#include "supervisor/calls/name_lock.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "supervisor/host/name_lock_file.hpp"
#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
using calls::NameLock;
using calls::NamesHeld;

namespace {

constexpr std::chrono::milliseconds soon{20};

/// Two runs of one user.
struct Runs {
    explicit Runs(std::chrono::milliseconds patience = NameLock::usual_patience)
        : first_file(opened()),
          second_file(opened()),
          first(first_file.get(), patience),
          second(second_file.get(), patience) {}
    UniqueFd opened() const {
        Expected<UniqueFd> file = open_name_lock_file(state.path);
        REQUIRE(file.has_value());
        return std::move(*file);
    }
    tests::TemporaryDirectory state;
    UniqueFd first_file, second_file;
    NameLock first, second;
};

}  // namespace

TEST_SUITE("the lock of names") {
    TEST_CASE("runs share it, and are alone in themselves at the same time") {
        Runs runs;
        const std::shared_lock shared(runs.first), again(runs.first), other(runs.second);
        Runs alone;
        const std::unique_lock one(alone.first), two(alone.second);
    }

    TEST_CASE("who is alone among all runs waits for the others, and gives up") {
        Runs runs(soon);
        std::shared_lock shared(runs.first);
        const std::shared_lock more(runs.first);
        CHECK_THROWS_AS(std::unique_lock{runs.second.of_runs()}, NamesHeld);
        shared.unlock();
        CHECK_THROWS_AS(std::unique_lock{runs.second.of_runs()}, NamesHeld);
        // A run that gave up keeps nobody out.
        const std::shared_lock later(runs.second);
        shared.lock();
    }

    TEST_CASE("nobody shares it while a run is alone") {
        Runs runs(soon);
        std::unique_lock alone(runs.first.of_runs());
        CHECK_THROWS_AS(std::shared_lock{runs.second}, NamesHeld);
        CHECK_THROWS_AS(std::unique_lock{runs.second}, NamesHeld);
        alone.unlock();
        const std::shared_lock shared(runs.second);
    }

    TEST_CASE("it is waited for") {
        Runs runs;
        long both = 0;  // without a lock of its own
        const auto count = [&both](NameLock& names) {
            for (int round = 0; round < 300; ++round) {
                const std::unique_lock alone(names.of_runs());
                ++both;
            }
        };
        std::thread other([&] { count(runs.second); });
        count(runs.first);
        other.join();
        CHECK(both == 600);
    }

    TEST_CASE("threads of a run that follow one another without end let another run be alone") {
        Runs runs;
        std::atomic<bool> over = false;
        const auto share = [&] {
            while (!over) {
                const std::shared_lock shared(runs.first);
                std::this_thread::yield();
            }
        };
        std::thread one(share), two(share), three(share);
        for (int round = 0; round < 20; ++round) CHECK_NOTHROW(std::unique_lock{runs.second.of_runs()});
        over = true;
        one.join(), two.join(), three.join();
    }

    TEST_CASE("a run that is alone again and again lets others share it") {
        Runs runs;
        std::atomic<bool> over = false;
        std::thread other([&] {
            while (!over) {
                const std::unique_lock alone(runs.first.of_runs());
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        });
        for (int round = 0; round < 20; ++round) CHECK_NOTHROW(std::shared_lock{runs.second});
        over = true;
        other.join();
    }

    TEST_CASE("a run without a file is alone") {
        NameLock names(-1);
        const std::unique_lock alone(names.of_runs());
    }

    TEST_CASE("its file is no link") {
        const tests::TemporaryDirectory state;
        REQUIRE(::symlink("elsewhere", (state / "name-lock").c_str()) == 0);
        CHECK_FALSE(open_name_lock_file(state.path).has_value());
    }
}
