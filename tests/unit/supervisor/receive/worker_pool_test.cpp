#include "supervisor/receive/worker_pool.hpp"

#include <doctest/doctest.h>
#include <semaphore.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

#include "supervisor/decide/decide.hpp"
#include "base/clock.hpp"

using namespace callgate;
using namespace callgate::kernel;

namespace {

/// Callers that do nothing but call: each calls again as soon as it has its answer. Answering takes as long
/// as it does the kernel; the answer to call `hanging` takes until every other call has its own.
class Callers final : public NotificationSource {
public:
    Callers(int callers, std::size_t calls, std::uint64_t hanging) : answers_(calls), hanging_(hanging) {
        ::sem_init(&waiting_calls_, 0, 0);
        for (int n = 0; n < callers; ++n) call(n);
    }
    ~Callers() override { ::sem_destroy(&waiting_calls_); }

    Result<Notification> receive() override {
        if (::sem_wait(&waiting_calls_) != 0) return errno_code(EINTR);
        const std::lock_guard lock(mutex_);
        const Notification next = calls_.front();
        calls_.pop_front();
        return next;
    }
    Result<void> answer(std::uint64_t id, const Answer&) override {
        std::unique_lock lock(mutex_);
        ++answers_[id];
        if (id == hanging_) changed_.wait(lock, [this] { return answered_ + 1 == answers_.size(); });
        ++answered_;
        call(static_cast<pid_t>(id % 64));
        changed_.notify_all();
        lock.unlock();
        for (const std::int64_t start = monotonic_ns(); monotonic_ns() < start + 20'000;) {
        }
        return {};
    }
    Result<int> add_descriptor(std::uint64_t, int, bool) override { return 0; }
    bool waiting(std::uint64_t) override { return true; }
    bool finished() override { return false; }
    bool pending() override {
        int value = 0;
        ::sem_getvalue(&waiting_calls_, &value);
        return value > 0;
    }
    bool wake_synchronously(bool) override { return true; }

    /// False: a tick passed before the last answer.
    bool all_answered() {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, std::chrono::milliseconds(WorkerPool::tick_interval_ms),
                                 [this] { return answered_ == answers_.size(); });
    }
    [[nodiscard]] const std::vector<int>& answers() const { return answers_; }

private:
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

/// WorkerPool with rules that nobody asks: the calls are in no table.
void serve(Callers& callers) {
    const rules::RuleSet rules({}, rules::Action::deny);
    const rules::Plan plan;
    const rules::StaticGrants grants(plan);
    const rules::RenameCheck moves(rules, grants);
    const auto made = agent::SharedObjects::make();
    REQUIRE(made.has_value());
    calls::IpcObjects ipc_objects(made->objects());
    RunReport report;
    calls::Supervision run{.rules = rules,
                           .plan = plan,
                           .grants = grants,
                           .moves = moves,
                           .report = report,
                           .identity = {},
                           .names = {},
                           .bound_names = {},
                           .ipc_objects = ipc_objects,
                           .kill_tree = {},
                           .sync_log = {},
                           .log_error = {},
                           .notifications = {}};
    WorkerPool receivers(callers, run, [] {});
    receivers.prepare();
    receivers.start();
    while (!callers.all_answered()) receivers.tick();
    receivers.stop();
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
