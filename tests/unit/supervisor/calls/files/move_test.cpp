// rename and link through their handlers: recorded before the effect, and no effect if recording fails.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

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

const rules::OperationSet move = rules::OperationSet(Operation::create) | Operation::remove;

/// Names may be made and removed everywhere but in `shut`. Files in `secret` may not be read.
struct MoveBench : tests::TemporaryDirectory, CallBench {
    explicit MoveBench(Action fallback = Action::allow)
        : CallBench(std::vector{rules::tests::path_rule("shut", Action::deny, move, path + "/shut/**"),
                                rules::tests::path_rule("asked", Action::ask, move, path + "/asked/**"),
                                rules::tests::path_rule("secret", Action::deny, Operation::read,
                                                        path + "/secret/**")},
                    fallback) {
        for (const char* name : {"/open", "/shut", "/asked", "/secret"})
            std::filesystem::create_directory(path + name);
    }

    std::string file(const std::string& name, const std::string& text = "content") {
        std::ofstream(*this / name) << text;
        return *this / name;
    }
    kernel::Answer rename(const std::string& from, const std::string& to, int flags = 0) {
        return handle("renameat2",
                      {number(AT_FDCWD), at(from.c_str()), number(AT_FDCWD), at(to.c_str()), number(flags)});
    }
    kernel::Answer link(const std::string& from, const std::string& to) {
        return handle("linkat", {number(AT_FDCWD), at(from.c_str()), number(AT_FDCWD), at(to.c_str()), 0});
    }
    [[nodiscard]] bool exists(const std::string& name) const { return std::filesystem::exists(*this / name); }
};

}  // namespace

TEST_CASE("a file gets its new name after the record") {
    MoveBench bench;
    bench.file("open/old");
    bool moved_at_record = true;
    bench.kept.on_record = [&] { moved_at_record = bench.exists("open/new") || !bench.exists("open/old"); };
    CHECK(bench.rename(bench / "open/old", bench / "open/new").error == 0);
    CHECK_FALSE(moved_at_record);
    CHECK(bench.kept.lines.size() == 1);
    CHECK(bench.exists("open/new"));
    CHECK_FALSE(bench.exists("open/old"));
}

TEST_CASE("a hard link is made after the record") {
    MoveBench bench;
    bench.file("open/old");
    bool made_at_record = true;
    bench.kept.on_record = [&] { made_at_record = bench.exists("open/new"); };
    CHECK(bench.link(bench / "open/old", bench / "open/new").error == 0);
    CHECK_FALSE(made_at_record);
    CHECK(bench.exists("open/new"));
}

TEST_CASE("where the log cannot be written no name changes") {
    MoveBench bench;
    bench.file("open/old");
    bench.file("open/other");
    bench.fill_log();
    CHECK(denied(bench.rename(bench / "open/old", bench / "open/new"), EACCES));
    CHECK(denied(bench.rename(bench / "open/old", bench / "open/other", RENAME_EXCHANGE), EACCES));
    CHECK(denied(bench.link(bench / "open/old", bench / "open/new"), EACCES));
    CHECK(bench.exists("open/old"));
    CHECK_FALSE(bench.exists("open/new"));
}

TEST_CASE("both names count, and a denied move is on record") {
    MoveBench bench;
    bench.file("open/old");
    bench.file("shut/old");
    CHECK(denied(bench.rename(bench / "open/old", bench / "shut/new"), EACCES));
    CHECK(denied(bench.rename(bench / "shut/old", bench / "open/new"), EACCES));
    CHECK(denied(bench.link(bench / "open/old", bench / "shut/new"), EACCES));
    CHECK(bench.kept.count("\"deny\"") == 3);
    CHECK_FALSE(bench.exists("shut/new"));
    CHECK_FALSE(bench.exists("open/new"));
}

TEST_CASE("a move that the rules ask about is denied where nobody can be asked") {
    MoveBench bench;
    bench.file("open/old");
    CHECK(denied(bench.rename(bench / "open/old", bench / "asked/new"), EACCES));
    CHECK(bench.kept.count("no one to ask") == 1);
    CHECK(bench.exists("open/old"));
}

