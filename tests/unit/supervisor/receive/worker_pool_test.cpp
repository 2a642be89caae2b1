#include "supervisor/receive/worker_pool.hpp"

#include <doctest/doctest.h>
#include <semaphore.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

#include "base/clock.hpp"
#include "tests/fakes/notification_source.hpp"
#include "tests/fakes/run_needs.hpp"

using namespace callgate;
using namespace callgate::kernel;

namespace {

/// Callers that do nothing but call: each calls again as soon as it has its answer. Answering takes as long
/// as it does the kernel; the answer to call `hanging` takes until every other call has its own.
class Callers {
public:
    Callers(int callers, std::size_t calls, std::uint64_t hanging) : answers_(calls), hanging_(hanging) {
        ::sem_init(&waiting_calls_, 0, 0);
        source.on_receive = [this] { return receive(); };
        source.on_answer = [this](std::uint64_t id, const Answer&) { answer(id); };
        source.on_pending = [this] {
            int value = 0;
            ::sem_getvalue(&waiting_calls_, &value);
            return value > 0;
        };
        for (int n = 0; n < callers; ++n) call(n);
    }
    Callers(const Callers&) = delete;
    Callers& operator=(const Callers&) = delete;
    ~Callers() { ::sem_destroy(&waiting_calls_); }

    /// Returns false if a tick passed before the last answer.
    bool all_answered() {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, std::chrono::milliseconds(WorkerPool::tick_interval_ms),
                                 [this] { return answered_ == answers_.size(); });
    }
    [[nodiscard]] const std::vector<int>& answers() const { return answers_; }

    fakes::NotificationSource source;

private:
    Result<Notification> receive() {
        if (::sem_wait(&waiting_calls_) != 0) return errno_code(EINTR);
        const std::lock_guard lock(mutex_);
        const Notification next = calls_.front();
        calls_.pop_front();
        return next;
    }
    void answer(std::uint64_t id) {
        std::unique_lock lock(mutex_);
        ++answers_[id];
        if (id == hanging_) changed_.wait(lock, [this] { return answered_ + 1 == answers_.size(); });
        ++answered_;
        call(static_cast<pid_t>(id % 64));
        changed_.notify_all();
        lock.unlock();
        for (const std::int64_t start = monotonic_ns(); monotonic_ns() < start + 20'000;) {
        }
    }
    /// With mutex_ held, or by the constructor.
    void call(pid_t thread) {
        if (issued_ == answers_.size()) return;
        constexpr std::uint32_t in_no_table = 100'000;
        calls_.push_back({.id = issued_++, .thread = thread + 1, .call = in_no_table});
        ::sem_post(&waiting_calls_);
    }

    sem_t waiting_calls_{};
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Notification> calls_;
    std::vector<int> answers_;
    std::size_t issued_ = 0, answered_ = 0;
    std::uint64_t hanging_;
};

/// The rules are never asked: the calls are in no table.
void serve(Callers& callers) {
    fakes::RunNeeds run({}, rules::Action::deny);
    WorkerPool pool(callers.source, run.needs, [] {});
    pool.prepare();
    pool.start();
    while (!callers.all_answered()) pool.tick();
    pool.stop();
}

constexpr std::uint64_t none = ~std::uint64_t{0};

}  // namespace

TEST_CASE("however many call, each call is answered once") {
    for (const int callers : {1, 3, 64}) {
        Callers source(callers, 20'000, none);
        serve(source);
        CHECK(std::ranges::count(source.answers(), 1) == 20'000);
    }
}

TEST_CASE("a call that hangs unannounced delays nobody else, whatever was left where it is handled") {
    for (const std::uint64_t hanging : {0U, 9'000U, 15'001U}) {
        Callers source(64, 20'000, hanging);
        serve(source);
        CHECK(std::ranges::count(source.answers(), 1) == 20'000);
    }
}
