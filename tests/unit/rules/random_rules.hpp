// Random rules and files for property tests; the same seed gives the same with the same compiler and library.
#pragma once

#include <array>
#include <random>

#include "tests/unit/rules/plan/plan_support.hpp"

namespace callgate::rules::testing {

/// Random rules over a small alphabet, so that patterns, files and questions meet often.
class Random {
public:
    explicit Random(unsigned seed) : engine_(seed) {}
    std::size_t below(std::size_t bound) {
        return std::uniform_int_distribution<std::size_t>(0, bound - 1)(engine_);
    }
    std::string name() { return std::string(1, "abc"[below(3)]); }
    std::string path(std::size_t deepest = 5) {
        std::string text;
        for (std::size_t depth = 1 + below(deepest); depth > 0; --depth) text += '/' + name();
        return text;
    }
    std::string pattern() {
        std::string text = below(8) == 0 ? "" : path(3);
        switch (below(8)) {
            case 0:
                return text + "/**/" + name();
            case 1:
                return text + "/*";
            case 2:
                return text + "/*/" + name() + (below(2) == 0 ? "/**" : "");
            case 3:
                return text + "/{" + name() + "," + name() + "}/**";
            case 4:
                return text.empty() ? "/a" : text;
            default:
                return text + "/**";
        }
    }
    OperationSet operations() {
        return OperationSet::from_bits(static_cast<int>(1 + below(63))) & file_operations;
    }
    Rule rule(std::size_t number) {
        const std::array actions{Action::allow, Action::allow, Action::allow,
                                 Action::deny,  Action::ask,   Action::kill};
        Rule made = testing::rule("r" + std::to_string(number), actions[below(actions.size())], operations());
        for (std::size_t count = below(3); count > 0; --count) made.when.path.push_back(glob(pattern()));
        if (below(4) == 0) made = except(made, {pattern()});
        if (below(8) == 0) made = by(made, "/bin/sh");
        if (made.except && below(4) == 0) made.except->program = globs({"/bin/sh"});
        return made;
    }
    RuleSet rules() {
        std::vector<Rule> all;
        for (std::size_t count = below(6); count > 0; --count) all.push_back(rule(all.size()));
        const std::array fallbacks{Action::deny, Action::deny, Action::ask, Action::allow};
        return {std::move(all), fallbacks[below(fallbacks.size())]};
    }
    MemoryTree tree() {
        MemoryTree made;
        for (int count = 0; count < 30; ++count) {
            const std::string path = this->path();
            const std::array endings{"", "/", "/", "@"};
            if (made.kind(path) == FileTree::Kind::absent && passable(made, path))
                made.add(path + endings[below(endings.size())]);
        }
        return made;
    }

private:
    /// Whether every parent is a directory or absent.
    static bool passable(const MemoryTree& tree, const std::string& path) {
        for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
             slash = path.find('/', slash + 1))
            if (tree.kind(path.substr(0, slash)) == FileTree::Kind::file) return false;
        return true;
    }
    std::mt19937 engine_;
};

}  // namespace callgate::rules::testing
