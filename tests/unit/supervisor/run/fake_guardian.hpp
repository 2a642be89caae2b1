// A guardian without processes: the other ends of its two pipes, and a thread that plays a script on them.
//
// Every wait ends after ten seconds by throwing, so that a broken loop fails a test instead of hanging it.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "agent/guardian.hpp"
#include "base/process/spawn.hpp"

namespace callgate::tests {

/// Restores the calling thread's signal mask, and drops the signals that a test left pending.
class SignalsRestored {
public:
    SignalsRestored() {
        ::signal(SIGPIPE, SIG_IGN);
        ::pthread_sigmask(SIG_SETMASK, nullptr, &before_);
    }
    SignalsRestored(const SignalsRestored&) = delete;
    SignalsRestored& operator=(const SignalsRestored&) = delete;
    ~SignalsRestored() {
        sigset_t ours;
        ::sigemptyset(&ours);
        for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaddset(&ours, signal);
        constexpr timespec no_wait{};
        while (::sigtimedwait(&ours, nullptr, &no_wait) > 0) {
        }
        ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }

private:
    sigset_t before_{};
};

class FakeGuardian {
public:
    using Kind = agent::Event::Kind;
    using Script = std::function<void(FakeGuardian&)>;

    /// The supervisor's ends. Its `pid` is this process, so that children of the test belong to the tree.
    agent::Guardian guardian;
    UniqueFd go;  // the agent's end

    FakeGuardian() {
        Pipe orders = make_pipe().value(), events = make_pipe().value(), going = make_pipe().value();
        guardian.pid = ::getpid();
        guardian.orders = std::move(orders.write);
        guardian.events = std::move(events.read);
        guardian.go = std::move(going.write);
        orders_ = std::move(orders.read);
        events_ = std::move(events.write);
        go = std::move(going.read);
    }
    FakeGuardian(const FakeGuardian&) = delete;
    FakeGuardian& operator=(const FakeGuardian&) = delete;
    ~FakeGuardian() {
        if (thread_.joinable()) thread_.join();
    }

    /// Plays the script on a thread of its own. Its last step ends the tree or loses the guardian.
    void play(Script script) {
        thread_ = std::thread([this, script = std::move(script)] {
            try {
                script(*this);
            } catch (const std::exception&) {
                lose();
            }
        });
    }
    void send(const agent::Event& event) const {
        if (::write(events_.get(), &event, sizeof event) != sizeof event) throw std::runtime_error("write");
    }
    void send(Kind kind, int value = 0) const {
        agent::Event event;
        event.kind = kind;
        event.value = value;
        send(event);
    }
    /// The command has exited, and nothing of the tree is left.
    void end_with(Kind kind, int value) const {
        send(kind, value);
        send(Kind::lingering);
        send(Kind::ended);
    }
    /// The next order that the loop gives.
    agent::Order next_order() {
        pollfd waiting{orders_.get(), POLLIN, 0};
        agent::Order order;
        if (::poll(&waiting, 1, 10'000) <= 0 || ::read(orders_.get(), &order, sizeof order) != sizeof order)
            throw std::runtime_error("no order came");
        orders.push_back(order.kind);
        return order;
    }
    /// Waits for this order; earlier ones are remembered.
    agent::Order await(agent::Order::Kind kind) {
        for (;;)
            if (const agent::Order order = next_order(); order.kind == kind) return order;
    }
    /// Closes its end, as the kernel does for a killed guardian.
    void lose() { events_.reset(); }

    std::vector<agent::Order::Kind> orders;  // all that were read; after the script has ended

private:
    UniqueFd orders_, events_;
    std::thread thread_;
};

}  // namespace callgate::tests
