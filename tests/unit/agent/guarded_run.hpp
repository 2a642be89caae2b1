// A small supervisor for tests: starts a guardian, shakes hands, collects events.
//
// Every wait ends after half a minute by throwing, so that a broken guardian fails a test instead of hanging
// it.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "agent/guardian.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace callgate::agent::test {

inline std::string contents(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

using tests::TemporaryDirectory;

/// tests/programs/agent_victim.c, beside the directory that this program lies in.
inline std::string victim() {
    char self[4096] = "";
    const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) throw std::runtime_error("readlink /proc/self/exe");
    std::string path(self, static_cast<std::size_t>(length));
    path = path.substr(0, path.rfind('/')) + "/../programs/agent_victim";
    if (::access(path.c_str(), X_OK) != 0) throw std::runtime_error(path + " is not built");
    return path;
}

inline void wait_readable(int fd) {
    pollfd waiting{fd, POLLIN, 0};
    if (::poll(&waiting, 1, 30'000) <= 0) throw std::runtime_error("nothing happened for half a minute");
}

/// All settings of a run, early and late ones.
struct LaunchParts : GuardianConfig, CommandSpec {
    LaunchParts() : GuardianConfig(SignalState::current()) {}
    const RulesetParts* landlock = nullptr;
    std::vector<sock_filter> filter;
};

inline LaunchParts launch(std::vector<std::string> command) {
    LaunchParts launch;
    launch.executables = {command.front()};
    launch.command = std::move(command);
    launch.environment = {"PATH=/usr/bin:/bin:/usr/sbin:/sbin"};
    return launch;
}

/// Silent: a shell reports killed children on stderr.
inline LaunchParts shell(const std::string& script) {
    return launch({"/bin/sh", "-c", "exec 2> /dev/null; " + script});
}

class GuardedRun {
public:
    explicit GuardedRun(const LaunchParts& launch) : guardian_(start_guardian(launch).value()) {
        first_ = read_event();
        if (first_->kind != Event::Kind::ready) return;
        first_.reset();
        send_ruleset(guardian_, launch.landlock).value();
        send_filter(guardian_, launch.filter).value();
        send_command(guardian_, launch).value();
    }
    GuardedRun(const GuardedRun&) = delete;
    GuardedRun& operator=(const GuardedRun&) = delete;
    ~GuardedRun() {
        guardian_.orders.reset();
        guardian_.go.reset();
        if (!reaped_) ::waitpid(guardian_.pid, nullptr, 0);
    }

    /// The next event; remembers it.
    Event next() {
        seen_.push_back(first_ ? *std::exchange(first_, std::nullopt) : read_event());
        return seen_.back();
    }
    Event until(Event::Kind kind) {
        for (;;) {
            const Event event = next();
            if (event.kind == kind) return event;
            if (event.kind == Event::Kind::ended) throw std::runtime_error("ended before what was awaited");
        }
    }
    /// Waits for `confined`, takes the listener if there is one, and lets the command go.
    Event start() {
        const Event confined = until(Event::Kind::confined);
        command_ = confined.pid;
        if (confined.value >= 0) take_listener(confined);
        go();
        return confined;
    }
    void go() const {
        if (::write(guardian_.go.get(), "g", 1) != 1) throw std::runtime_error("go");
    }
    void order(Order::Kind kind, int value = 0) const {
        const Order order{kind, value};
        if (::write(guardian_.orders.get(), &order, sizeof order) != sizeof order)
            throw std::runtime_error("order");
    }
    /// Runs to the end and returns the guardian's wait status.
    int finish() {
        until(Event::Kind::ended);
        return reap();
    }
    int reap() {
        int status = 0;
        wait_readable(guardian_.pidfd.get());
        if (::waitpid(guardian_.pid, &status, 0) != guardian_.pid) throw std::runtime_error("waitpid");
        reaped_ = true;
        return status;
    }
    [[nodiscard]] std::vector<Event::Kind> kinds() const {
        std::vector<Event::Kind> all;
        for (const Event& event : seen_) all.push_back(event.kind);
        return all;
    }
    [[nodiscard]] Event seen(Event::Kind kind) const {
        for (const Event& event : seen_) {
            if (event.kind == kind) return event;
        }
        throw std::runtime_error("no such event");
    }
    [[nodiscard]] Guardian& guardian() { return guardian_; }
    [[nodiscard]] pid_t command() const { return command_; }
    UniqueFd listener;

private:
    [[nodiscard]] Event read_event() const {
        wait_readable(guardian_.events.get());
        Event event;
        if (::read(guardian_.events.get(), &event, sizeof event) != sizeof event)
            throw std::runtime_error("the guardian has gone");
        return event;
    }
    void take_listener(const Event& confined) {
        const UniqueFd agent(static_cast<int>(::syscall(SYS_pidfd_open, confined.pid, 0U)));
        listener = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_getfd, agent.get(), confined.value, 0U)));
        if (!listener) throw std::runtime_error("pidfd_getfd");
    }

    Guardian guardian_;
    std::optional<Event> first_;  // if the guardian could not begin
    std::vector<Event> seen_;
    pid_t command_ = -1;
    bool reaped_ = false;
};

/// The events of a command that runs without interaction.
inline std::vector<Event::Kind> run_to_end(GuardedRun& run) {
    run.start();
    run.finish();
    return run.kinds();
}

/// Blocks until `path` exists and is not empty; the half minute bounds it.
inline std::string wait_for_file(const std::string& path) {
    for (int round = 0; round < 30'000; ++round) {
        if (std::string text = contents(path); !text.empty() && text.back() == '\n') return text;
        ::poll(nullptr, 0, 1);
    }
    throw std::runtime_error(path + " never appeared");
}

}  // namespace callgate::agent::test
