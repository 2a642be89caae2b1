// The needs of the handlers of execve and execveat.
#pragma once

#include "supervisor/calls/call.hpp"
#include "supervisor/decide/observe.hpp"

namespace callgate::calls {

struct ExecNeeds {
    const rules::StaticGrants& grants;
    /// Landlock lets execute only what the rules allow: calls may be continued.
    bool held = false;
    /// Some rule looks at the arguments, or a question shows them.
    bool by_arguments = false;

    ExecNeeds(const rules::Plan& plan, const rules::StaticGrants& given, const DecideNeeds& decide)
        : grants(given), held(!plan.notify_only_execute), by_arguments(arguments_count(decide)) {}
};

struct ExecCall : Call {
    const ExecNeeds& exec;
};

}  // namespace callgate::calls
