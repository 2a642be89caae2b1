// Finds the glob branches that could match a name, by their literal heads.
//
// Private to rules/match/rule_set. A name is hashed once, component by component, and every directory on the
// way is looked up. So a search costs the length of the name and the branches that share a head with it, not
// the number of rules. An attacker controls the name, never the stored heads. Filled once, then only read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rules/model/glob.hpp"

namespace callgate::rules {

class HeadIndex {
public:
    /// A branch of `glob` that could match a name.
    struct Entry {
        std::uint32_t rule = 0;
        std::uint32_t branch = 0;
        /// Must outlive the index.
        const Glob* glob = nullptr;
    };

    /// Makes room for so many branches.
    void reserve(std::size_t branches) { pending_.reserve(branches); }
    /// Adds every branch of `glob` for the rule with this index. All `add` come before `freeze`.
    void add(std::uint32_t rule, const Glob& glob);
    void freeze();

    /// Calls `visit(rule)` for every branch that matches `name`: a path, or a text without a leading '/'. If
    /// `worth(rule)` is false, the branch is not matched.
    template <typename Worth, typename Visit>
    void search(std::string_view name, Worth worth, Visit visit) const {
        const auto offer = [&](const Entry& entry, std::string_view rest) {
            if (worth(entry.rule) && entry.glob->remainder_matches(entry.branch, rest)) visit(entry.rule);
        };
        for (const Entry& entry : texts_) {
            if (worth(entry.rule) && entry.glob->matches(name)) visit(entry.rule);
        }
        if (!name.starts_with('/') || name.size() == 1) {
            each(find(hash_of(name), name), true, name.substr(name.size()), offer);
            return;
        }
        std::uint64_t hash = mix(seed, '/');
        each(find(hash, "/"), false, name, offer);
        for (std::size_t position = 1; position <= name.size(); ++position) {
            if (position == name.size() || name[position] == '/') {
                each(find(hash, name.substr(0, position)), position == name.size(), name.substr(position),
                     offer);
            }
            if (position < name.size()) hash = mix(hash, name[position]);
        }
    }

private:
    struct Head {
        std::uint64_t hash = 0;
        std::string_view text;  // belongs to a branch, which outlives the index
        // Indices into `entries_`: literal branches, then branches that also match beneath their head, then
        // the end.
        std::uint32_t exact = 0, beneath = 0, end = 0;
    };
    struct Pending {
        std::string_view head;
        bool literal = false;
        Entry entry;
    };

    static constexpr std::uint64_t seed = 0xcbf29ce484222325;
    static std::uint64_t mix(std::uint64_t hash, char byte) {
        return (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    }
    static std::uint64_t hash_of(std::string_view text) {
        std::uint64_t hash = seed;
        for (const char byte : text) hash = mix(hash, byte);
        return hash;
    }
    /// Mixes in the high bits: the low bits alone depend mostly on the last bytes.
    [[nodiscard]] std::size_t first_place(std::uint64_t hash) const {
        return static_cast<std::size_t>(hash ^ hash >> 32) & (places_.size() - 1);
    }
    std::uint32_t number_of(std::string_view head);
    [[nodiscard]] const Head* find(std::uint64_t hash, std::string_view head) const;

    template <typename Offer>
    void each(const Head* head, bool whole, std::string_view rest, Offer& offer) const {
        if (head == nullptr) return;
        for (std::uint32_t index = whole ? head->exact : head->beneath; index < head->end; ++index) {
            offer(entries_[index], rest);
        }
    }

    std::vector<Pending> pending_;  // until `freeze`
    std::vector<Entry> entries_;
    std::vector<Head> heads_;
    // Hash table with open addressing: head number plus one, or 0. Its size is a power of two, at most half
    // full.
    std::vector<std::uint32_t> places_;
    std::vector<Entry> texts_;  // text globs with wildcards have no head
};

}  // namespace callgate::rules
