// The event loop on a guardian without processes: how each way to end becomes an outcome and an exit status.
#include "supervisor/run/event_loop.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "tests/unit/supervisor/run/fake_guardian.hpp"

using namespace callgate;
using namespace std::chrono_literals;
using tests::FakeGuardian;
using Event = agent::Event;
using Order = agent::Order;

namespace {

/// A loop with its guardian. The loop blocks its signals first, so the guardian's thread inherits that.
struct LoopOfGuardian {
    tests::SignalsRestored signals;
    EventLoop loop;
    FakeGuardian fake;
    std::vector<int> ended;  // exit codes that command_ended was called with

    RunOutcome run(FakeGuardian::Script script, std::optional<std::chrono::milliseconds> wall = {},
                   std::chrono::milliseconds grace = 10s) {
        fake.play(std::move(script));
        return loop.run(fake.guardian, {.wall = wall,
                                        .grace = grace,
                                        .command_ended = [this](int code) { ended.push_back(code); },
                                        .relay = {},
                                        .tick = [] { return false; }});
    }
};

/// Sends a signal to this thread, which is the loop's: it waits in the loop's descriptor.
void signal_this_thread(int number) { ::pthread_kill(::pthread_self(), number); }

}  // namespace

TEST_CASE("an exit is the command's own status, with the tree's usage") {
    LoopOfGuardian run;
    const RunOutcome outcome = run.run([](FakeGuardian& guardian) {
        guardian.send(Event::Kind::exited, 3);
        guardian.send(Event::Kind::lingering, 2);
        Event ended;
        ended.cpu_us = 5000;
        ended.max_rss_kb = 7;
        ended.processes = 4;
        guardian.send(ended);
    });
    CHECK(outcome.outcome == Outcome::exited);
    CHECK(outcome.exit_status == 3);
    CHECK(outcome.exit_code == 3);
    CHECK_FALSE(outcome.signal);
    CHECK(outcome.cpu_ms == 5);
    CHECK(outcome.max_rss_kb == 7);
    CHECK(outcome.processes == 4);
    CHECK(outcome.ended_background == 2);
    CHECK(outcome.directory_removed);
    CHECK(outcome.error.empty());
    CHECK(run.ended == std::vector{3});
}

TEST_CASE("a private directory that is not removed is left to the supervisor") {
    LoopOfGuardian run;
    const RunOutcome outcome = run.run([](FakeGuardian& guardian) {
        guardian.send(Event::Kind::exited, 0);
        guardian.send(Event::Kind::ended, 1);
    });
    CHECK_FALSE(outcome.directory_removed);
}

TEST_CASE("a death by signal is 128 and the signal") {
    LoopOfGuardian run;
    const RunOutcome outcome =
        run.run([](FakeGuardian& guardian) { guardian.end_with(Event::Kind::signaled, SIGSEGV); });
    CHECK(outcome.outcome == Outcome::signaled);
    CHECK(outcome.exit_status == 128 + SIGSEGV);
    CHECK(outcome.signal == SIGSEGV);
    CHECK_FALSE(outcome.exit_code);
    CHECK(run.ended == std::vector{128 + SIGSEGV});
}

TEST_CASE("a failed execve is 127 for a missing file and 126 otherwise, and names its error") {
    for (const auto& [error, status] :
         {std::pair{ENOENT, 127}, {ENOTDIR, 127}, {EACCES, 126}, {ENOEXEC, 126}}) {
        LoopOfGuardian run;
        const RunOutcome outcome = run.run([error = error](FakeGuardian& guardian) {
            guardian.send(Event::Kind::exec_failed, error);
            guardian.send(Event::Kind::ended);
        });
        CHECK(outcome.outcome == Outcome::exec_failed);
        CHECK(outcome.exit_status == status);
        CHECK(outcome.error == std::generic_category().message(error));
        CHECK(run.ended.empty());
    }
}

TEST_CASE("an agent that cannot become the command is a failure of callgate") {
    LoopOfGuardian run;
    const RunOutcome outcome = run.run([](FakeGuardian& guardian) {
        guardian.send(Event::Kind::confine_failed, EPIPE);
        guardian.send(Event::Kind::ended);
    });
    CHECK(outcome.outcome == Outcome::setup_error);
    CHECK(outcome.exit_status == 125);
    CHECK_FALSE(outcome.error.empty());
}

