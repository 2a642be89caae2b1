#include "rules/model/glob.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

using callgate::rules::Glob;
using callgate::rules::GlobKind;

namespace {

Glob path_glob(std::string_view pattern) {
    const auto glob = Glob::compile(pattern, GlobKind::path);
    REQUIRE_MESSAGE(glob.has_value(), pattern << ": " << glob.error().text);
    return *glob;
}

bool path_matches(std::string_view pattern, std::string_view path) {
    return path_glob(pattern).matches(path);
}

bool text_matches(std::string_view pattern, std::string_view text) {
    const auto glob = Glob::compile(pattern, GlobKind::text);
    REQUIRE_MESSAGE(glob.has_value(), pattern << ": " << glob.error().text);
    return glob->matches(text);
}

std::string error_of(std::string_view pattern, GlobKind kind = GlobKind::path) {
    const auto glob = Glob::compile(pattern, kind);
    CHECK_FALSE(glob.has_value());
    CHECK_FALSE(glob.error().text.empty());
    return glob.error().text;
}

/// Head, kind and remainder of each branch.
std::string branches_of(const Glob& glob) {
    std::string text;
    for (const Glob::Branch& branch : glob.branches()) {
        if (!text.empty()) text += ' ';
        text += branch.head + (branch.literal ? "=" : branch.hierarchy ? "!" : "+") + branch.remainder;
    }
    return text;
}

}  // namespace

TEST_CASE("a literal pattern matches itself only") {
    CHECK(path_matches("/usr/bin/git", "/usr/bin/git"));
    CHECK_FALSE(path_matches("/usr/bin/git", "/usr/bin/gi"));
    CHECK_FALSE(path_matches("/usr/bin/git", "/usr/bin/git/x"));
    CHECK_FALSE(path_matches("/usr/bin/git", "/usr/bin/gitk"));
    CHECK(path_matches("/", "/"));
    CHECK_FALSE(path_matches("/", "/a"));
}

TEST_CASE("star and question mark stay within one component") {
    CHECK(path_matches("/a/*", "/a/b"));
    CHECK_FALSE(path_matches("/a/*", "/a"));
    CHECK_FALSE(path_matches("/a/*", "/a/b/c"));
    CHECK(path_matches("/a/*.txt", "/a/.txt"));
    CHECK(path_matches("/a/?", "/a/b"));
    CHECK_FALSE(path_matches("/a?b", "/a/b"));
    CHECK_FALSE(path_matches("/a*b", "/a/b"));
    CHECK(path_matches("/*a*a*b", "/xaxaxab"));
    CHECK_FALSE(path_matches("/*", "/"));
    CHECK(path_matches("/*", "/a"));
}

TEST_CASE("double stars cross components") {
    CHECK(path_matches("/a/***/b", "/a/b"));
    CHECK(path_matches("/usr/**", "/usr"));
    CHECK(path_matches("/usr/**", "/usr/lib/x"));
    CHECK_FALSE(path_matches("/usr/**", "/usrlocal"));
    CHECK(path_matches("/**", "/"));
    CHECK(path_matches("**", "/a/b"));
    CHECK(path_matches("**/git", "/usr/bin/git"));
    CHECK(path_matches("**/git", "/git"));
    CHECK_FALSE(path_matches("**/git", "/usr/bin/legit"));
    CHECK_FALSE(path_matches("**/git", "/git/x"));
    CHECK(path_matches("/w/**/.env", "/w/.env"));
    CHECK(path_matches("/w/**/.env", "/w/a/b/.env"));
    CHECK_FALSE(path_matches("/w/**/.env", "/w/a.env"));
    CHECK(path_matches("/w/**/.ssh/**", "/w/x/.ssh"));
    CHECK(path_matches("/w/**/.ssh/**", "/w/.ssh/id"));
    CHECK(path_matches("/w/*/**", "/w/x"));
    CHECK_FALSE(path_matches("/w/*/**", "/w"));
    CHECK(path_matches("/a**b", "/a/x/b"));
    CHECK(path_matches("/a/**/**/b", "/a/b"));
}

