#include "supervisor/host/listing_record.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "rules/load/expand.hpp"
#include "supervisor/host/file_tree.hpp"
#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;
using Clock = ListingRecord::Clock;

constexpr int directories = 140;  // enough for a record

/// A clock by which what was made just now is old.
Clock later() {
    Clock clock = Clock::now();
    clock.seconds += 10;
    return clock;
}

/// Waits until file systems stamp with another time.
void next_tick() {
    timespec first{}, now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &first);
    do {
        ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    } while (now.tv_sec == first.tv_sec && now.tv_nsec == first.tv_nsec);
}

void write(const std::string& path, const std::string& text = "") { std::ofstream(path) << text; }

std::string content(const std::string& path) {
    std::ifstream stream(path);
    return {std::istreambuf_iterator<char>(stream), {}};
}

/// The files of this machine, and which directories were listed.
class CountedTree final : public RealFileTree {
public:
    [[nodiscard]] std::optional<std::vector<Entry>> entries(const std::string& directory,
                                                            std::size_t limit) const override {
        names.push_back(fs::path(directory).filename());
        return RealFileTree::entries(directory, limit);
    }
    mutable Names names;
};

/// Two directories change their places while what lies in them is listed, and change back.
class SwappedTree final : public RealFileTree {
public:
    explicit SwappedTree(std::string top) : one_(top + "/one"), other_(top + "/other") {}
    [[nodiscard]] std::optional<std::vector<Entry>> entries(const std::string& directory,
                                                            std::size_t limit) const override {
        const bool beneath = directory.starts_with(one_ + '/') || directory.starts_with(other_ + '/');
        if (beneath) exchange();
        auto entries = RealFileTree::entries(directory, limit);
        if (beneath) exchange();
        return entries;
    }

private:
    void exchange() const {
        REQUIRE(::renameat2(AT_FDCWD, one_.c_str(), AT_FDCWD, other_.c_str(), RENAME_EXCHANGE) == 0);
    }
    std::string one_, other_;
};

struct Start {
    Names found, listed;
};

struct World {
    tests::TemporaryDirectory state, tree;
    std::string build = "one";

    World() {
        for (int index = 0; index < directories; ++index) {
            const std::string directory = tree / ("d" + std::to_string(index));
            fs::create_directory(directory);
            write(directory + "/notes");
        }
        write(tree / "d7/.env");
        fs::create_directory_symlink("d7", tree / "link");
    }
    [[nodiscard]] Start start(const Clock& clock = later(), const std::string& pattern = "/**/.env") const {
        next_tick();
        CountedTree files;
        ListingRecord record(state.path, build, clock);
        rules::Expander expander(files, &record);
        Start done;
        const rules::Glob glob = *rules::Glob::compile(tree.path + pattern, rules::GlobKind::path);
        for (const std::string& path : expander.expand(glob).found)
            done.found.push_back(path.substr(tree.path.size() + 1));
        std::sort(done.found.begin(), done.found.end());
        record.save();
        done.listed = files.names;
        std::sort(done.listed.begin(), done.listed.end());
        next_tick();
        return done;
    }
    [[nodiscard]] std::string file() const {
        const fs::directory_iterator first(state / "listings");
        return first->path();
    }
};

}  // namespace

