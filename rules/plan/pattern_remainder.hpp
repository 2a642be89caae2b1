// The remainders of a rule's patterns beneath a name, which the rename check compares.
//
// Private to rules/plan/rename_check.cpp. A remainder is the rest of a pattern after a directory was taken
// off its front: "" (the directory itself matches), "/config", "/**" (everything beneath), "/**/.env". If two
// names have the same remainders, the pattern treats all objects beneath them alike. Views point into the
// compiled patterns.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rules/model/glob.hpp"

namespace callgate::rules {

/// The first `literal` bytes of `text` stand for themselves, the rest is a pattern.
struct PatternRemainder {
    std::string_view text;
    std::size_t literal = 0;
    auto operator<=>(const PatternRemainder&) const = default;
};

class PatternRemainders {
public:
    void add(PatternRemainder remainder) { all_.push_back(remainder); }
    /// Records an unknown remainder: it covers nothing and nothing covers it.
    void add_unsure() { unsure_ = true; }
    /// Sorts. Call it once, after the last `add`.
    void finish();

    [[nodiscard]] bool empty() const { return all_.empty() && !unsure_; }
    /// Whether this surely matches every name that `other` matches.
    [[nodiscard]] bool cover(const PatternRemainders& other) const;

private:
    std::vector<PatternRemainder> all_;
    bool unsure_ = false;
    bool everything_ = false;
};

/// A branch of a path glob, split into components.
class BranchPattern {
public:
    explicit BranchPattern(const Glob::Branch& branch);
    /// Adds the remainders beneath `directory`, which is absolute and resolved.
    void remainders(std::string_view directory, PatternRemainders& into) const;

private:
    struct Component {
        std::size_t offset = 0;    // of its '/' in full_
        bool any_number = false;   // "**"
        std::optional<Glob> glob;  // nothing: cannot be split
    };
    void take_apart();
    [[nodiscard]] std::uint64_t closure(std::uint64_t states) const;
    [[nodiscard]] std::optional<std::uint64_t> step(std::uint64_t states, std::string_view name) const;

    std::string full_;      // head and remainder
    std::size_t head_ = 0;  // bytes of full_ that are the head; 0 for "/"
    std::vector<Component> components_;
};

}  // namespace callgate::rules
