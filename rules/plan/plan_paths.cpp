// Finds the hierarchies and files that Landlock can enforce, by a walk that splits a hierarchy around
// restrictions.
//
// Sound by construction: a path is granted an operation only if no restricting pattern can match at or
// beneath it. Restricting are the patterns of deny, ask and kill rules, and the exceptions of the allowing
// rule. Every bound that is reached only makes more calls contested.
//
// Execution cannot be performed on behalf. If it may be allowed where no static grant covers it, Landlock
// must permit it, and the notification alone decides (`Grant::notify_only_execute`). That costs every execve
// of the run, so it is done only if something may be executed that no static grant covers.
#include <algorithm>
#include <deque>
#include <type_traits>
#include <unordered_map>

#include "rules/plan/plan_obstacles.hpp"

namespace callgate::rules::planning {

namespace {

constexpr std::size_t max_entries = 256;   // of one directory that is split
constexpr std::size_t max_grants = 2000;   // of a plan: Landlock keeps one kernel object for each
constexpr std::size_t max_listings = 512;  // directories that are read at start
constexpr int max_levels = 16;             // directories split beneath one another
constexpr std::string_view processes = "/proc";

class Walker {
public:
    Walker(const RuleSet& rules, bool collects_losses, const PlanInput& input)
        : rules_(rules),
          tree_(*input.tree),
          collects_losses_(collects_losses),
          shared_memory_(shared_memory(input.shared_memory)),
          opaque_(opaque()) {
        std::vector<Obstacle> restrictions, receiving;
        if (!input.shared_memory.empty())
            add_obstacles(restrictions, shared_memory_, shared_memory_.operations & held_by_path,
                          shared_memory_.when.path, false);
        if (input.processes)
            add_obstacles(restrictions, opaque_, opaque_.operations, opaque_.when.path, false);
        for (const Rule& rule : rules.rules()) {
            const OperationSet operations = rule.operations & held_by_path;
            // The kernel must not open what callgate itself hands over (host.cpp).
            const bool handed = rule.built_in && rule.action == Action::allow && names_asker(rule.when);
            if ((restricts(rule) || handed) && !operations.empty() && decides_files(rule))
                add_obstacles(restrictions, rule, operations, rule.when.path, false);
            if (rule.filters_changes()) {
                const Rule& lock = locks_.emplace_back(lock_of(rule));
                add_obstacles(restrictions, lock, lock.operations & held_by_path, lock.when.path, false);
            }
            const bool creates = rule.operations.contains(Operation::create);
            const bool by_asker = names_asker(rule.when) || (rule.except && names_asker(*rule.except));
            if (by_asker && creates) asker_may_create_ = true;
            if (rule.action == Action::allow && creates && decides_files(rule))
                add_obstacles(receiving, rule, Operation::create, rule.when.path, false);
        }
        restrictions_ = ObstacleIndex(std::move(restrictions));
        receiving_ = ObstacleIndex(std::move(receiving));
    }

