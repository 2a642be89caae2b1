#include "supervisor/calls/files/settings_locks.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/test_switch.hpp"
#include "rules/model/rule.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::calls {

namespace {

using rules::Operation;
using rules::OperationSet;

const rules::Rule& others_lock() {
    static const rules::Rule rule = [] {
        rules::Rule made;
        made.id = "callgate-settings-lock";
        made.operations = rules::write_operations;
        made.reason =
            "a lock beside settings of git that this run did not make: git outside may be writing it";
        made.built_in = true;
        made.source.file = "built-in";
        return made;
    }();
    return rule;
}

}  // namespace

bool is_settings_lock(const rules::RuleSet& rules, std::string_view path) {
    if (!path.ends_with(rules::lock_suffix)) return false;
    const rules::FileObject file{path.substr(0, path.size() - rules::lock_suffix.size())};
    for (const rules::RuleSet* level = &rules; level != nullptr; level = level->outer()) {
        const auto all = level->matching({Operation::create, file, {}, {}, {}}, Operation::create);
        if (std::ranges::any_of(all, [](const rules::Rule* rule) { return rule->filters_changes(); }))
            return true;
    }
    return false;
}

bool SettingsLocks::owns(std::string_view path, const audit::FileIdentity& identity) {
    const std::lock_guard held(mutex_);
    const auto found = own_.find(std::string(path));
    struct stat status {};
    return found != own_.end() && ::fstat(found->second.get(), &status) == 0 &&
           status.st_dev == identity.device && status.st_ino == identity.inode;
}

std::optional<rules::Verdict> SettingsLocks::refuses(const rules::RuleSet& rules, const Subject& subject) {
    constexpr OperationSet decided{Operation::modify, Operation::remove, Operation::metadata};
    const auto* const object = std::get_if<rules::FileObject>(&subject.object);
    if (object == nullptr || !check_enabled("lock-of-others")) return std::nullopt;
    const auto foreign = [&](std::string_view path) {
        return is_settings_lock(rules, path) && !(subject.identity && owns(path, *subject.identity));
    };
    // A lock that is replaced is refused even if it is the run's own: git replaces none.
    const OperationSet wanted = subject.operations & decided;
    const OperationSet replaced = subject.second_operations & decided;
    OperationSet refused;
    if (!wanted.empty() && foreign(object->path)) refused = wanted;
    if (!subject.source.empty() && foreign(subject.source)) refused = subject.operations;
    if (subject.second_object && !replaced.empty() && is_settings_lock(rules, subject.second_object->path))
        refused = replaced;
    if (refused.empty()) return std::nullopt;
    rules::Verdict verdict;
    verdict.action = rules::Action::deny;
    verdict.decided_by = rules::DecidedBy::rule;
    verdict.rule = &others_lock();
    verdict.operation = *refused.begin();
    verdict.error = EACCES;
    return verdict;
}

void SettingsLocks::note(const std::string& path, int file) {
    const kernel::PinPath made(file);
    UniqueFd pin(::openat(kernel::own_descriptors(), made.number(), O_PATH | O_CLOEXEC));
    const std::lock_guard held(mutex_);
    if (own_.size() >= max_locks) {
        std::erase_if(own_, [](const auto& one) {
            struct stat status {};
            return ::fstat(one.second.get(), &status) != 0 || status.st_nlink == 0;
        });
    }
    if (pin && own_.size() < max_locks) own_.insert_or_assign(path, std::move(pin));
}

void SettingsLocks::forget(const std::string& path) {
    const std::lock_guard held(mutex_);
    own_.erase(path);
}

}  // namespace callgate::calls
