// Names at which a run makes no symbolic link (docs/threat-model.md, "Links").
//
// Rules speak of resolved names, which is right inside a run. Names are resolved again afterwards: by the
// user's tools, by the host program, and by callgate's own next start. So a run may not choose where such a
// name leads. The literal head of every pattern is reserved. It may be a root, which a later run opens again,
// or a secret, which another program writes there later. A link at such a name, or at a directory above it,
// is refused. A restriction that floats ("**/.env") reserves nothing: the links of npm, pnpm and virtual
// environments must be made.
//
// An attacker chooses the path that is looked up. Pure; any thread; the cost is a binary search.
#pragma once

#include <string_view>
#include <vector>

#include "rules/match/rule_set.hpp"

namespace callgate::rules {

class LinkNames {
public:
    /// `rules` must outlive this.
    explicit LinkNames(const RuleSet& rules);

    /// The rule that names something at `path` or beneath it; null if a link may stand there. `path` is
    /// absolute and resolved up to its last component.
    [[nodiscard]] const Rule* reserving(std::string_view path) const;

    struct Reserved {
        std::string_view below;  // relative to the directory, without a slash at its start
        const Rule* rule;
    };
    /// The reserved names strictly beneath `directory`.
    [[nodiscard]] std::vector<Reserved> beneath(std::string_view directory) const;

private:
    struct Name {
        std::string_view path;
        const Rule* rule;
    };
    void add(const Rule& rule, const Conditions& conditions);
    [[nodiscard]] std::vector<Name>::const_iterator first_from(std::string_view path) const;

    std::vector<Name> names_;  // in PathOrder
};

}  // namespace callgate::rules
