// open, openat, openat2 through their handlers: recorded before the effect, and no effect if recording fails.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "supervisor/host/file_tree.hpp"
#include "tests/fakes/call_bench.hpp"
#include "tests/unit/rules/rule_maker.hpp"
#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
using fakes::at;
using fakes::CallBench;
using fakes::denied;
using fakes::number;
using rules::Action;
using rules::Operation;

namespace {

const rules::OperationSet use = rules::OperationSet(Operation::read) | Operation::modify | Operation::create;

/// The rules allow everything in `open`, and nothing elsewhere.
struct OpenBench : tests::TemporaryDirectory, CallBench {
    OpenBench()
        : CallBench(std::vector{rules::tests::path_rule("open", Action::allow, use, path + "/open/**"),
                                rules::tests::path_rule("asked", Action::ask, use, path + "/asked/**")},
                    Action::deny) {
        for (const char* name : {"/open", "/shut", "/asked"}) std::filesystem::create_directory(path + name);
    }

    kernel::Answer open(const std::string& name, int flags) {
        return handle("openat", {number(AT_FDCWD), at(name.c_str()), number(flags), 0600});
    }
    std::string file(const std::string& name, const std::string& text) {
        std::ofstream(*this / name) << text;
        return *this / name;
    }
    static std::string text(const std::string& name) {
        std::ifstream stream(name);
        return {std::istreambuf_iterator<char>(stream), {}};
    }
    [[nodiscard]] bool exists(const std::string& name) const { return std::filesystem::exists(*this / name); }
};

ino_t inode(int fd) {
    struct stat status {};
    REQUIRE(::fstat(fd, &status) == 0);
    return status.st_ino;
}

}  // namespace

TEST_CASE("a new file is made and handed over after its record") {
    OpenBench bench;
    bool made_at_record = true;
    std::size_t lines_at_add = 0;
    bench.kept.on_record = [&] { made_at_record = bench.exists("open/new"); };
    bench.source.on_add = [&](int) { lines_at_add = bench.kept.lines.size(); };
    const auto answer = bench.open(bench / "open/new", O_CREAT | O_WRONLY | O_CLOEXEC);
    CHECK(answer.value == fakes::NotificationSource::number_in_caller);
    CHECK_FALSE(made_at_record);
    CHECK(lines_at_add == 1);
    CHECK(bench.exists("open/new"));
    CHECK(bench.source.added.at(0).close_on_exec);
}

TEST_CASE("a file is truncated after the record, by its pin") {
    OpenBench bench;
    const std::string file = bench.file("open/file", "content");
    std::string at_record;
    bench.kept.on_record = [&] { at_record = OpenBench::text(file); };
    CHECK(bench.open(file, O_WRONLY | O_TRUNC).error == 0);
    CHECK(at_record == "content");
    CHECK(OpenBench::text(file).empty());
}

TEST_CASE("where the log cannot be written nothing is made, truncated or handed over") {
    OpenBench bench;
    const std::string file = bench.file("open/file", "content");
    bench.fill_log();
    CHECK(denied(bench.open(bench / "open/new", O_CREAT | O_WRONLY), EACCES));
    CHECK(denied(bench.open(file, O_WRONLY | O_TRUNC), EACCES));
    CHECK(denied(bench.open(file, O_RDONLY | O_NOFOLLOW), EACCES));
    CHECK_FALSE(bench.exists("open/new"));
    CHECK(OpenBench::text(file) == "content");
    CHECK(bench.source.added.empty());
}

TEST_CASE("what the rules deny is on record, and nothing happens to it") {
    OpenBench bench;
    const std::string file = bench.file("shut/file", "content");
    CHECK(denied(bench.open(bench / "shut/new", O_CREAT | O_WRONLY), EACCES));
    CHECK(denied(bench.open(file, O_WRONLY | O_TRUNC), EACCES));
    CHECK_FALSE(bench.exists("shut/new"));
    CHECK(OpenBench::text(file) == "content");
    CHECK(bench.source.added.empty());
    CHECK(bench.kept.lines.size() == 2);
}

TEST_CASE("a link is judged by where it leads") {
    OpenBench bench;
    bench.file("shut/file", "content");
    std::filesystem::create_symlink(bench / "shut/file", bench / "open/link");
    CHECK(denied(bench.open(bench / "open/link", O_RDONLY), EACCES));
    CHECK(bench.kept.count("shut/file") == 1);
}

TEST_CASE("what the rules ask about is denied where nobody can be asked") {
    OpenBench bench;
    CHECK(denied(bench.open(bench / "asked/new", O_CREAT | O_WRONLY), EACCES));
    CHECK_FALSE(bench.exists("asked/new"));
    CHECK(bench.kept.count("no one to ask") == 1);
}

