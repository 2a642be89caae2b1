#include "base/process/start_memory.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <thread>

using namespace callgate;

TEST_CASE("small blocks come from one mapping, from the beginning of a start to its end") {
    CHECK(start_memory::take(8) == nullptr);
    CHECK_FALSE(start_memory::holds(&start_memory::state));
    start_memory::begin();

    std::set<void*> blocks;
    for (const std::size_t size : {0UL, 1UL, 16UL, 17UL, 500UL, 512UL}) {
        void* const block = start_memory::take(size);
        REQUIRE(block != nullptr);
        CHECK(start_memory::holds(block));
        CHECK(reinterpret_cast<std::uintptr_t>(block) % 16 == 0);
        CHECK(blocks.insert(block).second);
    }
    CHECK(start_memory::take(513) == nullptr);

    // One that was dropped comes again, for its own size alone.
    void* const dropped = start_memory::take(40);
    start_memory::give_back(dropped, 40);
    CHECK(start_memory::take(49) != dropped);
    CHECK(start_memory::take(33) == dropped);
    CHECK(start_memory::take(40) != dropped);

    // Other threads neither take nor give.
    void* const ours = start_memory::take(64);
    std::thread([ours] {
        CHECK(start_memory::take(64) == nullptr);
        CHECK(start_memory::holds(ours));
        start_memory::give_back(ours, 64);
    }).join();
    CHECK(start_memory::take(64) != ours);

    // When it is used up, malloc is to give.
    std::size_t taken = 0;
    while (start_memory::take(512) != nullptr) taken += 512;
    CHECK(taken < start_memory::room);
    CHECK(taken > start_memory::room / 2);

    start_memory::end();
    start_memory::give_back(ours, 64);
    CHECK(start_memory::take(64) == nullptr);
    CHECK(start_memory::holds(ours));
}
