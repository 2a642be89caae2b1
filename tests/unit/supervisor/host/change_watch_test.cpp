#include "supervisor/host/change_watch.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "supervisor/host/file_tree.hpp"
#include "supervisor/host/host_snapshot.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace {

using namespace callgate;
namespace fs = std::filesystem;

void write(const std::string& path, const char* text = "") { std::ofstream(path) << text; }

/// A directory with what the tests below cover and change.
struct Place : tests::TemporaryDirectory {
    Place() {
        fs::create_directories(*this / "one/two/three");
        fs::create_directories(*this / "listed");
        write(*this / "one/two/file");
        write(*this / "one/two/other");
        write(*this / "listed/old");
        fs::create_symlink("one", *this / "link");
    }
};

TEST_CASE("each change of what a covered path names is told, and stays told") {
    struct Change {
        const char* what;
        std::function<void(const Place&)> make;
    };
    const Change changes[] = {
        {"removed", [](const Place& at) { fs::remove(at / "one/two/file"); }},
        {"moved away", [](const Place& at) { fs::rename(at / "one/two/file", at / "aside"); }},
        {"replaced", [](const Place& at) { fs::rename(at / "one/two/other", at / "one/two/file"); }},
        {"exchanged",
         [](const Place& at) {
             REQUIRE(::renameat2(AT_FDCWD, (at / "one/two/other").c_str(), AT_FDCWD,
                                 (at / "one/two/file").c_str(), RENAME_EXCHANGE) == 0);
         }},
        {"made", [](const Place& at) { write(at / "one/two/absent"); }},
        {"made in another case", [](const Place& at) { write(at / "one/two/ABSENT"); }},
        {"a link in its place", [](const Place& at) { fs::create_symlink("file", at / "one/two/absent"); }},
        {"another link",
         [](const Place& at) { fs::create_hard_link(at / "listed/old", at / "one/two/absent"); }},
        {"a component moved", [](const Place& at) { fs::rename(at / "one/two", at / "aside"); }},
        {"the first component moved", [](const Place& at) { fs::rename(at / "one", at / "aside"); }},
        {"a component closed", [](const Place& at) { ::chmod((at / "one/two").c_str(), 0); }},
        {"its directory removed", [](const Place& at) { fs::remove_all(at / "one/two"); }},
        {"a name in a directory that was listed", [](const Place& at) { write(at / "listed/new"); }},
        {"one less of them", [](const Place& at) { fs::remove(at / "listed/old"); }},
        {"a name that only Unicode can compare", [](const Place& at) { write(at / "one/two/\xc3\x84"); }},
        {"more than can be read at once",
         [](const Place& at) {
             for (int n = 0; n < 2000; ++n) {
                 write(at / "one/two/passing");
                 fs::remove(at / "one/two/passing");
             }
         }},
    };
    for (const Change& change : changes) {
        CAPTURE(change.what);
        const Place at;
        ChangeWatch watch;
        for (const char* const path : {"one/two/file", "one/two/absent", "one/two/three", "link"})
            REQUIRE(watch.covers_name(at / path));
        REQUIRE(watch.covers_names_in(at / "listed"));
        CHECK(watch.quiet());
        write(at / "one/two/unasked");
        write(at / "one/two/file", "contents");
        write(at / "listed/old", "contents");
        fs::remove(at / "one/two/other");
        write(at / "one/two/other");
        CHECK(watch.quiet());
        change.make(at);
        CHECK_FALSE(watch.quiet());
        CHECK_FALSE(watch.quiet());
        ::chmod((at / "one/two").c_str(), 0700);
    }
}

TEST_CASE("a change that leads astray while the watches are made is told") {
    const Place at;
    fs::create_directories(at / "stage/two");
    ChangeWatch watch;
    REQUIRE(watch.covers_name(at / "one"));
    fs::rename(at / "one", at / "aside");
    fs::rename(at / "stage", at / "one");
    REQUIRE(watch.covers_name(at / "one/two/file"));  // of what will be elsewhere
    fs::rename(at / "one", at / "stage");
    fs::rename(at / "aside", at / "one");
    CHECK_FALSE(watch.quiet());
}

