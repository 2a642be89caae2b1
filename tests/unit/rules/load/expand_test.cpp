// `expand`: existing objects, bounds at which the glob stays, and links that are never followed.
#include "rules/load/expand.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

#include "tests/unit/rules/host_fixture.hpp"

using namespace callgate;
using namespace callgate::rules;
using namespace std::chrono_literals;

namespace {

Glob compile(const std::string& pattern) {
    const auto glob = Glob::compile(pattern, GlobKind::path);
    REQUIRE_MESSAGE(glob.has_value(), glob.error().text);
    return *glob;
}

std::vector<std::string> expand(const MemoryTree& tree, const std::string& pattern) {
    Expander expander(tree);
    std::vector<std::string> all;
    for (const Glob& glob : expander.expand(compile(pattern)).globs) all.push_back(glob.text());
    std::sort(all.begin(), all.end());
    return all;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a glob becomes the literal paths that exist") {
    MemoryTree tree;
    for (const char* file :
         {"/w/.env", "/w/a/.env", "/w/a/b/.env", "/w/a/env", "/w/a/.env.local", "/other/.env"})
        tree.file(file);
    CHECK(expand(tree, "/w/**/.env") == Texts{"/w/.env", "/w/a/.env", "/w/a/b/.env"});
    CHECK(expand(tree, "/w/*/.env") == Texts{"/w/a/.env"});
    CHECK(expand(tree, "/w/**/.env.*") == Texts{"/w/a/.env.local"});
    CHECK(expand(tree, "/w/{a,b}/[e]nv") == Texts{"/w/a/env"});
    CHECK(expand(tree, "/none/**/.env").empty());
    CHECK(expand(tree, "/w/literal") == Texts{"/w/literal"});
    CHECK(expand(tree, "/w/**") == Texts{"/w/**"});
}

TEST_CASE("a trailing /** stays, and what lies beneath a match is not walked") {
    MemoryTree tree;
    tree.file("/w/.git/hooks/pre-commit");
    tree.file("/w/sub/.git/hooks/x");
    CHECK(expand(tree, "/w/**/.git/hooks/**") == Texts{"/w/.git/hooks/**", "/w/sub/.git/hooks/**"});
    for (int level = 0; level < 3; ++level)
        tree.file("/v/m" + std::string(static_cast<std::size_t>(level), 'x') + "/m/m/f");
    CHECK(expand(tree, "/v/**/m/**") == Texts{"/v/m/**", "/v/mx/m/**", "/v/mxx/m/**"});
}

TEST_CASE("names that hold wildcards are taken as they are") {
    MemoryTree tree;
    tree.file("/w/a*b/.env");
    tree.file("/w/axb/other");
    Expander expander(tree);
    const Expansion expansion = expander.expand(compile("/w/**/.env"));
    REQUIRE(expansion.globs.size() == 1);
    CHECK(expansion.globs.front().matches("/w/a*b/.env"));
    CHECK_FALSE(expansion.globs.front().matches("/w/axb/.env"));
}

TEST_CASE("depth stops no walk") {
    MemoryTree tree;
    std::string deep = "/w";
    for (int level = 0; level < 100; ++level) deep += "/d";
    tree.file(deep + "/.env");
    Expander expander(tree);
    const Expansion expansion = expander.expand(compile("/w/**/.env"));
    CHECK(expansion.kept.empty());
    REQUIRE(expansion.globs.size() == 1);
    CHECK(expansion.globs[0].text() == deep + "/.env");
}

TEST_CASE("a walk that stops for time keeps the pattern as it was written, and so do later ones") {
    MemoryTree tree;
    tree.file("/w/.env");
    tree.file("/w/a/b/c/.env");
    std::chrono::steady_clock::time_point now{};
    int looks = 0;
    for (const int last : {2, 3, 4}) {
        // The clock stands still for so many looks, and then the time is over.
        looks = 0;
        Expander expander(
            tree, nullptr,
            {[&] { return ++looks > last ? now + Expander::max_time : now; }, [] { return 0ns; }});
        const Expansion expansion = expander.expand(compile("/w/**/.env"));
        CHECK(expansion.kept == Texts{"/w"});
        REQUIRE(expansion.globs.size() == 1);
        CHECK(expansion.globs[0].text() == "/w/**/.env");
        const Expansion later = expander.expand(compile("/w/{a,b}/*.key"));
        REQUIRE(later.globs.size() == 2);
        CHECK(later.globs[0].text() == "/w/a/*.key");
        CHECK(later.kept == Texts{"/w/a", "/w/b"});
    }
}

TEST_CASE("the turns of other programs are no time of the walk, up to a bound") {
    MemoryTree tree;
    tree.file("/w/.env");
    tree.file("/w/a/b/c/.env");
    // At each look so much time has gone, and of that the thread has waited so long for a processor.
    const auto found = [&](std::chrono::nanoseconds all, std::chrono::nanoseconds others) {
        int looks = 0, readings = 0;
        Expander expander(
            tree, nullptr,
            {[&] { return std::chrono::steady_clock::time_point{} + (looks++ == 0 ? 0ns : all); },
             [&] { return readings++ == 0 ? 5ns : others + 5ns; }});
        return expander.expand(compile("/w/**/.env")).globs.size() == 2;
    };
    constexpr std::chrono::nanoseconds time = Expander::max_time;
    CHECK(found(time - 1ns, 0ns));
    CHECK_FALSE(found(time, 0ns));
    CHECK(found(5 * time, 4 * time + 1ns));
    CHECK_FALSE(found(5 * time, 4 * time));
    CHECK_FALSE(found(10 * time, 10 * time));
}

TEST_CASE("a directory with more entries than are left keeps the pattern, and a full walk keeps it whole") {
    MemoryTree tree;
    tree.link("/w/.env", "/elsewhere/secret");
    for (std::size_t index = 0; index < Expander::max_entries / 2; ++index) {
        tree.file("/w/a/f" + std::to_string(index));
        tree.file("/w/b/c/f" + std::to_string(index));
    }
    tree.file("/w/b/c/d/.env");
    Expander expander(tree, nullptr, {[] { return std::chrono::steady_clock::time_point(); }});
    const Expansion expansion = expander.expand(compile("/w/**/.env"));
    // /w/b/c has more entries than are left, so it keeps the pattern, and the walk ends.
    CHECK(expansion.kept == Texts{"/w/b/c"});
    REQUIRE(expansion.globs.size() == 2);
    CHECK(expansion.globs.back().text() == "/w/b/c/**/.env");
    CHECK(expansion.found == Texts{"/w/.env"});
    for (std::size_t index = 0; index + 4 < Expander::max_entries / 2; ++index)
        tree.file("/v/f" + std::to_string(index));
    // That takes all entries which are left.
    CHECK(expander.expand(compile("/v/*/x")).globs.empty());
    CHECK(expander.expand(compile("/w/*/.env")).globs.front().text() == "/w/*/.env");
}

TEST_CASE("a directory that cannot be read keeps the glob") {
    MemoryTree tree;
    tree.file("/w/closed/.env");
    tree.unreadable("/w/closed");
    CHECK(expand(tree, "/w/**/.env") == Texts{"/w/closed/**/.env"});
    CHECK(expand(tree, "/w/*/x/.env") == Texts{"/w/closed/x/.env"});
}

TEST_CASE("expanding sources leaves out installed packages, and nothing that a planted file names") {
    MemoryTree tree;
    for (const char* file :
         {"/w/node_modules/a/x.key", "/w/a/node_modules/b/c/x.key", "/w/env/pyvenv.cfg",
          "/w/env/lib/python3.11/site-packages/x.key", "/w/env/lib64/python3.11/site-packages/x.key",
          "/w/env/x.key", "/w/env/lib/x.key", "/w/lib/python3.11/site-packages/x.key", "/w/src/x.key"})
        tree.file(file);
    Texts all;
    Expander expander(tree);
    for (const Glob& glob : expander.expand(compile("/w/**/*.key"), true).globs) all.push_back(glob.text());
    std::sort(all.begin(), all.end());
    CHECK(all ==
          Texts{"/w/env/lib/x.key", "/w/env/x.key", "/w/lib/python3.11/site-packages/x.key", "/w/src/x.key"});
    CHECK(expand(tree, "/w/**/*.key").size() == 8);
}

TEST_CASE("expanding sources holds what a named directory lacks, where the rest is literal") {
    MemoryTree tree;
    tree.file("/w/a/.git/HEAD");
    tree.file("/w/b/.git/config");
    tree.file("/w/c/config");
    const auto sources = [&](const char* pattern) {
        Texts all;
        Expander expander(tree);
        for (const Glob& glob : expander.expand(compile(pattern), true).globs) all.push_back(glob.text());
        std::sort(all.begin(), all.end());
        all.erase(std::unique(all.begin(), all.end()), all.end());
        return all;
    };
    CHECK(sources("/w/**/.git/config") == Texts{"/w/a/.git/config", "/w/b/.git/config"});
    CHECK(sources("/w/**/.git/hooks/**") == Texts{"/w/a/.git/hooks/**", "/w/b/.git/hooks/**"});
    CHECK(sources("/w/**/.git/*/config").empty());
    CHECK(sources("/w/**/.gi?/config") == Texts{"/w/a/.git/config", "/w/b/.git/config"});
    CHECK(sources("/w/**/config") == Texts{"/w/b/.git/config", "/w/c/config"});
    CHECK(expand(tree, "/w/**/.git/config") == Texts{"/w/b/.git/config"});
}

TEST_CASE("a symbolic link to a directory is found by name and never followed") {
    MemoryTree tree;
    tree.file("/elsewhere/.env");
    tree.link("/w/link", "/elsewhere");
    CHECK(expand(tree, "/w/**/.env").empty());
    CHECK(expand(tree, "/w/**/link") == Texts{"/w/link"});
}

TEST_CASE("hundreds of unreadable directories give way to the pattern itself") {
    MemoryTree tree;
    tree.file("/w/.env");
    for (std::size_t index = 0; index <= Expander::max_kept; ++index) {
        const std::string closed = "/w/closed" + std::to_string(index);
        tree.file(closed + "/x");
        tree.unreadable(closed);
        Expander expander(tree);
        if (index + 1 < Expander::max_kept) continue;
        const Expansion expansion = expander.expand(compile("/w/**/.env"));
        const bool whole = index == Expander::max_kept;
        CHECK(expansion.kept.size() == (whole ? 1 : Expander::max_kept));
        CHECK(expansion.globs.size() == (whole ? 1 : Expander::max_kept + 1));
        CHECK((expansion.globs.front().text() == "/w/**/.env") == whole);
    }
}

TEST_CASE("every path that the glob matches and that exists is matched by the expansion") {
    MemoryTree tree;
    Texts files;
    const Texts names = {"a", "b", ".env", "x.key", "c"};
    for (std::size_t number = 0; number < 5 * 5 * 5 * 5; ++number) {
        std::string path = "/w";
        for (std::size_t rest = number, level = 0; level < 4; ++level, rest /= 5)
            path += '/' + names[rest % 5];
        files.push_back(path);
    }
    for (const std::string& file : files) tree.file(file);
    const std::vector<const char*> patterns = {"/w/**/.env",    "/w/*/b/**",    "/w/**/a/**/*.key",
                                               "/w/{a,b}/**/c", "/w/**/[ab]/?", "/w/a/../b",
                                               "/w/**/.*",      "/w/**/a/*",    "/w/*/*/**/b"};
    const auto check = [&](Expander& expander, const char* pattern) {
        const Glob glob = compile(pattern);
        const Expansion expansion = expander.expand(glob);
        for (std::string path : files) {
            for (; path != "/w"; path.erase(path.rfind('/'))) {
                const bool expanded = std::any_of(expansion.globs.begin(), expansion.globs.end(),
                                                  [&](const Glob& one) { return one.matches(path); });
                CHECK_MESSAGE(expanded == glob.matches(path), pattern << ' ' << path);
            }
        }
    };
    Expander together(tree);
    for (const char* pattern : patterns) together.announce(compile(pattern));
    for (const char* pattern : patterns) {
        Expander alone(tree);
        check(alone, pattern);
        check(together, pattern);
    }
}

TEST_CASE("patterns of one walk have their own matches, packages and unreadable directories") {
    MemoryTree tree;
    for (const char* file : {"/w/a/.env", "/w/a/x.key", "/w/node_modules/.env", "/w/closed/.env"})
        tree.file(file);
    tree.unreadable("/w/closed");
    Expander expander(tree);
    const std::vector<std::pair<const char*, bool>> questions = {
        {"/w/**/.env", false}, {"/w/**/.env", true}, {"/w/*/*.key", true}, {"/w/none/**/x", true}};
    for (const auto& [pattern, sources] : questions) expander.announce(compile(pattern), sources);
    std::vector<Texts> answers;
    for (const auto& [pattern, sources] : questions) {
        Texts& all = answers.emplace_back();
        for (const Glob& glob : expander.expand(compile(pattern), sources).globs) all.push_back(glob.text());
        std::sort(all.begin(), all.end());
    }
    CHECK(answers[0] == Texts{"/w/a/.env", "/w/closed/**/.env", "/w/node_modules/.env"});
    CHECK(answers[1] == Texts{"/w/a/.env", "/w/closed/**/.env"});
    CHECK(answers[2] == Texts{"/w/a/x.key", "/w/closed/*.key"});
    CHECK(answers[3].empty());
}

TEST_CASE("names that lead many patterns to many positions make the walk keep all of them") {
    constexpr std::size_t count = 13;
    const auto fill = [](MemoryTree& tree, std::size_t names) {
        for (std::size_t some = 0; some < std::size_t{1} << names; ++some) {
            std::string path = "/w";
            for (std::size_t index = 0; index < names; ++index)
                if ((some >> index & 1U) != 0) path += "/d" + std::to_string(index);
            tree.file(path + "/file");
        }
    };
    for (const std::size_t names : {count - 2, count}) {
        MemoryTree tree;
        fill(tree, names);
        Expander expander(tree, nullptr, {[] { return std::chrono::steady_clock::time_point(); }});
        for (std::size_t index = 0; index < count; ++index)
            expander.announce(compile("/w/**/d" + std::to_string(index) + "/**/secret"));
        const Expansion expansion = expander.expand(compile("/w/**/d0/**/secret"));
        CHECK(expansion.kept == (names < count ? Texts{} : Texts{"/w"}));
        CHECK(expansion.globs.size() == (names < count ? 0 : 1));
    }
}

TEST_CASE("one directory is read once, whatever the number of patterns") {
    MemoryTree tree;
    tree.file("/w/a/b/c");
    Expander expander(tree);
    for (int index = 0; index < 50; ++index) expander.announce(compile("/w/**/x" + std::to_string(index)));
    for (int index = 0; index < 50; ++index)
        (void)expander.expand(compile("/w/**/x" + std::to_string(index)));
    CHECK(tree.reads == 3);
}
