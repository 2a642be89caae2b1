// What a rule set took from the machine when it was loaded.
//
// A run has it on record, so that its decisions can be judged again as they were, whatever exists by then and
// wherever names lead. Read back from a log it is a stranger's: patterns are compiled anew, and what is none
// is as if it had not been there.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rules/model/address.hpp"

namespace callgate::rules {

struct Surroundings {
    /// What a pattern of a rule with `expand` became.
    struct Expanded {
        std::string pattern;
        bool followed = false;           // links to what was found count too: of rules that deny or kill
        std::vector<std::string> paths;  // as patterns
    };
    std::vector<Expanded> expanded;
    std::map<std::string, std::vector<IpAddress>> hosts;
    /// Where names led that the paths of rules and of rule options begin with, if elsewhere: symbolic links,
    /// and what was not written as the kernel has it. Nothing where that is not known.
    std::optional<std::map<std::string, std::string>> links;

    /// Where `path` led: itself where it was no such name. Nothing where that is not known.
    [[nodiscard]] std::optional<std::string> led(const std::string& path) const {
        if (!links) return std::nullopt;
        const auto known = links->find(path);
        return known == links->end() ? path : known->second;
    }
};

}  // namespace callgate::rules
