// A host for tests: files, links, rule files and host names as values.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "rules/load/loader.hpp"

namespace callgate::rules {

/// Creates parent directories as needed.
class MemoryTree : public FileTree {
public:
    void file(const std::string& path) { put(path, {Kind::file, false}); }
    void directory(const std::string& path) { put(path, {Kind::directory, false}); }
    void link(const std::string& path, const std::string& target) {
        put(path, {Kind::file, true});
        links_[path] = target;
    }
    void unreadable(const std::string& path) { unreadable_.insert(path); }

    [[nodiscard]] Kind kind(const std::string& path) const override {
        if (path == "/") return Kind::directory;
        const auto found = nodes_.find(path);
        return found == nodes_.end() ? Kind::absent : found->second.kind;
    }

    [[nodiscard]] std::optional<std::vector<Entry>> entries(const std::string& directory,
                                                            std::size_t limit) const override {
        ++reads;
        if (unreadable_.contains(directory)) return std::nullopt;
        const auto found = children_.find(directory);
        if (found == children_.end()) return std::vector<Entry>{};
        if (found->second.size() > limit) return std::nullopt;
        std::vector<Entry> all;
        for (const std::string& name : found->second) {
            const Node& node = nodes_.at((directory == "/" ? "" : directory) + '/' + name);
            all.push_back({name, node.kind == Kind::directory, node.link});
        }
        return all;
    }

    /// Follows links in every component. A path that does not exist is returned unchanged.
    [[nodiscard]] std::string canonical(const std::string& path) const {
        for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
            const auto found = links_.find(path.substr(0, end));
            if (found != links_.end())
                return canonical(found->second + (end == std::string::npos ? "" : path.substr(end)));
            if (end == std::string::npos) return path;
        }
    }

    mutable std::size_t reads = 0;

private:
    struct Node {
        Kind kind = Kind::file;
        bool link = false;
    };
    void put(const std::string& path, Node node) {
        nodes_[path] = node;
        const std::size_t slash = path.rfind('/');
        const std::string parent = slash == 0 ? "/" : path.substr(0, slash);
        children_[parent].insert(path.substr(slash + 1));
        if (parent != "/" && !nodes_.contains(parent)) put(parent, {Kind::directory, false});
    }

    std::map<std::string, Node> nodes_;
    std::map<std::string, std::set<std::string>> children_;
    std::map<std::string, std::string> links_;
    std::set<std::string> unreadable_;
};

/// A user on a fresh host, with additions of a test.
struct TestMachine {
    MemoryTree tree;
    std::map<std::string, std::string> rule_files;
    std::map<std::string, unsigned long> links;
    std::string workdir = "/home/u/work", home = "/home/u", tmp = "/tmp/callgate-1000-k3f9",
                config = "/home/u/.config/callgate";
    bool landlock_unix = false;

    TestMachine() {
        tree.directory(workdir);
        tree.directory(tmp);
    }

    [[nodiscard]] LoadContext context(bool check = false) const {
        LoadContext context;
        context.workdir = workdir;
        context.home = home;
        context.tmp = tmp;
        context.config = config;
        context.tree = &tree;
        context.check = check;
        context.landlock_unix = landlock_unix;
        context.read_file = [this](const std::string& path, std::size_t limit) -> Expected<std::string> {
            const auto found = rule_files.find(path);
            if (found == rule_files.end()) return Problem{"No such file or directory"};
            if (found->second.size() > limit) return Problem{"larger than 1 MiB"};
            return found->second;
        };
        context.canonical = [this](const std::string& path) { return tree.canonical(path); };
        context.link_count = [this](const std::string& path) {
            const auto found = links.find(path);
            return found == links.end() ? 1UL : found->second;
        };
        return context;
    }

    [[nodiscard]] LoadedRules load_text(const std::string& json, bool check = false) const {
        RuleSources sources;
        sources.parts.emplace_back(RuleSources::Text{json, "test.json"});
        return load(sources, context(check));
    }
};

/// The findings, a line for each.
inline std::string findings(const LoadedRules& loaded) {
    std::string all;
    for (const Diagnostic& one : loaded.diagnostics) all += one.text() + '\n';
    return all;
}

inline Action decide(const LoadedRules& loaded, OperationSet operations, std::string_view path) {
    Request request;
    request.operations = operations;
    request.object = FileObject{path, false};
    return loaded.rules->evaluate(request).action;
}

}  // namespace callgate::rules
