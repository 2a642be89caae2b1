#include "supervisor/nested/nested_runs.hpp"

#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <nlohmann/json.hpp>
#include <utility>

#include "agent/created_ipc.hpp"
#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "base/json_writer.hpp"
#include "base/test_switch.hpp"
#include "rules/load/loader.hpp"
#include "supervisor/enforce/filter_spec.hpp"
#include "supervisor/host/file_tree.hpp"
#include "supervisor/kernel/target.hpp"
#include "supervisor/nested/level.hpp"

namespace callgate::nested {

using nlohmann::json;

namespace {

constexpr std::size_t max_rules_text = std::size_t{1} << 20U, max_all_rules = std::size_t{32} << 20U;
constexpr rlim_t highest_mark = rlim_t{1} << 62U, lowest_mark = rlim_t{1} << 20U;

bool is_run_name(std::string_view name) {
    return name.size() == 6 && std::ranges::all_of(name, [](char byte) {
               return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9');
           });
}

/// "" if the kernel gives no random numbers.
std::string random_token() {
    std::array<unsigned char, 16> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return {};
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (const unsigned char byte : bytes) (text += digits[byte >> 4U]) += digits[byte & 15U];
    return text;
}

/// The files as the sender can see them itself: it lists a directory that the grants of its level allow. It
/// gets the grants of the new plan, and the plan names entries of directories.
class SendersFiles final : public RealFileTree {
public:
    explicit SendersFiles(const rules::StaticGrants& grants) : grants_(grants) {}
    [[nodiscard]] std::optional<std::vector<Entry>> entries(const std::string& directory,
                                                            std::size_t limit) const override {
        if (!grants_.allow(rules::Operation::read, directory) && check_enabled("nested-listing"))
            return std::nullopt;
        return RealFileTree::entries(directory, limit);
    }

private:
    const rules::StaticGrants& grants_;
};

/// The rules as a nested run sent them: nothing of them is looked up on this host.
Expected<std::shared_ptr<rules::RuleSet>> read_rules(const std::string& text,
                                                     const rules::StaticGrants& grants) {
    rules::RuleSources sources;
    sources.parts.emplace_back(rules::RuleSources::Text{text, "nested run"});
    const SendersFiles tree(grants);
    rules::LoadContext context;
    context.tree = &tree;
    context.landlock_unix = true;  // the inner callgate has left out what its kernel lacks
    context.read_file = [](const std::string&, std::size_t) -> Expected<std::string> {
        return Problem{"the rules of a nested run are one text"};
    };
    rules::LoadedRules loaded = rules::load(sources, context);
    if (const auto good = loaded.first_error(); !good) return good.error();
    if (!loaded.rules) return Problem{"no rules"};
    std::vector<rules::Rule> all(loaded.rules->rules().begin(), loaded.rules->rules().end());
    all.insert(all.end(), loaded.rules->quiet_rules().begin(), loaded.rules->quiet_rules().end());
    return std::make_shared<rules::RuleSet>(std::move(all), loaded.rules->fallback());
}

/// The token, and the grants of the plan. The inner callgate makes its Landlock domain of these. So both
/// hold the same for static, whatever the inner one could see of the files.
std::string accepted(const std::string& token, const rules::Plan& plan) {
    return json_text([&](JsonWriter& line) {
        line.begin_object().member("callgate", protocol_version).member("ok", true).member("token", token);
        line.list("grants", plan.grants, [&](const rules::Grant& one) {
            line.begin_object()
                .member("path", one.path)
                .member("directory", one.directory)
                .member("operations", one.operations.bits())
                .member("notify_only_read", one.notify_only_read)
                .member("notify_only_execute", one.notify_only_execute)
                .end_object();
        });
        line.end_object();
    });
}

}  // namespace

Runs::Runs(Outermost around, Channel& channel)
    : around_(std::move(around)),
      all_objects_(around_.made),
      all_files_(around_.made.shared_files),
      outermost_{around_.decide, around_.families} {
    rlimit now{};
    if (::getrlimit(RLIMIT_LOCKS, &now) == 0) unmarked_ = now.rlim_max;
    first_ = std::min(unmarked_, highest_mark) - 1;
    channel.on("nest", [this](Channel::Peer& peer, const json& request, const Channel::Answer& answer) {
        add(peer, request, answer);
    });
    channel.on_name("enter",
                    [this](calls::NetworkCall& context, std::string_view rest) { enter(context, rest); });
}

Runs::~Runs() = default;

std::shared_ptr<Level> Runs::level_of(const calls::DecideNeeds* needs) const {
    const std::lock_guard guard(lock_);
    for (const auto& [mark, level] : levels_)
        if (&level->decide == needs) return level;
    return nullptr;
}

/// The list of what it made goes with it, if nothing is left.
std::shared_ptr<Level> Runs::keep(std::unique_ptr<Level> made, std::size_t rules_bytes) {
    {
        const std::lock_guard guard(kept_->lock);
        kept_->made.push_back(made->made);
        kept_->rules_bytes += rules_bytes;
    }
    std::shared_ptr<Level> level(made.release(), [kept = kept_, rules_bytes](Level* over) {
        const bool left = over->left_objects();
        {
            const std::lock_guard guard(kept->lock);
            kept->rules_bytes -= rules_bytes;
            if (!left) std::erase(kept->made, over->made);
            if (kept->log_error == 0) kept->log_error = over->decide.log_error.load();
        }
        delete over;
    });
    level->decide.self = std::shared_ptr<calls::DecideNeeds>(level, &level->decide);
    return level;
}

/// A caller whose limit cannot be read has another identity, and is denied.
std::shared_ptr<const Judges> Runs::of(pid_t thread) {
    rlimit mark{};
    if (::prlimit(thread, RLIMIT_LOCKS, nullptr, &mark) != 0) return nullptr;
    if (mark.rlim_max == unmarked_ || !check_enabled("nested-mark"))
        return {std::shared_ptr<void>(), &outermost_};
    std::shared_ptr<const Level> level;
    {
        const std::lock_guard guard(lock_);
        const auto found = levels_.find(mark.rlim_max);
        if (found == levels_.end()) return nullptr;
        level = found->second;
    }
    for (const Level* one = level.get(); one != nullptr; one = one->around.get())
        if ((one->over.load() && check_enabled("nested-over")) ||
            (one->lost_guardian() && check_enabled("nested-guardian")))
            return nullptr;
    return {level, &level->judged};
}

void Runs::add(Channel::Peer& peer, const json& request, const Channel::Answer& answer) {
    using namespace json_read;
    const auto refuse = [&answer](std::string_view why) { answer(error_line(why)); };
    const std::shared_ptr<Level> outer = level_of(peer.needs.get());
    if (outer == nullptr && peer.needs.get() != &around_.decide)
        return refuse("the level of this process is not known");
    rlimit now{};
    if (::prlimit(::getpid(), RLIMIT_LOCKS, nullptr, &now) != 0 && check_enabled("nested-limits"))
        return refuse(
            "the seccomp profile of this container refuses prlimit, by which processes of nested runs are "
            "known: "
            "start the container with --security-opt seccomp=unconfined, or with a profile that allows it");
    if (peer.ended) return refuse("this connection has a nested run already");
    if (around_.audit_mode)
        return refuse(
            "the run around this one is in audit mode, which enforces nothing: start this one without "
            "callgate, or that one without --mode audit");
    if (around_.keep_capabilities)
        return refuse(
            "the run around this one keeps capabilities (--keep-capabilities), by which a nested run "
            "could be left: start that one without");
    if (first_ < lowest_mark)
        return refuse(
            "the limit RLIMIT_LOCKS is low here (ulimit -x), and nested runs are told apart by it: "
            "start the run around this one with ulimit -x unlimited");
    const int depth = outer == nullptr ? 1 : outer->depth + 1;
    if (depth > max_levels)
        return refuse(
            "runs are nested twelve levels deep here, and no deeper: start the command without callgate");
    const std::string name = text(member(request, "run")), rules = text(member(request, "rules"));
    const std::string workdir = text(member(request, "workdir"));
    const auto guardian = number(member(request, "guardian"));
    if (!is_run_name(name) || rules.empty() || rules.size() > max_rules_text || guardian < 2 ||
        guardian > 0x7fffffffU || !workdir.starts_with('/') || workdir.size() > PATH_MAX ||
        !member(request, "ask").is_boolean() || !member(request, "sni").is_boolean())
        return refuse(
            "a nested run needs \"run\", \"rules\" of at most 1M, \"workdir\", \"guardian\", \"ask\" and "
            "\"sni\"");
    if (truth(member(request, "sni")) && around_.families.network.front == nullptr)
        return refuse(
            "the names of TLS servers are checked by the run around this one, or not at all: give --sni "
            "there");
    const Judges& judges = outer == nullptr ? outermost_ : outer->judged;
    Expected<std::shared_ptr<rules::RuleSet>> read = read_rules(rules, judges.decide.enforced.grants);
    if (!read) return refuse(read.error().text);
    const SendersFiles tree(judges.decide.enforced.grants);
    rules::Plan plan = rules::make_plan(**read, {.landlock_abi = around_.plan.landlock_abi,
                                                 .record = rules::RecordMode::contested,
                                                 .tree = &tree,
                                                 .shared_memory = agent::shared_memory_place(),
                                                 .processes = true,
                                                 .reasons = false});
    // A name that is not UTF-8 does not reach the inner callgate as it is. What has it is decided call by
    // call.
    std::erase_if(plan.grants, [](const rules::Grant& one) { return !is_utf8(one.path); });
    if (const auto lack = enforce::lacks_for_nested(around_.plan, plan)) return refuse(*lack);
    if (check_enabled("nested-narrows")) (*read)->narrow(judges.decide.enforced.rules);
    (*read)->prepare();
    UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(guardian), 0U)));
    if (!handle) return refuse("no process has the number \"guardian\"");
    auto objects = agent::SharedObjects::make();
    const std::string token = random_token();
    if (!objects || token.empty()) return refuse("the supervisor is short of memory");
    bool is_full = false;
    {
        const std::lock_guard guard(kept_->lock);
        is_full = kept_->made.size() >= max_runs || (kept_->rules_bytes + rules.size() > max_all_rules &&
                                                     check_enabled("nested-rules-bounded"));
    }
    if (is_full)
        return refuse(
            "this run has a thousand nested runs that go on or left objects behind, or 32M of rules of those "
            "that go on: end some of them");
    if (names_.size() >= max_names)
        return refuse("this run has had a million nested runs: start another one");
    if (names_.contains(name) && check_enabled("nested-names"))
        return refuse("a nested run has had this name");
    Level::Given given{.run = name,
                       .workdir = workdir,
                       .guardian = static_cast<pid_t>(guardian),
                       .guardian_handle = std::move(handle),
                       .asks = truth(member(request, "ask")),
                       .rules = *read,
                       .plan = std::move(plan),
                       .report = around_.make_report(*read),
                       .made = std::make_shared<agent::SharedObjects>(std::move(*objects)),
                       .mark = first_ - names_.size(),
                       .depth = depth,
                       .around = outer,
                       .all_objects = all_objects_,
                       .all_files = all_files_};
    const std::shared_ptr<Level> level = keep(
        std::make_unique<Level>(std::move(given), judges, outer == nullptr ? around_.plan : outer->plan()),
        rules.size());
    const std::string line = accepted(token, level->plan());
    names_.insert(name);  // its number is used
    level->hang_up = peer.hang_up;
    peer.ended = [this, level] {
        level->over.store(true);
        const std::lock_guard ending(level->ending());
        level->hang_up = {};
        const std::lock_guard known(lock_);
        std::erase_if(tokens_, [&level](const auto& one) { return one.second == level; });
        if (check_enabled("nested-over")) levels_.erase(level->mark);
    };
    peer.report = [level] { return level->report->json(); };
    {
        const std::lock_guard guard(lock_);
        levels_.emplace(level->mark, level);
        tokens_.emplace(token, level);
    }
    any.store(true);
    answer(line);
}

