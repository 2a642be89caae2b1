#include "rules/load/expand.hpp"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "base/test_switch.hpp"
#include "rules/load/pattern.hpp"

namespace callgate::rules {
namespace {

/// A component of a branch's remainder.
struct Step {
    std::string text;        // as written
    bool any_depth = false;  // "**" alone
    std::optional<Glob> glob;

    /// The name, if it is literal.
    [[nodiscard]] std::optional<std::string_view> literal() const {
        const Glob::Branch& branch = glob->branches().front();
        if (!branch.literal) return std::nullopt;
        return std::string_view(branch.head).substr(1);
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
        for (std::size_t index = 0; index < steps_.size(); ++index)
            if (steps_[index].any_depth) any_depth_ |= bit(index);
    }

    [[nodiscard]] const std::string& tail() const { return tail_; }
    [[nodiscard]] Positions start() const { return closure(bit(0)); }
    [[nodiscard]] bool met(Positions positions) const { return (positions & bit(steps_.size())) != 0; }
    /// Whether an object beneath may match that is not covered yet.
    [[nodiscard]] bool goes_on(Positions positions) const {
        return !(met(positions) && !tail_.empty()) && (positions & (bit(steps_.size()) - 1)) != 0;
    }

    /// The positions beneath a child whose name the steps `named` match; `**` matches every name.
    [[nodiscard]] Positions after(Positions positions, Positions named) const {
        return closure((positions & any_depth_) | (positions & named) << 1U);
    }
    [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }

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
    Positions any_depth_ = 0;
};

void add(const std::string& pattern, Expansion& into) {
    // The parts were compiled before, and quoting keeps them valid.
    if (Expected<Glob> glob = Glob::compile(pattern, GlobKind::path)) into.globs.push_back(std::move(*glob));
}

}  // namespace

/// A branch, and what became of it once a walk has ended.
struct Expander::Question {
    std::string head, remainder;
    std::optional<Walk> walk;  // none: the branch is not walked
    bool answered = false;
    Expansion answer;

    Question(const Glob::Branch& branch) : head(branch.head), remainder(branch.remainder) {
        if (std::optional<std::vector<Step>> steps = split(remainder)) walk.emplace(std::move(*steps));
    }
    [[nodiscard]] std::string beneath(const std::string& directory, const std::string& rest) const {
        return (directory == "/" ? "" : quote_glob(directory)) + rest;
    }
    void leave_as_written() { add(beneath(head, remainder), answer); }
    void keep_whole() {
        answer = {};
        answer.kept.push_back(head);
        leave_as_written();
    }
    void meet(std::string path) {
        answer.globs.push_back(walk->tail().empty() ? Glob::literal(path) : Glob::beneath(path));
        answer.found.push_back(std::move(path));
    }
    /// A literal rest of the pattern stays in force beneath a directory whose name is one of its components.
    void anchor(const std::string& directory, std::size_t step) {
        std::string rest;
        for (std::size_t at = step + 1; at < walk->steps().size(); ++at) {
            const Step& next = walk->steps()[at];
            if (next.any_depth || !next.literal()) return;
            rest += '/' + next.text;
        }
        if (!rest.empty() && check_enabled("anchored-patterns"))
            add(beneath(directory, rest + walk->tail()), answer);
    }
    void keep(const std::string& directory, Positions positions) {
        answer.kept.push_back(directory);
        for (const std::string& rest : walk->remaining(positions)) add(beneath(directory, rest), answer);
    }
};

namespace {

using Questions = std::vector<Expander::Question*>;

/// The steps of one walk that a name meets.
struct Hit {
    std::size_t walk = 0;
    Positions steps = 0;
};

/// Finds what a name meets. Most names meet nothing, and most steps are literal.
class Names {
public:
    explicit Names(const Questions& questions);
    /// `hits` is overwritten; each walk stands there once.
    void find(const std::string& name, std::vector<Hit>& hits);

private:
    struct Pattern {
        Hit hit;
        const Glob* glob;
    };
    static void add(Hit hit, std::vector<Hit>& to);

    std::unordered_map<std::string_view, std::vector<Hit>> literals_;
    std::bitset<256> first_bytes_;  // of the literals
    std::vector<Pattern> patterns_;
    std::string slashed_;
};

Names::Names(const Questions& questions) {
    for (std::size_t walk = 0; walk < questions.size(); ++walk) {
        const std::vector<Step>& steps = questions[walk]->walk->steps();
        for (std::size_t index = 0; index < steps.size(); ++index) {
            if (steps[index].any_depth) continue;
            if (const auto literal = steps[index].literal()) {
                add({walk, bit(index)}, literals_[*literal]);
                first_bytes_.set(static_cast<unsigned char>(literal->front()));
            } else {
                patterns_.push_back({{walk, bit(index)}, &*steps[index].glob});
            }
        }
    }
}

void Names::add(Hit hit, std::vector<Hit>& to) {
    const auto known = std::ranges::find(to, hit.walk, &Hit::walk);
    if (known != to.end())
        known->steps |= hit.steps;
    else
        to.push_back(hit);
}

void Names::find(const std::string& name, std::vector<Hit>& hits) {
    hits.clear();
    if (first_bytes_.test(static_cast<unsigned char>(name.front())))
        if (const auto literal = literals_.find(name); literal != literals_.end()) hits = literal->second;
    slashed_.assign(1, '/').append(name);
    for (const Pattern& one : patterns_)
        if (one.glob->remainder_matches(0, slashed_)) add(one.hit, hits);
}

/// The positions of all walks in a directory. Equal ones have one number, so that a name which meets nothing
/// costs one look at a table.
class States {
public:
    using Number = std::uint32_t;
    static constexpr Number none = 0;  // no walk goes on
    /// Bound: names in the tree choose the states, and a state has a number for each pattern.
    static constexpr std::size_t max_states = 4096;

