// Paths of options that lead through symbolic links (docs/threat-model.md, "Links").
//
// An attacker may have made such a link in an earlier run, or may make it in one that is still running. Where
// the path led is worked out once, and only that is used from then on. What is opened there later is opened
// without following links. So the links that were followed decide whether the path counts.
#pragma once

#include <string>
#include <vector>

#include "rules/load/loader.hpp"
#include "rules/plan/link_names.hpp"
#include "supervisor/host/host.hpp"

namespace callgate::cli {

struct LinkedPath {
    std::string what;  // "--workdir W", for messages
    std::string real;  // the path without links
    FollowedLinks links;
    bool opens = false;  // the rules allow something there: no link names the home or "/" then
};

class LinkedPaths {
public:
    /// `canonical(written)`. The links on the way are kept.
    std::string resolve(const std::string& what, const std::string& written, bool opens);
    /// `own_name(written)`, with the links on the way to its directory.
    std::string resolve_own_name(const std::string& what, const std::string& written);
    /// The beginnings of paths by which rules open something, up to the first wildcard. Those of shipped
    /// profiles count in the home alone: elsewhere they name parts of the system.
    void resolve_rules(const rules::LoadedRules& loaded, const std::string& home);

    /// Throws Failure if a path leads through a link that a run could have made, or if a link names the home
    /// or "/".
    void require_no_links_of_runs(const rules::LinkRoots& roots, const Places& places) const;

    /// The same for what is on record in the directory `places.state`: before anything is opened for writing.
    void require_no_recorded_links(const Places& places) const;

    void append(LinkedPaths other);

private:
    void keep(LinkedPath path, const std::string& written);

    std::vector<LinkedPath> paths_;
};

/// Throws Failure if callgate's own files, or the rule files `files`, are reached by a link to what others
/// may write. Rule files beyond callgate's own directories are kept in `paths`, as options are.
void require_own_links(const Places& places, const std::vector<std::string>& files, LinkedPaths& paths);

/// Throws Failure where `.ENV` is `.env`: a rule that closes one of these names closes nothing there.
/// `what` names the directory.
void require_letter_case(const std::string& what, const std::string& directory);

}  // namespace callgate::cli
