#include "supervisor/host/host.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "supervisor/host/built_in_rules.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace {

using callgate::canonical;
using callgate::tests::TemporaryDirectory;

/// Sets a variable and puts it back.
struct Variable {
    std::string name, before;
    bool was_set;
    Variable(const char* variable, const char* value)
        : name(variable), was_set(std::getenv(variable) != nullptr) {
        if (was_set) before = std::getenv(variable);
        if (value != nullptr)
            ::setenv(variable, value, 1);
        else
            ::unsetenv(variable);
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;
    ~Variable() {
        if (was_set)
            ::setenv(name.c_str(), before.c_str(), 1);
        else
            ::unsetenv(name.c_str());
    }
};

bool holds_path(const callgate::rules::Rule& rule, const std::string& path) {
    return std::any_of(rule.when.path.begin(), rule.when.path.end(),
                       [&path](const auto& glob) { return glob.matches(path); });
}

}  // namespace

TEST_CASE("a canonical path has no links, dots or repeated slashes, and keeps what does not exist") {
    const TemporaryDirectory top;
    std::filesystem::create_directory(top / "real");
    std::filesystem::create_symlink("real", top / "link");
    std::filesystem::create_symlink(top / "absent/file", top / "dangling");
    CHECK(canonical("/") == "/");
    CHECK(canonical("/..") == "/");
    CHECK(canonical(top / "link") == top / "real");
    CHECK(canonical(top / "link/") == top / "real");
    CHECK(canonical(top / "link/./x//y") == top / "real/x/y");
    CHECK(canonical(top / "real/../link/..") == top.path);
    CHECK(canonical(top / "dangling") == top / "absent/file");
}

TEST_CASE("a circle of links ends, and procfs is not resolved for callgate itself") {
    const TemporaryDirectory top;
    std::filesystem::create_symlink("b", top / "a");
    std::filesystem::create_symlink("a", top / "b");
    CHECK(canonical(top / "a").starts_with(top.path));
    CHECK(canonical("/proc/self/status") == "/proc/self/status");
}

TEST_CASE("only regular files are read, and what is wrong is said") {
    const TemporaryDirectory top;
    std::ofstream(top / "text") << "hello";
    REQUIRE(::mkfifo((top / "fifo").c_str(), 0600) == 0);
    CHECK(*callgate::read_regular_file(top / "text", 5) == "hello");
    CHECK(callgate::read_regular_file(top / "text", 4).error().text == "is larger than 4 bytes");
    CHECK(callgate::read_regular_file(top / "fifo", 5).error().text == "is a FIFO, not a regular file");
    CHECK(callgate::read_regular_file(top.path, 5).error().text == "is a directory, not a file");
    CHECK(callgate::read_regular_file("/dev/zero", 5).error().text == "is a device, not a regular file");
    CHECK(callgate::read_regular_file(top / "absent", 5).error().text ==
          "cannot be read: No such file or directory");
}

TEST_CASE("a file of procfs, which states no size, is read whole and within the limit") {
    CHECK(callgate::read_regular_file("/proc/self/status", 1 << 20)->find("Name:") == 0);
    CHECK(callgate::read_regular_file("/proc/self/status", 10).has_error());
}

TEST_CASE("the file tree names kinds without following links") {
    const TemporaryDirectory top;
    std::filesystem::create_directory(top / "directory");
    std::ofstream(top / "directory/file") << "x";
    std::filesystem::create_symlink("directory", top / "link");
    const callgate::RealFileTree tree;
    using Kind = callgate::rules::FileTree::Kind;
    CHECK(tree.kind(top / "directory") == Kind::directory);
    CHECK(tree.kind(top / "directory/file") == Kind::file);
    CHECK(tree.kind(top / "link") == Kind::file);
    CHECK(tree.kind(top / "link/file") == Kind::absent);
    CHECK(tree.kind(top / "absent") == Kind::absent);
}

