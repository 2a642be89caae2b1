#include "supervisor/container/container_run.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "agent/created_ipc.hpp"
#include "base/plural.hpp"
#include "base/process/open_files.hpp"
#include "rules/plan/rename_check.hpp"
#include "supervisor/calls/files/settings_locks.hpp"
#include "supervisor/calls/opaque.hpp"
#include "supervisor/container/container_source.hpp"
#include "supervisor/container/joining.hpp"
#include "supervisor/enforce/filter_spec.hpp"
#include "supervisor/host/own_addresses.hpp"
#include "supervisor/receive/worker_pool.hpp"
#include "supervisor/run/report.hpp"
#include "supervisor/run/setup_error.hpp"

namespace callgate::container {

namespace {

constexpr CapabilitySet any_caller = all_capabilities;

class Supervision {
public:
    Supervision(const Container& container, UniqueFd listener, const enforce::FilterSpec& filter);

    void record_start();
    void answer_calls();
    std::string end();

private:
    void wake();
    void wait(int timeout_ms);
    void kill();
    void look_after_log();

    const Container& container_;
    const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
    const UniqueFd wake_;  // an eventfd
    ContainerSource source_;
    const enforce::RefusedCalls refused_;
    calls::Refusals refusals_;
    RunReport report_;
    const rules::StaticGrants grants_;
    const rules::RenameCheck moves_;
    const calls::Basis basis_;
    agent::SharedObjects made_;
    calls::IpcObjects ipc_;
    calls::SettingsLocks locks_;
    calls::OpaqueMemories opaque_;
    calls::NameLock names_{container_.name_lock};
    std::string login_file_;
    calls::DecideNeeds deciding_;
    const calls::FileNeeds files_;
    const calls::ExecNeeds exec_;
    calls::NetworkNeeds network_{names_};
    const calls::ProcessNeeds processes_;
    WorkerNeeds needs_;
    WorkerPool workers_;
    std::optional<Questions> questions_;
    std::atomic<bool> sync_{false}, count_{false}, killed_{false};
};

Supervision::Supervision(const Container& container, UniqueFd listener, const enforce::FilterSpec& filter)
    : container_(container),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      source_(enforce::compile(enforce::with_refusals_notified(filter))),
      refused_(filter),
      grants_(container.rules.plan),
      moves_(*container.rules.rules, grants_),
      basis_{*container.rules.rules, grants_, moves_},
      made_(require(agent::SharedObjects::make(), "no memory")),
      ipc_(made_.objects()),
      deciding_{.enforced = basis_,
                .record_mode = container.rules.plan.record,
                .log = container.log,
                .sink = report_,
                .refuses_object =
                    [this](const calls::Subject& one, const rules::Verdict&) {
                        return locks_.refuses(*container_.rules.rules, one);
                    },
                .is_own_address = is_own_address,
                .kill_tree = [this] { kill(); },
                .sync_log = [this] { sync_ = true, wake(); },
                .count_soon = [this] { count_ = true, wake(); }},
      files_{.plan = container.rules.plan,
             .grants = grants_,
             .moves = moves_,
             .names = names_,
             .locks = &locks_,
             .keep_capabilities = any_caller,
             .in_container = true,
             .login_file = &login_file_},
      exec_(container.rules.plan, grants_, deciding_),
      processes_{-1, opaque_},
      needs_{.decide = deciding_,
             .families = {files_, exec_, network_, ipc_, processes_},
             .keep_capabilities = any_caller,
             .identity = require(kernel::own_identity(any_caller), "cannot read the own identity"),
             .refused = &refused_,
             .refusals = &refusals_},
      workers_(source_, needs_, [this] { wake(); }) {
    if (!wake_) throw SetupError("no descriptors are left");
    source_.add(std::move(listener));
    if (container.asking != nullptr) {
        questions_.emplace(
            Questions::Needs{.asking = *container.asking,
                             .run = container.run,
                             .container = container.state.id,
                             .first = container.state.first,
                             .log = container.log,
                             .resume = [this](auto calls) { workers_.resume(std::move(calls)), wake(); },
                             .kill = [this] { kill(); },
                             .stop = [&container] { container.place.end(); },
                             .counts = [this] { return report_.counts(); }});
        deciding_.questions = &questions_->queue();
    }
    network_.udp = container.rules.plan.udp;
    report_.use_rules(container.rules.rules, "");
    kernel::CallerCache::expect_other_roots();
    raise_open_files();
}

void Supervision::wake() {
    const std::uint64_t one = 1;
    if (::write(wake_.get(), &one, sizeof one) < 0) return;  // it is full, and so awake
}

/// Any thread.
void Supervision::kill() {
    killed_ = true;
    container_.place.end();
}

void Supervision::record_start() {
    if (container_.log == nullptr) return;
    audit::RunStart start;
    start.command = {"container", container_.state.id};
    start.workdir = "/";
    start.rules_sha256 = container_.rules.sha256;
    start.profiles = {container_.state.rules};
    start.degraded = {"landlock", "guardian", "wait-killable"};
    if (!questions_) start.degraded.emplace_back("questions");
    start.pid = container_.state.process;
    if (utsname names{}; ::uname(&names) == 0) {
        start.kernel = names.release;
        start.host = names.nodename;
    }
    require(container_.log->record(start), "the log cannot be written");
}

void Supervision::look_after_log() {
    if (container_.log == nullptr) return;
    if (sync_.exchange(false)) container_.log->sync();
    if (count_.exchange(false) && container_.log->write_counts()) count_ = true;
}

void Supervision::answer_calls() {
    sigset_t all;
    ::sigfillset(&all);
    for (const int fatal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) ::sigdelset(&all, fatal);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    if (questions_) questions_->start();
    workers_.prepare();
    workers_.start();
    constexpr int second = 1000;
    for (bool awake = true; source_.forget_ended();) {
        wait(awake ? WorkerPool::tick_interval_ms : count_ ? second : -1);
        std::uint64_t count = 0;
        if (::read(wake_.get(), &count, sizeof count) > 0) awake = true;
        awake = workers_.tick() && awake;
        look_after_log();
    }
}

/// Until something has to be done: a listener has ended, or another one comes.
void Supervision::wait(int timeout_ms) {
    std::vector<pollfd> entries = source_.ends();
    entries.push_back({wake_.get(), POLLIN, 0});
    entries.push_back({container_.meeting.get(), POLLIN, 0});
    if (::poll(entries.data(), entries.size(), timeout_ms) <= 0 || entries.back().revents == 0) return;
    UniqueFd listener = take_added(container_.meeting, container_.state,
                                   !container_.place.has_own_users() && source_.traces());
    if (listener) source_.add(std::move(listener));
}

std::string Supervision::end() {
    using namespace std::chrono;
    if (questions_) questions_->stop();
    workers_.stop();
    locks_.counts().settle();
    const audit::Counts counts = report_.counts();
    audit::RunEnd end;
    end.outcome = Outcome::exited;
    if (const std::optional<int> status = container_.place.wait_status(); status && WIFSIGNALED(*status)) {
        end.outcome = Outcome::signaled;
        end.signal = WTERMSIG(*status);
    } else if (status) {
        end.exit_code = WEXITSTATUS(*status);
    }
    if (killed_) end.outcome = Outcome::killed_by_rule;
    end.duration_ms = duration_cast<milliseconds>(steady_clock::now() - started_).count();
    end.counts = counts;
    if (container_.log != nullptr) {
        const int lost = refusals_.record_totals(*container_.log);
        if (lost != 0 || !container_.log->record(end)) return "the end could not be recorded";
        container_.log->sync();
    }
    const std::uint64_t denied = counts.deny + counts.kill;
    if (deciding_.log_error.load() != 0)
        return "the log could not be written: what could not be recorded was denied";
    return denied == 0 ? "" : "denied " + plural(denied, "call");
}

}  // namespace

enforce::FilterSpec filter_of(const ContainerRules& rules) {
    return enforce::container_filter_spec(rules.plan);
}

std::string supervise(const Container& container, UniqueFd listener) {
    auto supervision =
        std::make_unique<Supervision>(container, std::move(listener), filter_of(container.rules));
    supervision->record_start();
    supervision->answer_calls();
    return supervision.release()->end();  // its threads stay
}

}  // namespace callgate::container
