#include "supervisor/host/host_snapshot.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "supervisor/host/host.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace {

using namespace callgate;

void write(const std::string& path, const char* text) { std::ofstream(path) << text; }

/// Notes what is asked as long as it lives.
struct Noting {
    explicit Noting(HostSnapshot& facts) { note_facts(&facts); }
    ~Noting() { note_facts(nullptr); }
    Noting(const Noting&) = delete;
    Noting& operator=(const Noting&) = delete;
};

TEST_CASE("a link, a file and an object are noted as they are, and each change of them is seen") {
    const tests::TemporaryDirectory at;
    write(at / "file", "text");
    ::symlink((at / "file").c_str(), (at / "link").c_str());
    ::mkdir((at / "directory").c_str(), 0700);
    HostSnapshot facts;
    {
        const Noting noting(facts);
        const RealFileTree tree;
        const auto context = host_context({}, at.path, "", tree);
        CHECK(context.canonical(at / "link/x") == at / "file/x");
        CHECK(context.read_file(at / "file", 100).has_value());
        CHECK(context.read_file(at / "absent", 100).has_error());
        facts.object(at / "directory");
        facts.object(at / "nothing");
    }
    CHECK(facts.still_true());
    const auto changed = [&facts](const auto& change, const auto& back) {
        change();
        CHECK_FALSE(facts.still_true());
        back();
        CHECK(facts.still_true());
    };
    changed([&] { write(at / "file", "TEXT"); }, [&] { write(at / "file", "text"); });
    changed([&] { write(at / "absent", ""); }, [&] { ::unlink((at / "absent").c_str()); });
    changed([&] { write(at / "nothing", ""); }, [&] { ::unlink((at / "nothing").c_str()); });
    changed(
        [&] {
            ::unlink((at / "link").c_str());
            ::symlink("elsewhere", (at / "link").c_str());
        },
        [&] {
            ::unlink((at / "link").c_str());
            ::symlink((at / "file").c_str(), (at / "link").c_str());
        });
    // Held by its new name, its number is not given to the one that takes its place.
    changed(
        [&] {
            std::filesystem::rename(at / "directory", at / "aside");
            ::mkdir((at / "directory").c_str(), 0700);
        },
        [&] {
            ::rmdir((at / "directory").c_str());
            std::filesystem::rename(at / "aside", at / "directory");
        });
    CHECK(facts.lasting());
}

TEST_CASE("a host's addresses are no lasting fact, and nothing is noted any more once that ended") {
    const RealFileTree tree;
    const auto context = host_context({}, "/", "", tree);
    HostSnapshot none, some;
    {
        const Noting noting(some);
        (void)context.resolve("localhost");
    }
    { const Noting noting(none); }
    (void)context.resolve("localhost");
    CHECK_FALSE(some.lasting());
    CHECK_FALSE(some.still_true());
    CHECK(none.lasting());
}

TEST_CASE("a file tree sees every change of what it has said, and no other") {
    const tests::TemporaryDirectory at;
    for (const char* const name : {"a", "b"}) write(at / name, "");
    ::mkdir((at / "d").c_str(), 0700);
    ::mkdir((at / "large").c_str(), 0700);
    for (int n = 0; n < 20; ++n) write(at / ("large/" + std::to_string(n)), "");
    RealFileTree tree;
    CHECK(tree.kind(at / "a") == rules::FileTree::Kind::file);
    CHECK(tree.kind(at / "later") == rules::FileTree::Kind::absent);
    CHECK(tree.entries(at / "d", 10)->empty());
    CHECK_FALSE(tree.entries(at / "large", 10));
    CHECK(tree.still_true());
    const auto seen = [&tree](const auto& change, const auto& back) {
        change();
        const bool is_seen = !tree.still_true();
        back();
        CHECK(tree.still_true());
        return is_seen;
    };
    CHECK(seen([&] { write(at / "later", ""); }, [&] { ::unlink((at / "later").c_str()); }));
    CHECK(seen(
        [&] {
            ::unlink((at / "a").c_str());
            ::symlink("b", (at / "a").c_str());
        },
        [&] {
            ::unlink((at / "a").c_str());
            write(at / "a", "");
        }));
    CHECK(seen([&] { write(at / "d/new", ""); }, [&] { ::unlink((at / "d/new").c_str()); }));
    CHECK_FALSE(seen([&] { ::unlink((at / "b").c_str()); }, [&] { write(at / "b", ""); }));
    CHECK_FALSE(seen([&] { write(at / "large/new", ""); }, [&] { ::unlink((at / "large/new").c_str()); }));
    CHECK(seen([&] { std::filesystem::rename(at / "large", at / "aside"); },
               [&] { std::filesystem::rename(at / "aside", at / "large"); }));
    for (int n = 5; n < 20; ++n) ::unlink((at / ("large/" + std::to_string(n))).c_str());
    CHECK_FALSE(tree.still_true());
}

}  // namespace
