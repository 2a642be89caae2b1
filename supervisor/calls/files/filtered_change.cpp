#include "supervisor/calls/files/filtered_change.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/test_switch.hpp"
#include "base/write_all.hpp"
#include "rules/model/rule.hpp"
#include "supervisor/calls/files/git_config.hpp"
#include "supervisor/calls/files/settings_file.hpp"
#include "supervisor/calls/files/settings_locks.hpp"
#include "supervisor/decide/ask.hpp"
#include "supervisor/decide/parties.hpp"

namespace callgate::calls {

namespace {

namespace fs = std::filesystem;
using rules::Action;
using rules::Operation;

/// The verdicts on names beside those of the call.
struct NamesAround {
    const rules::RuleSet& rules;
    const std::string& program;
    rules::Party party;

    [[nodiscard]] rules::Request request(Operation operation, const std::string& path) const {
        return {operation, rules::FileObject{path}, program, {}, party};
    }
    [[nodiscard]] Action on(Operation operation, const std::string& path) const {
        return rules.evaluate(request(operation, path)).action;
    }
    /// Whether rules that filter are all that keeps the run from it.
    [[nodiscard]] bool only_filtered(Operation operation, const std::string& path) const {
        for (const rules::RuleSet* level = &rules; level != nullptr; level = level->outer())
            if (!only_filtered(*level, operation, path)) return false;
        return true;
    }
    [[nodiscard]] bool only_filtered(const rules::RuleSet& level, Operation operation,
                                     const std::string& path) const {
        const auto all = level.matching(request(operation, path), operation);
        const auto allows = [](const rules::Rule* rule) { return rule->action == Action::allow; };
        const bool free = std::ranges::all_of(
            all, [&](const rules::Rule* rule) { return allows(rule) || rule->filters_changes(); });
        return free && (level.fallback() == Action::allow || std::ranges::any_of(all, allows));
    }
    /// Whether the run can neither open what is made there nor put another file in its place.
    [[nodiscard]] bool closed(const std::string& path) const {
        return on(Operation::modify, path) >= Action::deny && on(Operation::create, path) >= Action::deny;
    }
    /// Whether the run may write nothing in a repository of this machine: to push there runs its hooks. The
    /// name leads through no link, and the run can put none on the way. git also tries the name with `.git`
    /// at its end.
    [[nodiscard]] bool closed_repository(std::string_view name) const {
        const fs::path path(name);
        std::error_code error;
        const std::string real = fs::canonical(path, error);
        if (error || path.lexically_normal() != real) return false;
        fs::path way;
        for (const fs::path& part : path) {
            way /= part;
            if (on(Operation::remove, way.lexically_normal()) == Action::allow) return false;
        }
        return std::ranges::none_of(
            std::to_array<const char*>({"/config", "/hooks/x", "/.git", "/.git/config", "/.git/hooks/x",
                                        ".git", ".git/config", ".git/hooks/x"}),
            [&](const char* leaf) { return on(Operation::create, real + leaf) == Action::allow; });
    }
};

/// The verdict of a rule that filters changes, about a caller whose paths mean what they mean here.
std::optional<rules::Verdict> filtering_verdict(FileCall& context, const Subject& subject) {
    rules::Verdict verdict = evaluate(context, subject);
    if (verdict.action != Action::deny || verdict.rule == nullptr || !verdict.rule->filters_changes())
        return std::nullopt;
    static_cast<void>(caller_of(context.needs, context.caller, context.thread()));  // looks where it is
    if (context.caller.cache.elsewhere(context.thread())) return std::nullopt;
    return verdict;
}

std::optional<std::string> settings_at(const Place& place) {
    const UniqueFd file(::openat(place.parent.get(), place.bare().c_str(),
                                 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    return read_settings(file.get());
}

/// Makes the new file and gives it its name. 0, or -1 with errno.
int put(const Place& place, const std::string& text, mode_t mode, unsigned flags) {
    const int parent = place.parent.get();
    const std::string beside = place.leaf + std::string(rules::new_file_suffix);
    constexpr int making = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    UniqueFd file(::openat(parent, beside.c_str(), making, 0600));
    if (!file && errno == EEXIST &&
        ::unlinkat(parent, beside.c_str(), 0) == 0)  // of a callgate that was killed
        file.reset(::openat(parent, beside.c_str(), making, 0600));
    if (!file) return -1;
    if (write_all(file.get(), text) && ::fchmod(file.get(), mode & 0777) == 0 &&
        ::syscall(SYS_renameat2, parent, beside.c_str(), parent, place.leaf.c_str(), flags) == 0)
        return 0;
    const int error = errno;
    ::unlinkat(parent, beside.c_str(), 0);
    errno = error;
    return -1;
}

/// The answer of a person to what the change must be asked about.
Questioned ask_about(FileCall& context, const Subject& subject, const rules::Verdict& verdict,
                     const GitConfigChange& change) {
    rules::Verdict asking = verdict;
    asking.action = Action::ask;
    Questioned answer = put_question(context, subject, asking);
    if (answer.reason == audit::unasked::nobody) answer.reason = change.unasked;
    return answer;
}

}  // namespace

std::optional<std::uint64_t> record_filtered(FileCall& context, const Subject& subject,
                                             const rules::Verdict& verdict) {
    audit::Decision decision = decision_on(context, subject, verdict);
    decision.mechanism = audit::Mechanism::filtered;
    const auto sequence = record(context, decision);
    if (!sequence) context.fail(unrecorded_error);
    return sequence;
}

std::optional<rules::Verdict> filtered_opening(FileCall& context, const Subject& subject,
                                               const std::string& path) {
    if (!is_git_config(path) && !is_git_count(path)) return std::nullopt;
    const auto verdict = filtering_verdict(context, subject);
    if (!verdict) return std::nullopt;
    const NamesAround names{context.needs.enforced.rules, context.caller.executable, party_of(context)};
    const bool free =
        names.only_filtered(Operation::create, path) && names.only_filtered(Operation::modify, path);
    return free ? verdict : std::nullopt;
}

bool change_filtered(FileCall& context, const Subject& subject, const StandingAt& lock,
                     const StandingAt& settings, unsigned flags) {
    const std::string& path = settings.place.path;
    const bool replaces = settings.status != nullptr;
    if (!is_git_config(path) || (flags & ~unsigned{RENAME_NOREPLACE}) != 0) return false;
    if (!S_ISREG(lock.status->st_mode) || (replaces && !S_ISREG(settings.status->st_mode))) return false;
    const auto verdict = filtering_verdict(context, subject);
    if (!verdict) return false;
    const NamesAround names{context.needs.enforced.rules, context.caller.executable, party_of(context)};
    const rules::RuleSet& rules = context.needs.enforced.rules;
    const bool lock_free = !context.files.locks->refuses(rules, subject) &&
                           names.on(Operation::remove, lock.place.path) == Action::allow &&
                           names.on(Operation::read, lock.place.path) == Action::allow;
    if (!lock_free || !names.only_filtered(Operation::create, path) ||
        !names.only_filtered(Operation::modify, path) ||
        (replaces && !names.only_filtered(Operation::remove, path)) ||
        (!names.closed(path + std::string(rules::new_file_suffix)) && check_enabled("new-settings-name")))
        return false;

    const auto before = replaces ? settings_at(settings.place) : std::string();
    const auto wanted = settings_at(lock.place);
    const GitConfigRights rights{
        .own = names.on(Operation::remove, path) == Action::allow,
        .closed = [&](std::string_view repository) { return names.closed_repository(repository); }};
    const GitConfigChange change =
        before && wanted ? git_config_change(*before, *wanted, rights)
                         : GitConfigChange{{}, "it cannot be read, or is larger than settings are"};
    Questioned answer{.parked = false, .verdict = *verdict, .reason = change.refused};
    Subject asked = subject;
    if (!change.asked.empty()) {
        // The values are part of the question and of its key. Another change is another question.
        if (check_enabled("git-asked-values")) asked.input.arguments = change.asked;
        answer = ask_about(context, asked, *verdict, change);
        if (answer.parked) return true;
    }
    if (!change.refused.empty() || (!change.asked.empty() && answer.verdict.action != Action::allow)) {
        static_cast<void>(decide_with(context, asked, answer));
        return context.fail(EACCES), true;
    }
    const auto sequence = record_filtered(context, asked, answer.verdict);
    if (!sequence) return true;
    // Grants belong to inodes, and another inode is to stand there.
    context.files.grants.forget(path, rules::StaticGrants::Departure::removed);
    const mode_t mode = replaces ? settings.status->st_mode : lock.status->st_mode;
    const int result = check_enabled("new-settings")
                           ? put(settings.place, change.text, mode, flags)
                           : ::renameat(lock.place.parent.get(), lock.place.leaf.c_str(),
                                        settings.place.parent.get(), settings.place.leaf.c_str());
    if (result == 0) {
        ::unlinkat(lock.place.parent.get(), lock.place.bare().c_str(), 0);
        context.files.locks->forget(lock.place.path);
    }
    answer_act(context, *sequence, result);
    return true;
}

}  // namespace callgate::calls
