#include "supervisor/calls/files/shared_memory.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
using rules::Operation;

namespace {

struct SharedBench : tests::TemporaryDirectory {
    std::unique_ptr<agent::CreatedIpc::Files> list = std::make_unique<agent::CreatedIpc::Files>();
    calls::SharedMemory memory{*list, path};

    void foreign(const std::string& name) { std::ofstream(*this / name) << "theirs"; }
    int own(const std::string& name) {
        auto making = memory.making(*this / name);
        if (making.error() != 0) return making.error();
        std::ofstream(*this / name) << "ours";
        making.note(AT_FDCWD, (*this / name).c_str());
        return 0;
    }
    calls::Subject subject(const std::string& at, rules::OperationSet operations) {
        calls::Subject one;
        one.operations = operations;
        one.object = rules::FileObject{at};
        struct stat status {};
        if (::lstat(at.c_str(), &status) == 0) one.identity = {status.st_ino, status.st_dev};
        return one;
    }
    /// The errno of the denial; 0: none.
    int refused(const std::string& name, rules::OperationSet operations = Operation::read) {
        const std::string at = *this / name;
        const auto verdict = memory.refuses(subject(at, operations));
        return verdict ? verdict->error : 0;
    }
};

}  // namespace

TEST_CASE("what the run did not make is refused, what it made is not") {
    SharedBench bench;
    bench.foreign("theirs");
    CHECK(bench.own("ours") == 0);
    CHECK(bench.refused("theirs") == EACCES);
    CHECK(bench.refused("theirs", Operation::modify) == EACCES);
    CHECK(bench.refused("theirs", Operation::remove) == EPERM);
    CHECK(bench.refused("theirs", Operation::metadata) == EPERM);
    CHECK(bench.refused("ours") == 0);
    CHECK(bench.refused("ours", Operation::remove) == 0);
    CHECK(bench.refused("absent", Operation::create) == 0);
    CHECK(bench.refused("theirs", Operation::execute) == 0);
    CHECK(bench.list->count.load() == 1);
    const auto elsewhere = bench.subject("/etc/hostname", Operation::read);
    CHECK_FALSE(bench.memory.refuses(elsewhere).has_value());
    const auto directory = bench.subject(bench.path, Operation::read);
    CHECK_FALSE(bench.memory.refuses(directory).has_value());
}

TEST_CASE("an object goes by its inode, not by its name") {
    SharedBench bench;
    CHECK(bench.own("ours") == 0);
    const std::string at = bench / "ours";
    const calls::Subject before = bench.subject(at, Operation::read);
    std::filesystem::rename(at, bench / "moved");
    CHECK(bench.refused("moved") == 0);
    // It was found by a name that another has by now.
    bench.foreign("ours");
    CHECK_FALSE(bench.memory.refuses(before).has_value());
    CHECK(bench.refused("ours") == EACCES);
    const calls::Subject theirs = bench.subject(at, Operation::read);
    std::filesystem::rename(at, bench / "theirs");  // not removed: its inode number is not given again
    CHECK(bench.memory.refuses(theirs).has_value());
    CHECK(bench.own("ours") == 0);
    CHECK(bench.memory.refuses(theirs).has_value());
}

TEST_CASE("the entry decides on what lies beneath it") {
    SharedBench bench;
    for (const char* name : {"theirs", "ours"}) {
        auto making = bench.memory.making(bench / name);
        std::filesystem::create_directory(bench / name);
        std::ofstream(bench / name + "/inner") << "text";
        if (name[0] == 'o') making.note(AT_FDCWD, (bench / name).c_str());
    }
    CHECK(bench.refused("theirs/inner") == EACCES);
    CHECK(bench.refused("theirs/new", Operation::create) == EACCES);
    CHECK(bench.refused("ours/inner") == 0);
    CHECK(bench.refused("ours/new", Operation::create) == 0);
    CHECK_FALSE(bench.memory.making(bench / "ours/new").notes());
    // An object of another directory that has this name now.
    const std::string inner = bench / "ours/inner";
    calls::Subject other = bench.subject(bench / "theirs/inner", Operation::read);
    other.object = rules::FileObject{inner};
    CHECK(bench.memory.refuses(other).has_value());
    // A file gets no name by which it would be the run's.
    const std::string source = bench / "theirs/inner", link = bench / "ours/link";
    calls::Subject linking = bench.subject(source, Operation::create);
    linking.object = rules::FileObject{link};
    linking.source = source;
    CHECK(bench.memory.refuses(linking).has_value());
}

TEST_CASE("the list forgets what is gone, and a full one makes nothing") {
    SharedBench bench;
    constexpr std::uint32_t most = agent::CreatedIpc::max_files;
    for (std::uint32_t one = 0; one < most; ++one) REQUIRE(bench.own(std::to_string(one)) == 0);
    CHECK(bench.own("more") == ENOSPC);
    std::filesystem::remove(bench / "7");
    CHECK(bench.own("more") == 0);
    CHECK(bench.own("again") == ENOSPC);
    CHECK(bench.refused("more") == 0);
    CHECK(bench.refused("8") == 0);
    CHECK(bench.list->count.load() == most);
}