/// The caller waits in this call, so it is the process that is marked.
void Runs::enter(calls::NetworkCall& context, std::string_view token) {
    std::shared_ptr<Level> level;
    {
        const std::lock_guard guard(lock_);
        const auto found = tokens_.find(token);
        if (found == tokens_.end()) return context.fail(ECONNREFUSED);
        level = found->second;
    }
    const calls::DecideNeeds& outer = level->around == nullptr ? around_.decide : level->around->decide;
    const auto status = kernel::status(context.thread());
    if (!context.call.waiting() || !status) return context.fail(ESRCH);
    const bool its_own = &context.needs == &outer && status->process == context.thread() &&
                         status->parent == level->decide.guardian;
    if ((!its_own && check_enabled("nested-entrance")) || level->entered.exchange(true))
        return context.fail(EPERM);
    const rlimit mark{level->mark, level->mark};
    if (::prlimit(context.thread(), RLIMIT_LOCKS, &mark, nullptr) != 0) return context.fail(errno);
    context.call.succeed(0);
}

void Runs::remove_created() {
    const std::lock_guard guard(kept_->lock);
    for (const auto& made : kept_->made) agent::remove_created_ipc(made->objects());
}

int Runs::log_error() const {
    {
        const std::lock_guard guard(lock_);
        for (const auto& [mark, level] : levels_)
            if (const int error = level->decide.log_error.load(); error != 0) return error;
    }
    const std::lock_guard guard(kept_->lock);
    return kept_->log_error;
}

}  // namespace callgate::nested
