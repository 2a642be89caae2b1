#include "supervisor/calls/opaque.hpp"

#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "base/test_switch.hpp"
#include "rules/model/rule.hpp"
#include "supervisor/calls/resolve.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::calls {

namespace {

const rules::Rule& opaque_rule() {
    static const rules::Rule rule = [] {
        rules::Rule made;
        made.id = "callgate-opaque";
        made.operations = {rules::Operation::read, rules::Operation::modify};
        made.reason = "a process of this run has made itself opaque (PR_SET_DUMPABLE), as key agents do";
        made.built_in = true;
        made.source.file = "built-in";
        return made;
    }();
    return rule;
}

}  // namespace

int OpaqueMemories::mark(const kernel::MemoryPlaces& places) {
    const std::unique_lock<std::shared_mutex> alone(reaching_);
    const std::unique_lock<std::shared_mutex> guard(mutex_);
    if (marks_.size() >= max_marks && !marks_.contains(places)) return ENOMEM;
    marks_.insert(places);
    any_.store(true);
    return 0;
}

bool OpaqueMemories::is_opaque(pid_t process) const {
    if (!any() || process <= 0) return false;
    const auto places = kernel::memory_places(process);
    if (!places) return ::access(kernel::ProcPath(process, "stat").text, F_OK) == 0;
    const std::shared_lock<std::shared_mutex> guard(mutex_);
    return marks_.contains(*places);
}

bool OpaqueMemories::hides(std::string_view path, pid_t thread) const {
    const pid_t process = any() ? process_of_proc(path) : 0;
    if (process == 0 || is_shown_to_all(path) || !check_enabled("opaque-files")) return false;
    return !is_own(process, thread) && is_opaque(process);
}

bool OpaqueMemories::is_own(pid_t process, pid_t thread) {
    if (process == thread) return true;
    const auto owner = kernel::status(process), caller = kernel::status(thread);
    return owner && caller && owner->process == caller->process;
}

rules::Verdict OpaqueMemories::denial(rules::Operation operation, int error) {
    rules::Verdict verdict;
    verdict.action = rules::Action::deny;
    verdict.decided_by = rules::DecidedBy::rule;
    verdict.rule = &opaque_rule();
    verdict.operation = operation;
    verdict.error = error;
    return verdict;
}

}  // namespace callgate::calls
