// The paths that a suggested rule names: seen paths, or a directory if enough paths in it were seen.
//
// A directory stands for its entries only if at least three were seen. That is never done for "/", its direct
// subdirectories, the home, directories above the home, and dot directories in it. The run's private
// directory is one pattern, because its names never come again. The target chooses the bytes of paths, so
// patterns quote their wildcards.
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
    std::string workdir, home, temporary_directory;  // "" if not known
    std::string account_home{};                      // where HOME is another directory; else ""
    /// Directories that the run asked to make.
    std::set<std::string, std::less<>> made;

    /// `path` with ${workdir}, ${tmp} or ~ in place of these; wildcards quoted.
    [[nodiscard]] std::string pattern(std::string_view path) const;
    /// The home that holds `path`, or is it; "" if neither of both does.
    [[nodiscard]] std::string_view home_of(std::string_view path) const;
    /// Whether `path` is a home, lies in a dot directory of one, or is a dot file there.
    [[nodiscard]] bool private_to_user(std::string_view path) const;
    /// For such a path: the directory that one application has for one purpose ("~/.cargo/registry/**",
    /// "~/.config/tool/**"). A file at the top of a dot directory is named alone, as credentials lie there.
    [[nodiscard]] std::string application_pattern(std::string_view path) const;
    [[nodiscard]] bool may_generalise(std::string_view directory) const;
    /// Whether the run made a directory that holds `path`.
    [[nodiscard]] bool in_made_directory(std::string_view path) const;
    /// The nearest directory above `path` that existed before the run. `path` lies in the work directory.
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
    /// `exact`: each path. `programs`: each path, but a program in the work directory, where runs make
    /// programs, is named by its directory. If the run made that too, the nearest older directory above it is
    /// named. `siblings`: a directory may stand for its entries.
    enum class Width : std::uint8_t { exact, programs, siblings };
    [[nodiscard]] std::vector<Pattern> patterns(Width width) const;

private:
    struct Node {
        std::map<std::string, std::unique_ptr<Node>, std::less<>> children;
        std::uint64_t own = 0;  // how often the path itself was seen
        [[nodiscard]] std::uint64_t total() const;
        [[nodiscard]] std::string first_seen(const std::string& path) const;
    };
    void collect(const Node& node, const std::string& path, Width width, std::vector<Pattern>& into) const;

    const KnownPlaces& places_;
    Node root_;
};

}  // namespace callgate::audit
