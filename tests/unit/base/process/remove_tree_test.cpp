#include "base/process/remove_tree.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>

#include "tests/unit/agent/guarded_run.hpp"

using namespace callgate;
using namespace callgate::agent;
using namespace callgate::agent::test;

namespace {

bool exists(const std::string& path) {
    return ::faccessat(AT_FDCWD, path.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

// 500 levels are 6,500 bytes: longer than any path string that the kernel takes.
void make_deep(const std::string& top, int levels) {
    UniqueFd at(::open(top.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::string name(12, 'd');
    for (int level = 0; level < levels; ++level) {
        REQUIRE(::mkdirat(at.get(), name.c_str(), 0700) == 0);
        const UniqueFd file(::openat(at.get(), "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        REQUIRE(file.valid());
        at = UniqueFd(::openat(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
}

}  // namespace

TEST_CASE("a tree of files, links and pipes is removed, and what the links lead to is not") {
    TemporaryDirectory directory;
    const std::string tree = directory / "tree";
    const std::string outside = directory / "outside";
    for (const std::string& path : {tree, outside, tree + "/a", tree + "/a/b", tree + "/c"})
        REQUIRE(::mkdir(path.c_str(), 0700) == 0);
    std::ofstream(outside + "/kept") << "kept\n";
    std::ofstream(tree + "/a/b/file") << "x\n";
    REQUIRE(::symlink(outside.c_str(), (tree + "/link").c_str()) == 0);
    REQUIRE(::symlink("..", (tree + "/a/b/up").c_str()) == 0);
    REQUIRE(::mkfifo((tree + "/c/fifo").c_str(), 0600) == 0);
    CHECK(remove_tree(tree).has_value());
    CHECK_FALSE(exists(tree));
    CHECK(contents(outside + "/kept") == "kept\n");
    CHECK(remove_tree(tree).has_value());  // a tree that is gone counts as removed
}

TEST_CASE("a symbolic link in the tree's place is removed and not followed") {
    TemporaryDirectory directory;
    REQUIRE(::mkdir((directory / "real").c_str(), 0700) == 0);
    std::ofstream(directory / "real/kept") << "kept\n";
    REQUIRE(::symlink((directory / "real").c_str(), (directory / "link").c_str()) == 0);
    CHECK(remove_tree(directory / "link").has_error());
    CHECK_FALSE(exists(directory / "link"));
    CHECK(contents(directory / "real/kept") == "kept\n");
}

TEST_CASE("directories without any rights are removed") {
    TemporaryDirectory directory;
    const std::string tree = directory / "tree";
    for (const std::string& path : {tree, tree + "/a", tree + "/a/b", tree + "/a/b/c"})
        REQUIRE(::mkdir(path.c_str(), 0700) == 0);
    for (const std::string& path : {tree + "/a/b/c", tree + "/a/b", tree + "/a", tree})
        REQUIRE(::chmod(path.c_str(), 0) == 0);
    CHECK(remove_tree(tree).has_value());
    CHECK_FALSE(exists(tree));
}

TEST_CASE("a tree deeper than any path is removed with a handful of descriptors") {
    TemporaryDirectory directory;
    const std::string tree = directory / "tree";
    REQUIRE(::mkdir(tree.c_str(), 0700) == 0);
    make_deep(tree, 500);
    const int free = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(free);
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit few{static_cast<rlim_t>(free) + 4, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    const bool removed = remove_tree(tree).has_value();
    ::setrlimit(RLIMIT_NOFILE, &before);
    CHECK(removed);
    CHECK_FALSE(exists(tree));
}
