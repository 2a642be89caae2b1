#include "supervisor/run/quiet_looks.hpp"

#include <unistd.h>

#include <string>
#include <string_view>
#include <variant>

#include "rules/model/rule.hpp"
#include "supervisor/audit/write/format.hpp"
#include "supervisor/decide/ask.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate {

namespace {

/// The callgate of a nested run looks through the home, and finds some of it closed. `callgate request` makes
/// the access that its caller asks for.
bool is_look_of_callgate(const audit::Decision& decision) {
    static const std::string own = [] {
        std::string path;
        kernel::executable(::getpid(), path);
        return path;
    }();
    return decision.operation == rules::Operation::read && decision.verdict.rule == nullptr && !own.empty() &&
           decision.caller.executable == own && audit::refused(decision) &&
           !calls::asks_for_all(own, decision.caller.pid);
}

/// Agents list all processes by ps, which then looks at the environment of each and goes on without.
bool is_look_of_ps(const audit::Decision& decision) {
    const auto* const file = std::get_if<rules::FileObject>(&decision.object);
    return file != nullptr && file->path.starts_with("/proc/") && file->path.ends_with("/environ") &&
           decision.operation == rules::Operation::read &&
           decision.verdict.rule_name() == "callgate-parties" && decision.caller.executable == "/usr/bin/ps";
}

/// vim looks for its history at each start and keeps it at each end, and goes on without.
bool is_look_of_vim(const audit::Decision& decision) {
    const auto* const file = std::get_if<rules::FileObject>(&decision.object);
    return file != nullptr && file->path.ends_with("/.viminfo") &&
           decision.verdict.rule_name() == "base.histories" &&
           decision.caller.executable.starts_with("/usr/bin/vim");
}

/// The system's Python. That of an environment is a link to it.
bool is_python(std::string_view executable) {
    return executable.starts_with("/usr/bin/python3") || executable.starts_with("/usr/local/bin/python3");
}

/// Before Python 3.13 no variable names another place for the history of its prompt.
bool is_look_of_python(const audit::Decision& decision) {
    const auto* const file = std::get_if<rules::FileObject>(&decision.object);
    return file != nullptr && file->path.ends_with("/.python_history") &&
           decision.verdict.rule_name() == "base.histories" && is_python(decision.caller.executable);
}

/// Jupyter notes at each start that it moved IPython's settings long ago, and goes on without.
bool is_note_of_jupyter(const audit::Decision& decision) {
    const auto* const file = std::get_if<rules::FileObject>(&decision.object);
    return file != nullptr && file->path.ends_with("/.jupyter/migrated") &&
           decision.verdict.rule_name() == "base.tool-settings" && is_python(decision.caller.executable);
}

/// svn makes a directory for its settings at each start where there is none, and goes on without. Composer
/// asks svn for its version.
bool is_place_of_svn(const audit::Decision& decision) {
    const auto* const file = std::get_if<rules::FileObject>(&decision.object);
    return file != nullptr && file->path.ends_with("/.subversion") &&
           decision.operation == rules::Operation::create &&
           decision.verdict.rule_name() == "base.tool-settings" &&
           decision.caller.executable.starts_with("/usr/bin/svn");
}

}  // namespace

bool is_quiet(const audit::Decision& decision) {
    return is_look_of_ps(decision) || is_look_of_vim(decision) || is_look_of_python(decision) ||
           is_note_of_jupyter(decision) || is_place_of_svn(decision) ||
           (decision.verdict.rule != nullptr && decision.verdict.rule->quiet) ||
           is_look_of_callgate(decision);
}

}  // namespace callgate
