#include "rules/load/expand.hpp"

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/test_switch.hpp"
#include "rules/load/expand_walk.hpp"
#include "rules/load/pattern.hpp"

namespace callgate::rules {
namespace {

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
        if (std::optional<std::vector<WalkStep>> steps = split_steps(remainder))
            walk.emplace(std::move(*steps));
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
    /// A literal rest of the pattern stays in force beneath a directory that one of its components names.
    void anchor(const std::string& directory, std::size_t step) {
        std::string rest;
        for (std::size_t at = step + 1; at < walk->steps().size(); ++at) {
            const WalkStep& next = walk->steps()[at];
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

Walks walks_of(const Questions& questions) {
    Walks walks;
    for (const Expander::Question* one : questions) walks.push_back(&*one->walk);
    return walks;
}

/// A directory on a walk. All visits stand in one list, and each knows the index of its parent's visit.
struct Visit {
    std::string name;
    std::size_t above = 0;
    std::size_t level = 0;
    WalkStates::Number state = WalkStates::none;
};

/// A walk for all questions about one directory.
class Search {
public:
    Search(Expander& expander, const Questions& questions, bool sources)
        : expander_(expander),
          questions_(questions),
          sources_(sources),
          names_(walks_of(questions)),
          states_(walks_of(questions)) {}

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
    void anchor(WalkStates::Number state, const std::string& directory) const;
    void look_into(std::size_t visit);
    [[nodiscard]] bool look_at(std::size_t visit, const std::string& directory, const FileTree::Entry& entry);

    Expander& expander_;
    const Questions& questions_;
    bool sources_;
    StepNames names_;
    WalkStates states_;
    std::vector<StepHit> hits_;
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

/// Whether what remains of a pattern stays in force beneath a directory that this step names. A `*` alone
/// names a directory of its kind only behind a literal name ("worktrees/*").
bool anchors(const std::vector<WalkStep>& steps, std::size_t step) {
    if (steps[step].text != "*") return true;
    return step > 0 && !steps[step - 1].any_depth && steps[step - 1].literal();
}

/// `hits_` are those of the directory's name.
void Search::anchor(WalkStates::Number state, const std::string& directory) const {
    for (const StepHit& hit : hits_) {
        const std::vector<WalkStep>& steps = questions_[hit.walk]->walk->steps();
        const Positions met = states_.positions(state, hit.walk) & hit.steps;
        for (std::size_t step = 0; step < steps.size(); ++step)
            if ((met & bit(step)) != 0 && anchors(steps, step)) questions_[hit.walk]->anchor(directory, step);
    }
}

/// Returns false if the entry does not matter: its path is no match and nothing beneath it can be.
bool Search::look_at(std::size_t visit, const std::string& directory, const FileTree::Entry& entry) {
    names_.find(entry.name, hits_);
    const bool enters = entry.directory && !entry.symbolic_link;
    if (hits_.empty() && !enters) return false;
    if (sources_ && enters && holds_packages(visit, entry)) return true;
    const WalkStates::Number state = visits_[visit].state;
    bool matters = enters;
    for (const StepHit& hit : hits_) {
        const Walk& walk = *questions_[hit.walk]->walk;
        if (!walk.met(walk.after(states_.positions(state, hit.walk), hit.steps))) continue;
        questions_[hit.walk]->meet(child(directory, entry.name));
        matters = true;
    }
    if (!enters) return matters;
    if (sources_ && !hits_.empty()) anchor(state, child(directory, entry.name));
    const WalkStates::Number next = hits_.empty() ? states_.otherwise(state) : states_.after(state, hits_);
    if (next != WalkStates::none) visits_.push_back({entry.name, visit, visits_[visit].level + 1, next});
    return true;
}

void Search::look_into(std::size_t visit) {
    const std::string directory = path(visit);
    KnownListings* const known = expander_.known();
    if (const auto before = known != nullptr ? known->find(directory) : std::nullopt) {
        for (const FileTree::Entry& entry : *before) (void)look_at(visit, directory, entry);
        return;
    }
    auto entries = expander_.entries(directory);
    if (!entries) {
        unreadable_.push_back(visit);
        return;
    }
    std::erase_if(*entries, [&](const FileTree::Entry& entry) { return !look_at(visit, directory, entry); });
    if (known != nullptr) known->add(std::move(*entries), expander_.tree().listed());
}

bool Search::run() {
    visits_.push_back({"", 0, 0, states_.start()});
    for (std::size_t visit = 0; visit < visits_.size(); ++visit) {
        if (expander_.stopped() || unreadable_.size() > Expander::max_kept || states_.full()) return false;
        look_into(visit);
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

std::chrono::nanoseconds waited_for_processor() {
    std::ifstream file("/proc/thread-self/schedstat");
    std::chrono::nanoseconds::rep ran = 0, waited = 0;
    return std::chrono::nanoseconds(file >> ran >> waited ? waited : 0);
}

Expander::Expander(const FileTree& tree, KnownListings* known, WalkClock clock)
    : tree_(tree), known_(known), clock_(std::move(clock)) {}
Expander::~Expander() = default;

bool Expander::stopped() {
    if (entries_ >= max_entries) return true;
    const auto now = clock_.now();
    if (now < until_) return false;
    until_ = *began_ +
             std::min<std::chrono::nanoseconds>(max_time + clock_.waited() - waited_before_, 10 * max_time);
    return now >= until_;
}

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
    if (known_ != nullptr) {
        std::vector<std::string> patterns;
        for (const Question* const one : walked) patterns.push_back(one->remainder);
        known_->begin(head, patterns);
    }
    Search search(*this, walked, sources);
    if (!search.run()) {
        for (Question* const one : walked) one->keep_whole();
    } else if (check_enabled("kept-patterns")) {
        search.keep_unreadable();
    }
}

Expansion Expander::expand(const Glob& glob, bool sources) {
    if (!began_) {
        began_ = clock_.now();
        until_ = *began_ + max_time;
        waited_before_ = clock_.waited();
    }
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
