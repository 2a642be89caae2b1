// The files of this machine as the rules ask about them (FileTree), read with openat2(2) and getdents64(2).
//
// An attacker may choose names and kinds, and may change them at any time. If a plan rests on a file that is
// gone by then, making Landlock's grants finds out (agent/landlock).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rules/plan/plan.hpp"

namespace callgate {

/// Never follows links. Repeats its first answer about a path: rules are about the files as they are at
/// start, and hundreds of patterns share a few directories. One thread only.
class RealFileTree : public rules::FileTree {
public:
    [[nodiscard]] Kind kind(const std::string& path) const override;
    [[nodiscard]] bool may_be_link(const std::string& path) const override;
    [[nodiscard]] std::optional<std::vector<Entry>> entries(const std::string& directory,
                                                            std::size_t limit) const override;
    [[nodiscard]] std::optional<Identity> listed() const override { return listed_; }

private:
    struct PathHash {
        using is_transparent = void;
        std::size_t operator()(std::string_view path) const { return std::hash<std::string_view>()(path); }
    };
    /// All entries of a directory, and their indices by the length of their names, then by bytes.
    struct Listing {
        Identity directory;
        std::vector<Entry> entries;
        std::vector<std::uint32_t> by_name;
        [[nodiscard]] const Entry* find(std::string_view name) const;
    };
    struct Answer {
        Kind kind = Kind::absent;
        bool link = false;
    };
    /// The answers about one path and its entries.
    struct Place {
        Answer answer;
        unsigned asked = 0;          // how often for an entry of it
        bool keeps_entries = false;  // some entry has a place, or an answer of its own
        std::optional<Listing> listing{};
    };
    static Listing make_listing(const Identity& directory, std::vector<Entry> entries);
    static Answer look_at(const std::string& path);
    [[nodiscard]] Answer look(std::string_view path) const;
    Place& place(std::string_view path) const;
    static const Listing* listing_for_question(Place& directory, std::string_view path);

    using Places = std::unordered_map<std::string, Place, PathHash, std::equal_to<>>;

    mutable Places places_;
    mutable Places::value_type* last_ = nullptr;  // of `places_`: it was asked for last
    mutable std::optional<Identity> listed_;
};

}  // namespace callgate
