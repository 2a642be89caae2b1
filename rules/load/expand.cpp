#include "rules/load/expand.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "base/test_switch.hpp"
#include "rules/load/pattern.hpp"

namespace callgate::rules {
namespace {

/// A component of a branch's remainder.
struct Step {
    std::string text;   // as written
    std::string plain;  // with a '/' before it, if it is literal
    bool literal = false;
    bool any_depth = false;  // "**" alone
    std::optional<Glob> glob;

    /// `name` includes the '/' before it.
    [[nodiscard]] bool matches(std::string_view name) const {
        if (any_depth) return true;
        return literal ? name == plain : glob->remainder_matches(0, name);
    }
};

/// The steps that may come next, one bit each. The bit behind the last step means that the pattern has
/// matched.
using Positions = std::uint64_t;
constexpr std::size_t max_steps = 62;

constexpr Positions bit(std::size_t index) { return Positions{1} << index; }

/// The steps of "/a/*/**/b". Returns nothing if a component crosses its neighbours ("a**b").
std::optional<std::vector<Step>> split(std::string_view remainder) {
    std::vector<Step> steps;
    while (!remainder.empty()) {
        remainder.remove_prefix(1);
        const std::size_t end = std::min(remainder.find('/'), remainder.size());
        Step step;
        step.text = remainder.substr(0, end);
        remainder.remove_prefix(end);
        step.any_depth = step.text == "**";
        if (!step.any_depth) {
            if (step.text.find("**") != std::string::npos) return std::nullopt;
            Expected<Glob> glob = Glob::compile('/' + step.text, GlobKind::path);
            if (!glob || glob->branches().size() != 1) return std::nullopt;
            step.glob = std::move(*glob);
            const Glob::Branch& branch = step.glob->branches().front();
            step.literal = branch.literal;
            if (branch.literal) step.plain = branch.head;
        }
        steps.push_back(std::move(step));
        if (steps.size() > max_steps) return std::nullopt;
    }
    return steps;
}

class Walk {
public:
    explicit Walk(std::vector<Step> steps) : steps_(std::move(steps)) {
        // A trailing "/**" stays: a match before it is the head of a hierarchy.
        if (!steps_.empty() && steps_.back().any_depth) {
            steps_.pop_back();
            tail_ = "/**";
        }
    }

    [[nodiscard]] const std::string& tail() const { return tail_; }
    [[nodiscard]] Positions start() const { return closure(bit(0)); }
    [[nodiscard]] bool met(Positions positions) const { return (positions & bit(steps_.size())) != 0; }
    /// Whether an object beneath may match that is not covered yet.
    [[nodiscard]] bool goes_on(Positions positions) const {
        return !(met(positions) && !tail_.empty()) && (positions & (bit(steps_.size()) - 1)) != 0;
    }

    /// The children that could advance the walk, in their order.
    [[nodiscard]] std::vector<std::uint32_t> candidates(Positions positions,
                                                        const Expander::Listing& listing) const;
    [[nodiscard]] Positions after(Positions positions, std::string_view name) const {
        Positions next = 0;
        for (std::size_t index = 0; index < steps_.size(); ++index) {
            if ((positions & bit(index)) == 0 || !steps_[index].matches(name)) continue;
            next |= bit(steps_[index].any_depth ? index : index + 1);
        }
        return closure(next);
    }

    /// The patterns that remain beneath a directory.
    [[nodiscard]] std::vector<std::string> remaining(Positions positions) const {
        std::vector<std::string> texts;
        for (std::size_t index = 0; index < steps_.size(); ++index) {
            if ((positions & bit(index)) == 0) continue;
            // The position behind a "**" adds nothing to the "**" itself.
            if (index > 0 && steps_[index - 1].any_depth && (positions & bit(index - 1)) != 0) continue;
            std::string text;
            for (std::size_t at = index; at < steps_.size(); ++at) text += '/' + steps_[at].text;
            texts.push_back(text + tail_);
        }
        return texts;
    }

private:
    /// "**" also stands for no component.
    [[nodiscard]] Positions closure(Positions positions) const {
        for (std::size_t index = 0; index < steps_.size(); ++index)
            if ((positions & bit(index)) != 0 && steps_[index].any_depth) positions |= bit(index + 1);
        return positions;
    }

