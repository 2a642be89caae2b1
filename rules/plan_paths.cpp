// Which hierarchies and files Landlock can hold: the walk that splits a hierarchy around what is restricted.
//
// Sound by construction: a path is granted an operation only where no pattern of a restricting rule (nor of
// the allowing rule's own exception) can match at or beneath it. Every bound that is reached only makes more
// of it contested.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <unordered_map>

#include "rules/plan_obstacles.hpp"

namespace callgate::rules::planning {

namespace {

constexpr std::size_t entries_limit = 256;   // of one directory that is split
constexpr std::size_t grants_limit = 2000;   // of a plan: Landlock keeps one kernel object for each
constexpr std::size_t listings_limit = 512;  // directories that are read at start
constexpr int level_limit = 16;              // directories split beneath one another
constexpr OperationSet held_by_file{Operation::read, Operation::modify, Operation::execute};
constexpr OperationSet held_by_parent{Operation::create, Operation::remove};

class Walker {
public:
    Walker(const RuleSet& rules, const FileTree& tree) : rules_(rules), tree_(tree) {
        std::vector<Obstacle> restrictions;
        for (const Rule& rule : rules.rules()) {
            const OperationSet operations = rule.operations & held_by_path;
            if (restricts(rule) && !operations.empty() && decides_files(rule))
                add_obstacles(restrictions, rule, operations, rule.when.path, false);
            const bool by_asker = names_asker(rule.when) || (rule.except && names_asker(*rule.except));
            if (by_asker && rule.operations.contains(Operation::create)) asker_may_create_ = true;
        }
        restrictions_ = ObstacleIndex(std::move(restrictions));
    }

    void candidates();
    PathPlan take();

private:
    void allow(const Rule& rule);
    void branch(const Rule& rule, OperationSet operations, const Glob::Branch& branch);
    void start(const std::string& path, OperationSet operations, bool hierarchy);
    void directory(const std::string& path, OperationSet operations, const Obstacles& obstacles, int level);
    void split(const std::string& path, OperationSet operations, const Obstacles& obstacles, int level);
    void file(const std::string& path, OperationSet operations, const Obstacles& obstacles);
    void grant(const std::string& path, bool directory, OperationSet operations);
    void lose(const std::string& path, OperationSet operations, const std::string& by, std::string why);
    const std::vector<FileTree::Entry>* entries(const std::string& path);
    [[nodiscard]] bool can_appear(const std::string& path) const;

