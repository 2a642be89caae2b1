// Random globs, compared with plain recursion, and the properties that the plan relies on.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "rules/model/glob.hpp"

using callgate::rules::Glob;
using callgate::rules::GlobKind;

namespace {

Glob path_glob(std::string_view pattern) {
    const auto glob = Glob::compile(pattern, GlobKind::path);
    REQUIRE_MESSAGE(glob.has_value(), pattern << ": " << glob.error().text);
    return *glob;
}

/// A second matcher for path patterns without braces and quotes, by plain recursion.
bool naive(std::string_view pattern, std::string_view text) {
    if (pattern.empty()) return text.empty();
    if (pattern == "/**") return text.empty() || text.front() == '/';
    if (pattern.starts_with("/**/")) {
        // "**" stands for no component, or for one or more.
        if (naive(pattern.substr(3), text)) return true;
        if (text.empty() || text.front() != '/') return false;
        const std::size_t next = text.find('/', 1);
        return next != std::string_view::npos && naive(pattern, text.substr(next));
    }
    if (pattern.starts_with("**")) {
        const std::string_view rest =
            pattern.substr(std::min(pattern.find_first_not_of('*'), pattern.size()));
        for (std::size_t taken = 0; taken <= text.size(); ++taken) {
            if (naive(rest, text.substr(taken))) return true;
        }
        return false;
    }
    if (pattern.front() == '*') {
        for (std::size_t taken = 0; taken <= text.size(); ++taken) {
            if (naive(pattern.substr(1), text.substr(taken))) return true;
            if (taken < text.size() && text[taken] == '/') return false;
        }
        return false;
    }
    if (text.empty()) return false;
    const bool fits = pattern.front() == '?' ? text.front() != '/' : pattern.front() == text.front();
    return fits && naive(pattern.substr(1), text.substr(1));
}

/// More than two stars in a row count as two.
std::string two_stars(std::string_view pattern) {
    std::string text;
    for (const char byte : pattern) {
        if (byte != '*' || !text.ends_with("**")) text += byte;
    }
    return text;
}

bool naive_path(std::string_view pattern, std::string_view path) {
    return naive(pattern == "/" ? "" : two_stars(pattern), path == "/" ? "" : path);
}

std::string random_pattern(std::mt19937& random) {
    static const std::vector<std::string> pieces = {"a", "b", "?", "*", "**"};
    std::string pattern;
    const auto components = 1 + random() % 4;
    for (unsigned component = 0; component < components; ++component) {
        pattern += '/';
        const auto count = 1 + random() % 3;
        for (unsigned index = 0; index < count; ++index) {
            // Many components consist of one piece, so that "**" is often alone.
            pattern += pieces[random() % pieces.size()];
            if (random() % 2 == 0) break;
        }
    }
    return pattern;
}

/// All paths over {a, b} of at most `depth` components of at most two bytes.
std::vector<std::string> short_paths(int depth) {
    static const std::vector<std::string> names = {"a", "b", "aa", "ab", "ba", "bb"};
    std::vector<std::string> all = {"/"};
    std::vector<std::string> last = {""};
    for (int level = 0; level < depth; ++level) {
        std::vector<std::string> next;
        for (const std::string& parent : last) {
            for (const std::string& name : names) next.push_back(parent + "/" + name);
        }
        all.insert(all.end(), next.begin(), next.end());
        last = std::move(next);
    }
    return all;
}

bool is_beneath(std::string_view path, std::string_view directory) {
    return directory == "/" || path == directory ||
           (path.starts_with(directory) && path[directory.size()] == '/');
}

}  // namespace

TEST_CASE(
    "random patterns match what plain recursion matches, and say soundly what lies beneath a directory") {
    std::mt19937 random(20240611);
    const std::vector<std::string> paths = short_paths(4);
    const std::vector<std::string> directories = short_paths(2);
    int covered = 0;
    int excluded = 0;
    for (int round = 0; round < 400; ++round) {
        const std::string pattern = random_pattern(random);
        const Glob glob = path_glob(pattern);
        std::vector<bool> matched;
        for (const std::string& path : paths) {
            matched.push_back(naive_path(pattern, path));
            if (glob.matches(path) != matched.back()) FAIL(pattern << " on " << path);
        }
        for (const std::string& directory : directories) {
            bool some = false;
            bool all = true;
            for (std::size_t index = 0; index < paths.size(); ++index) {
                if (!is_beneath(paths[index], directory)) continue;
                some = some || matched[index];
                all = all && matched[index];
            }
            if (some && !glob.may_match_beneath(directory))
                FAIL(pattern << " may match beneath " << directory);
            if (!all && glob.covers_hierarchy(directory)) FAIL(pattern << " does not cover " << directory);
            covered += glob.covers_hierarchy(directory) ? 1 : 0;
            excluded += glob.may_match_beneath(directory) ? 0 : 1;
        }
    }
    // Always answering "unsure" would be sound and useless.
    CHECK(covered > 400);
    CHECK(excluded > 4000);
}

TEST_CASE("every match of a branch equals or lies beneath its head") {
    std::mt19937 random(7);
    const std::vector<std::string> paths = short_paths(3);
    for (int round = 0; round < 300; ++round) {
        const std::string pattern = random_pattern(random);
        const Glob glob = path_glob(pattern);
        REQUIRE(glob.branches().size() == 1);
        const Glob::Branch& branch = glob.branches().front();
        for (const std::string& path : paths) {
            if (glob.matches(path) && !is_beneath(path, branch.head)) FAIL(pattern << " on " << path);
            if (branch.literal && glob.matches(path) != (path == branch.head)) FAIL(pattern);
            if (branch.hierarchy && glob.matches(path) != is_beneath(path, branch.head)) FAIL(pattern);
        }
    }
}

TEST_CASE("whatever bytes a pattern holds, it is refused with a reason or its branches mean what it means") {
    std::mt19937 random(99);
    constexpr std::string_view bytes = "//**?[]{},\\!-^ab.\xff";
    const std::vector<std::string> paths = short_paths(3);
    int compiled = 0;
    for (int round = 0; round < 20000; ++round) {
        std::string pattern = random() % 4 == 0 ? "" : "/";
        for (auto length = random() % 14; length > 0; --length) pattern += bytes[random() % bytes.size()];
        const auto glob = Glob::compile(pattern, GlobKind::path);
        if (!glob && glob.error().text.empty()) FAIL(pattern << " is refused without a reason");
        if (!glob) continue;
        ++compiled;
        std::vector<Glob> branches;
        for (const Glob::Branch& branch : glob->branches()) {
            const std::string head = branch.head == "/" ? "" : Glob::literal(branch.head).text();
            branches.push_back(path_glob(head.empty() && branch.literal ? "/" : head + branch.remainder));
            const Glob::Branch& again = branches.back().branches().front();
            if (again.head != branch.head || again.remainder != branch.remainder) FAIL(pattern);
        }
        for (int tried = 0; tried < 20; ++tried) {
            const std::string& path = paths[random() % paths.size()];
            const auto matches = [&](const Glob& branch) { return branch.matches(path); };
            if (glob->matches(path) != std::any_of(branches.begin(), branches.end(), matches)) FAIL(pattern);
        }
    }
    CHECK(compiled > 2000);
}
