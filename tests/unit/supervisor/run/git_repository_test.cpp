// Repositories that a `.git` file names. What git makes of them is tested by e2e.worktrees.
#include "supervisor/run/git_repository.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/unit/temporary_directory.hpp"

using namespace callgate;

namespace {

/// A repository with a worktree and a submodule, as git makes them.
struct Place {
    tests::TemporaryDirectory top;
    std::string common = top / "m/.git", admin = common + "/worktrees/w", work = top / "w";
    std::string module = common + "/modules/libs/x", inner = top / "m/libs/x";

    Place() {
        for (const std::string& one : {common, module})
            for (const char* name : {"/objects", "/refs"}) std::filesystem::create_directories(one + name);
        for (const std::string& one : {admin, work, inner}) std::filesystem::create_directories(one);
        write(work + "/.git", "gitdir: " + admin + "\n");
        write(admin + "/gitdir", work + "/.git\n");
        write(admin + "/commondir", "../..\n");
        write(inner + "/.git", "gitdir: ../../.git/modules/libs/x\n");
        write(module + "/config", "[core]\n\tbare = false\n\tworktree = ../../../../libs/x\n");
    }
    static void write(const std::string& path, const std::string& text) {
        std::ofstream(path, std::ios::trunc) << text;
    }
    static GitRepository find(const std::string& workdir, const rules::LinkRoots& roots = {}) {
        return find_git_repository(workdir, [&] { return Expected<rules::LinkRoots>(roots); });
    }
    [[nodiscard]] bool opens() const { return find(work).common == common; }
    [[nodiscard]] bool opens_module() const { return find(inner).common == module; }
};

}  // namespace

