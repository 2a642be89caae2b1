#include "rules/expand.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>

#include "rules/pattern.hpp"

namespace callgate::rules {
namespace {

/// One component of a residue.
struct Step {
    std::string text;   // as written
    std::string plain;  // where it is literal
    bool literal = false;
    bool any_depth = false;  // "**" alone
    std::optional<Glob> glob;

    [[nodiscard]] bool matches(const std::string& name) const {
        if (any_depth) return true;
        return literal ? name == plain : glob->matches('/' + name);
    }
};

/// Which steps may come next, one bit each; the bit behind the last step means that the pattern is met.
using Positions = std::uint64_t;
constexpr std::size_t most_steps = 62;

constexpr Positions bit(std::size_t index) { return Positions{1} << index; }

/// Steps of "/a/*/**/b". Nothing where a component cannot be told from its neighbours ("a**b" crosses them).
std::optional<std::vector<Step>> split(std::string_view residue) {
    std::vector<Step> steps;
    while (!residue.empty()) {
        residue.remove_prefix(1);
        const std::size_t end = std::min(residue.find('/'), residue.size());
        Step step;
        step.text = residue.substr(0, end);
        residue.remove_prefix(end);
        step.any_depth = step.text == "**";
        if (!step.any_depth) {
            if (step.text.find("**") != std::string::npos) return std::nullopt;
            std::string error;
            step.glob = Glob::compile('/' + step.text, GlobKind::path, error);
            if (!step.glob || step.glob->branches().size() != 1) return std::nullopt;
            const Glob::Branch& branch = step.glob->branches().front();
            step.literal = branch.literal;
            if (branch.literal) step.plain = branch.head.substr(1);
        }
        steps.push_back(std::move(step));
        if (steps.size() > most_steps) return std::nullopt;
    }
    return steps;
}

class Walk {
public:
    explicit Walk(std::vector<Step> steps) : steps_(std::move(steps)) {
        // A trailing "/**" stays: what matches before it is the head of a hierarchy.
        if (!steps_.empty() && steps_.back().any_depth) {
            steps_.pop_back();
            tail_ = "/**";
        }
    }

    [[nodiscard]] const std::string& tail() const { return tail_; }
    [[nodiscard]] Positions start() const { return closure(bit(0)); }
    [[nodiscard]] bool met(Positions positions) const { return (positions & bit(steps_.size())) != 0; }
    /// Whether something beneath may still match that is not covered already.
    [[nodiscard]] bool goes_on(Positions positions) const {
        return !(met(positions) && !tail_.empty()) && (positions & (bit(steps_.size()) - 1)) != 0;
    }

    [[nodiscard]] Positions after(Positions positions, const std::string& name) const {
        Positions next = 0;
        for (std::size_t index = 0; index < steps_.size(); ++index) {
            if ((positions & bit(index)) == 0 || !steps_[index].matches(name)) continue;
            next |= bit(steps_[index].any_depth ? index : index + 1);
        }
        return closure(next);
    }

    /// What may still follow beneath a directory.
    [[nodiscard]] std::vector<std::string> remaining(Positions positions) const {
        std::vector<std::string> texts;
        for (std::size_t index = 0; index < steps_.size(); ++index) {
            if ((positions & bit(index)) == 0) continue;
            // The position behind a "**" says no more than the "**" itself.
            if (index > 0 && steps_[index - 1].any_depth && (positions & bit(index - 1)) != 0) continue;
            std::string text;
            for (std::size_t at = index; at < steps_.size(); ++at) text += '/' + steps_[at].text;
            texts.push_back(text + tail_);
        }
        return texts;
    }

private:
    /// "**" stands for no component, too.
    [[nodiscard]] Positions closure(Positions positions) const {
        for (std::size_t index = 0; index < steps_.size(); ++index)
            if ((positions & bit(index)) != 0 && steps_[index].any_depth) positions |= bit(index + 1);
        return positions;
    }

