#include "supervisor/run/limits/memory_guard.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "base/process/spawn.hpp"
#include "supervisor/run/limits/tree_usage.hpp"

using namespace callgate;
using namespace callgate::limits;
using namespace std::chrono_literals;

namespace {

/// A guardian, its command, and the command's child. They wait, and end with the test. The child is a job:
/// the command ends it where it sees that it has stopped.
class WaitingTree {
public:
    WaitingTree() {
        auto pipe = make_pipe();
        REQUIRE(pipe.has_value());
        guardian_ = fork_waiting([&] {
            static_cast<void>(fork_waiting([&] {
                numbers_[1] = fork_waiting([] {});
                ::setpgid(numbers_[1], numbers_[1]);
                static_cast<void>(::write(pipe->write.get(), numbers_.data(), sizeof numbers_));
                siginfo_t seen{};
                if (::waitid(P_PID, static_cast<id_t>(numbers_[1]), &seen, WSTOPPED) == 0)
                    ::kill(numbers_[1], SIGKILL);
            }));
        });
        REQUIRE(guardian_ > 0);
        REQUIRE(::read(pipe->read.get(), numbers_.data(), sizeof numbers_) == sizeof numbers_);
        numbers_[0] = read_process(numbers_[1])->parent;
    }
    WaitingTree(const WaitingTree&) = delete;
    WaitingTree& operator=(const WaitingTree&) = delete;
    ~WaitingTree() {
        for (const pid_t pid : {numbers_[1], numbers_[0], guardian_}) ::kill(pid, SIGKILL);
        ::waitpid(guardian_, nullptr, 0);
    }
    [[nodiscard]] pid_t guardian() const { return guardian_; }
    [[nodiscard]] pid_t command() const { return numbers_[0]; }
    [[nodiscard]] pid_t child() const { return numbers_[1]; }

private:
    static pid_t fork_waiting(const std::function<void()>& first) {
        const pid_t pid = ::fork();
        if (pid != 0) return pid;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        first();
        for (;;) ::pause();
    }
    pid_t guardian_ = -1;
    std::array<pid_t, 2> numbers_{};
};

/// Memory that the machine gains while this lives.
class Memory {
public:
    void grow() {
        constexpr std::size_t size = 16U << 20U;
        void* const block =
            ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (block != MAP_FAILED) blocks_.emplace_back(block, size);
    }
    ~Memory() {
        for (const auto& [block, size] : blocks_) ::munmap(block, size);
    }

private:
    std::vector<std::pair<void*, std::size_t>> blocks_;
};

/// False if it is not so within the time.
bool becomes(const std::function<bool()>& condition, std::chrono::seconds within = 20s) {
    const auto end = MemoryGuard::Clock::now() + within;
    while (!condition()) {
        if (MemoryGuard::Clock::now() > end) return false;
        std::this_thread::sleep_for(1ms);
    }
    return true;
}

/// A reading that found nothing used. The machine may gain so much until the next is wanted and the tree
/// held.
MemoryGuard::Found found(std::uint64_t may_gain) {
    MemoryGuard::Found nothing;
    nothing.wanted_after = nothing.held_after = may_gain;
    return nothing;
}

}  // namespace

TEST_CASE("a tree is stopped while a reading is late and the machine gains more than the tree may") {
    const WaitingTree tree;
    std::promise<void> end;
    std::thread reader([done = end.get_future()] { done.wait(); });  // uses no time, so it is not too late
    std::atomic<bool> ended = false;
    {
        MemoryGuard guard(tree.guardian(), -1, [&] { ended = true; });
        Memory memory;
        guard.reading_begins();
        guard.reading_ends(found(0));
        guard.start(reader.native_handle());
        CHECK(becomes([&] {
            memory.grow();
            return is_stopped(tree.child());
        }));
        CHECK(is_stopped(tree.command()));
        CHECK_FALSE(guard.stopped_by_itself(tree.command()));

        guard.reading_begins();
        guard.reading_ends(found(std::uint64_t{1} << 60U));
        CHECK(becomes([&] { return !is_stopped(tree.child()) && !is_stopped(tree.command()); }));
        CHECK_FALSE(ended);
        ::kill(tree.command(), SIGSTOP);
        CHECK(becomes([&] { return guard.stopped_by_itself(tree.command()); }));
        ::kill(tree.command(), SIGCONT);
        // Its child's stop would be seen by now.
        CHECK(read_process(tree.child())->alive());

        guard.reading_begins();
        guard.reading_ends(found(0));
        CHECK(becomes([&] {
            memory.grow();
            return is_stopped(tree.child());
        }));
        guard.pause();
        CHECK_FALSE(is_stopped(tree.child()));
        CHECK_FALSE(is_stopped(tree.command()));
        CHECK_FALSE(ended);
    }
    end.set_value();
    reader.join();
}

TEST_CASE("the peak of a tree that is ended has what the machine gained since the reading before") {
    MemoryGuard guard(::getpid(), -1, [] {});
    guard.reading_begins();
    MemoryGuard::Found used = found(std::uint64_t{1} << 60U);
    used.used = 1000;
    guard.reading_ends(used);
    CHECK(guard.peak() == 0);
    Memory memory;
    CHECK(becomes([&] {
        memory.grow();
        guard.too_much();
        return guard.peak() > 1000;
    }));
    CHECK(guard.peak() >= 1000 + (4U << 10U));
}