TEST_CASE("classes take ranges, negation and quoted bytes, but never a slash") {
    CHECK(path_matches("/[a-c]x", "/bx"));
    CHECK_FALSE(path_matches("/[a-c]x", "/dx"));
    CHECK(path_matches("/[!a-c]x", "/dx"));
    CHECK_FALSE(path_matches("/[!a-c]x", "/ax"));
    CHECK_FALSE(path_matches("/a[!x]b", "/a/b"));
    CHECK_FALSE(path_matches("/a[ -~]b", "/a/b"));
    CHECK(path_matches("/[]x]", "/]"));
    CHECK(path_matches("/[a-]", "/-"));
    CHECK(path_matches("/[\\]]", "/]"));
    CHECK(path_matches("/[!\x01]\xff", "/\xfe\xff"));
    CHECK(path_matches("/[*{,]", "/{"));
}

TEST_CASE("braces multiply out and may nest") {
    CHECK(path_matches("/{a,b}/x", "/b/x"));
    CHECK(path_matches("/a{,.bak}", "/a"));
    CHECK(path_matches("/a{,.bak}", "/a.bak"));
    CHECK(path_matches("/{a,{b,c}d}", "/cd"));
    CHECK_FALSE(path_matches("/{a,{b,c}d}", "/c"));
    CHECK(path_matches("{/a,/b}/**", "/b"));
    CHECK(path_matches("/{a/b,c}/d", "/a/b/d"));
    CHECK(path_matches("/a,b}", "/a,b}"));
    CHECK(branches_of(path_glob("/h/{.ssh/**,.env,x*}")) == "/h/.ssh!/** /h/.env= /h+/x*");
}

TEST_CASE("a backslash quotes the next byte") {
    CHECK(path_matches("/a\\*", "/a*"));
    CHECK_FALSE(path_matches("/a\\*", "/ab"));
    CHECK(path_matches("/\\{a,b\\}", "/{a,b}"));
    CHECK(branches_of(path_glob("/a\\*/b")) == "/a*/b=");
    CHECK(branches_of(path_glob("/a\\*/*\\?")) == "/a*+/*\\?");
}

TEST_CASE("names that are not text are matched as bytes") {
    CHECK(path_matches("/\xff*", "/\xff\xfe\n"));
    CHECK(path_matches("/?", "/\x80"));
    CHECK_FALSE(path_matches("/?", "/\xc3\xa9"));
}

TEST_CASE("in a text the star crosses slashes") {
    CHECK(text_matches("@/tmp/.X11-unix/*", "@/tmp/.X11-unix/X0"));
    CHECK(text_matches("*", "a/b"));
    CHECK(text_matches("--file=?*", "--file=/etc/passwd"));
    CHECK(text_matches("", ""));
    CHECK_FALSE(text_matches("", "a"));
    CHECK(text_matches("push", "push"));
    CHECK_FALSE(text_matches("x/**", "x"));
    CHECK(text_matches(std::string_view("@a\0*", 4), std::string_view("@a\0b", 4)));
}

TEST_CASE("repeated and final slashes do not count") {
    CHECK(branches_of(path_glob("//etc///passwd")) == "/etc/passwd=");
    CHECK(branches_of(path_glob("/etc/")) == "/etc=");
    CHECK(branches_of(path_glob("//**")) == "/!/**");
    CHECK(branches_of(path_glob("//")) == "/=");
}

TEST_CASE("branches have the longest literal head") {
    CHECK(branches_of(path_glob("/a/b")) == "/a/b=");
    CHECK(branches_of(path_glob("/a/b/**")) == "/a/b!/**");
    CHECK(branches_of(path_glob("/a/b*/c")) == "/a+/b*/c");
    CHECK(branches_of(path_glob("/a/**/.env")) == "/a+/**/.env");
    CHECK(branches_of(path_glob("**/git")) == "/+/**/git");
    CHECK(branches_of(path_glob("**/.env/**")) == "/+/**/.env/**");
    CHECK(branches_of(path_glob("/*.txt")) == "/+/*.txt");
}