TEST_SUITE("the repository of a .git file") {
    TEST_CASE("a worktree and a submodule are opened, by absolute and relative pointers") {
        const Place place;
        const GitRepository found = Place::find(place.work);
        CHECK(found.common == place.common);
        CHECK(found.admin == place.admin);
        CHECK(found.why.empty());
        CHECK(place.opens_module());
        Place::write(place.work + "/.git", "gitdir: ../m/.git/worktrees/w\n");
        Place::write(place.admin + "/gitdir", "../../../../w/.git\n");
        CHECK(place.opens());
    }

    TEST_CASE("a directory, a link and nothing at .git are no such file") {
        const Place place;
        CHECK(describe(Place::find(place.top / "m"), "w").empty());
        CHECK(describe(Place::find(place.top.path), "w").empty());
        std::filesystem::rename(place.work + "/.git", place.top / "file");
        std::filesystem::create_symlink(place.top / "file", place.work + "/.git");
        CHECK(describe(Place::find(place.work), "w").empty());
    }

    TEST_CASE("a .git of another grammar opens nothing") {
        const Place place;
        const std::string good = "gitdir: " + place.admin;
        for (const std::string& text :
             {std::string(), good, good + "\r\n", good + "\n\n", good + "\nmore\n",
              "gitdir:" + place.admin + "\n", std::string("gitdir: \n"), good + std::string("\0\n", 2),
              " " + good + "\n", good + std::string(5000, '/') + "\n"}) {
            CAPTURE(text);
            Place::write(place.work + "/.git", text);
            CHECK_FALSE(place.opens());
            CHECK_FALSE(Place::find(place.work).why.empty());
        }
    }

    TEST_CASE("what the repository does not confirm stays closed") {
        const Place place;
        for (const char* text : {"/elsewhere/.git\n", "", "\n"}) {
            Place::write(place.admin + "/gitdir", text);
            CHECK_FALSE(place.opens());
        }
        Place::write(place.admin + "/gitdir", place.work + "/.git\n");
        CHECK(place.opens());
        for (const char* text : {"..\n", "../../\n", "/\n", ""}) {
            Place::write(place.admin + "/commondir", text);
            CHECK_FALSE(place.opens());
        }
        for (const char* text : {"[core]\n\tworktree = /elsewhere\n", "[core]\n",
                                 "[core]\n\tworktree = ../../../../libs/x\n\tworktree = ../../../../libs/x\n",
                                 "[include]\n\tpath = x\n[core]\n\tworktree = ../../../../libs/x\n"}) {
            CAPTURE(text);
            Place::write(place.module + "/config", text);
            CHECK_FALSE(place.opens_module());
        }
    }

    TEST_CASE("other places than a worktree's and a submodule's stay closed") {
        const Place place;
        for (const std::string& named :
             {place.common, place.top / "m", place.top.path, std::string("/"), place.top / "gone"}) {
            CAPTURE(named);
            Place::write(place.work + "/.git", "gitdir: " + named + "\n");
            const GitRepository found = Place::find(place.work);
            CHECK(found.common.empty());
            CHECK(describe(found, place.work).find("stays closed") != std::string::npos);
        }
    }

    TEST_CASE("no link is followed, and a second name is refused") {
        for (const char* name :
             {"/.git/worktrees/w/gitdir", "/.git/worktrees/w/commondir", "/.git/worktrees/w",
              "/.git/worktrees", "/.git", "/.git/objects", "/.git/refs"}) {
            CAPTURE(name);
            const Place place;
            const std::string path = place.top / "m" + name;
            std::filesystem::rename(path, place.top / "moved");
            std::filesystem::create_symlink(place.top / "moved", path);
            CHECK_FALSE(place.opens());
        }
        for (const bool own : {true, false}) {
            const Place place;
            const std::string path = own ? place.work + "/.git" : place.admin + "/gitdir";
            std::filesystem::create_hard_link(path, place.top / "second");
            CHECK_FALSE(place.opens());
        }
    }

    TEST_CASE("a repository that others may write stays closed") {
        for (const char* name :
             {"/m", "/m/.git", "/m/.git/worktrees", "/m/.git/worktrees/w/gitdir", "/w", "/w/.git"}) {
            CAPTURE(name);
            const Place place;
            REQUIRE(::chmod((place.top.path + name).c_str(), 0777) == 0);
            CHECK_FALSE(place.opens());
        }
    }

    TEST_CASE("one of the two files lies where no run could write") {
        const Place place;
        rules::LinkRoots roots;
        roots.add(place.top / "m/");
        CHECK(Place::find(place.work, roots).common == place.common);
        CHECK(Place::find(place.inner, roots).common.empty());
        roots.add(place.work + "/");
        CHECK(Place::find(place.work, roots).common.empty());
        roots.close(place.work + "/.git");  // held by the rules of those runs
        CHECK(Place::find(place.work, roots).common == place.common);
        // A repository's own `.git` is held as a name. What lies in it is not.
        roots.close(place.common);
        CHECK(Place::find(place.inner, roots).common.empty());
    }

    TEST_CASE("a work directory within a repository stays closed") {
        const Place place;
        const std::string within = place.common + "/w";
        std::filesystem::create_directories(within);
        Place::write(within + "/.git", "gitdir: " + place.admin + "\n");
        Place::write(place.admin + "/gitdir", within + "/.git\n");
        CHECK(Place::find(within).common.empty());
    }

    TEST_CASE("without the record nothing is opened") {
        const Place place;
        const auto fails = [] { return Expected<rules::LinkRoots>(Problem{"cannot read it"}); };
        CHECK(find_git_repository(place.work, fails).common.empty());
    }

    TEST_CASE("a pointer that changes while it is read opens what it named, or nothing") {
        const Place place;
        std::atomic<bool> ended = false;
        std::thread racer([&] {
            for (bool good = true; !ended; good = !good) {
                Place::write(place.top / "made",
                             "gitdir: " + (good ? place.admin : place.top / "other/worktrees/w") + "\n");
                std::filesystem::rename(place.top / "made", place.work + "/.git");
            }
        });
        for (int round = 0; round < 2000; ++round) {
            const std::string common = Place::find(place.work).common;
            CHECK((common.empty() || common == place.common));
        }
        ended = true;
        racer.join();
    }

    TEST_CASE("git finds a pointer that is not old") {
        const Place place;
        const std::string path = place.admin + "/gitdir";
        const timespec old[2] = {{1, 0}, {1, 0}};
        REQUIRE(::utimensat(AT_FDCWD, path.c_str(), old, 0) == 0);
        refresh_pointer(Place::find(place.work));
        struct stat status {};
        REQUIRE(::stat(path.c_str(), &status) == 0);
        CHECK(status.st_mtim.tv_sec > 1);
    }

}  // TEST_SUITE