    explicit States(const Questions& questions) : questions_(questions) {
        number_of(std::vector<Positions>(questions.size(), 0));
    }
    [[nodiscard]] Number start();
    [[nodiscard]] Positions positions(Number state, std::size_t walk) const {
        return all_[state].positions[walk];
    }
    /// The state beneath a directory whose name meets nothing.
    [[nodiscard]] Number otherwise(Number state);
    /// The state beneath a directory whose name has these hits.
    [[nodiscard]] Number after(Number state, const std::vector<Hit>& hits);
    [[nodiscard]] bool full() const { return all_.size() > max_states; }

private:
    struct State {
        std::vector<Positions> positions;  // 0: the walk does not go on
        std::optional<Number> otherwise;
    };
    [[nodiscard]] Positions onward(std::size_t walk, Positions next) const {
        return questions_[walk]->walk->goes_on(next) ? next : 0;
    }
    Number number_of(std::vector<Positions> positions);

    const Questions& questions_;
    std::vector<State> all_;
    std::map<std::vector<Positions>, Number> numbers_;
};

States::Number States::number_of(std::vector<Positions> positions) {
    const auto [known, added] = numbers_.emplace(std::move(positions), static_cast<Number>(all_.size()));
    if (added) all_.push_back({known->first, {}});
    return known->second;
}

States::Number States::start() {
    std::vector<Positions> first;
    for (const Expander::Question* one : questions_) first.push_back(one->walk->start());
    return number_of(std::move(first));
}

States::Number States::otherwise(Number state) {
    if (!all_[state].otherwise) all_[state].otherwise = after(state, {});
    return *all_[state].otherwise;
}

States::Number States::after(Number state, const std::vector<Hit>& hits) {
    std::vector<Positions> next(questions_.size());
    if (!hits.empty()) next = all_[otherwise(state)].positions;
    const auto step = [&](std::size_t walk, Positions named) {
        next[walk] = onward(walk, questions_[walk]->walk->after(positions(state, walk), named));
    };
    for (const Hit& hit : hits) step(hit.walk, hit.steps);
    for (std::size_t walk = 0; hits.empty() && walk < next.size(); ++walk) step(walk, 0);
    return number_of(std::move(next));
}

/// A directory on a walk. All visits stand in one list, and each knows the index of its parent's visit.
struct Visit {
    std::string name;
    std::size_t above = 0;
    std::size_t level = 0;
    States::Number state = States::none;
};

/// A walk for all questions about one directory.
class Search {
public:
    Search(Expander& expander, const Questions& questions, bool sources)
        : expander_(expander),
          questions_(questions),
          sources_(sources),
          names_(questions),
          states_(questions) {}

    /// Walks breadth first. Returns false if it stopped at a bound: what was found is then not all.
    [[nodiscard]] bool run();
    /// Tells the questions of the directories that could not be read.
    void keep_unreadable() const;

private:
    [[nodiscard]] std::string path(std::size_t visit) const;
    [[nodiscard]] static std::string child(const std::string& directory, const std::string& name) {
        return (directory == "/" ? directory : directory + '/') + name;
    }
    [[nodiscard]] bool holds_packages(std::size_t visit, const FileTree::Entry& entry) const;
    void anchor(States::Number state, const std::string& directory) const;
    void look_at(std::size_t visit, const std::string& directory, const FileTree::Entry& entry);