TEST_CASE("equal classes leave equal remainders") {
    CHECK(branches_of(path_glob("/a/[abc]")) == branches_of(path_glob("/a/[c-ca-b]")));
    CHECK(branches_of(path_glob("/a/[ab]")) != branches_of(path_glob("/a/[abc]")));
}

TEST_CASE("remainders are patterns of the same meaning") {
    for (const char* pattern : {"/a/[]!^-]*", "/a/\\*?", "/a/x[!a]**y/**", "/a/\\{?,}", "/a/[\\\\-\\]]?"}) {
        const Glob glob = path_glob(pattern);
        const Glob again = path_glob(glob.branches().front().head + glob.branches().front().remainder);
        CHECK(branches_of(glob) == branches_of(again));
    }
}

TEST_CASE("made globs match exactly their names, whatever bytes these hold") {
    const Glob literal = Glob::literal("/a*[x{\\");
    CHECK(literal.matches("/a*[x{\\"));
    CHECK_FALSE(literal.matches("/ab[x{\\"));
    CHECK(branches_of(literal) == "/a*[x{\\=");
    CHECK(path_glob(literal.text()) == literal);
    CHECK(path_glob(literal.text()).matches("/a*[x{\\"));
    const Glob beneath = Glob::beneath("/a*/");
    CHECK(beneath.matches("/a*"));
    CHECK(beneath.matches("/a*/b/c"));
    CHECK_FALSE(beneath.matches("/ab"));
    CHECK(path_glob(beneath.text()).matches("/a*/b"));
    CHECK(Glob::beneath("/").matches("/"));
    CHECK(Glob::beneath("/").text() == "/**");
    CHECK(Glob::literal("@name*").matches("@name*"));
    CHECK(Glob::literal("@name*").kind() == GlobKind::text);
}

TEST_CASE("syntax errors say what is wrong") {
    CHECK(error_of("/[a").find('[') != std::string::npos);
    CHECK(error_of("/{a,b").find('{') != std::string::npos);
    CHECK(error_of("/a\\").find("backslash") != std::string::npos);
    CHECK(error_of("/[z-a]").find("backwards") != std::string::npos);
    CHECK(error_of("/[a/b]").find('/') != std::string::npos);
    CHECK(error_of("/[[:alpha:]]").find("[:alpha:]") != std::string::npos);
    CHECK(error_of("usr/**").find("begins with") != std::string::npos);
    CHECK(error_of("{/a,b}").find("begins with") != std::string::npos);
    CHECK(error_of("").find("begins with") != std::string::npos);
    CHECK(error_of("**x").find("begins with") != std::string::npos);
    CHECK(error_of(std::string_view("/a\0", 3)).find("NUL") != std::string::npos);
    CHECK(error_of("[\\").find('[') != std::string::npos);
    CHECK(error_of("[]", GlobKind::text).find('[') != std::string::npos);
}

TEST_CASE("a class that matches nothing is refused") {
    CHECK(error_of("/a[!\x01-\xff]") == "a [...] matches no byte at all");
    CHECK(text_matches("a[!\x01-\xfe]", "a\xff"));
    CHECK(path_matches("/a[!\x01-ac-\xff]", "/ab"));
}

TEST_CASE("threads that ask first at once get the same answers") {
    for (int round = 0; round < 200; ++round) {
        const Glob glob = path_glob("/srv/**/{a,b}*[0-9].key");
        std::vector<std::jthread> threads;
        std::atomic<int> right = 0;
        for (int count = 0; count < 4; ++count)
            threads.emplace_back([&] {
                if (glob.matches("/srv/x/y/b-7.key") && !glob.matches("/srv/x/c7.key")) ++right;
            });
        threads.clear();
        CHECK(right == 4);
    }
}

