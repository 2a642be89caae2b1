#include "rules/glob.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using callgate::rules::Glob;
using callgate::rules::GlobKind;

namespace {

Glob path_glob(std::string_view pattern) {
    std::string error;
    const auto glob = Glob::compile(pattern, GlobKind::path, error);
    REQUIRE_MESSAGE(glob.has_value(), pattern << ": " << error);
    return *glob;
}

bool path_matches(std::string_view pattern, std::string_view path) {
    return path_glob(pattern).matches(path);
}

bool text_matches(std::string_view pattern, std::string_view text) {
    std::string error;
    const auto glob = Glob::compile(pattern, GlobKind::text, error);
    REQUIRE_MESSAGE(glob.has_value(), pattern << ": " << error);
    return glob->matches(text);
}

std::string error_of(std::string_view pattern, GlobKind kind = GlobKind::path) {
    std::string error;
    const auto glob = Glob::compile(pattern, kind, error);
    CHECK_FALSE(glob.has_value());
    CHECK_FALSE(error.empty());
    return error;
}

/// Head, what kind of branch, and residue of each branch.
std::string branches_of(const Glob& glob) {
    std::string text;
    for (const Glob::Branch& branch : glob.branches()) {
        if (!text.empty()) text += ' ';
        text += branch.head + (branch.literal ? "=" : branch.hierarchy ? "!" : "+") + branch.residue;
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

TEST_CASE("equal classes leave equal residues") {
    CHECK(branches_of(path_glob("/a/[abc]")) == branches_of(path_glob("/a/[c-ca-b]")));
    CHECK(branches_of(path_glob("/a/[ab]")) != branches_of(path_glob("/a/[abc]")));
}

TEST_CASE("residues are patterns of the same meaning") {
    for (const char* pattern : {"/a/[]!^-]*", "/a/\\*?", "/a/x[!a]**y/**", "/a/\\{?,}", "/a/[\\\\-\\]]?"}) {
        const Glob glob = path_glob(pattern);
        const Glob again = path_glob(glob.branches().front().head + glob.branches().front().residue);
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

TEST_CASE("patterns that would grow without bound are refused") {
    std::string doubling = "/";
    for (int index = 0; index < 8; ++index) doubling += "{a,b}";
    CHECK(path_glob(doubling).branches().size() == 256);
    CHECK(error_of(doubling + "{a,b}").find("256") != std::string::npos);
    CHECK(error_of("/" + std::string(17, '{') + std::string(17, '}')).find("deeper") != std::string::npos);
    CHECK(error_of(doubling + std::string(200, 'x')).find("16 KiB") != std::string::npos);
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

namespace {

/// The meaning of a path pattern without braces and quotes, written a second time: by plain recursion.
bool naive(std::string_view pattern, std::string_view text) {
    if (pattern.empty()) return text.empty();
    if (pattern == "/**") return text.empty() || text.front() == '/';
    if (pattern.starts_with("/**/")) {
        // No component, or one or more of them.
        if (naive(pattern.substr(3), text)) return true;
        if (text.empty() || text.front() != '/') return false;
        const std::size_t next = text.find('/', 1);
        return next != std::string_view::npos && naive(pattern, text.substr(next));
    }
    if (pattern.starts_with("**")) {
        const std::string_view rest =
            pattern.substr(std::min(pattern.find_first_not_of('*'), pattern.size()));
        for (std::size_t taken = 0; taken <= text.size(); ++taken) {
            if (naive(rest, text.substr(taken))) return true;
        }
        return false;
    }
    if (pattern.front() == '*') {
        for (std::size_t taken = 0; taken <= text.size(); ++taken) {
            if (naive(pattern.substr(1), text.substr(taken))) return true;
            if (taken < text.size() && text[taken] == '/') return false;
        }
        return false;
    }
    if (text.empty()) return false;
    const bool fits = pattern.front() == '?' ? text.front() != '/' : pattern.front() == text.front();
    return fits && naive(pattern.substr(1), text.substr(1));
}

/// More than two stars in a row are two.
std::string two_stars(std::string_view pattern) {
    std::string text;
    for (const char byte : pattern) {
        if (byte != '*' || !text.ends_with("**")) text += byte;
    }
    return text;
}

bool naive_path(std::string_view pattern, std::string_view path) {
    return naive(pattern == "/" ? "" : two_stars(pattern), path == "/" ? "" : path);
}

std::string random_pattern(std::mt19937& random) {
    static const std::vector<std::string> pieces = {"a", "b", "?", "*", "**"};
    std::string pattern;
    const auto components = 1 + random() % 4;
    for (unsigned component = 0; component < components; ++component) {
        pattern += '/';
        const auto count = 1 + random() % 3;
        for (unsigned index = 0; index < count; ++index) {
            // Many components of one piece, so that "**" is often alone.
            pattern += pieces[random() % pieces.size()];
            if (random() % 2 == 0) break;
        }
    }
    return pattern;
}

/// All paths over {a, b} of at most `depth` components of at most two bytes.
std::vector<std::string> short_paths(int depth) {
    static const std::vector<std::string> names = {"a", "b", "aa", "ab", "ba", "bb"};
    std::vector<std::string> all = {"/"};
    std::vector<std::string> last = {""};
    for (int level = 0; level < depth; ++level) {
        std::vector<std::string> next;
        for (const std::string& parent : last) {
            for (const std::string& name : names) next.push_back(parent + "/" + name);
        }
        all.insert(all.end(), next.begin(), next.end());
        last = std::move(next);
    }
    return all;
}

bool is_beneath(std::string_view path, std::string_view directory) {
    return directory == "/" || path == directory ||
           (path.starts_with(directory) && path[directory.size()] == '/');
}

}  // namespace

TEST_CASE(
    "random patterns match what plain recursion matches, and say soundly what lies beneath a directory") {
    std::mt19937 random(20240611);
    const std::vector<std::string> paths = short_paths(4);
    const std::vector<std::string> directories = short_paths(2);
    int covered = 0;
    int excluded = 0;
    for (int round = 0; round < 400; ++round) {
        const std::string pattern = random_pattern(random);
        const Glob glob = path_glob(pattern);
        std::vector<bool> matched;
        for (const std::string& path : paths) {
            matched.push_back(naive_path(pattern, path));
            if (glob.matches(path) != matched.back()) FAIL(pattern << " on " << path);
        }
        for (const std::string& directory : directories) {
            bool some = false;
            bool all = true;
            for (std::size_t index = 0; index < paths.size(); ++index) {
                if (!is_beneath(paths[index], directory)) continue;
                some = some || matched[index];
                all = all && matched[index];
            }
            if (some && !glob.may_match_beneath(directory))
                FAIL(pattern << " may match beneath " << directory);
            if (!all && glob.covers_hierarchy(directory)) FAIL(pattern << " does not cover " << directory);
            covered += glob.covers_hierarchy(directory) ? 1 : 0;
            excluded += glob.may_match_beneath(directory) ? 0 : 1;
        }
    }
    // Saying "unsure" every time would be sound and useless.
    CHECK(covered > 400);
    CHECK(excluded > 4000);
}

TEST_CASE("every match of a branch equals or lies beneath its head") {
    std::mt19937 random(7);
    const std::vector<std::string> paths = short_paths(3);
    for (int round = 0; round < 300; ++round) {
        const std::string pattern = random_pattern(random);
        const Glob glob = path_glob(pattern);
        REQUIRE(glob.branches().size() == 1);
        const Glob::Branch& branch = glob.branches().front();
        for (const std::string& path : paths) {
            if (glob.matches(path) && !is_beneath(path, branch.head)) FAIL(pattern << " on " << path);
            if (branch.literal && glob.matches(path) != (path == branch.head)) FAIL(pattern);
            if (branch.hierarchy && glob.matches(path) != is_beneath(path, branch.head)) FAIL(pattern);
        }
    }
}

TEST_CASE("whatever bytes a pattern holds, it is refused with a reason or its branches mean what it means") {
    std::mt19937 random(99);
    constexpr std::string_view bytes = "//**?[]{},\\!-^ab.\xff";
    const std::vector<std::string> paths = short_paths(3);
    int compiled = 0;
    for (int round = 0; round < 20000; ++round) {
        std::string pattern = random() % 4 == 0 ? "" : "/";
        for (auto length = random() % 14; length > 0; --length) pattern += bytes[random() % bytes.size()];
        std::string error;
        const auto glob = Glob::compile(pattern, GlobKind::path, error);
        if (glob.has_value() != error.empty()) FAIL(pattern << ": " << error);
        if (!glob) continue;
        ++compiled;
        std::vector<Glob> branches;
        for (const Glob::Branch& branch : glob->branches()) {
            const std::string head = branch.head == "/" ? "" : Glob::literal(branch.head).text();
            branches.push_back(path_glob(head.empty() && branch.literal ? "/" : head + branch.residue));
            const Glob::Branch& again = branches.back().branches().front();
            if (again.head != branch.head || again.residue != branch.residue) FAIL(pattern);
        }
        for (int tried = 0; tried < 20; ++tried) {
            const std::string& path = paths[random() % paths.size()];
            const auto matches = [&](const Glob& branch) { return branch.matches(path); };
            if (glob->matches(path) != std::any_of(branches.begin(), branches.end(), matches)) FAIL(pattern);
        }
    }
    CHECK(compiled > 2000);
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