    std::vector<Step> steps_;
    std::string tail_;
};

using Node = Expander::Node;

std::vector<std::uint32_t> Walk::candidates(Positions positions, const Expander::Listing& listing) const {
    std::vector<std::uint32_t> found;
    for (std::size_t index = 0; index < steps_.size(); ++index) {
        if ((positions & bit(index)) == 0) continue;
        const Step& step = steps_[index];
        if (step.any_depth) {
            found.insert(found.end(), listing.directories.begin(), listing.directories.end());
        } else if (!step.literal) {
            found.resize(listing.children.size());
            std::iota(found.begin(), found.end(), 0U);
            return found;
        } else if (const auto child = listing.by_name.find(step.plain); child != listing.by_name.end()) {
            found.push_back(child->second);
        }
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

/// A directory on a walk. All visits stand in one list, and each knows the index of its parent's visit.
struct Visit {
    Node* node = nullptr;
    std::size_t above = 0;
    std::size_t level = 0;
    Positions positions = 0;
};

class Search {
public:
    Search(Expander& expander, const std::string& head, const Walk& walk, bool sources)
        : expander_(expander), head_(head), walk_(walk), sources_(sources) {}

    /// Walks breadth first. Returns false if it stopped at a bound: what was found is then not all.
    [[nodiscard]] bool run(Node& start, Expansion& into);

    /// The directories that could not be read, and the positions there.
    [[nodiscard]] std::vector<std::pair<std::string, Positions>> kept() const;

private:
    [[nodiscard]] std::string path(std::size_t visit) const;
    [[nodiscard]] static std::string child(const std::string& directory, const std::string& name) {
        return (directory == "/" ? "" : directory) + name;
    }
    [[nodiscard]] bool holds_packages(std::size_t visit, const Node& entry) const;
    void look_at(std::size_t visit, Node& entry, Expansion& into);

    Expander& expander_;
    const std::string& head_;
    const Walk& walk_;
    bool sources_;
    std::vector<Visit> visits_;
    std::vector<std::size_t> unreadable_;
};

std::string Search::path(std::size_t visit) const {
    std::vector<const std::string*> names;
    for (; visit != 0; visit = visits_[visit].above) names.push_back(&visits_[visit].node->name);
    if (names.empty()) return head_;
    std::string path = head_ == "/" ? "" : head_;
    for (auto name = names.rbegin(); name != names.rend(); ++name) path += **name;
    return path;
}

/// Whether the directory holds installed packages and nothing of the project's own.
bool Search::holds_packages(std::size_t visit, const Node& entry) const {
    if (entry.name == "/node_modules") return true;
    if (entry.name != "/site-packages" || visits_[visit].level < 2) return false;
    const Visit& library = visits_[visits_[visit].above];
    if (!visits_[visit].node->name.starts_with("/python") || !library.node->name.starts_with("/lib"))
        return false;
    return expander_.tree().kind(child(path(library.above), "/pyvenv.cfg")) == FileTree::Kind::file;
}

void Search::look_at(std::size_t visit, Node& entry, Expansion& into) {
    const Positions next = walk_.after(visits_[visit].positions, entry.name);
    if (next == 0 || (sources_ && entry.directory && holds_packages(visit, entry))) return;
    if (walk_.met(next)) {
        std::string found = child(path(visit), entry.name);
        into.globs.push_back(walk_.tail().empty() ? Glob::literal(found) : Glob::beneath(found));
        into.found.push_back(std::move(found));
    }
    if (entry.directory && walk_.goes_on(next))
        visits_.push_back({&entry, visit, visits_[visit].level + 1, next});
}

bool Search::run(Node& start, Expansion& into) {
    visits_.push_back({&start, 0, 0, walk_.start()});
    for (std::size_t visit = 0; visit < visits_.size(); ++visit) {
        if (expander_.stopped() || unreadable_.size() > Expander::max_kept) return false;
        Expander::Listing* const listing =
            expander_.listing(*visits_[visit].node, [&] { return path(visit); });
        if (listing == nullptr) {
            unreadable_.push_back(visit);
            continue;
        }
        for (const std::uint32_t child : walk_.candidates(visits_[visit].positions, *listing))
            look_at(visit, listing->children[child], into);
    }
    return unreadable_.size() <= Expander::max_kept;
}

std::vector<std::pair<std::string, Positions>> Search::kept() const {
    std::vector<std::pair<std::string, Positions>> result;
    for (const std::size_t visit : unreadable_) result.emplace_back(path(visit), visits_[visit].positions);
    return result;
}

void add(const std::string& pattern, Expansion& into) {
    // The parts were compiled before, and quoting keeps them valid.
    if (Expected<Glob> glob = Glob::compile(pattern, GlobKind::path)) into.globs.push_back(std::move(*glob));
}

}  // namespace

Expander::Listing::Listing(const std::vector<FileTree::Entry>& entries) {
    children.reserve(entries.size());
    by_name.reserve(entries.size());
    for (const FileTree::Entry& entry : entries) {
        const auto index = static_cast<std::uint32_t>(children.size());
        Node& child = children.emplace_back();
        child.name = '/' + entry.name;
        child.directory = entry.directory && !entry.symbolic_link;
        if (child.directory) directories.push_back(index);
        by_name.emplace(child.name, index);
    }
}

Expander::Node& Expander::head(const std::string& directory) {
    Node& node = heads_[directory];
    node.directory = true;
    return node;
}

Expander::Listing* Expander::listing(Node& node, const std::function<std::string()>& path) {
    if (!node.read) {
        node.read = true;
        // A directory with more entries than are left is as one that cannot be read.
        if (auto entries = tree_.entries(path(), max_entries - entries_)) {
            entries_ += entries->size();
            node.listing = std::make_unique<Listing>(*entries);
        }
    }
    return node.listing.get();
}

void Expander::expand_branch(const Glob::Branch& branch, bool sources, Expansion& into) {
    const auto whole = [&] { return (branch.head == "/" ? "" : quote_glob(branch.head)) + branch.remainder; };
    std::optional<std::vector<Step>> steps = split(branch.remainder);
    if (!steps || stopped()) {
        into.kept.push_back(branch.head);
        return add(whole(), into);
    }
    const Walk walk(std::move(*steps));
    if (walk.met(walk.start())) return add(whole(), into);
    if (tree_.kind(branch.head) != FileTree::Kind::directory) return;
    Search search(*this, branch.head, walk, sources);
    const auto before = static_cast<std::ptrdiff_t>(into.globs.size());
    if (!search.run(head(branch.head), into)) {
        into.globs.erase(into.globs.begin() + before, into.globs.end());
        into.kept.push_back(branch.head);
        return add(whole(), into);
    }
    if (!check_enabled("kept-patterns")) return;
    for (const auto& [directory, positions] : search.kept()) {
        into.kept.push_back(directory);
        for (const std::string& rest : walk.remaining(positions))
            add((directory == "/" ? "" : quote_glob(directory)) + rest, into);
    }
}

Expansion Expander::expand(const Glob& glob, bool sources) {
    if (!until_) until_ = now_() + max_time;
    Expansion result;
    for (const Glob::Branch& branch : glob.branches()) {
        if (branch.literal)
            result.globs.push_back(Glob::literal(branch.head));
        else if (branch.hierarchy)
            result.globs.push_back(Glob::beneath(branch.head));
        else
            expand_branch(branch, sources, result);
    }
    return result;
}

}  // namespace callgate::rules
