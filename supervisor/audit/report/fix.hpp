// The option of `callgate run` that would allow a refused call, or the reason why no option does.
#pragma once

#include <string>

#include "supervisor/audit/verbs/replay.hpp"

namespace callgate::audit::report {

struct Fix {
    std::string option;  // shell-quoted, as in the run's footer; "" if no option would do
    std::string also;    // needed too if no other rule allows the call
    std::string note;    // for people; "" if the option says it all
};

/// `operation` is the one that the verdict is about. The log holds the rule that decided, not all rules.
/// Another rule may still refuse the call.
[[nodiscard]] Fix fix_for(const RecordedRequest& request, const std::string& operation);

}  // namespace callgate::audit::report
