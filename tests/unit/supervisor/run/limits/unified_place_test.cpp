#include "supervisor/run/limits/unified_place.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
using namespace callgate::limits;
namespace fs = std::filesystem;

namespace {

std::optional<UnifiedGroup> group_of(const std::string& mounts, const std::string& groups) {
    std::istringstream mountinfo(mounts), list(groups);
    return unified_group(mountinfo, list);
}

/// Files as a control group of version 2 has them.
void make_group(const fs::path& group, const std::string& handed_down) {
    fs::create_directories(group);
    std::ofstream(group / "cgroup.procs") << "";
    std::ofstream(group / "cgroup.subtree_control") << handed_down << "\n";
}

}  // namespace

TEST_CASE("a process's group of version 2 is found where it is mounted") {
    const std::string mount = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
    const auto found = group_of(mount, "0::/user.slice/user-7.slice/app.slice/run.scope\n");
    REQUIRE(found);
    CHECK(found->mount == "/sys/fs/cgroup");
    CHECK(found->own == "/sys/fs/cgroup/user.slice/user-7.slice/app.slice/run.scope");
    CHECK(group_of(mount, "0::/\n")->own == "/sys/fs/cgroup");

    // Beside version 1.
    const std::string hybrid =
        "30 23 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
        "31 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    CHECK(group_of(hybrid, "8:pids:/a\n0::/b\n")->own == "/sys/fs/cgroup/unified/b");

    // A part of the hierarchy is mounted: only what lies in it can be named.
    const std::string part = "29 23 0:26 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    CHECK(group_of(part, "0::/box/inner\n")->own == "/sys/fs/cgroup/inner");
    CHECK(group_of(part, "0::/box\n")->own == "/sys/fs/cgroup");
    CHECK_FALSE(group_of(part, "0::/boxer\n"));
    CHECK_FALSE(group_of(mount, "0::/../elsewhere\n"));
    CHECK_FALSE(group_of(mount, "0::/gone (deleted)\n"));
    CHECK_FALSE(group_of(mount, "8:pids:/a\n"));
    CHECK_FALSE(group_of("", "0::/\n"));
    CHECK_FALSE(group_of("30 23 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n", "0::/\n"));
}

TEST_CASE("a group is made beside callgate's own, where the one above is handed to it") {
    const callgate::tests::TemporaryDirectory root;
    const fs::path mount = root.path, above = mount / "app.slice", own = above / "run.scope";
    make_group(mount, "cpu memory pids");
    make_group(above, "memory pids");
    make_group(own, "");
    const UnifiedGroup group{mount, own};
    const auto place = unified_place(group, false);
    REQUIRE(place);
    CHECK(place->parent == above);
    CHECK(place->memory);
    CHECK(place->tasks);

    std::ofstream(above / "cgroup.subtree_control") << "cpu pids\n";
    CHECK_FALSE(unified_place(group, false)->memory);
    CHECK(unified_place(group, false)->tasks);
    std::ofstream(above / "cgroup.subtree_control") << "cpu\n";
    CHECK_FALSE(unified_place(group, false));
    std::ofstream(above / "cgroup.subtree_control") << "memory pids\n";

    // As root everything can be written, but only what systemd has delegated is ours.
    CHECK_FALSE(unified_place(group, true));
    if (::geteuid() != 0) {
        REQUIRE(::chmod((above / "cgroup.procs").c_str(), 0444) == 0);
        CHECK_FALSE(unified_place(group, false));
    }
}

TEST_CASE("no group is made beside one that has a limit of its own: the run would leave it") {
    const callgate::tests::TemporaryDirectory root;
    const fs::path mount = root.path, own = mount / "scope";
    make_group(mount, "memory pids");
    make_group(own, "");
    const UnifiedGroup group{mount, own};
    std::ofstream(own / "memory.max") << "max\n";
    std::ofstream(own / "cpu.max") << "max 100000\n";
    std::ofstream(own / "pids.max") << "max\n";
    REQUIRE(unified_place(group, false));
    for (const char* file :
         {"memory.max", "memory.high", "memory.swap.max", "pids.max", "cpu.max", "cpuset.cpus", "io.max"}) {
        CAPTURE(file);
        std::ofstream(own / file) << "100000\n";
        CHECK_FALSE(unified_place(group, false));
        fs::remove(own / file);
    }
    CHECK(unified_place(group, false));
}

TEST_CASE("beneath the root, and nowhere else, a group stands beneath callgate's own") {
    const callgate::tests::TemporaryDirectory root;
    const fs::path mount = root.path;
    make_group(mount, "memory");
    const auto place = unified_place({mount, mount}, false);
    REQUIRE(place);
    CHECK(place->parent == mount);
    CHECK(place->memory);
    CHECK_FALSE(place->tasks);
    std::ofstream(mount / "cgroup.subtree_control") << "\n";
    CHECK_FALSE(unified_place({mount, mount}, false));
}