TEST_CASE("a path that leads nowhere has the kernel's errno, and nothing happens") {
    OpenBench bench;
    bench.file("open/file", "");
    // O_TRUNC: Landlock does not hold truncation by this plan, so the call may not be continued.
    CHECK(denied(bench.open(bench / "open/none/new", O_CREAT | O_WRONLY | O_TRUNC), ENOENT));
    CHECK(denied(bench.open(bench / "open/file/new", O_CREAT | O_WRONLY | O_TRUNC), ENOTDIR));
    CHECK(denied(bench.open(bench / "open/file", O_CREAT | O_EXCL | O_WRONLY | O_TRUNC), EEXIST));
    // Landlock holds this one. Continued, it would meet Landlock's refusal if the directory appears
    // meanwhile.
    CHECK(denied(bench.open(bench / "open/none/new", O_CREAT | O_WRONLY), ENOENT));
    CHECK(denied(bench.open("", O_CREAT | O_WRONLY), ENOENT));
    CHECK(denied(bench.handle("openat", {number(AT_FDCWD), 8, O_WRONLY | O_CREAT, 0600}), EFAULT));
    CHECK(denied(bench.handle("openat", {number(987), at("name"), O_WRONLY | O_CREAT, 0600}), EBADF));
    CHECK(bench.kept.lines.empty());
    CHECK(bench.source.added.empty());
}

TEST_CASE("a caller that no longer waits has nothing recorded or done for it") {
    OpenBench bench;
    bench.source.nobody_waits = true;
    bench.open(bench / "open/new", O_CREAT | O_WRONLY);
    CHECK(bench.kept.lines.empty());
    CHECK_FALSE(bench.exists("open/new"));
}

TEST_CASE("a file that is put in the place of the judged one meanwhile is not the one that is opened") {
    OpenBench bench;
    const std::string file = bench.file("open/file", "judged");
    const std::string other = bench.file("shut/file", "other");
    const UniqueFd judged(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    bench.kept.on_record = [&] { std::filesystem::rename(other, file); };
    CHECK(bench.open(file, O_RDWR).error == 0);
    CHECK(inode(bench.source.added.at(0).copy.get()) == inode(judged.get()));
}

TEST_CASE("a file that has to be opened by name is judged again if another one stands there") {
    OpenBench bench;
    const std::string file = bench.file("open/file", "judged");
    const std::string other = bench.file("shut/file", "other");
    const UniqueFd second(::open(other.c_str(), O_RDONLY | O_CLOEXEC));
    bench.kept.on_record = [&] {
        if (bench.kept.lines.size() == 1) std::filesystem::rename(other, file);
    };
    CHECK(bench.open(file, O_RDWR | O_NOFOLLOW).error == 0);
    CHECK(inode(bench.source.added.at(0).copy.get()) == inode(second.get()));
    CHECK(bench.kept.lines.size() == 2);
}

TEST_CASE("a name that is taken meanwhile is resolved and judged anew") {
    OpenBench bench;
    bench.file("shut/file", "content");
    bench.kept.on_record = [&] {
        if (bench.kept.lines.size() == 1)
            std::filesystem::create_symlink(bench / "shut/file", bench / "open/new");
    };
    CHECK(denied(bench.open(bench / "open/new", O_CREAT | O_WRONLY | O_TRUNC), EACCES));
    CHECK(OpenBench::text(bench / "shut/file") == "content");
    CHECK(bench.source.added.empty());
}

TEST_CASE("a name that changes each time is refused in the end") {
    OpenBench bench;
    const std::string file = bench.file("open/file", "");
    // After a hundred records the name stays, so an opener without a limit ends with the file.
    bench.kept.on_record = [&] {
        if (bench.kept.lines.size() < 100) std::filesystem::rename(bench.file("open/next", ""), file);
    };
    CHECK(denied(bench.open(file, O_RDONLY | O_NOFOLLOW), EAGAIN));
    CHECK(bench.source.added.empty());
}

TEST_CASE("flags in memory are judged as they were read") {
    OpenBench bench;
    const std::string file = bench.file("open/file", "content");
    open_how how{};
    how.flags = O_RDONLY;
    bench.kept.on_record = [&] { how.flags = O_WRONLY | O_TRUNC; };
    const auto answer = bench.handle("openat2", {number(AT_FDCWD), at(file.c_str()), at(&how), sizeof how});
    CHECK(answer.error == 0);
    CHECK_FALSE(answer.let_continue);
    CHECK(OpenBench::text(file) == "content");
    CHECK((::fcntl(bench.source.added.at(0).copy.get(), F_GETFL) & O_ACCMODE) == O_RDONLY);
}

TEST_CASE("too many calls that block deny one more that would") {
    OpenBench bench;
    REQUIRE(::mkfifo((bench / "open/fifo").c_str(), 0600) == 0);
    bench.blocking.room = false;
    CHECK(denied(bench.open(bench / "open/fifo", O_RDONLY), EAGAIN));
    CHECK(bench.kept.count("overload") == 1);
}

TEST_CASE("beyond a known mount a read is continued by its name, unless it is in procfs") {
    // Only what is looked at more closely needs a caller that still waits.
    const auto continued = [](const std::string& path, const std::string& directory, bool waits) {
        const RealFileTree tree;
        CallBench bench(
            std::vector{rules::tests::path_rule("all", Action::allow, Operation::read, directory + "/**")},
            Action::deny, rules::PlanInput{.landlock_abi = 7, .tree = &tree});
        bench.static_paths.note_mount(path);
        bench.source.nobody_waits = !waits;
        return bench.handle("openat", {number(AT_FDCWD), at(path.c_str()), number(O_RDONLY), 0}).let_continue;
    };
    CHECK(continued("/sys/kernel/mm", "/sys", false));
    CHECK_FALSE(continued("/proc/sys/kernel", "/proc", false));
    CHECK(continued("/proc/sys/kernel", "/proc", true));
}
