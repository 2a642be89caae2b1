// The lock of names: held from judging a name to acting on it, so that no directory moves between the two.
//
// It has three forms. Most calls share it. Moves of directories hold it alone in their run. A move that could
// carry something to a name beneath which less is allowed holds it alone among all runs of the user. Two runs
// may work in one directory. One could make an entry while the other judges those that are there.
//
// Runs meet at a file of the state directory, which no run can open. The kernel drops the locks of a callgate
// that has ended. One that is stopped keeps them. So nobody waits for long: the call is denied then.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>

namespace callgate::calls {

/// Another run has held the lock for too long.
class NamesHeld : public std::runtime_error {
public:
    NamesHeld() : std::runtime_error("another run holds the lock of names, and does not go on") {}
};

/// Any thread. `lock` and `lock_shared` throw NamesHeld, and std::system_error if the kernel has no lock.
class NameLock {
public:
    static constexpr std::chrono::seconds usual_patience{10};

    /// `file`: where the runs meet, which outlives this; -1: the run is alone.
    explicit NameLock(int file, std::chrono::milliseconds patience = usual_patience)
        : file_(file), patience_(patience), of_runs_{*this} {}
    NameLock(const NameLock&) = delete;
    NameLock& operator=(const NameLock&) = delete;
    ~NameLock() = default;

    void lock_shared();
    void unlock_shared();
    /// Alone in this run.
    void lock();
    void unlock();

    /// For what concerns this run alone.
    [[nodiscard]] std::shared_mutex& in_run() { return in_run_; }

    /// Alone among all runs of the user.
    class OfRuns {
    public:
        void lock() { names_.lock_of_runs(); }
        void unlock() { names_.unlock_of_runs(); }

    private:
        friend class NameLock;
        explicit OfRuns(NameLock& names) : names_(names) {}
        NameLock& names_;
    };
    [[nodiscard]] OfRuns& of_runs() { return of_runs_; }

private:
    class Wait;
    void join();
    void leave();
    void lock_of_runs();
    void unlock_of_runs();
    [[nodiscard]] bool take(short kind, int first, int count) const;
    void give_back(int first, int count) const;
    [[nodiscard]] bool take_of_runs(Wait& wait) const;
    [[nodiscard]] bool others_turn() const;
    void leave_to_others(std::int64_t held_ns) const;

    const int file_;
    const std::chrono::milliseconds patience_;
    std::shared_mutex in_run_;
    std::mutex mutex_;  // of what follows
    std::size_t sharing_ = 0;
    std::int64_t joined_until_ns_ = 0;  // from then on nobody joins while another run waits
    std::int64_t alone_since_ns_ = 0;   // only who holds it of all runs looks at it
    OfRuns of_runs_;
};

}  // namespace callgate::calls