TEST_CASE("two paths to one directory are both covered") {
    const Place at;
    for (const char* const changed : {"one/two/file", "one/two/other"}) {
        ChangeWatch watch;
        REQUIRE(watch.covers_name(at / "one/two/file"));
        REQUIRE(watch.covers_name(at / "one/two/./other"));
        REQUIRE(watch.quiet());
        fs::remove(at / changed);
        CHECK_FALSE(watch.quiet());
    }
}

TEST_CASE("what makes no events, and what another path leads to, is not covered") {
    const Place at;
    ChangeWatch watch;
    for (const std::string path : {"/proc/self", "/proc/1/status", "/sys/kernel", "relative", ""}) {
        CAPTURE(path);
        CHECK_FALSE(watch.covers_name(path));
    }
    CHECK(watch.covers_name("/"));
    CHECK(watch.covers_name("/proc"));  // the name in the root
    CHECK(watch.covers_name(at / "link"));
    CHECK_FALSE(watch.covers_name(at / "link/two"));
    CHECK_FALSE(watch.covers_name(at / "absent/name"));
    CHECK_FALSE(watch.covers_name(at / "one/two/file/name"));
    CHECK_FALSE(watch.covers_names_in(at / "one/two/file"));
    CHECK_FALSE(watch.covers_names_in("/proc/self"));
}

/// In a mount namespace of its own; 2 where that cannot be had.
int watch_a_mount(const Place& at) {
    if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 2;
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 2;
    ChangeWatch watch;
    if (!watch.covers_name(at / "one/two/file") || !watch.quiet()) return 3;
    if (::mount("none", (at / "listed").c_str(), "tmpfs", 0, nullptr) != 0) return 2;
    return watch.quiet() ? 4 : 0;
}

TEST_CASE("a mount is told, wherever it is") {
    const Place at;
    const pid_t child = ::fork();
    if (child == 0) ::_exit(watch_a_mount(at));
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    if (status == W_EXITCODE(2, 0)) {
        MESSAGE("no mount namespace can be had here");
        return;
    }
    CHECK(status == 0);
}

TEST_CASE("facts and files that are covered are not looked at again, and all others are") {
    const Place at;
    HostSnapshot facts;
    facts.link(at / "link", "one");
    facts.object(at / "one/two/file");
    facts.file(at / "one/two/other", 100, std::variant<std::string, std::string>(std::in_place_index<0>));
    RealFileTree tree;
    CHECK(tree.kind(at / "one/two/absent") == rules::FileTree::Kind::absent);
    CHECK(tree.entries(at / "listed", 10)->size() == 1);
    CHECK(tree.kind(at / "link/two") == rules::FileTree::Kind::absent);
    {
        ChangeWatch watch;
        CHECK(facts.cover(watch));
        tree.cover(watch);
        CHECK(watch.quiet());
        fs::remove(at / "one/two/file");
        fs::remove(at / "listed/old");
        CHECK_FALSE(watch.quiet());
    }
    CHECK(facts.still_true(true));  // as it was claimed to be quiet
    CHECK_FALSE(facts.still_true());
    CHECK(tree.still_true(true));
    CHECK_FALSE(tree.still_true());
    write(at / "one/two/other", "contents are looked at");
    CHECK_FALSE(facts.still_true(true));
}

TEST_CASE("what cannot be covered is looked at again although all else is quiet") {
    const Place at;
    const std::string beyond = at / "link/two/file";  // beneath a link
    HostSnapshot facts;
    facts.object(beyond);
    RealFileTree tree;
    CHECK(tree.kind("/proc/self") == rules::FileTree::Kind::file);
    ChangeWatch watch;
    CHECK_FALSE(facts.cover(watch));
    tree.cover(watch);
    CHECK(facts.still_true(true));
    CHECK(tree.still_true(true));
    fs::remove(at / "one/two/file");
    CHECK_FALSE(facts.still_true(true));
}

}  // namespace
