// Earlier starts tell a walk what they found in directories, so that it lists only those that changed since.
//
// A walk believes what it is told here: a name that is left out is not denied. So only the owner of the
// rules may have written it, and only about directories that are still the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rules/plan/plan.hpp"

namespace callgate::rules {

class KnownListings {
public:
    using Entries = std::vector<FileTree::Entry>;

    virtual ~KnownListings() = default;
    /// A walk beneath `head` begins. What was found for another head or other patterns does not count for it.
    virtual void begin(const std::string& head, const std::vector<std::string>& patterns) = 0;
    /// The entries that matter to the patterns: directories, and what a pattern matches there. Nothing if the
    /// directory has to be listed.
    [[nodiscard]] virtual std::optional<Entries> find(const std::string& directory) = 0;
    /// Takes what mattered in the directory `listed`, which had the path that was asked for last. It was
    /// listed after that.
    virtual void add(Entries entries, const std::optional<FileTree::Identity>& listed) = 0;
};

}  // namespace callgate::rules
