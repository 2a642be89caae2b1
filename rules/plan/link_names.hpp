// Names at which a run makes no symbolic link (docs/threat-model.md, "Links").
//
// Rules speak of resolved names, which is right inside a run. Names are resolved again afterwards: by the
// user's tools, by the host program, and by callgate's own next start. So a run may not choose where such a
// name leads. The literal head of every pattern is reserved. It may be a root, which a later run opens again,
// or a secret, which another program writes there later. A link at such a name, or at a directory above it,
// is refused. A restriction that floats ("**/.env") reserves nothing: the links of npm, pnpm and virtual
// environments must be made. A rule with `links` denies links alone, at every name that its patterns match.
//
// Elsewhere a run may make links. `LinkRoots` says where: the next start follows none that a run could have
// made there.
//
// An attacker chooses the path that is looked up. Pure; any thread; the cost is a binary search.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rules/match/rule_set.hpp"

namespace callgate::rules {

class LinkNames {
public:
    /// `rules` must outlive this.
    explicit LinkNames(const RuleSet& rules);

    /// The rule that names something at `path` or beneath it, or has `links` and speaks of `path`; null if a
    /// link may stand there. `path` is absolute and resolved up to its last component.
    [[nodiscard]] const Rule* reserving(std::string_view path) const;
    /// Whether a rule with `links` speaks of all names beneath `directory`.
    [[nodiscard]] bool denies_beneath(std::string_view directory) const;

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
    [[nodiscard]] const Rule* denying(std::string_view path) const;
    [[nodiscard]] std::vector<Name>::const_iterator first_from(std::string_view path) const;

    std::vector<Name> names_;  // in PathOrder
    std::vector<const Rule*> denials_;
};

/// Names at which runs may make symbolic links. Paths are absolute and resolved.
class LinkRoots {
public:
    LinkRoots() = default;
    /// Links can be made beneath the heads of rules that allow a name to be created, and beneath "/" where
    /// the default does. A head itself is reserved, and so is a literal path. What lies in `own`, the run's
    /// private directory, is left out: it goes with the run. Where the default allows, what is wholly denied
    /// is closed.
    LinkRoots(const RuleSet& rules, std::string_view own);

    /// Adds a root: "/w/" is everything beneath /w, "/w" that and /w itself.
    void add(std::string_view root);
    /// Adds a hierarchy where no link can be made, although it lies beneath a root.
    void close(std::string_view directory) { closed_.add(directory); }
    void add_all(const LinkRoots& other);
    /// Joins the roots of one directory into that directory where there are more than `most` of them.
    void join(std::size_t most);

    [[nodiscard]] bool may_hold(std::string_view link) const;
    /// Whether a path lies in a root, whatever is closed there.
    [[nodiscard]] bool lies_in_root(std::string_view path) const { return roots_.hold(path); }
    [[nodiscard]] bool covers(const LinkRoots& other) const;
    [[nodiscard]] const std::vector<std::string>& roots() const { return roots_.all; }
    [[nodiscard]] const std::vector<std::string>& closed() const { return closed_.all; }

    /// Names at which runs may make a `.git` that is a file. As the roots of `rules`, but for each `.git`
    /// that exists at the start and whose making is always denied.
    [[nodiscard]] static LinkRoots of_pointers(const RuleSet& rules, std::string_view own);

private:
    /// A set of paths, of which none lies in another.
    struct Paths {
        std::vector<std::string> all;  // in PathOrder

        void add(std::string_view path);
        [[nodiscard]] bool hold(std::string_view path) const;
        [[nodiscard]] bool meet(std::string_view path) const;  // hold it, or one lies in it
    };
    /// Whether no link can be made at `directory` or beneath it.
    [[nodiscard]] bool excludes(std::string_view directory) const;

    Paths roots_, closed_;
};

}  // namespace callgate::rules