TEST_CASE("no move takes an object to a name by which more may be done to it") {
    MoveBench bench;
    bench.file("secret/key");
    bench.file("open/old");
    CHECK_FALSE(bench.rename(bench / "secret/key", bench / "open/key").error == 0);
    CHECK_FALSE(bench.link(bench / "secret/key", bench / "open/key").error == 0);
    CHECK_FALSE(bench.rename(bench / "open/old", bench / "secret/key", RENAME_EXCHANGE).error == 0);
    CHECK(bench.exists("secret/key"));
    CHECK_FALSE(bench.exists("open/key"));
    CHECK(bench.kept.count("\"deny\"") == 3);
}

TEST_CASE("a directory takes no entry to a name at which it could not be made") {
    MoveBench bench;
    std::filesystem::create_directory(bench / "open/folder");
    bench.file("open/folder/entry");
    CHECK_FALSE(bench.rename(bench / "open/folder", bench / "shut/folder").error == 0);
    CHECK(bench.exists("open/folder/entry"));
}

TEST_CASE("a path that leads nowhere has the kernel's errno, no record and no effect") {
    MoveBench bench;
    bench.file("open/old");
    bench.file("open/other");
    CHECK(denied(bench.rename(bench / "open/none", bench / "open/new"), ENOENT));
    CHECK(denied(bench.rename(bench / "open/old", bench / "none/new"), ENOENT));
    CHECK(denied(bench.rename(bench / "open/old", bench / "open/other/new"), ENOTDIR));
    CHECK(denied(bench.rename(bench / "open/old", bench / "open/other", RENAME_NOREPLACE), EEXIST));
    CHECK(denied(bench.link(bench / "open/old", bench / "open/other"), EEXIST));
    CHECK(denied(bench.link(bench / "open", bench / "open/new"), EPERM));
    CHECK(denied(bench.handle("renameat2", {number(AT_FDCWD), 8, number(AT_FDCWD), 8, 0}), EFAULT));
    CHECK(bench.kept.lines.empty());
    CHECK(bench.exists("open/old"));
}

TEST_CASE("a caller that no longer waits has nothing renamed") {
    MoveBench bench;
    bench.file("open/old");
    bench.source.nobody_waits = true;
    bench.rename(bench / "open/old", bench / "open/new");
    CHECK(bench.kept.lines.empty());
    CHECK(bench.exists("open/old"));
}

TEST_CASE("a directory on the way that is replaced meanwhile does not lead the rename elsewhere") {
    MoveBench bench;
    bench.file("open/old");
    std::filesystem::create_directory(bench / "open/to");
    bench.kept.on_record = [&] {
        std::filesystem::rename(bench / "open/to", bench / "open/judged");
        std::filesystem::create_directory_symlink(bench / "shut", bench / "open/to");
    };
    CHECK(bench.rename(bench / "open/old", bench / "open/to/new").error == 0);
    CHECK(bench.exists("open/judged/new"));
    CHECK_FALSE(bench.exists("shut/new"));
}

TEST_CASE("a link is made to the object that was judged, whatever has its name by then") {
    MoveBench bench;
    const std::string old = bench.file("open/old", "judged");
    bench.file("open/other", "other");
    bench.kept.on_record = [&] {
        if (bench.kept.lines.size() == 1) std::filesystem::rename(bench / "open/other", old);
    };
    REQUIRE(bench.link(old, bench / "open/new").error == ENOENT);  // the judged one has no name left
    CHECK_FALSE(bench.exists("open/new"));
}

TEST_CASE("an act that fails after its record has a second one") {
    MoveBench bench;
    bench.file("open/old");
    bench.kept.on_record = [&] {
        if (bench.kept.lines.size() == 1) std::filesystem::remove(bench / "open/old");
    };
    CHECK(denied(bench.rename(bench / "open/old", bench / "open/new"), ENOENT));
    CHECK(bench.kept.lines.size() == 2);
}

TEST_CASE("audit mode renames what enforcement would have refused, and says so") {
    MoveBench bench;
    const rules::RuleSet observed(
        {rules::tests::path_rule("secret", Action::deny, Operation::read, bench.path + "/open/**")},
        Action::allow);
    rules::Plan plan;
    plan.notified = move;
    const calls::Observation observation(observed, plan, true);
    bench.run.decide.observation = &observation;
    bench.file("open/old");
    CHECK(bench.rename(bench / "open/old", bench / "new").error == 0);
    CHECK(bench.exists("new"));
    REQUIRE(bench.run.sink.noted.size() == 1);
    CHECK(bench.run.sink.noted[0].action == Action::deny);
    CHECK(bench.run.sink.noted[0].mechanism == audit::Mechanism::on_behalf);
}