TEST_CASE("the entries of a directory come with their kinds, and not at all beyond the limit") {
    const TemporaryDirectory top;
    std::filesystem::create_directory(top / "d");
    std::filesystem::create_symlink("d", top / "l");
    std::ofstream(top / "f") << "x";
    const callgate::RealFileTree tree;
    auto entries = tree.entries(top.path, 3);
    REQUIRE(entries.has_value());
    std::sort(entries->begin(), entries->end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    REQUIRE(entries->size() == 3);
    CHECK((*entries)[0].directory);
    CHECK_FALSE((*entries)[1].directory);
    CHECK((*entries)[2].symbolic_link);
    CHECK_FALSE((*entries)[2].directory);
    CHECK_FALSE(tree.entries(top.path, 2).has_value());
    CHECK_FALSE(tree.entries(top / "l", 9).has_value());
    CHECK_FALSE(tree.entries(top / "absent", 9).has_value());
}

TEST_CASE("places follow the base directory specification, which ignores relative directories") {
    const TemporaryDirectory top;
    const Variable home("HOME", top.path.c_str());
    {
        const Variable config("XDG_CONFIG_HOME", nullptr), state("XDG_STATE_HOME", "relative"),
            runtime("XDG_RUNTIME_DIR", (top / "run").c_str());
        const callgate::Places places = callgate::find_places();
        CHECK(places.home == top.path);
        CHECK(places.config == top / ".config/callgate");
        CHECK(places.state == top / ".local/state/callgate");
        CHECK(places.runtime == top / "run/callgate");
        CHECK(places.binary == std::filesystem::read_symlink("/proc/self/exe"));
    }
    const Variable config("XDG_CONFIG_HOME", (top / "c").c_str()),
        state("XDG_STATE_HOME", (top / "s").c_str());
    CHECK(callgate::find_places().config == top / "c/callgate");
    CHECK(callgate::find_places().state == top / "s/callgate");
}

TEST_CASE("built-in rules close callgate's directories, rule files, program and log") {
    using callgate::rules::Operation;
    const TemporaryDirectory top;
    std::ofstream(top / "rules.json") << "{}";
    std::filesystem::create_symlink("rules.json", top / "link.json");
    const callgate::Places places{.home = "/home/u",
                                  .config = "/home/u/.config/callgate",
                                  .state = "/home/u/.local/state/callgate",
                                  .runtime = "/run/user/7/callgate",
                                  .homes = "/home/u/.local/share/callgate/homes",
                                  .binary = "/usr/bin/callgate"};
    const auto rules = callgate::built_in_rules(places, {top / "link.json"}, {top / "log.jsonl"});
    const auto denied = [&rules](Operation operation, const std::string& path) {
        return std::any_of(rules.begin(), rules.end(), [&](const auto& rule) {
            return rule.built_in && rule.action == callgate::rules::Action::deny &&
                   rule.operations.contains(operation) && holds_path(rule, path);
        });
    };
    CHECK(denied(Operation::read, "/home/u/.local/state/callgate/x.jsonl"));
    CHECK(denied(Operation::create, "/run/user/7/callgate/x"));
    CHECK(denied(Operation::read, "/home/u/.config/callgate/pending/1.json"));
    CHECK(denied(Operation::create, "/home/u/.config/callgate/rules.json"));
    CHECK_FALSE(denied(Operation::read, "/home/u/.config/callgate/rules.json"));
    CHECK(denied(Operation::modify, top / "rules.json"));
    CHECK(denied(Operation::remove, top / "link.json"));
    CHECK(denied(Operation::modify, "/usr/bin/callgate"));
    CHECK_FALSE(denied(Operation::execute, "/usr/bin/callgate"));
    CHECK(denied(Operation::read, top / "log.jsonl"));
    CHECK_FALSE(denied(Operation::modify, top / "other"));
    CHECK(std::any_of(rules.begin(), rules.end(), [](const auto& rule) {
        return rule.operations.contains(Operation::connect) && !rule.when.unix_socket.empty() &&
               rule.when.unix_socket[0].matches("/home/u/.local/state/callgate/control");
    }));
}

TEST_CASE("a name of the machine itself resolves to loopback addresses") {
    const callgate::RealFileTree tree;
    const auto context = callgate::host_context({}, "/work", "/tmp/t", tree);
    CHECK(context.workdir == "/work");
    CHECK(context.tmp == "/tmp/t");
}

TEST_CASE("a directory's entries are known one by one as they are read together, and through no link") {
    using Kind = callgate::rules::FileTree::Kind;
    const TemporaryDirectory top;
    for (const char* directory : {"small", "large"}) {
        std::filesystem::create_directory(top / directory);
        const int count = directory[0] == 's' ? 10 : 3000;
        for (int index = 0; index < count; ++index)
            std::ofstream(top.path + "/" + directory + "/file-with-a-long-name-" + std::to_string(index));
        std::filesystem::create_directory(top.path + "/" + directory + "/inner");
        std::filesystem::create_symlink("inner", top.path + "/" + directory + "/link");
    }
    const callgate::RealFileTree tree;
    for (const std::string& directory : {top / "small", top / "large"}) {
        for (int round = 0; round < 3; ++round) {
            CHECK(tree.kind(directory + "/file-with-a-long-name-" + std::to_string(round)) == Kind::file);
            CHECK_FALSE(tree.may_be_link(directory + "/file-with-a-long-name-" + std::to_string(round)));
            CHECK(tree.kind(directory + "/missing-" + std::to_string(round)) == Kind::absent);
            CHECK(tree.kind(directory + "/inner") == Kind::directory);
            CHECK(tree.kind(directory + "/link") == Kind::file);
            CHECK(tree.may_be_link(directory + "/link"));
            CHECK(tree.kind(directory + "/link/x") == Kind::absent);
            CHECK(tree.kind(directory + "/inner/..") == Kind::directory);
            CHECK(tree.kind(directory + "/file-with-a-long-name-0/x") == Kind::absent);
        }
    }
    CHECK(tree.entries(top / "small", 12)->size() == 12);
    CHECK_FALSE(tree.entries(top / "small", 11));
    CHECK(tree.entries(top / "large", 5000)->size() == 3002);
    CHECK_FALSE(tree.entries(top / "large/link", 100));
}

TEST_CASE("the links on the way of a path are told, with who could have made them") {
    const TemporaryDirectory directory;
    std::filesystem::create_directories(directory / "real/sub");
    std::filesystem::create_symlink("real", directory / "one");
    std::filesystem::create_symlink(directory / "one", directory / "two");
    callgate::FollowedLinks links;
    CHECK(canonical(directory / "two/sub", links) == directory / "real/sub");
    REQUIRE(links.size() == 2);
    CHECK(links[0].path == directory / "two");
    CHECK(links[1].path == directory / "one");
    CHECK(links[0].ours);
    CHECK(links[1].ours);
    links.clear();
    CHECK(canonical(directory / "real/sub", links) == directory / "real/sub");
    CHECK(links.empty());
    CHECK(callgate::own_name(directory / "two/one", links) == directory / "real/one");
    CHECK(links.size() == 2);
    // Root could have made every link.
    links.clear();
    static_cast<void>(canonical("/proc/self/exe", links));
    CHECK(links.empty());
    if (std::filesystem::is_symlink("/bin")) {
        static_cast<void>(canonical("/bin/sh", links));
        REQUIRE_FALSE(links.empty());
        CHECK(links[0].path == "/bin");
        CHECK(links[0].ours == (::geteuid() == 0));
    }
}

TEST_CASE("what others may write is not trusted") {
    const TemporaryDirectory directory;
    const std::string file = directory / "sub/file";
    std::filesystem::create_directory(directory / "sub");
    std::ofstream(file) << "x";
    const auto with = [&](mode_t mode, mode_t above) {
        REQUIRE(::chmod(file.c_str(), mode) == 0);
        REQUIRE(::chmod((directory / "sub").c_str(), above) == 0);
        return static_cast<bool>(callgate::is_only_ours(file));
    };
    CHECK(with(0644, 0755));
    CHECK(with(0600, 01777));
    CHECK_FALSE(with(0646, 0755));
    CHECK_FALSE(with(0644, 0757));
    CHECK(callgate::is_only_ours(directory / "absent").has_value());
    if (::geteuid() != 0) return;
    REQUIRE(::chown(file.c_str(), 65534, 0) == 0);
    CHECK_FALSE(with(0644, 0755));
    REQUIRE(::chown(file.c_str(), 0, 65534) == 0);
    CHECK(with(0644, 0755));
    CHECK_FALSE(with(0664, 0755));
}

TEST_CASE("links to callgate's own files are closed, and so is what they lead to") {
    const TemporaryDirectory directory;
    std::filesystem::create_directories(directory / "dots/config/callgate/profiles");
    std::filesystem::create_directory(directory / "store");
    std::ofstream(directory / "store/rules") << "{}";
    std::ofstream(directory / "store/one") << "{}";
    std::filesystem::create_symlink("dots/config", directory / ".config");
    std::filesystem::create_symlink(directory / "store/rules", directory / "store/link");
    std::filesystem::create_symlink(directory / "store/link", directory / "dots/config/callgate/rules.json");
    std::filesystem::create_symlink(directory / "store/one",
                                    directory / "dots/config/callgate/profiles/one.json");
    const Variable home("HOME", directory.path.c_str()), config("XDG_CONFIG_HOME", nullptr);
    const callgate::Places places = callgate::find_places();
    CHECK(places.config == directory / "dots/config/callgate");
    const std::vector<callgate::rules::Rule> all = callgate::built_in_rules(places, {}, {});
    const auto trusted =
        std::find_if(all.begin(), all.end(), [](const auto& rule) { return rule.id == "callgate-rules"; });
    REQUIRE(trusted != all.end());
    for (const char* const closed :
         {".config", "store/rules", "store/link", "store/one", "dots/config/callgate/x"}) {
        CAPTURE(closed);
        CHECK(holds_path(*trusted, directory / closed));
    }
    for (const char* const open : {".config/x", "dots/config/other", "store/other", "store"}) {
        CAPTURE(open);
        CHECK_FALSE(holds_path(*trusted, directory / open));
    }
}