TEST_CASE("patterns that would grow without bound are refused") {
    std::string doubling = "/";
    for (int index = 0; index < 8; ++index) doubling += "{a,b}";
    CHECK(path_glob(doubling).branches().size() == 256);
    CHECK(error_of(doubling + "{a,b}").find("256") != std::string::npos);
    CHECK(error_of("/" + std::string(17, '{') + std::string(17, '}')).find("deeper") != std::string::npos);
    CHECK(error_of(doubling + std::string(600, 'x')).find("128 KiB") != std::string::npos);
    CHECK(error_of("/" + std::string(4096, 'a')).find("4096") != std::string::npos);
    std::string empty_groups = doubling;
    while (empty_groups.size() < 4000) empty_groups += "{}";
    CHECK(path_glob(empty_groups).branches().size() == 256);
}

TEST_CASE("a pattern with dot components matches nothing possible") {
    CHECK_FALSE(path_glob("/a/../b").can_match());
    CHECK_FALSE(path_glob("/a/./*").can_match());
    CHECK(path_glob("/a/{..,b}/c").can_match());
    CHECK(path_glob("/a/..b").can_match());
}

TEST_CASE("matching stays bounded where backtracking would explode") {
    std::string pattern = "/";
    for (int index = 0; index < 200; ++index) pattern += "*a**";
    const std::string text = "/" + std::string(65535, 'a');
    CHECK(path_matches(pattern, text));
    CHECK_FALSE(path_matches(pattern + "b", text + "c"));
    CHECK_FALSE(path_matches(pattern + "b?", text));
}

TEST_CASE("the longest pattern fits the states") {
    const std::string wide = "/" + std::string(4095, '?');
    CHECK(path_matches(wide, "/" + std::string(4095, 'x')));
    CHECK_FALSE(path_matches(wide, "/" + std::string(4096, 'x')));
    std::string deep;
    while (deep.size() + 2 <= 4096) deep += "/?";
    std::string path;
    while (path.size() < deep.size()) path += "/x";
    CHECK(path_matches(deep, path));
    CHECK_FALSE(path_matches(deep, path + "/x"));
}

TEST_CASE("hierarchies that are wholly matched are known") {
    CHECK(path_glob("/a/**").covers_hierarchy("/a"));
    CHECK(path_glob("/a/**").covers_hierarchy("/a/b"));
    CHECK_FALSE(path_glob("/a/**").covers_hierarchy("/"));
    CHECK(path_glob("/**").covers_hierarchy("/"));
    CHECK(path_glob("/*/**").covers_hierarchy("/a"));
    CHECK_FALSE(path_glob("/*/**").covers_hierarchy("/"));
    CHECK(path_glob("/w/**/.ssh/**").covers_hierarchy("/w/x/.ssh"));
    CHECK(path_glob("/w/**/*").covers_hierarchy("/w/x"));
    CHECK_FALSE(path_glob("/w/**/*").covers_hierarchy("/w"));
    CHECK_FALSE(path_glob("/w/**/a*").covers_hierarchy("/w/a"));
    CHECK(path_glob("/{x,a}/**").covers_hierarchy("/a/"));
    CHECK_FALSE(path_glob("/a").covers_hierarchy("/a"));
}

TEST_CASE("hierarchies that hold no match are known") {
    CHECK_FALSE(path_glob("/a/.env").may_match_beneath("/b"));
    CHECK(path_glob("/a/.env").may_match_beneath("/a"));
    CHECK(path_glob("/a/.env").may_match_beneath("/"));
    CHECK(path_glob("/a/.env").may_match_beneath("/a/.env"));
    CHECK_FALSE(path_glob("/a/.env").may_match_beneath("/a/.env/x"));
    CHECK_FALSE(path_glob("/home/*/.ssh/**").may_match_beneath("/home/u/src"));
    CHECK(path_glob("/home/*/.ssh/**").may_match_beneath("/home/u"));
    CHECK(path_glob("/home/*/.ssh/**").may_match_beneath("/home/u/.ssh/keys"));
    CHECK(path_glob("**/.env").may_match_beneath("/any/where"));
    CHECK_FALSE(path_glob("/a/*.txt").may_match_beneath("/a/sub"));
    CHECK(path_glob("/a/*.txt").may_match_beneath("/a/sub.txt"));
}