    const RuleSet& rules_;
    const FileTree& tree_;
    ObstacleIndex restrictions_;
    ObstacleIndex exceptions_;        // of allowing_
    const Rule* allowing_ = nullptr;  // null: the default
    bool asker_may_create_ = false;   // who asks decides about some creation
    std::map<std::string, Grant, PathOrder> grants_;
    std::vector<Loss> losses_;
    std::unordered_map<std::string, std::optional<std::vector<FileTree::Entry>>> listings_;
};

void Walker::candidates() {
    if (rules_.fallback() == Action::allow) {
        start("/", held_by_path, true);
        return;  // what single rules allow besides is allowed anyhow
    }
    for (const Rule& rule : rules_.rules())
        if (rule.action == Action::allow && rule.operations.intersects(held_by_path) && decides_files(rule))
            allow(rule);
}

void Walker::allow(const Rule& rule) {
    allowing_ = &rule;
    exceptions_ = {};
    const OperationSet operations = rule.operations & held_by_path;
    if (names_asker(rule.when))
        return lose("/", operations, "", "it needs the asking program or its arguments");
    if (rule.except) {
        if (rule.except->path.empty())
            return lose("/", operations, "", "its exception needs the asking program");
        std::vector<Obstacle> exceptions;
        add_obstacles(exceptions, rule, operations, rule.except->path, true);
        exceptions_ = ObstacleIndex(std::move(exceptions));
    }
    if (rule.when.path.empty()) return start("/", operations, true);
    for (const Glob& glob : rule.when.path)
        for (const Glob::Branch& one : glob.branches()) branch(rule, operations, one);
}

void Walker::branch(const Rule& rule, OperationSet operations, const Glob::Branch& branch) {
    if (branch.literal || branch.hierarchy) return start(branch.head, operations, branch.hierarchy);
    lose(branch.head, rule.operations & held_by_path, "",
         "a pattern: it may match anywhere beneath " + branch.head);
}

void Walker::start(const std::string& path, OperationSet operations, bool hierarchy) {
    const FileTree::Kind kind = tree_.kind(path);
    // What does not exist and cannot be made in the run answers ENOENT by itself.
    if (kind == FileTree::Kind::absent)
        return can_appear(path) ? lose(path, operations, "", path + " does not exist yet") : void();
    Obstacles obstacles;
    restrictions_.near(path, operations, obstacles);
    exceptions_.near(path, operations, obstacles);
    if (kind == FileTree::Kind::file) return file(path, operations, obstacles);
    if (hierarchy) return directory(path, operations, obstacles, 0);
    lose(path, operations, "", path + " is a directory: Landlock could only allow all of it");
}

/// Whether anybody may make it in the run.
bool Walker::can_appear(const std::string& path) const {
    if (asker_may_create_) return true;
    const Request request{
        .operations = Operation::create, .object = FileObject{path}, .program = {}, .arguments = {}};
    return rules_.evaluate(request).action <= Action::ask;
}

void Walker::directory(const std::string& path, OperationSet operations, const Obstacles& obstacles,
                       int level) {
    OperationSet restricted, everywhere, shut;
    const Rule* by = nullptr;
    for (const Obstacle* one : obstacles) {
        OperationSet concerned = one->operations & operations;
        const Reach where = reach(*one, path);
        // Whether the directory itself may be made or removed is its parent's matter.
        if (where == Reach::itself) concerned = concerned - held_by_parent;
        if (where == Reach::none || concerned.empty()) continue;
        if (by == nullptr) by = one->rule;
        restricted |= concerned;
        if (where == Reach::everywhere) everywhere |= concerned;
        if (surely_shut(*one, path, true)) shut |= concerned;
    }
    grant(path, true, operations - restricted);
    if (restricted.empty()) return;
    if (const OperationSet lost = restricted - shut; !lost.empty())
        lose(path, lost, by->id, "rule " + by->id + " may decide beneath " + path);
    if (const OperationSet rest = restricted - everywhere; !rest.empty()) split(path, rest, obstacles, level);
}

void Walker::split(const std::string& path, OperationSet operations, const Obstacles& obstacles, int level) {
    // Processes come and go: a grant on one would soon be a grant on nothing, under a name that is used
    // again.
    if (at_or_beneath(path, "/proc")) return;
    const std::vector<FileTree::Entry>* children = level < level_limit ? entries(path) : nullptr;
    if (children == nullptr) return;
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
    for (const FileTree::Entry& child : *children) {
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
    OperationSet shut;
    const Rule* by = nullptr;
    for (const Obstacle* one : obstacles) {
        const OperationSet concerned = one->operations & operations;
        if (concerned.empty() || !hits_file(*one, path)) continue;
        if (by == nullptr) by = one->rule;
        free = free - concerned;
        if (surely_shut(*one, path, false)) shut |= concerned;
    }
    grant(path, false, free);
    const OperationSet lost = operations - free - shut;
    if (lost.empty()) return;
    const bool parents = lost.intersects(held_by_parent);
    lose(path, lost, by == nullptr ? "" : by->id,
         parents ? "whether " + path + " may be made or removed is held by its directory alone"
                 : "rule " + (by == nullptr ? std::string() : by->id) + " may decide on " + path);
}

void Walker::grant(const std::string& path, bool directory, OperationSet operations) {
    if (operations.empty()) return;
    const auto place = grants_.lower_bound(path);
    const bool fresh = place == grants_.end() || place->first != path;
    if (fresh && grants_.size() >= grants_limit)
        return lose(path, operations, "", "more than " + std::to_string(grants_limit) + " grants");
    Grant& grant = fresh ? grants_.emplace_hint(place, path, Grant{})->second : place->second;
    grant.path = path;
    grant.directory = directory;
    grant.operations |= operations;
    const std::string id = allowing_ == nullptr ? "default" : allowing_->id;
    if (std::find(grant.rules.begin(), grant.rules.end(), id) == grant.rules.end()) grant.rules.push_back(id);
}

void Walker::lose(const std::string& path, OperationSet operations, const std::string& by, std::string why) {
    losses_.push_back({path, operations, allowing_, by, std::move(why)});
}

const std::vector<FileTree::Entry>* Walker::entries(const std::string& path) {
    auto found = listings_.find(path);
    if (found == listings_.end()) {
        if (listings_.size() >= listings_limit || grants_.size() >= grants_limit) return nullptr;
        found = listings_.emplace(path, tree_.entries(path, entries_limit)).first;
    }
    return found->second ? &*found->second : nullptr;
}

PathPlan Walker::take() {
    PathPlan plan;
    std::vector<std::size_t> above;  // indices of kept directory grants that hold the current path
    for (auto& [path, grant] : grants_) {
        while (!above.empty() && !at_or_beneath(path, plan.grants[above.back()].path)) above.pop_back();
        const OperationSet inherited = above.empty() ? OperationSet{} : plan.grants[above.back()].operations;
        if (inherited.contains_all(grant.operations)) continue;
        grant.operations |= grant.directory ? inherited : inherited & held_by_file;
        grant.trap_only_read =
            grant.operations.contains(Operation::execute) && !grant.operations.contains(Operation::read);
        plan.grants.push_back(std::move(grant));
        if (plan.grants.back().directory) above.push_back(plan.grants.size() - 1);
    }
    for (Loss& loss : losses_) {
        loss.operations = loss.operations - plan.held_at(loss.path);
        if (!loss.operations.empty()) plan.losses.push_back(std::move(loss));
    }
    return plan;
}

}  // namespace

bool at_or_beneath(std::string_view path, std::string_view directory) {
    if (directory == "/") return path.starts_with('/');
    if (!path.starts_with(directory)) return false;
    return path.size() == directory.size() || path[directory.size()] == '/';
}

namespace {

/// How many bytes both begin with. Paths of one place have much in common: eight bytes at a time.
std::size_t common_length(std::string_view left, std::string_view right) {
    const std::size_t shorter = std::min(left.size(), right.size());
    std::size_t at = 0;
    for (std::uint64_t one = 0, other = 0; at + sizeof one <= shorter; at += sizeof one) {
        std::memcpy(&one, left.data() + at, sizeof one);
        std::memcpy(&other, right.data() + at, sizeof other);
        if (one != other) break;
    }
    while (at < shorter && left[at] == right[at]) ++at;
    return at;
}

}  // namespace

bool PathOrder::operator()(std::string_view left, std::string_view right) const {
    const auto key = [](char byte) { return byte == '/' ? 0 : static_cast<unsigned char>(byte) + 1; };
    const std::size_t same = common_length(left, right);
    if (same == left.size() || same == right.size()) return same < right.size();
    return key(left[same]) < key(right[same]);
}

OperationSet PathPlan::held_at(std::string_view path) const {
    OperationSet held;
    for (const Grant& grant : grants)
        if (grant.directory ? at_or_beneath(path, grant.path) : path == grant.path) held |= grant.operations;
    return held;
}

PathPlan plan_paths(const RuleSet& rules, const FileTree* tree) {
    if (tree == nullptr) return {{}, {{"/", held_by_path, nullptr, "", "nothing is known of the files"}}};
    Walker walker(rules, *tree);
    walker.candidates();
    return walker.take();
}

}  // namespace callgate::rules::planning
