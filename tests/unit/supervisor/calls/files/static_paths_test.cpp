#include "supervisor/calls/files/static_paths.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <random>

namespace {

using callgate::calls::StaticPaths;

TEST_CASE("a plain path is what it stays when it is made normal") {
    for (const char* const plain : {"/a", "/a/b", "/...", "/a/..b", "/a/.b/c", "/.a"})
        CHECK_MESSAGE(StaticPaths::is_plain(plain), plain);
    for (const char* const other : {"", "/", "//", "a", "a/b", "/a/", "//a", "/a//b", "/.", "/..", "/a/.",
                                    "/a/..", "/./a", "/../a", "/a/./b", "/a/../b"})
        CHECK_MESSAGE(!StaticPaths::is_plain(other), other);
    std::mt19937 random(1);
    for (int n = 0; n < 100'000; ++n) {
        std::string path;
        for (auto length = random() % 9; length > 0; --length) path += "/.a"[random() % 3];
        const bool plain = path.starts_with('/') && path.size() > 1 && !path.ends_with('/') &&
                           path.find("//") == std::string::npos &&
                           path == std::filesystem::path(path).lexically_normal();
        CHECK_MESSAGE(StaticPaths::is_plain(path) == plain, path);
    }
}

TEST_CASE("a path is remembered for a while, and asked about only when it has come twice") {
    StaticPaths known;
    constexpr std::int64_t begin = 1'000'000'000, soon = begin + 1'000,
                           late = begin + StaticPaths::lifetime_ns;
    CHECK_FALSE(known.has_come("/a", begin));
    CHECK(known.has_come("/a", soon));
    CHECK_FALSE(known.has_come("/b", soon));
    CHECK_FALSE(known.has_come("/a", late + soon));
    CHECK_FALSE(known.knows("/a", soon));
    known.remember("/a", begin);
    CHECK(known.knows("/a", soon));
    CHECK_FALSE(known.knows("/a/b", soon));
    CHECK_FALSE(known.knows("/a", late));
}

TEST_CASE("beyond a mount is what shares the first name, and there is a bound") {
    StaticPaths known;
    CHECK_FALSE(known.beyond_mount("/usr/lib/x"));
    known.note_mount("/usr/lib/x");
    CHECK(known.beyond_mount("/usr"));
    CHECK(known.beyond_mount("/usr/share"));
    CHECK_FALSE(known.beyond_mount("/usr2/share"));
    for (int n = 0; n < 100; ++n) known.note_mount("/" + std::to_string(n) + "/x");
    CHECK(known.beyond_mount("/3/y"));
    CHECK_FALSE(known.beyond_mount("/99/y"));  // resolved each time
}

}  // namespace
