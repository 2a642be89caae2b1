// What would allow a call that was not: the option of `callgate run`, or why there is none.
#pragma once

#include <string>

#include "supervisor/audit/verbs/replay.hpp"

namespace callgate::audit::report {

struct Fix {
    std::string option;  // shell-quoted, as the run's footer has it; "" where no option would do
    std::string also;    // what is needed besides where no other rule allows it
    std::string note;    // for people; "" where the option says it all
};

/// `operation`: the one that the verdict is about. The log holds what one rule decided, not all rules:
/// another one may still stand in the way.
[[nodiscard]] Fix fix_for(const RecordedRequest& request, const std::string& operation);

}  // namespace callgate::audit::report