    Expander& expander_;
    const Questions& questions_;
    bool sources_;
    Names names_;
    States states_;
    std::vector<Hit> hits_;
    std::vector<Visit> visits_;
    std::vector<std::size_t> unreadable_;
};

std::string Search::path(std::size_t visit) const {
    std::vector<const std::string*> names;
    for (; visit != 0; visit = visits_[visit].above) names.push_back(&visits_[visit].name);
    std::string path = questions_.front()->head;
    for (auto name = names.rbegin(); name != names.rend(); ++name) path = child(path, **name);
    return path;
}

/// Whether the directory holds installed packages and nothing of the project's own.
bool Search::holds_packages(std::size_t visit, const FileTree::Entry& entry) const {
    if (entry.name == "node_modules") return true;
    if (entry.name != "site-packages" || visits_[visit].level < 2) return false;
    const Visit& library = visits_[visits_[visit].above];
    if (!visits_[visit].name.starts_with("python") || !library.name.starts_with("lib")) return false;
    return expander_.tree().kind(child(path(library.above), "pyvenv.cfg")) == FileTree::Kind::file;
}

/// `hits_` are those of the directory's name.
void Search::anchor(States::Number state, const std::string& directory) const {
    for (const Hit& hit : hits_) {
        const std::vector<Step>& steps = questions_[hit.walk]->walk->steps();
        const Positions met = states_.positions(state, hit.walk) & hit.steps;
        for (std::size_t step = 0; step < steps.size(); ++step)
            if ((met & bit(step)) != 0 && steps[step].literal())
                questions_[hit.walk]->anchor(directory, step);
    }
}

void Search::look_at(std::size_t visit, const std::string& directory, const FileTree::Entry& entry) {
    names_.find(entry.name, hits_);
    const bool enters = entry.directory && !entry.symbolic_link;
    if (hits_.empty() && !enters) return;
    if (sources_ && enters && holds_packages(visit, entry)) return;
    const States::Number state = visits_[visit].state;
    for (const Hit& hit : hits_) {
        const Walk& walk = *questions_[hit.walk]->walk;
        if (walk.met(walk.after(states_.positions(state, hit.walk), hit.steps)))
            questions_[hit.walk]->meet(child(directory, entry.name));
    }
    if (!enters) return;
    if (sources_ && !hits_.empty()) anchor(state, child(directory, entry.name));
    const States::Number next = hits_.empty() ? states_.otherwise(state) : states_.after(state, hits_);
    if (next != States::none) visits_.push_back({entry.name, visit, visits_[visit].level + 1, next});
}

bool Search::run() {
    visits_.push_back({"", 0, 0, states_.start()});
    for (std::size_t visit = 0; visit < visits_.size(); ++visit) {
        if (expander_.stopped() || unreadable_.size() > Expander::max_kept || states_.full()) return false;
        const std::string directory = path(visit);
        const auto entries = expander_.entries(directory);
        if (!entries) unreadable_.push_back(visit);
        for (std::size_t index = 0; entries && index < entries->size(); ++index)
            look_at(visit, directory, (*entries)[index]);
    }
    return unreadable_.size() <= Expander::max_kept;
}

void Search::keep_unreadable() const {
    for (const std::size_t visit : unreadable_) {
        const std::string directory = path(visit);
        for (std::size_t walk = 0; walk < questions_.size(); ++walk)
            if (const Positions positions = states_.positions(visits_[visit].state, walk); positions != 0)
                questions_[walk]->keep(directory, positions);
    }
}

bool is_walked(const Glob::Branch& branch) { return !branch.literal && !branch.hierarchy; }

}  // namespace

Expander::Expander(const FileTree& tree, Clock now) : tree_(tree), now_(std::move(now)) {}
Expander::~Expander() = default;

/// A directory with more entries than are left is as one that cannot be read.
std::optional<std::vector<FileTree::Entry>> Expander::entries(const std::string& directory) {
    auto entries = tree_.entries(directory, max_entries - entries_);
    if (entries) entries_ += entries->size();
    return entries;
}

Expander::Question& Expander::question(const Glob::Branch& branch, bool sources) {
    auto& about = questions_[{branch.head, sources}];
    const auto known = std::ranges::find_if(
        about, [&branch](const auto& one) { return one->remainder == branch.remainder; });
    if (known != about.end()) return **known;
    return *about.emplace_back(std::make_unique<Question>(branch));
}

void Expander::announce(const Glob& glob, bool sources) {
    for (const Glob::Branch& branch : glob.branches())
        if (is_walked(branch)) question(branch, sources);
}

/// Answers all open questions about one directory.
void Expander::answer(const std::string& head, bool sources) {
    const bool over = stopped();
    Questions walked;
    for (const auto& one : questions_[{head, sources}]) {
        if (std::exchange(one->answered, true)) continue;
        if (!one->walk || over)
            one->keep_whole();
        else if (one->walk->met(one->walk->start()))
            one->leave_as_written();
        else
            walked.push_back(one.get());
    }
    if (walked.empty() || tree_.kind(head) != FileTree::Kind::directory) return;
    Search search(*this, walked, sources);
    if (!search.run()) {
        for (Question* const one : walked) one->keep_whole();
    } else if (check_enabled("kept-patterns")) {
        search.keep_unreadable();
    }
}

Expansion Expander::expand(const Glob& glob, bool sources) {
    if (!until_) until_ = now_() + max_time;
    Expansion result;
    const auto append = [](const auto& from, auto& to) { to.insert(to.end(), from.begin(), from.end()); };
    for (const Glob::Branch& branch : glob.branches()) {
        if (branch.literal) {
            result.globs.push_back(Glob::literal(branch.head));
        } else if (branch.hierarchy) {
            result.globs.push_back(Glob::beneath(branch.head));
        } else {
            const Question& one = question(branch, sources);
            if (!one.answered) answer(branch.head, sources);
            append(one.answer.globs, result.globs);
            append(one.answer.found, result.found);
            append(one.answer.kept, result.kept);
        }
    }
    return result;
}

}  // namespace callgate::rules
