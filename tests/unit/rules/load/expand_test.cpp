// `expand`: existing objects, directories that keep the glob, and links that are never followed.
#include "rules/load/expand.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/rules/host_fixture.hpp"

using namespace callgate;
using namespace callgate::rules;

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

TEST_CASE("a directory at the sixth level keeps the glob beneath itself") {
    MemoryTree tree;
    tree.file("/w/1/2/3/4/5/.env");
    tree.file("/w/1/2/3/4/5/6/.env");
    Expander expander(tree);
    const Expansion expansion = expander.expand(compile("/w/**/.env"));
    CHECK(expansion.kept == Texts{"/w/1/2/3/4/5/6"});
    REQUIRE(expansion.globs.size() == 2);
    CHECK(expansion.globs[0].text() == "/w/1/2/3/4/5/.env");
    CHECK(expansion.globs[1].text() == "/w/1/2/3/4/5/6/**/.env");
}

TEST_CASE("what lies beyond 20,000 entries keeps the glob, what lies before does not") {
    MemoryTree tree;
    tree.file("/w/.env");
    for (int index = 0; index < 15'000; ++index) {
        tree.file("/w/a/f" + std::to_string(index));
        tree.file("/w/b/f" + std::to_string(index));
    }
    tree.file("/w/b/.env");
    Expander expander(tree);
    const Expansion expansion = expander.expand(compile("/w/**/.env"));
    CHECK(expansion.kept == Texts{"/w/b"});
    CHECK(expansion.globs.size() == 2);
    CHECK(expansion.globs.back().text() == "/w/b/**/.env");
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

TEST_CASE("a symbolic link to a directory is found by name and never followed") {
    MemoryTree tree;
    tree.file("/elsewhere/.env");
    tree.link("/w/link", "/elsewhere");
    CHECK(expand(tree, "/w/**/.env").empty());
    CHECK(expand(tree, "/w/**/link") == Texts{"/w/link"});
}

TEST_CASE("thousands of kept directories give way to the ones above them") {
    MemoryTree tree;
    for (int index = 0; index < 1000; ++index)
        tree.directory("/w/1/2/3/4/d" + std::to_string(index % 10) + "/x" + std::to_string(index) + "/y");
    Expander expander(tree);
    const Expansion expansion = expander.expand(compile("/w/**/.env"));
    CHECK(expansion.kept.size() == 10);
    const auto covered = [&](const std::string& path) {
        return std::any_of(expansion.globs.begin(), expansion.globs.end(),
                           [&](const Glob& glob) { return glob.matches(path); });
    };
    CHECK(covered("/w/1/2/3/4/d7/x17/y/deep/.env"));
    CHECK_FALSE(covered("/w/1/2/.env"));
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
    for (const char* pattern : {"/w/**/.env", "/w/*/b/**", "/w/**/a/**/*.key", "/w/{a,b}/**/c",
                                "/w/**/[ab]/?", "/w/a/../b", "/w/**/.*", "/w/**/a/*"}) {
        const Glob glob = compile(pattern);
        Expander expander(tree);
        const Expansion expansion = expander.expand(glob);
        for (std::string path : files) {
            for (; path != "/w"; path.erase(path.rfind('/'))) {
                const bool expanded = std::any_of(expansion.globs.begin(), expansion.globs.end(),
                                                  [&](const Glob& one) { return one.matches(path); });
                CHECK_MESSAGE(expanded == glob.matches(path), pattern << ' ' << path);
            }
        }
    }
}

TEST_CASE("one directory is read once, whatever the number of patterns") {
    MemoryTree tree;
    tree.file("/w/a/b/c");
    Expander expander(tree);
    for (int index = 0; index < 50; ++index)
        (void)expander.expand(compile("/w/**/x" + std::to_string(index)));
    CHECK(tree.reads == 3);
}
