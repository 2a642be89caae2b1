// Verdicts of the rules for a process of the run that asks over the channel.
//
// Such a process learns nothing that it could not learn by trying, except that no question is asked. An
// attacker controls the request's text. Its names are resolved as a call's would be, and nothing is opened.
#pragma once

#include <string>

#include "supervisor/nested/channel.hpp"

namespace callgate::nested {

/// Answers the request "explain", whose "request" is "OPERATION OBJECT" as in a rule set's examples:
/// "verdict", and "rule" and "reason" or null. The rules are those of every level around the process, for
/// tools where they tell an agent from its tools. `home` and `workdir` are the run's. Call it before the
/// first call is handled.
void answer_explain(Channel& channel, const std::string& home, const std::string& workdir);

}  // namespace callgate::nested