    std::vector<Step> steps_;
    std::string tail_;
};

struct Pending {
    std::string directory;
    std::size_t level = 0;
    Positions positions = 0;
};

std::string child(const std::string& directory, const std::string& name) {
    return (directory == "/" ? "" : directory) + '/' + name;
}

std::size_t depth(const std::string& path) {
    std::size_t count = 0;
    for (const char byte : path) count += byte == '/' ? 1 : 0;
    return path == "/" ? 0 : count;
}

using Directories = std::map<std::string, Positions>;

/// Where a walk has been, and where it stopped.
struct Frontier {
    Directories seen, kept;
};

/// One level up for the deepest of them, with what the walk knew there. Coarser, still sound: the pattern
/// holds at the parent as it was written.
Directories coarser(const Frontier& frontier, const std::string& head) {
    std::size_t deepest = 0;
    for (const auto& [directory, positions] : frontier.kept) deepest = std::max(deepest, depth(directory));
    Directories result;
    for (const auto& [directory, positions] : frontier.kept) {
        if (depth(directory) < deepest || directory == head) {
            result[directory] = positions;
            continue;
        }
        const std::size_t slash = directory.rfind('/');
        const std::string parent = slash == 0 ? "/" : directory.substr(0, slash);
        result[parent] = frontier.seen.at(parent);
    }
    return result;
}

void add(const std::string& pattern, Expansion& into) {
    std::string error;
    // The parts were compiled before; quoting keeps them so.
    if (std::optional<Glob> glob = Glob::compile(pattern, GlobKind::path, error))
        into.globs.push_back(std::move(*glob));
}

using Entries = std::optional<std::vector<FileTree::Entry>>;

/// Breadth first, so that what is left where the count is reached lies as deep as it can.
Frontier search(const std::string& head, const Walk& walk,
                const std::function<const Entries&(const std::string&)>& read, Expansion& into) {
    Frontier frontier;
    std::deque<Pending> pending{{head, 0, walk.start()}};
    std::size_t count = 0;
    while (!pending.empty()) {
        const Pending now = std::move(pending.front());
        pending.pop_front();
        frontier.seen[now.directory] = now.positions;
        const bool within = now.level < Expander::most_levels && count < Expander::most_entries;
        const Entries* here = within ? &read(now.directory) : nullptr;
        if (here == nullptr || !*here || count + (*here)->size() > Expander::most_entries) {
            frontier.kept[now.directory] = now.positions;
            continue;
        }
        count += (*here)->size();
        for (const FileTree::Entry& entry : **here) {
            const Positions next = walk.after(now.positions, entry.name);
            if (next == 0) continue;
            std::string path = child(now.directory, entry.name);
            if (walk.met(next)) {
                into.globs.push_back(walk.tail().empty() ? Glob::literal(path) : Glob::beneath(path));
                into.found.push_back(path);
            }
            if (entry.directory && !entry.symbolic_link && walk.goes_on(next))
                pending.push_back({std::move(path), now.level + 1, next});
        }
    }
    return frontier;
}

}  // namespace

const Expander::Entries& Expander::entries(const std::string& directory) {
    const auto known = read_.find(directory);
    if (known != read_.end()) return known->second;
    return read_[directory] = tree_.entries(directory, most_entries);
}

void Expander::expand_branch(const Glob::Branch& branch, Expansion& into) {
    const std::string whole = (branch.head == "/" ? "" : quote_glob(branch.head)) + branch.residue;
    std::optional<std::vector<Step>> steps = split(branch.residue);
    if (!steps) {
        into.kept.push_back(branch.head);
        return add(whole, into);
    }
    const Walk walk(std::move(*steps));
    if (walk.met(walk.start())) return add(whole, into);
    if (tree_.kind(branch.head) != FileTree::Kind::directory) return;
    const auto read = [this](const std::string& directory) -> const Entries& { return entries(directory); };
    Frontier frontier = search(branch.head, walk, read, into);
    while (frontier.kept.size() > most_kept) frontier.kept = coarser(frontier, branch.head);
    for (const auto& [directory, positions] : frontier.kept) {
        into.kept.push_back(directory);
        for (const std::string& rest : walk.remaining(positions))
            add((directory == "/" ? "" : quote_glob(directory)) + rest, into);
    }
}

Expansion Expander::expand(const Glob& glob) {
    Expansion result;
    for (const Glob::Branch& branch : glob.branches()) {
        if (branch.literal)
            result.globs.push_back(Glob::literal(branch.head));
        else if (branch.hierarchy)
            result.globs.push_back(Glob::beneath(branch.head));
        else
            expand_branch(branch, result);
    }
    return result;
}

}  // namespace callgate::rules
