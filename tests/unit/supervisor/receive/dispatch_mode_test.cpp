#include "supervisor/receive/dispatch_mode.hpp"

#include <doctest/doctest.h>

#include "supervisor/receive/worker_slot.hpp"

using namespace callgate;

namespace {

constexpr std::int64_t tick_ns = 20'000'000;

/// A tick in which `calls` came, `overlapping` of them while another waited, and each took `cost_ns`.
Traffic tick(std::uint64_t calls, double overlapping, std::int64_t cost_ns) {
    Traffic traffic;
    traffic.elapsed_ns = tick_ns;
    traffic.calls = calls;
    traffic.samples = static_cast<std::uint32_t>(calls / Traffic::sample_every);
    traffic.overlaps = static_cast<std::uint32_t>(traffic.samples * overlapping);
    traffic.handling_ns = traffic.samples * cost_ns;
    return traffic;
}

/// A load under which each mode lets so many calls through in a tick.
struct Load {
    std::uint64_t single, parallel, affine;
    double overlapping;
    std::int64_t cost_ns;
    int ticks_elsewhere = 0;  // spent otherwise than it ended

    DispatchMode settle(DispatchChooser& chooser, int ticks) {
        DispatchMode now = DispatchMode::single;
        int in_row = 0;
        for (int n = 0; n < ticks; ++n) {
            const std::uint64_t calls = now == DispatchMode::single     ? single
                                        : now == DispatchMode::parallel ? parallel
                                                                        : affine;
            const DispatchMode next = chooser.choose(tick(calls, overlapping, cost_ns));
            in_row = next == now ? in_row + 1 : 0;
            now = next;
        }
        ticks_elsewhere = ticks - in_row;
        return now;
    }
};

constexpr std::int64_t little_ns = 10'000;

kernel::Notification call(std::uint64_t id) { return kernel::Notification{.id = id}; }

}  // namespace

TEST_CASE("callers one after the other have one receiver") {
    DispatchChooser chooser(2);
    Load serial{180, 140, 150, 0.0, little_ns};
    CHECK(serial.settle(chooser, 500) == DispatchMode::single);
    CHECK(serial.ticks_elsewhere == 0);
}

TEST_CASE("one caller that does nothing but call has one receiver") {
    DispatchChooser chooser(2);
    Load loop{1500, 900, 900, 0.0, 12'000};
    CHECK(loop.settle(chooser, 500) == DispatchMode::single);
    CHECK(loop.ticks_elsewhere == 0);
}

TEST_CASE("callers with work of their own that overlap have several receivers, until they no longer do") {
    DispatchChooser chooser(2);
    Load build{210, 270, 240, 0.13, little_ns};
    CHECK(build.settle(chooser, 20) == DispatchMode::parallel);
    for (int n = 0; n < 500; ++n) CHECK(chooser.choose(tick(270, 0.07, little_ns)) == DispatchMode::parallel);
    DispatchMode now = DispatchMode::parallel;
    for (int n = 0; n < 100; ++n) now = chooser.choose(tick(140, 0.0, little_ns));
    CHECK(now == DispatchMode::single);
}

TEST_CASE("where the tree waits for the receivers, the way that does most is found and kept") {
    struct Case {
        Load machine;
        DispatchMode best;
    };
    for (Case each : {Case{{700, 400, 1300, 1.0, 28'000}, DispatchMode::affine},
                      Case{{650, 1050, 600, 1.0, 28'000}, DispatchMode::parallel},
                      Case{{1800, 1500, 1300, 0.9, 11'000}, DispatchMode::single}}) {
        DispatchChooser chooser(2);
        CHECK(each.machine.settle(chooser, 40) == each.best);
        CHECK(each.machine.ticks_elsewhere < 10);
    }
}

TEST_CASE("what was tried in vain is tried again, but ever more seldom") {
    DispatchChooser chooser(2);
    int tried = 0;
    for (int n = 0; n < 5000; ++n) {
        tried += chooser.choose(tick(1800, 0.9, 11'000)) == DispatchMode::single ? 0 : 1;
    }
    CHECK(tried >= 8);
    CHECK(tried < 100);
}

TEST_CASE("callers that stop calling leave one receiver, callers that have work to do leave several") {
    for (const bool works : {false, true}) {
        DispatchChooser chooser(2);
        Load affine{700, 400, 1300, 1.0, 28'000};
        REQUIRE(affine.settle(chooser, 20) == DispatchMode::affine);
        DispatchMode now = DispatchMode::affine;
        for (int n = 0; n < 2; ++n)
            now = chooser.choose(works ? tick(200, 0.3, 5'000) : tick(500, 0.0, 28'000));
        CHECK(now == (works ? DispatchMode::parallel : DispatchMode::single));
    }
}

TEST_CASE("one processor has one receiver") {
    DispatchChooser chooser(1);
    Load affine{700, 400, 1300, 1.0, 28'000};
    CHECK(affine.settle(chooser, 100) == DispatchMode::single);
    CHECK(affine.ticks_elsewhere == 0);
}

TEST_CASE("calls are queued only at a slot that somebody attends, and are taken in their order") {
    WorkerSlot slot;
    CHECK_FALSE(slot.queue(call(1)));
    CHECK_FALSE(slot.next());
    slot.attend();
    CHECK(slot.queue(call(2)));
    CHECK(slot.queue(call(3)));
    CHECK(slot.next()->id == 2);
    CHECK(slot.queue(call(4)));
    CHECK(slot.next()->id == 3);
    CHECK(slot.next()->id == 4);
    CHECK_FALSE(slot.next());
    CHECK_FALSE(slot.queue(call(5)));  // its thread waits for the kernel now
}

TEST_CASE("a slot at which calls wait is not closed, and holds only a few") {
    WorkerSlot slot;
    slot.attend();
    std::uint64_t left = 0;
    while (left < 100 && slot.queue(call(left))) ++left;
    CHECK(left > 0);
    CHECK(left < 100);
    CHECK_FALSE(slot.close());
    for (std::uint64_t n = 0; n < left; ++n) CHECK(slot.next()->id == n);
    CHECK(slot.close());
    CHECK_FALSE(slot.queue(call(7)));
}
