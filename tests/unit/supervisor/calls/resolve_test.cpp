#include "supervisor/calls/resolve.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace callgate;
using namespace callgate::calls;
namespace fs = std::filesystem;

namespace {

/// A tree of its own, removed at the end; relative paths start in it.
class Tree {
public:
    Tree() {
        char name[] = "/tmp/callgate-resolve-XXXXXX";
        root = fs::canonical(::mkdtemp(name));
        base = UniqueFd(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        fs::create_directories(root / "a/b");
        std::ofstream(root / "a/file") << "text";
        fs::create_symlink("a/file", root / "link");
        fs::create_symlink(root / "a", root / "absolute");
        fs::create_symlink("nowhere", root / "dangling");
        fs::create_symlink("loop", root / "loop");
        fs::create_symlink("/dev/fd", root / "fds");
    }
    ~Tree() { fs::remove_all(root); }
    [[nodiscard]] PathRequest at(std::string_view path, Follow follow = Follow::yes,
                                 std::uint64_t resolve = 0, pid_t thread = ::getpid()) const {
        return {thread, base.get(), path, follow, resolve};
    }
    [[nodiscard]] std::string path(const std::string& name) const { return (root / name).string(); }

    fs::path root;
    UniqueFd base;
};

/// Another process, whose /proc/self is not ours; its descriptor 9 is the file given.
class Other {
public:
    explicit Other(const std::string& file) {
        pid = ::fork();
        if (pid == 0) {
            const int fd = ::open(file.c_str(), O_RDONLY);
            if (fd != 9) ::dup2(fd, 9);
            ::kill(::getpid(), SIGSTOP);
            ::_exit(0);
        }
        ::waitpid(pid, nullptr, WUNTRACED);
    }
    ~Other() {
        ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
    }
    pid_t pid;
};

int error_of(const Result<Object>& result) { return result ? 0 : result.error().value(); }

}  // namespace

TEST_CASE("objects are named by where they lie, whatever led there") {
    const Tree tree;
    for (const char* path : {"a/file", "./a/../a/file", "link", "absolute/file", "a//file", "a/b/../file"}) {
        const auto object = resolve_object(tree.at(path));
        REQUIRE_MESSAGE(object.has_value(), path);
        CHECK(object->path == tree.path("a/file"));
        CHECK_FALSE(object->unlinked);
    }
    const auto link = resolve_object(tree.at("link", Follow::no));
    REQUIRE(link.has_value());
    CHECK(link->symbolic_link());
    CHECK(link->path == tree.path("link"));
}

TEST_CASE("paths that lead nowhere give the kernel's errno") {
    const Tree tree;
    CHECK(error_of(resolve_object(tree.at(""))) == ENOENT);
    CHECK(error_of(resolve_object(tree.at("missing"))) == ENOENT);
    CHECK(error_of(resolve_object(tree.at("dangling"))) == ENOENT);
    CHECK(error_of(resolve_object(tree.at("a/file/x"))) == ENOTDIR);
    CHECK(error_of(resolve_object(tree.at("a/file/"))) == ENOTDIR);
    CHECK(error_of(resolve_object(tree.at("loop"))) == ELOOP);
    CHECK(error_of(resolve_object(tree.at(std::string(300, 'x')))) == ENAMETOOLONG);
    CHECK(error_of(resolve_object(tree.at("link", Follow::yes, RESOLVE_NO_SYMLINKS))) == ELOOP);
    CHECK(error_of(resolve_object(tree.at("..", Follow::yes, RESOLVE_BENEATH))) == EXDEV);
    CHECK(error_of(resolve_object(tree.at("absolute/file", Follow::yes, RESOLVE_BENEATH))) == EXDEV);
}

TEST_CASE("/proc/self is the caller's, by every way that leads there") {
    const Tree tree;
    const Other other(tree.path("a/file"));
    const std::string own = "/proc/" + std::to_string(other.pid);
    for (const char* path : {"/proc/self/status", "/proc/thread-self/../../status", "/proc/./self/status"}) {
        const auto object = resolve_object(tree.at(path, Follow::yes, 0, other.pid));
        REQUIRE_MESSAGE(object.has_value(), path);
        CHECK(object->path == own + "/status");
    }
    for (const char* path : {"/proc/self/fd/9", "/dev/fd/9", "fds/9", "/proc/thread-self/fd/9"}) {
        const auto object = resolve_object(tree.at(path, Follow::yes, 0, other.pid));
        REQUIRE_MESSAGE(object.has_value(), path);
        CHECK(object->path == tree.path("a/file"));
    }
    CHECK(error_of(resolve_object(
              tree.at("/proc/self/fd/9", Follow::yes, RESOLVE_NO_MAGICLINKS, other.pid))) == ELOOP);
    CHECK(error_of(resolve_object(tree.at("/dev/fd/77", Follow::yes, 0, other.pid))) == ENOENT);
}

TEST_CASE("what has no name is told from what never had one") {
    const Tree tree;
    const int fd = ::open(tree.path("a/gone").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    fs::remove(tree.root / "a/gone");
    const auto gone = describe(UniqueFd(fd));
    REQUIRE(gone.has_value());
    CHECK(gone->unlinked);

    int pipes[2];
    REQUIRE(::pipe2(pipes, O_CLOEXEC) == 0);
    const UniqueFd writer(pipes[1]);
    const auto pipe = describe(UniqueFd(pipes[0]));
    REQUIRE(pipe.has_value());
    CHECK(pipe->unnamed);
    CHECK_FALSE(pipe->unlinked);
}

TEST_CASE("an object has its name until the name is gone") {
    // In memory every tenth look finds a directory whose st_nlink is 0 and whose name still leads there.
    const fs::path directory = fs::path("/dev/shm") / ("callgate-test-" + std::to_string(::getpid()));
    std::atomic<bool> ended = false;
    std::thread remover([&] {
        while (!ended) {
            ::mkdir(directory.c_str(), 0700);
            ::rmdir(directory.c_str());
        }
    });
    int wrong = 0;
    for (int looks = 0; looks < 20'000;) {
        UniqueFd pin(::open(directory.c_str(), O_PATH | O_CLOEXEC));
        const Result<Object> object = pin ? describe(std::move(pin)) : errno_code(ENOENT);
        if (!object) continue;
        ++looks;
        wrong += object->unlinked != object->path.ends_with(" (deleted)") ? 1 : 0;
    }
    ended = true;
    remover.join();
    CHECK(wrong == 0);
}

TEST_CASE("a name that ends in the kernel's mark is believed only where it stands") {
    const Tree tree;
    std::ofstream(tree.root / "x (deleted)") << "";
    const auto real = resolve_object(tree.at("x (deleted)"));
    REQUIRE(real.has_value());
    CHECK_FALSE(real->unlinked);

    // A second link keeps st_nlink up after the name that was pinned is gone.
    std::ofstream(tree.root / "first") << "";
    fs::create_hard_link(tree.root / "first", tree.root / "second");
    UniqueFd pin(::open(tree.path("first").c_str(), O_PATH | O_CLOEXEC));
    fs::remove(tree.root / "first");
    const auto object = describe(std::move(pin));
    REQUIRE(object.has_value());
    CHECK(object->unlinked);
}

TEST_CASE("places are a pinned directory and a name in it") {
    const Tree tree;
    const auto place = resolve_place(tree.at("absolute/new/"));
    REQUIRE(place.has_value());
    CHECK(place->path == tree.path("a/new"));
    CHECK(place->leaf == "new/");
    CHECK(place->trailing_slash);
    CHECK_FALSE(place->special);
    for (const char* path : {"a/.", "a/..", "/", "."}) {
        const auto special = resolve_place(tree.at(path));
        REQUIRE_MESSAGE(special.has_value(), path);
        CHECK(special->special);
    }
    const auto through_file = resolve_place(tree.at("a/file/x"));
    REQUIRE_FALSE(through_file.has_value());
    CHECK(through_file.error().value() == ENOTDIR);
}

TEST_CASE("a second name by the same way lies in the directory of the first") {
    const Tree tree;
    const auto first = resolve_place(tree.at("absolute/new"));
    REQUIRE(first.has_value());
    const std::string known(tree.at("absolute/new").path);
    for (const char* path : {"absolute/other", "absolute/other/", "absolute/..", "a/other", "other"}) {
        const auto alone = resolve_place(tree.at(path));
        const auto beside = resolve_place_beside(*first, known, tree.at(path));
        REQUIRE_MESSAGE(alone.has_value(), path);
        REQUIRE_MESSAGE(beside.has_value(), path);
        CHECK(beside->path == alone->path);
        CHECK(beside->leaf == alone->leaf);
        CHECK(beside->special == alone->special);
        CHECK(beside->trailing_slash == alone->trailing_slash);
        struct stat one {
        }, two{};
        REQUIRE(::fstat(alone->parent.get(), &one) == 0);
        REQUIRE(::fstat(beside->parent.get(), &two) == 0);
        CHECK(one.st_ino == two.st_ino);
    }
    const auto empty = resolve_place_beside(*first, known, {::getpid(), -1, "", Follow::no, 0});
    REQUIRE_FALSE(empty.has_value());
    CHECK(empty.error().value() == ENOENT);
}

TEST_CASE("a new name is created where its path leads") {
    const Tree tree;
    const auto place = resolve_creation(tree.at("absolute/new"));
    REQUIRE(place.has_value());
    CHECK(place->path == tree.path("a/new"));
    const auto there = resolve_creation(tree.at("a/file"));
    REQUIRE_FALSE(there.has_value());
    CHECK(there.error().value() == EEXIST);
    const auto through_file = resolve_creation(tree.at("a/file/x"));
    REQUIRE_FALSE(through_file.has_value());
    CHECK(through_file.error().value() == ENOTDIR);
}

TEST_CASE("creation through a dangling link lands where the link points") {
    const Tree tree;
    const auto place = resolve_creation(tree.at("dangling"));
    REQUIRE(place.has_value());
    CHECK(place->path == tree.path("nowhere"));
    const auto existing = resolve_creation(tree.at("link"));
    REQUIRE_FALSE(existing.has_value());
    CHECK(existing.error().value() == EEXIST);
}

TEST_CASE("directories deeper than PATH_MAX keep their whole name") {
    const Tree tree;
    const std::string name(200, 'd');
    UniqueFd current(::open(tree.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    std::string expected = tree.root.string();
    for (int depth = 0; depth < 25; ++depth) {
        REQUIRE(::mkdirat(current.get(), name.c_str(), 0700) == 0);
        current.reset(::openat(current.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        expected += "/" + name;
    }
    REQUIRE(expected.size() > PATH_MAX);
    REQUIRE(::close(::openat(current.get(), ".", O_RDONLY | O_CLOEXEC)) == 0);
    const auto place = resolve_place({::getpid(), current.get(), "leaf", Follow::no, 0});
    REQUIRE(place.has_value());
    CHECK(place->path == expected + "/leaf");
    const auto directory = resolve_object({::getpid(), current.get(), ".", Follow::yes, 0});
    REQUIRE(directory.has_value());
    CHECK(directory->path == expected);
}

TEST_CASE("callgate's own /proc directories are known by number") {
    const std::string own = "/proc/" + std::to_string(::getpid());
    CHECK(in_proc_of_callgate(own + "/environ", 1));
    CHECK(in_proc_of_callgate(own, 1));
    CHECK(in_proc_of_callgate("/proc/1/oom_score_adj", 1));
    CHECK_FALSE(in_proc_of_callgate("/proc/meminfo", 1));
    CHECK_FALSE(in_proc_of_callgate("/process/1/x", 1));
}

TEST_CASE("a process is an outside process in /proc unless it descends from the guardian") {
    const std::string own = "/proc/" + std::to_string(::getpid());
    CHECK_FALSE(in_proc_of_outside_process(own + "/oom_score_adj", ::getpid()));
    CHECK_FALSE(in_proc_of_outside_process(own + "/oom_score_adj", ::getppid()));
    CHECK(in_proc_of_outside_process("/proc/" + std::to_string(::getppid()) + "/oom_score_adj", ::getpid()));
    CHECK(in_proc_of_outside_process("/proc/1", ::getpid()));
    CHECK_FALSE(in_proc_of_outside_process("/proc/sys/kernel/core_pattern", ::getpid()));
    CHECK_FALSE(in_proc_of_outside_process("/proc", ::getpid()));
    CHECK_FALSE(in_proc_of_outside_process("/proc/1x/oom_score_adj", ::getpid()));
}
