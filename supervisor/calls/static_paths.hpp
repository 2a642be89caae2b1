// Paths that were just found to lie in a static hierarchy by their own name: opened again, they are continued
// without being resolved again.
//
// Only paths whose every name the target can neither make nor remove are remembered, and only for a short
// while, so nobody but a stranger (a package being upgraded) can make such a path lead elsewhere meanwhile.
// And continuing is sound whatever the path then names: Landlock alone holds it (architecture.md, invariant
// 1). One receiver's own; at most `size` paths.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace callgate::calls {

class StaticPaths {
public:
    static constexpr std::int64_t lifetime_ns = 50'000'000;

    [[nodiscard]] bool knows(std::string_view path, std::int64_t now_ns) const {
        const Entry& entry = entries_[slot(path)];
        return entry.path == path && now_ns - entry.since_ns < lifetime_ns;
    }
    void remember(std::string_view path, std::int64_t now_ns) {
        Entry& entry = entries_[slot(path)];
        entry.path = path;
        entry.since_ns = now_ns;
    }

private:
    struct Entry {
        std::string path;
        std::int64_t since_ns = 0;
    };
    static constexpr std::size_t size = 256;
    [[nodiscard]] static std::size_t slot(std::string_view path) {
        return std::hash<std::string_view>{}(path) % size;
    }
    std::array<Entry, size> entries_;
};

}  // namespace callgate::calls