    void candidates();
    /// Returns the merged result and leaves the walker empty.
    [[nodiscard]] PathPlan merge() {
        PathPlan plan = merge_grants(std::move(grants_), std::move(losses_));
        plan.processes_read = processes_read_;
        return plan;
    }

private:
    /// These stand for what callgate decides beyond the rules. Some of it is allowed, so nothing is shut.
    static Rule opaque() {
        Rule rule;
        rule.id = "callgate-opaque";
        rule.action = Action::ask;
        rule.operations = {Operation::read, Operation::modify};
        rule.when.path.push_back(*Glob::compile("/proc/[0-9]*/**", GlobKind::path));
        return rule;
    }
    static Rule shared_memory(const std::string& directory) {
        Rule rule;
        rule.id = "callgate-shared-memory";
        rule.action = Action::ask;
        rule.operations = write_operations | OperationSet(Operation::read);
        rule.when.path.push_back(Glob::beneath(directory));
        return rule;
    }
    /// A lock that is there at the start is somebody's who is changing the file now.
    static Rule lock_of(const Rule& rule) {
        Rule lock;
        lock.id = "callgate-settings-lock";
        lock.action = Action::ask;
        lock.operations = write_operations;
        for (const Glob& glob : rule.when.path)
            if (auto beside = Glob::compile(glob.text() + std::string(lock_suffix), GlobKind::path))
                lock.when.path.push_back(std::move(*beside));
        return lock;
    }
    void allow(const Rule& rule);
    void branch(const Rule& rule, OperationSet operations, const Glob::Branch& branch);
    void by_asker(const Rule& rule, OperationSet operations, std::string_view why);
    void start(const std::string& path, OperationSet operations, bool hierarchy);
    void directory(const std::string& path, OperationSet operations, const Obstacles& obstacles, int level);
    void split(const std::string& path, OperationSet operations, const Obstacles& obstacles, int level);
    void file(const std::string& path, OperationSet operations, const Obstacles& obstacles);
    void grant(const std::string& path, bool directory, OperationSet operations);
    Grant& grant_at(const std::string& path, bool directory);
    void contest_execution(const std::string& path, bool directory);
    void contest_heads(const Rule& rule);
    void contest_head(const std::string& head, bool hierarchy);
    const std::vector<FileTree::Entry>* children(const std::string& path, int level);
    [[nodiscard]] bool stays_as_it_is(const std::string& directory, int level);
    /// `why` is a text, or a function that returns it and is called only if losses are collected.
    template <typename Why>
    void lose(std::string_view path, OperationSet operations, std::string_view by, const Why& why) {
        if (!collects_losses_) return;
        std::string text;
        if constexpr (std::is_invocable_v<Why>)
            text = why();
        else
            text = why;
        losses_.push_back({std::string(path), operations, allowing_, std::string(by), std::move(text)});
    }
    const std::vector<FileTree::Entry>* entries(const std::string& path);
    [[nodiscard]] bool can_appear(const std::string& path) const;

