// The agent of a rule set: which program it is, and how it is started.
#pragma once

#include <string>
#include <vector>

#include "rules/model/glob.hpp"

namespace callgate::rules {

struct Agent {
    std::vector<Glob> programs;            // the command is the agent where its resolved file is one of these
    std::vector<Glob> launchers;           // scripts that do nothing but start one of `programs`
    std::vector<std::string> starts;       // what a launcher starts: names beneath a node_modules
    std::vector<std::string> interpreter;  // the command, with arguments, that runs such a script; or empty
    std::vector<std::string> arguments;    // stand before the user's own arguments of the agent
};

}  // namespace callgate::rules
