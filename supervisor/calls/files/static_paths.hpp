// Paths that lie in a static hierarchy by their own name. Reading there is continued without asking more
// about the object, and for a while without resolving the path again.
//
// A path is remembered only if the target can neither make nor remove any name of it, and only for a short
// while. So only an outside process (a package upgrade) can make such a path lead elsewhere meanwhile.
// Continuing is sound whatever the path then names: Landlock alone holds it (docs/dev/architecture.md,
// invariant 1). Belongs to one receiving thread; keeps at most `size` paths.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace callgate::calls {

class StaticPaths {
public:
    static constexpr std::int64_t lifetime_ns = 50'000'000;

    [[nodiscard]] bool knows(std::string_view path, std::int64_t now_ns) const {
        const Entry& entry = entries_[slot(hash(path))];
        return entry.path == path && now_ns - entry.since_ns < lifetime_ns;
    }
    /// Whether the path came before, a short while ago. Most paths are opened once, and finding out whether
    /// one can be remembered costs more than resolving it.
    [[nodiscard]] bool has_come(std::string_view path, std::int64_t now_ns) {
        const std::size_t wanted = hash(path);
        Entry& entry = entries_[slot(wanted)];
        const bool again = entry.came == wanted && now_ns - entry.came_ns < lifetime_ns;
        entry.came = wanted;
        entry.came_ns = now_ns;
        return again;
    }
    void remember(std::string_view path, std::int64_t now_ns) {
        Entry& entry = entries_[slot(hash(path))];
        entry.path = path;
        entry.since_ns = now_ns;
    }

    /// Whether an absolute path's own name is all that there is of it: no ".", "..", empty or final "/".
    [[nodiscard]] static bool is_plain(std::string_view path) {
        if (!path.starts_with('/')) return false;
        for (std::size_t begin = 1; begin <= path.size();) {
            const std::size_t end = std::min(path.find('/', begin), path.size());
            const std::string_view component = path.substr(begin, end - begin);
            if (component.empty() || component == "." || component == "..") return false;
            begin = end + 1;
        }
        return true;
    }
    /// Below the first component of `path` something else is mounted: what is reached there may lie on
    /// another file system.
    void note_mount(std::string_view path) {
        if (mounts_.size() < max_mounts && !beyond_mount(path)) mounts_.emplace_back(first_of(path));
    }
    [[nodiscard]] bool beyond_mount(std::string_view path) const {
        return std::ranges::find(mounts_, first_of(path)) != mounts_.end();
    }

private:
    struct Entry {
        std::string path;
        std::int64_t since_ns = 0;
        std::size_t came = 0;
        std::int64_t came_ns = 0;
    };
    static constexpr std::size_t size = 256;
    [[nodiscard]] static std::size_t hash(std::string_view path) {
        return std::hash<std::string_view>{}(path);
    }
    [[nodiscard]] static std::size_t slot(std::size_t hash) { return hash % size; }
    [[nodiscard]] static std::string_view first_of(std::string_view path) {
        return path.substr(0, path.find('/', 1));
    }
    static constexpr std::size_t max_mounts = 16;
    std::array<Entry, size> entries_;
    std::vector<std::string> mounts_;
};

}  // namespace callgate::calls