TEST_CASE("the guardian gets the deadline, and a run that it ends is 124 whatever the command then does") {
    LoopOfGuardian run;
    const RunOutcome outcome = run.run(
        [](FakeGuardian& guardian) {
            if (guardian.await(Order::Kind::deadline).milliseconds != 90'000'000'000) return guardian.lose();
            guardian.send(Event::Kind::expired);
            guardian.end_with(Event::Kind::signaled, SIGKILL);
        },
        90'000'000s);
    CHECK(outcome.outcome == Outcome::timeout);
    CHECK(outcome.exit_status == 124);
    CHECK(outcome.signal == SIGKILL);
}

TEST_CASE("a command that ends in time beats the deadline that ends its background") {
    LoopOfGuardian run;
    const RunOutcome outcome = run.run(
        [](FakeGuardian& guardian) {
            guardian.send(Event::Kind::exited, 5);
            guardian.send(Event::Kind::expired);
            guardian.send(Event::Kind::ended);
        },
        1ms);
    CHECK(outcome.outcome == Outcome::exited);
    CHECK(outcome.exit_status == 5);
}

TEST_CASE("a limit of the tree decides the outcome before the death that it causes") {
    for (const auto& [limit, status] : {std::pair{Outcome::memory, 137},
                                        {Outcome::cpu, 152},
                                        {Outcome::disk, 137},
                                        {Outcome::killed_by_rule, 137},
                                        {Outcome::idle_timeout, 124}}) {
        LoopOfGuardian run;
        run.loop.end_tree(limit);
        run.loop.end_tree(Outcome::timeout);  // too late: the first outcome holds
        const RunOutcome outcome = run.run([](FakeGuardian& guardian) {
            guardian.await(Order::Kind::end);
            guardian.end_with(Event::Kind::signaled, SIGKILL);
        });
        CHECK(outcome.outcome == limit);
        CHECK(outcome.exit_status == status);
    }
}

TEST_CASE("processes that an ordered end takes along were not left running") {
    LoopOfGuardian run;
    run.loop.end_tree(Outcome::memory);
    const RunOutcome outcome = run.run([](FakeGuardian& guardian) {
        guardian.await(Order::Kind::end);
        guardian.send(Event::Kind::signaled, SIGKILL);
        guardian.send(Event::Kind::lingering, 9);
        guardian.send(Event::Kind::ended);
    });
    CHECK(outcome.ended_background == 0);
}

TEST_CASE("a signal is passed on: a command that dies of it was cancelled, one that exits was not") {
    SUBCASE("it dies") {
        LoopOfGuardian run;
        signal_this_thread(SIGTERM);
        const RunOutcome outcome = run.run([](FakeGuardian& guardian) {
            guardian.end_with(Event::Kind::signaled, guardian.await(Order::Kind::signal).value);
        });
        CHECK(outcome.outcome == Outcome::cancelled);
        CHECK(outcome.exit_status == 128 + SIGTERM);
    }
    SUBCASE("it exits") {
        LoopOfGuardian run;
        signal_this_thread(SIGINT);
        const RunOutcome outcome = run.run([](FakeGuardian& guardian) {
            if (guardian.await(Order::Kind::signal).value == SIGINT)
                guardian.end_with(Event::Kind::exited, 7);
        });
        CHECK(outcome.outcome == Outcome::exited);
        CHECK(outcome.exit_status == 7);
    }
    SUBCASE("it dies of another") {
        LoopOfGuardian run;
        signal_this_thread(SIGTERM);
        const RunOutcome outcome = run.run([](FakeGuardian& guardian) {
            guardian.await(Order::Kind::signal);
            guardian.end_with(Event::Kind::signaled, SIGSEGV);
        });
        CHECK(outcome.outcome == Outcome::signaled);
    }
}

TEST_CASE("a command that ignores SIGTERM is ended after the grace, or by a second SIGTERM") {
    SUBCASE("the grace") {
        LoopOfGuardian run;
        signal_this_thread(SIGTERM);
        const RunOutcome outcome = run.run(
            [](FakeGuardian& guardian) {
                guardian.await(Order::Kind::end);
                guardian.end_with(Event::Kind::signaled, SIGKILL);
            },
            {}, 1ms);
        CHECK(outcome.outcome == Outcome::cancelled);
        CHECK(outcome.exit_status == 128 + SIGTERM);
        CHECK(outcome.signal == SIGKILL);
    }
    SUBCASE("the second") {
        LoopOfGuardian run;
        const pthread_t loop = ::pthread_self();
        signal_this_thread(SIGTERM);
        const RunOutcome outcome = run.run([loop](FakeGuardian& guardian) {
            guardian.await(Order::Kind::signal);
            ::pthread_kill(loop, SIGTERM);
            guardian.await(Order::Kind::end);
            guardian.end_with(Event::Kind::signaled, SIGKILL);
        });
        CHECK(outcome.outcome == Outcome::cancelled);
        CHECK(outcome.exit_status == 128 + SIGTERM);
    }
}

TEST_CASE("a command that has stopped gets SIGTERM and goes on, so that it can take it") {
    LoopOfGuardian run;
    const pthread_t loop = ::pthread_self();
    const RunOutcome outcome = run.run([loop](FakeGuardian& guardian) {
        guardian.send(Event::Kind::stopped, SIGSTOP);
        ::pthread_kill(loop, SIGTERM);
        const int first = guardian.await(Order::Kind::signal).value;
        const int second = guardian.await(Order::Kind::signal).value;
        if (first == SIGTERM && second == SIGCONT) guardian.end_with(Event::Kind::exited, 8);
    });
    CHECK(outcome.exit_status == 8);
}

TEST_CASE("a command that callgate itself has stopped for a moment is not followed") {
    const pid_t stopped = ::fork();
    if (stopped == 0) {
        ::raise(SIGSTOP);
        ::_exit(0);
    }
    siginfo_t seen{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(stopped), &seen, WSTOPPED) == 0);
    bool asked = false, taken = false;
    {
        LoopOfGuardian run;
        run.fake.play([stopped](FakeGuardian& guardian) {
            Event event;
            event.kind = Event::Kind::stopped;
            event.pid = stopped;
            event.value = SIGTTIN;
            guardian.send(event);
            guardian.end_with(Event::Kind::exited, 8);
        });
        const RunOutcome outcome =
            run.loop.run(run.fake.guardian, {.wall = {},
                                             .command_ended = [](int) {},
                                             .relay = {{.foreground = [] { return true; },
                                                        .take = [&] { return taken = true; },
                                                        .give_back = [] {},
                                                        .resume = [](bool) { return true; }}},
                                             .stopped_by_itself =
                                                 [&](pid_t pid) {
                                                     asked = pid == stopped;
                                                     return false;
                                                 },
                                             .tick = [] { return false; }});
        CHECK(outcome.exit_status == 8);
    }
    ::kill(stopped, SIGKILL);
    ::waitpid(stopped, nullptr, 0);
    CHECK(asked);
    CHECK_FALSE(taken);
}