    const RuleSet& rules_;
    const FileTree& tree_;
    const bool collects_losses_;
    const Rule shared_memory_, opaque_;
    std::deque<Rule> locks_;
    bool processes_read_ = false;  // nothing but `opaque_` restricts reading in /proc
    ObstacleIndex restrictions_;
    ObstacleIndex receiving_;         // not obstacles: the patterns of rules that allow create
    ObstacleIndex exceptions_;        // of allowing_
    const Rule* allowing_ = nullptr;  // null: the default
    bool asker_may_create_ = false;   // some rule about create depends on the program
    GrantsByPath grants_;
    std::vector<Loss> losses_;
    std::unordered_map<std::string, std::optional<std::vector<FileTree::Entry>>> listings_;
};

void Walker::candidates() {
    if (rules_.fallback() == Action::allow) {
        start("/", held_by_path, true);
        return;  // allow rules add nothing to this
    }
    for (const Rule& rule : rules_.rules()) {
        if (!rule.operations.intersects(held_by_path) || !decides_files(rule)) continue;
        if (rule.action == Action::allow) allow(rule);
        if (rule.action == Action::ask && rule.operations.contains(Operation::execute)) {
            allowing_ = &rule;
            contest_heads(rule);
        }
    }
}

void Walker::allow(const Rule& rule) {
    allowing_ = &rule;
    exceptions_ = {};
    const OperationSet operations = rule.operations & held_by_path;
    if (names_asker(rule.when))
        return by_asker(rule, operations, "it needs the asking program or its arguments");
    if (rule.except) {
        if (rule.except->path.empty())
            return by_asker(rule, operations, "its exception needs the asking program");
        std::vector<Obstacle> exceptions;
        add_obstacles(exceptions, rule, operations, rule.except->path, true);
        exceptions_ = ObstacleIndex(std::move(exceptions));
    }
    if (rule.when.path.empty()) return start("/", operations, true);
    for (const Glob& glob : rule.when.path)
        for (const Glob::Branch& one : glob.branches()) branch(rule, operations, one);
}

/// Handles a rule whose verdict depends on the program or its arguments.
void Walker::by_asker(const Rule& rule, OperationSet operations, std::string_view why) {
    lose("/", operations, "", why);
    if (operations.contains(Operation::execute)) contest_heads(rule);
}

/// Handles a rule that may allow an execution, depending on the program, its arguments or an answer.
void Walker::contest_heads(const Rule& rule) {
    if (rule.when.path.empty()) contest_head("/", true);
    for (const Glob& glob : rule.when.path)
        for (const Glob::Branch& one : glob.branches()) contest_head(one.head, !one.literal);
}

void Walker::branch(const Rule& rule, OperationSet operations, const Glob::Branch& branch) {
    if (branch.literal || branch.hierarchy) return start(branch.head, operations, branch.hierarchy);
    lose(branch.head, rule.operations & held_by_path, "",
         [&] { return "a pattern: it may match anywhere beneath " + branch.head; });
    if (operations.contains(Operation::execute)) contest_head(branch.head, true);
}

void Walker::start(const std::string& path, OperationSet operations, bool hierarchy) {
    const FileTree::Kind kind = tree_.kind(path);
    // If the path does not exist and cannot be created in the run, the kernel answers ENOENT without
    // callgate.
    if (kind == FileTree::Kind::absent) {
        if (collects_losses_ && can_appear(path))
            lose(path, operations, "", [&] { return path + " does not exist yet"; });
        return;
    }
    Obstacles obstacles;
    restrictions_.near(path, operations, obstacles);
    exceptions_.near(path, operations, obstacles);
    if (kind == FileTree::Kind::file) return file(path, operations, obstacles);
    if (hierarchy) return directory(path, operations, obstacles, 0);
    lose(path, operations, "", [&] { return path + " is a directory: Landlock could only allow all of it"; });
}

/// Whether some program may create it in the run.
bool Walker::can_appear(const std::string& path) const {
    if (asker_may_create_) return true;
    const Request request{
        .operations = Operation::create, .object = FileObject{path}, .program = {}, .arguments = {}};
    return rules_.evaluate(request).action <= Action::ask;
}

/// Whether the executable entries of the directory are all known now. Its entries can then be listed, and no
/// rule allows anybody to create one.
bool Walker::stays_as_it_is(const std::string& directory, int level) {
    if (rules_.fallback() == Action::allow || children(directory, level) == nullptr) return false;
    Obstacles receiving;
    receiving_.near(directory, Operation::create, receiving);
    return std::none_of(receiving.begin(), receiving.end(), [&](const Obstacle* one) {
        return one->glob == nullptr ||
               (!one->branch->literal && at_or_beneath(directory, one->branch->head) &&
                one->glob->may_match_beneath(directory));
    });
}

void Walker::directory(const std::string& path, OperationSet operations, const Obstacles& obstacles,
                       int level) {
    OperationSet restricted, everywhere, shut, taken;
    const Rule* by = nullptr;
    bool others_restrict_read = false;
    for (const Obstacle* one : obstacles) {
        OperationSet concerned = one->operations & operations;
        const Reach where = reach(*one, path);
        // Creating or removing the directory itself depends on its parent, and a directory is never executed.
        if (where == Reach::itself) concerned = concerned - held_by_parent - Operation::execute;
        if (where == Reach::none || concerned.empty()) continue;
        others_restrict_read |= one->rule != &opaque_ && concerned.contains(Operation::read);
        if (by == nullptr) by = one->rule;
        restricted |= concerned;
        if (where == Reach::everywhere) everywhere |= concerned;
        if (surely_shut(*one, path, true)) shut |= concerned;
        if (surely_excepted(*one, path, true)) taken |= concerned;
    }
    processes_read_ |= path == processes && operations.contains(Operation::read) && !others_restrict_read;
    grant(path, true, operations - restricted);
    if (by == nullptr) return;
    if (const OperationSet lost = restricted - shut; !lost.empty())
        lose(path, lost, by->id, [&] { return "rule " + by->id + " may decide beneath " + path; });
    OperationSet rest = restricted - everywhere;
    if ((restricted - shut - taken).contains(Operation::execute) &&
        (everywhere.contains(Operation::execute) || !stays_as_it_is(path, level))) {
        contest_execution(path, true);
        rest = rest - Operation::execute;
    }
    if (!rest.empty()) split(path, rest, obstacles, level);
}

/// The entries of a directory to split; null if it is not split.
const std::vector<FileTree::Entry>* Walker::children(const std::string& path, int level) {
    // Processes come and go: a grant on one would soon name nothing, or another process.
    return at_or_beneath(path, processes) || level >= max_levels ? nullptr : entries(path);
}

void Walker::split(const std::string& path, OperationSet operations, const Obstacles& obstacles, int level) {
    const std::vector<FileTree::Entry>* listed = children(path, level);
    if (listed == nullptr) return;
    // An obstacle whose literal head lies inside concerns one child only.
    const std::string prefix = path == "/" ? "/" : path + "/";
    std::unordered_map<std::string_view, Obstacles> by_child;
    Obstacles anywhere;
    for (const Obstacle* one : obstacles) {
        if (one->glob == nullptr || !one->branch->head.starts_with(prefix) || one->branch->head == path) {
            if (reach(*one, path) > Reach::itself) anywhere.push_back(one);
            continue;
        }
        const std::string_view rest = std::string_view(one->branch->head).substr(prefix.size());
        by_child[rest.substr(0, rest.find('/'))].push_back(one);
    }
    for (const FileTree::Entry& child : *listed) {
        if (child.symbolic_link) continue;
        Obstacles here = anywhere;
        if (const auto found = by_child.find(child.name); found != by_child.end())
            here.insert(here.end(), found->second.begin(), found->second.end());
        const std::string name = prefix + child.name;
        child.directory ? directory(name, operations, here, level + 1)
                        : file(name, operations & held_by_file, here);
    }
}

void Walker::file(const std::string& path, OperationSet operations, const Obstacles& obstacles) {
    OperationSet free = operations & held_by_file;
    OperationSet shut, taken;
    const Rule* by = nullptr;
    for (const Obstacle* one : obstacles) {
        const OperationSet concerned = one->operations & operations;
        if (concerned.empty() || !hits_file(*one, path)) continue;
        if (by == nullptr) by = one->rule;
        free = free - concerned;
        if (surely_shut(*one, path, false)) shut |= concerned;
        if (surely_excepted(*one, path, false)) taken |= concerned;
    }
    grant(path, false, free);
    const OperationSet lost = operations - free - shut;
    if (lost.empty()) return;
    if ((lost - taken).contains(Operation::execute)) contest_execution(path, false);
    const bool parents = lost.intersects(held_by_parent);
    const std::string_view id = by == nullptr ? std::string_view() : by->id;
    lose(path, lost, id, [&] {
        return parents ? "whether " + path + " may be made or removed is held by its directory alone"
                       : "rule " + std::string(id) + " may decide on " + path;
    });
}

void Walker::grant(const std::string& path, bool directory, OperationSet operations) {
    if (operations.empty()) return;
    if (grants_.size() >= max_grants && !grants_.contains(path)) {
        lose(path, operations, "", [] { return "more than " + std::to_string(max_grants) + " grants"; });
        if (operations.contains(Operation::execute)) contest_execution("/", true);
        return;
    }
    grant_at(path, directory).operations |= operations;
}

Grant& Walker::grant_at(const std::string& path, bool directory) {
    Grant& grant = grants_[path];
    grant.path = path;
    grant.directory = directory;
    const std::string id = allowing_ == nullptr ? "default" : allowing_->id;
    if (std::find(grant.rules.begin(), grant.rules.end(), id) == grant.rules.end()) grant.rules.push_back(id);
    return grant;
}

/// Makes execution there notify-only: Landlock permits it, and callgate decides each call.
void Walker::contest_execution(const std::string& path, bool directory) {
    const bool fits = grants_.size() < max_grants || grants_.contains(path);
    grant_at(fits ? path : "/", !fits || directory).notify_only_execute = true;
}

/// The same for the literal head of an allowing pattern, and (`hierarchy`) everything beneath it.
void Walker::contest_head(const std::string& head, bool hierarchy) {
    const FileTree::Kind kind = tree_.kind(head);
    const bool directory = kind == FileTree::Kind::directory;
    if (kind == FileTree::Kind::absent || (directory && !hierarchy)) return;
    Obstacles obstacles;
    restrictions_.near(head, Operation::execute, obstacles);
    const bool shut = std::any_of(obstacles.begin(), obstacles.end(),
                                  [&](const Obstacle* one) { return surely_shut(*one, head, directory); });
    if (!shut) contest_execution(head, directory);
}

const std::vector<FileTree::Entry>* Walker::entries(const std::string& path) {
    auto found = listings_.find(path);
    if (found == listings_.end()) {
        if (listings_.size() >= max_listings || grants_.size() >= max_grants) return nullptr;
        found = listings_.emplace(path, tree_.entries(path, max_entries)).first;
    }
    return found->second ? &*found->second : nullptr;
}

}  // namespace

PathPlan plan_paths(const RuleSet& rules, bool losses, const PlanInput& input) {
    if (input.landlock_abi < 1 || input.tree == nullptr)
        return {{}, {{"/", held_by_path, nullptr, "", "nothing is known of the files"}}};
    Walker walker(rules, losses, input);
    walker.candidates();
    return walker.merge();
}

}  // namespace callgate::rules::planning
