#include "supervisor/host/link_record.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/temporary_directory.hpp"

using namespace callgate;

namespace {

using Paths = std::vector<std::string>;

rules::LinkRoots roots_of(const Paths& paths) {
    rules::LinkRoots roots;
    for (const std::string& path : paths) roots.add(path);
    return roots;
}

Paths record(const std::string& state, const Paths& paths) {
    const Expected<rules::LinkRoots> all = record_link_roots(state, roots_of(paths));
    REQUIRE(all.has_value());
    return all->roots();
}

std::string content(const std::string& file) {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

TEST_SUITE("the record of roots") {
    TEST_CASE("each start adds its own roots and gets all") {
        const tests::TemporaryDirectory state;
        CHECK(recorded_link_roots(state / "absent")->roots().empty());
        CHECK(recorded_link_roots(state.path)->roots().empty());
        CHECK(record(state.path, {"/w/a/"}) == Paths{"/w/a/"});
        CHECK(record(state.path, {"/w/b", "/w/a/x/"}) == Paths{"/w/a/", "/w/b"});
        CHECK(record(state.path, {}) == Paths{"/w/a/", "/w/b"});
        CHECK(recorded_link_roots(state.path)->roots() == Paths{"/w/a/", "/w/b"});
        CHECK(content(state / "link-roots") == "/w/a/\n/w/b\n");
        struct stat status {};
        REQUIRE(::stat((state / "link-roots").c_str(), &status) == 0);
        CHECK((status.st_mode & 07777) == 0600);
    }

    TEST_CASE("what is on record already is not written again") {
        const tests::TemporaryDirectory state;
        CHECK(record(state.path, {"/w"}) == Paths{"/w"});
        struct stat before {
        }, after{};
        REQUIRE(::stat((state / "link-roots").c_str(), &before) == 0);
        CHECK(record(state.path, {"/w/x"}) == Paths{"/w"});
        REQUIRE(::stat((state / "link-roots").c_str(), &after) == 0);
        CHECK(before.st_ino == after.st_ino);
    }

    TEST_CASE("what no run could make stays closed, until one can") {
        const tests::TemporaryDirectory state;
        rules::LinkRoots open;
        open.add("/");
        for (const char* const one : {"/usr/bin", "/etc", "/h/\nx"}) open.close(one);
        REQUIRE(record_link_roots(state.path, open).has_value());
        CHECK(content(state / "link-roots") == "/\n-/etc\n-/usr/bin\n");
        CHECK_FALSE(recorded_link_roots(state.path)->may_hold("/usr/bin/tool"));
        CHECK(record(state.path, {"/usr/bin/x/"}) == Paths{"/"});
        CHECK(content(state / "link-roots") == "/\n-/etc\n");
        CHECK(recorded_link_roots(state.path)->may_hold("/usr/bin/tool"));
    }

    TEST_CASE("a name with the end of a line stands as its directory") {
        const tests::TemporaryDirectory state;
        CHECK(record(state.path, {"/w/a\nb/c/"}) == Paths{"/w/"});
        CHECK(record(state.path, {"/x\ny"}) == Paths{"/"});
    }

    TEST_CASE("the record stays short: many directories of one become that one") {
        const tests::TemporaryDirectory state;
        Paths all;
        for (int number = 0; number < 200; ++number)
            all = record(state.path, {"/t/" + std::to_string(number) + "/"});
        CHECK(all == Paths{"/t/"});
    }

    TEST_CASE("a file that a killed start left, or somebody prepared, is not written to") {
        const tests::TemporaryDirectory state;
        const tests::TemporaryDirectory outside;
        std::ofstream(outside / "file") << "kept";
        REQUIRE(::symlink((outside / "file").c_str(), (state / "link-roots.new").c_str()) == 0);
        CHECK(record(state.path, {"/w"}) == Paths{"/w"});
        CHECK(content(outside / "file") == "kept");
        CHECK(content(state / "link-roots") == "/w\n");
    }

    TEST_CASE("a record that is a link, or no file, is an error that names it") {
        const tests::TemporaryDirectory state;
        REQUIRE(::symlink("/dev/null", (state / "link-roots").c_str()) == 0);
        Expected<rules::LinkRoots> all = record_link_roots(state.path, roots_of({"/w"}));
        REQUIRE_FALSE(all.has_value());
        CHECK(all.error().text.find(state / "link-roots") != std::string::npos);
        ::unlink((state / "link-roots").c_str());
        REQUIRE(::mkfifo((state / "link-roots").c_str(), 0600) == 0);
        CHECK_FALSE(record_link_roots(state.path, roots_of({"/w"})).has_value());
        CHECK_FALSE(record_link_roots(state / "absent", roots_of({"/w"})).has_value());
    }

    TEST_CASE("starts at the same time lose nothing") {
        const tests::TemporaryDirectory state;
        constexpr int starts = 8, each = 5;
        {
            std::vector<std::jthread> threads;
            for (int start = 0; start < starts; ++start)
                threads.emplace_back([&state, start] {
                    for (int number = 0; number < each; ++number) {
                        rules::LinkRoots roots;
                        roots.add("/d" + std::to_string(start) + "/" + std::to_string(number));
                        static_cast<void>(record_link_roots(state.path, roots));
                    }
                });
        }
        CHECK(recorded_link_roots(state.path)->roots().size() == starts * each);
    }
    TEST_CASE("runs of an older callgate count as runs that could write pointers") {
        const tests::TemporaryDirectory state;
        record(state.path, {"/old/"});
        const auto before = recorded_pointer_roots(state.path);
        REQUIRE(before.has_value());
        CHECK(before->lies_in_root("/old/w/.git"));
        rules::LinkRoots mine = roots_of({"/w/"});
        mine.close("/w/.git");
        const auto all = record_pointer_roots(state.path, mine);
        REQUIRE(all.has_value());
        CHECK(all->lies_in_root("/old/w/.git"));
        CHECK(all->may_hold("/w/x/.git"));
        CHECK_FALSE(all->may_hold("/w/.git"));
        // Later roots are kept apart.
        record(state.path, {"/other/"});
        CHECK_FALSE(recorded_pointer_roots(state.path)->lies_in_root("/other/x"));
    }
}