TEST_CASE("SIGINT never ends the tree, however often it comes") {
    LoopOfGuardian run;
    const pthread_t loop = ::pthread_self();
    signal_this_thread(SIGINT);
    const RunOutcome outcome = run.run(
        [loop](FakeGuardian& guardian) {
            for (int round = 0; round < 3; ++round) {
                guardian.await(Order::Kind::signal);
                ::pthread_kill(loop, SIGINT);
            }
            guardian.await(Order::Kind::signal);
            guardian.end_with(Event::Kind::exited, 0);
        },
        {}, 1ms);
    CHECK(outcome.outcome == Outcome::exited);
    CHECK(std::ranges::count(run.fake.orders, Order::Kind::end) == 0);
}

TEST_CASE("a lost guardian is a failure of callgate, whatever the command had said before") {
    SUBCASE("at once") {
        LoopOfGuardian run;
        const RunOutcome outcome = run.run([](FakeGuardian& guardian) { guardian.lose(); });
        CHECK(outcome.outcome == Outcome::cancelled);
        CHECK(outcome.exit_status == 125);
        CHECK(outcome.error.find("guardian") != std::string::npos);
    }
    SUBCASE("after the command") {
        LoopOfGuardian run;
        const RunOutcome outcome = run.run([](FakeGuardian& guardian) {
            guardian.send(Event::Kind::exited, 0);
            guardian.lose();
        });
        CHECK(outcome.exit_status == 125);
        CHECK_FALSE(outcome.directory_removed);
    }
}
