// What is left of a rule's patterns beneath a name: the remainders that moves are compared by.
//
// Private to rules/plan/rename_check.cpp. A remainder is the rest of a pattern after a directory was taken off its front: ""
// (the directory itself matches), "/config", "/**" (everything beneath), "/**/.env". Two names with the same
// remainders are treated alike by the pattern, whatever lies beneath them. Views point into the compiled
// patterns.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rules/model/glob.hpp"

namespace callgate::rules {

/// `literal` bytes of `text` stand for themselves, the rest is a pattern.
struct PatternRemainder {
    std::string_view text;
    std::size_t literal = 0;
    auto operator<=>(const PatternRemainder&) const = default;
};

class PatternRemainders {
public:
    void add(PatternRemainder remainder) { all_.push_back(remainder); }
    /// Something may be left, but what cannot be said: it covers nothing and nothing covers it.
    void add_unsure() { unsure_ = true; }
    /// Sorts; to be called once, after the last `add`.
    void finish();

    [[nodiscard]] bool empty() const { return all_.empty() && !unsure_; }
    /// Whether whatever `other` matches is surely matched by this as well.
    [[nodiscard]] bool cover(const PatternRemainders& other) const;

private:
    std::vector<PatternRemainder> all_;
    bool unsure_ = false;
    bool everything_ = false;
};

/// One branch of a path glob, taken apart into components.
class BranchPattern {
public:
    explicit BranchPattern(const Glob::Branch& branch);
    /// Adds what is left beneath `directory`, which is absolute and resolved.
    void remainders(std::string_view directory, PatternRemainders& into) const;

private:
    struct Component {
        std::size_t offset = 0;    // of its '/' in full_
        bool any_number = false;   // "**"
        std::optional<Glob> glob;  // nothing: cannot be taken apart
    };
    void take_apart();
    [[nodiscard]] std::uint64_t closure(std::uint64_t states) const;
    [[nodiscard]] std::optional<std::uint64_t> step(std::uint64_t states, std::string_view name) const;

    std::string full_;      // head and remainder
    std::size_t head_ = 0;  // bytes of full_ that are the head; 0 for "/"
    std::vector<Component> components_;
};

}  // namespace callgate::rules