TEST_SUITE("the record of listings") {
    TEST_CASE("a second start lists nothing that is the same, and finds the same") {
        const World world;
        const Start first = world.start();
        CHECK(first.listed.size() == directories + 1);
        CHECK(first.found == Names{"d7/.env"});
        const Start second = world.start();
        CHECK(second.listed.empty());
        CHECK(second.found == first.found);
        struct stat status {};
        REQUIRE(::stat(world.file().c_str(), &status) == 0);
        CHECK((status.st_mode & 0777U) == 0600);
        CHECK(world.start(later(), "/**/notes").found.size() == directories);  // other patterns
        CHECK(world.start(later(), "/*/.env").found == first.found);
    }

    TEST_CASE("whatever changed is listed") {
        const World world;
        static_cast<void>(world.start());
        write(world.tree / "d1/.env");
        CHECK(world.start().found == Names{"d1/.env", "d7/.env"});
        fs::rename(world.tree / "d1/.env", world.tree / "d2/.env");
        CHECK(world.start().found == Names{"d2/.env", "d7/.env"});
        fs::create_hard_link(world.tree / "d7/notes", world.tree / "d3/.env");
        CHECK(world.start().found == Names{"d2/.env", "d3/.env", "d7/.env"});
        fs::remove(world.tree / "d2/.env");
        fs::remove(world.tree / "d3/.env");
        CHECK(world.start().found == Names{"d7/.env"});
        // A directory takes the place of another, and both have been there before.
        fs::create_directory(world.tree / "d4/inner");
        write(world.tree / "d4/inner/.env");
        fs::create_directory(world.tree / "d5/inner");
        static_cast<void>(world.start());
        fs::rename(world.tree / "d4/inner", world.tree / "d5/inner");
        const Start swapped = world.start();
        CHECK(swapped.found == Names{"d5/inner/.env", "d7/.env"});
        CHECK(swapped.listed == Names{"d1", "d2", "d3", "d4", "d5", "inner"});  // since the record
        // A file becomes a directory, and a directory becomes a link.
        fs::remove(world.tree / "d6/notes");
        fs::create_directory(world.tree / "d6/notes");
        write(world.tree / "d6/notes/.env");
        fs::rename(world.tree / "d7", world.tree / "d7-moved");
        fs::create_directory_symlink("d7-moved", world.tree / "d7");
        CHECK(world.start().found == Names{"d5/inner/.env", "d6/notes/.env", "d7-moved/.env"});
        CHECK(world.start().found == Names{"d5/inner/.env", "d6/notes/.env", "d7-moved/.env"});
    }

    TEST_CASE("nothing is kept of a directory that another stood in for while it was listed") {
        const World world;
        for (const char* const top : {"one", "other"}) {
            fs::create_directory(world.tree / top);
            fs::create_directory(world.tree / top + "/inner");
        }
        write(world.tree / "one/inner/.env");
        next_tick();
        {
            const SwappedTree files(world.tree.path);
            ListingRecord record(world.state.path, world.build, later());
            rules::Expander expander(files, &record);
            static_cast<void>(
                expander.expand(*rules::Glob::compile(world.tree.path + "/**/.env", rules::GlobKind::path)));
            record.save();
        }
        const Start after = world.start();
        CHECK(after.found == Names{"d7/.env", "one/inner/.env"});
        CHECK(std::ranges::count(after.listed, "inner") == 2);
    }

    TEST_CASE("a directory counts only once its time was over before the start") {
        const World world;
        struct stat first {};
        REQUIRE(::stat((world.tree / "d0").c_str(), &first) == 0);
        for (const int seconds : {0, 1}) {
            Clock clock = Clock::now();
            clock.seconds = first.st_ctim.tv_sec + seconds;
            CHECK(world.start(clock).listed.size() == directories + 1);
            CHECK_FALSE(fs::exists(world.state / "listings"));
        }
        static_cast<void>(world.start());
        write(world.tree / "d1/other");
        CHECK(world.start(Clock::now()).listed == Names{"d1"});
        CHECK(world.start(Clock::now()).listed == Names{"d1"});
    }

    TEST_CASE("after a change of the clock nothing counts") {
        const World world;
        static_cast<void>(world.start());
        for (const std::int64_t shift : {-1'000'000'000, 1'000'000'000}) {
            Clock clock = later();
            clock.set_to += shift;
            CHECK(world.start(clock).listed.size() == directories + 1);
            CHECK(world.start().listed.size() == directories + 1);
        }
        CHECK(world.start().listed.empty());
    }

    TEST_CASE("another build of callgate believes nothing of it") {
        World world;
        static_cast<void>(world.start());
        world.build = "other";
        CHECK(world.start().listed.size() == directories + 1);
        CHECK(world.start().listed.empty());
    }

    TEST_CASE("a file that others may have written counts as none") {
        const World world;
        static_cast<void>(world.start());
        const std::string file = world.file(), whole = content(file), other = world.state / "other";
        const auto is_thrown_away = [&] {
            // The start writes what it found anew.
            CHECK(world.start().listed.size() == directories + 1);
            CHECK(world.start().listed.empty());
        };
        ::chmod(file.c_str(), 0620);
        is_thrown_away();
        ::chmod(file.c_str(), 0602);
        is_thrown_away();
        fs::rename(file, other);
        fs::create_symlink(other, file);
        is_thrown_away();
        fs::create_hard_link(file, world.state / "another");
        is_thrown_away();
        fs::remove(file);
        ::mkfifo(file.c_str(), 0600);
        is_thrown_away();
        if (::geteuid() == 0) {
            REQUIRE(::chown(file.c_str(), 65534, 65534) == 0);
            is_thrown_away();
        }
        // The file of other patterns has another name within.
        static_cast<void>(world.start(later(), "/**/notes"));
        for (const fs::directory_entry& one : fs::directory_iterator(world.state / "listings"))
            if (one.path() != file) fs::copy_file(file, one.path(), fs::copy_options::overwrite_existing);
        CHECK(world.start(later(), "/**/notes").found.size() == directories);
        for (std::size_t size = 0; size < whole.size(); size += 1 + size / 8) {
            write(file, whole.substr(0, size));
            CHECK(world.start().found == Names{"d7/.env"});
            write(file, whole + whole.substr(0, size));
            CHECK(world.start().found == Names{"d7/.env"});
        }
    }

    TEST_CASE("small trees are not kept, and old files go") {
        const World world;
        tests::TemporaryDirectory small;
        ListingRecord record(world.state.path, world.build, later());
        const RealFileTree files;
        rules::Expander expander(files, &record);
        CHECK(expander.expand(*rules::Glob::compile(small.path + "/**/.env", rules::GlobKind::path))
                  .found.empty());
        record.save();
        CHECK_FALSE(fs::exists(world.state / "listings"));
        for (int index = 0; index < 40; ++index)
            static_cast<void>(world.start(later(), "/**/.env" + std::to_string(index)));
        const fs::directory_iterator all(world.state / "listings");
        CHECK(std::distance(begin(all), end(all)) == 32);
        CHECK(world.start(later(), "/**/.env39").listed.empty());
    }

    TEST_CASE("without a state directory all is listed") {
        const World world;
        const RealFileTree files;
        ListingRecord record("", world.build, later());
        rules::Expander expander(files, &record);
        const rules::Glob glob = *rules::Glob::compile(world.tree.path + "/**/.env", rules::GlobKind::path);
        CHECK(expander.expand(glob).found.size() == 1);
        record.save();
    }

    /// Random changes of a tree, and a start after each: with a record it finds what one without finds.
    TEST_CASE("starts with and without a record find the same") {
        const World world;
        std::mt19937 random(20);
        const auto pick = [&](int below) { return std::uniform_int_distribution(0, below - 1)(random); };
        const auto any = [&] {
            std::string path = world.tree / ("d" + std::to_string(pick(6)));
            for (int level = pick(3); level > 0; --level) path += "/s" + std::to_string(pick(2));
            return path;
        };
        const std::string pattern = "{/**/.env,/d1/**/*.key,/**/s1/**,/*/s0/x}";
        for (int round = 0; round < 60; ++round) {
            std::error_code ignored;
            for (int change = pick(4); change > 0; --change) {
                const std::string one = any(), other = any();
                switch (pick(7)) {
                    case 0:
                        fs::create_directories(one, ignored);
                        break;
                    case 1:
                        write(one + "/.env");
                        break;
                    case 2:
                        write(one + "/a.key");
                        break;
                    case 3:
                        fs::rename(one, other, ignored);
                        break;
                    case 4:
                        fs::remove_all(one, ignored);
                        break;
                    case 5:
                        fs::create_directory_symlink(other, one + "/x", ignored);
                        break;
                    default:
                        fs::create_hard_link(world.tree / "d9/notes", one + "/.env", ignored);
                        break;
                }
            }
            const Start with = world.start(later(), pattern);
            const RealFileTree files;
            rules::Expander expander(files);
            Names found =
                expander.expand(*rules::Glob::compile(world.tree.path + pattern, rules::GlobKind::path))
                    .found;
            for (std::string& path : found) path = path.substr(world.tree.path.size() + 1);
            std::sort(found.begin(), found.end());
            REQUIRE(with.found == found);
        }
    }
}
