// Which paths a suggested rule names: those that were seen, and a directory where enough of it was.
//
// Generalised is only from three siblings up, and never "/", a directory right beneath it, the home, what
// lies above it or a dot directory in it. Everything of the run's private directory is one pattern: its names
// never come again. Paths are a target's bytes: in patterns their wildcards are quoted.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace callgate::audit {

struct KnownPlaces {
    std::string workdir, home, temporary_directory;  // "" where not known
    /// Directories that the run asked to make.
    std::set<std::string, std::less<>> made;

    /// `path` with ${workdir}, ${tmp} or ~ in place of these; wildcards quoted.
    [[nodiscard]] std::string pattern(std::string_view path) const;
    /// Whether it is the home, lies in a dot directory of it, or is a dot file there.
    [[nodiscard]] bool private_to_user(std::string_view path) const;
    [[nodiscard]] bool may_generalise(std::string_view directory) const;
    /// The nearest directory above `path`, which lies in the work directory, that was there before the run.
    [[nodiscard]] std::string_view standing_directory(std::string_view path) const;
};

class PathTree {
public:
    explicit PathTree(const KnownPlaces& places) : places_(places) {}
    void add(std::string_view path, std::uint64_t count);

    struct Pattern {
        std::string text;
        std::uint64_t count = 0;
        std::string example;  // a path that was seen, as a pattern
    };
    /// `exact`: nothing is generalised (programs are named one by one), but that what lies in the work
    /// directory, where a run makes programs, is its directory, or what stands above it where the run made
    /// that too.
    enum class Width : std::uint8_t { exact, siblings };
    [[nodiscard]] std::vector<Pattern> patterns(Width width) const;

private:
    struct Node {
        std::map<std::string, std::unique_ptr<Node>, std::less<>> children;
        std::uint64_t own = 0;  // how often it was itself seen
        [[nodiscard]] std::uint64_t total() const;
        [[nodiscard]] std::string first_seen(const std::string& path) const;
    };
    void collect(const Node& node, const std::string& path, Width width, std::vector<Pattern>& into) const;

    const KnownPlaces& places_;
    Node root_;
};

}  // namespace callgate::audit
