// The rules of a container: loaded in its place, and refused if this form cannot hold them.
//
// There is no Landlock domain, no launcher and no guardian. So each call that the rules contest is made on
// behalf or denied, and what only a launcher could prepare is refused with a sentence.
//
// Before the container's program runs, an attacker controls what the image holds, and later everything in the
// root. A rule's path could then lead elsewhere by a link. So the literal begin of each pattern must be free
// of links. Rules are about the places where paths end, as in every run.
#pragma once

#include <memory>
#include <string>

#include "base/expected.hpp"
#include "rules/match/rule_set.hpp"
#include "rules/plan/plan.hpp"

namespace callgate::container {

struct ContainerRules {
    std::shared_ptr<const rules::RuleSet> rules;
    rules::Plan plan;
    std::string sha256;
};

/// `label` names the rule set in messages. `in_place`: the calling process is in the container, whose links
/// then count. `asks`: somebody answers questions.
[[nodiscard]] Expected<ContainerRules> load_container_rules(const std::string& json, const std::string& label,
                                                            bool in_place, bool asks);

}  // namespace callgate::container
