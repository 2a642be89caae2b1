#include "rules/plan/pattern_remainder.hpp"

#include <algorithm>

namespace callgate::rules {

namespace {

constexpr std::size_t max_components = 62;  // states are bits of one word

/// The position of the next '/' that is not quoted and not within a class.
std::size_t next_slash(std::string_view pattern, std::size_t position) {
    bool in_class = false;
    for (; position < pattern.size(); ++position) {
        if (pattern[position] == '\\') {
            ++position;
        } else if (pattern[position] == '[') {
            in_class = true;
        } else if (pattern[position] == ']') {
            in_class = false;
        } else if (pattern[position] == '/' && !in_class) {
            return position;
        }
    }
    return pattern.size();
}

}  // namespace

void PatternRemainders::finish() {
    std::sort(all_.begin(), all_.end());
    all_.erase(std::unique(all_.begin(), all_.end()), all_.end());
    everything_ = std::any_of(all_.begin(), all_.end(), [](const PatternRemainder& one) {
        return one.literal == 0 && one.text == "/**";
    });
}

bool PatternRemainders::cover(const PatternRemainders& other) const {
    if (everything_) return true;
    if (other.unsure_) return false;
    return std::includes(all_.begin(), all_.end(), other.all_.begin(), other.all_.end());
}

BranchPattern::BranchPattern(const Glob::Branch& branch)
    : full_((branch.head == "/" ? "" : branch.head) + branch.remainder),
      head_(branch.head == "/" ? 0 : branch.head.size()) {
    take_apart();
}

void BranchPattern::take_apart() {
    for (std::size_t start = head_; start < full_.size();) {
        const std::size_t end = next_slash(full_, start + 1);
        const std::string text = full_.substr(start + 1, end - start - 1);
        Component component{.offset = start, .any_number = text == "**", .glob = std::nullopt};
        // A "**" within a component crosses directories, so the rest of the pattern cannot be split.
        if (!component.any_number && text.find("**") == std::string::npos)
            if (Expected<Glob> glob = Glob::compile(text, GlobKind::text)) component.glob = std::move(*glob);
        components_.push_back(std::move(component));
        start = end;
    }
}

/// Adds the states behind each "**", which also stands for no component.
std::uint64_t BranchPattern::closure(std::uint64_t states) const {
    for (std::size_t index = 0; index < components_.size(); ++index)
        if (components_[index].any_number && (states >> index & 1) != 0) states |= 1ULL << (index + 1);
    return states;
}

std::optional<std::uint64_t> BranchPattern::step(std::uint64_t states, std::string_view name) const {
    std::uint64_t next = 0;
    for (std::size_t index = 0; index < components_.size(); ++index) {
        if ((states >> index & 1) == 0) continue;
        const Component& component = components_[index];
        if (component.any_number) {
            next |= 1ULL << index;
        } else if (!component.glob) {
            return std::nullopt;
        } else if (component.glob->matches(name)) {
            next |= 1ULL << (index + 1);
        }
    }
    return closure(next);
}

void BranchPattern::remainders(std::string_view directory, PatternRemainders& into) const {
    if (directory == "/") directory = {};
    const std::string_view full = full_;
    const std::string_view head = full.substr(0, head_);
    if (head.size() > directory.size()) {
        if (head.starts_with(directory) && head[directory.size()] == '/')
            into.add({full.substr(directory.size()), head_ - directory.size()});
        return;
    }
    if (!directory.starts_with(head)) return;
    std::string_view rest = directory.substr(head.size());
    if (!rest.empty() && rest.front() != '/') return;
    if (components_.size() > max_components) return into.add_unsure();
    std::uint64_t states = closure(1);
    while (!rest.empty() && states != 0) {
        const std::size_t end = std::min(rest.find('/', 1), rest.size());
        const auto next = step(states, rest.substr(1, end - 1));
        if (!next) return into.add_unsure();
        states = *next;
        rest.remove_prefix(end);
    }
    for (std::size_t index = 0; index <= components_.size(); ++index)
        if ((states >> index & 1) != 0)
            into.add(
                {index < components_.size() ? full.substr(components_[index].offset) : std::string_view(),
                 0});
}

}  // namespace callgate::rules
