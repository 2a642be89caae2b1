#include "supervisor/calls/files/git_config.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace callgate::calls {
namespace {

const GitConfigRights theirs{.own = false, .closed = [](std::string_view path) { return path == "/srv/up"; }};
const GitConfigRights own{.own = true, .closed = theirs.closed};

const std::string user_file =
    "# mine\n[core]\n\tfilemode = true\n\teditor = vim ; best\n[remote \"origin\"]\n\turl = "
    "https://example.org/x.git\n\tfetch = "
    "+refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n";

bool taken(const std::string& added, const GitConfigRights& rights = theirs,
           const std::string& before = user_file) {
    const GitConfigChange change = git_config_change(before, before + added, rights);
    INFO(added);
    INFO(change.refused);
    if (change.refused.empty()) CHECK(change.text == before + added);
    return change.refused.empty() && change.asked.empty();
}

GitConfigChange change_in(const std::string& before, const std::string& from, const std::string& to,
                          std::size_t at = 0) {
    std::string wanted = before;
    wanted.replace(wanted.find(from, at), from.size(), to);
    return git_config_change(before, wanted, theirs);
}

GitConfigChange change_of(const std::string& from, const std::string& to,
                          const GitConfigRights& rights = theirs) {
    std::string wanted = user_file;
    wanted.replace(wanted.find(from), from.size(), to);
    return git_config_change(user_file, wanted, rights);
}

std::string read_back(const std::string& text) { return git_config_change(text, text, theirs).text; }

bool plain(const std::string& text) { return git_config_change(text, text, theirs).refused.empty(); }

}  // namespace

TEST_CASE("only a repository's own settings have the form") {
    CHECK(is_git_config("/w/.git/config"));
    CHECK(is_git_config("/w/.git/modules/sub/config"));
    CHECK(is_git_config("/w/.git/worktrees/one/config.worktree"));
    CHECK(is_git_config("/w/x.git/config"));
    CHECK_FALSE(is_git_config("/w/.git/config.lock"));
    CHECK_FALSE(is_git_config("/w/.git/HEAD"));
}

TEST_CASE("what is new and harmless is taken") {
    CHECK(taken("[remote \"up\"]\n\turl = https://example.org/y.git\n"));
    CHECK(taken("[remote \"up\"]\n\turl = git@example.org:me/y.git\n"));
    CHECK(
        taken("[remote \"up\"]\n\turl = ssh://git@example.org:22/y.git\n\tfetch = "
              "+refs/heads/*:refs/remotes/up/*\n"));
    CHECK(taken("[remote \"up\"]\n\turl = /srv/up\n"));
    CHECK(taken("[branch \"topic\"]\n\tremote = origin\n\tmerge = refs/heads/topic\n\trebase = true\n"));
    CHECK(taken("[branch \"topic\"]\n\tremote = .\n"));
    CHECK(taken("[user]\n\tname = \"A; B\"\n\temail = a@example.org\n"));
    CHECK(taken("[lfs]\n\trepositoryformatversion = 0\n"));
    CHECK_FALSE(taken("[lfs]\n\turl = https://example.org/lfs\n"));
    CHECK(taken("[submodule \"lib\"]\n\tactive = true\n\turl = https://example.org/lib\n"));
    CHECK(taken("# a comment\n\n"));
}

TEST_CASE("what names a program, a path or another file is refused") {
    for (const char* added : {"[core]\n\tfsmonitor = /w/x\n",
                              "[core]\n\tsshCommand = x\n",
                              "[core]\n\thooksPath = x\n",
                              "[core]\n\tworktree = /\n",
                              "[core]\n\tpager = x\n",
                              "[credential]\n\thelper = !x\n",
                              "[filter \"x\"]\n\tclean = x\n",
                              "[diff \"x\"]\n\tcommand = x\n",
                              "[merge \"x\"]\n\tdriver = x\n",
                              "[alias]\n\tst = !x\n",
                              "[url \"https://evil.example/\"]\n\tinsteadOf = https://example.org/\n",
                              "[remote \"up\"]\n\tuploadpack = x\n",
                              "[remote \"up\"]\n\tvcs = x\n",
                              "[remote \"up\"]\n\tpushurl = https://e.example/\n",
                              "[include]\n\tpath = x\n",
                              "[includeIf \"gitdir:/\"]\n\tpath = x\n",
                              "[extensions]\n\tworktreeConfig = true\n",
                              "[submodule \"lib\"]\n\tupdate = !x\n",
                              "[protocol \"ext\"]\n\tallow = always\n",
                              "[http]\n\tproxy = x\n",
                              "[remote]\n\tpushDefault = up\n",
                              "[gpg]\n\tprogram = x\n",
                              "[user]\n\tsigningKey = x\n"}) {
        CHECK_FALSE(taken(added));
        CHECK_FALSE(taken(added, own));
    }
}

TEST_CASE("URLs lead to a host, or to a repository that is closed to the run") {
    for (const char* url : {"ext::sh", "fd::17", "file:///srv/up", "http://example.org/", "/w/mine", "../up",
                            "mine", "https://", "https://-x/", "ssh://-oProxyCommand=x/", "ssh://a@-x/",
                            "-x:y", "x::y", "a/b:c", "foo://x/y", "https://a b/"})
        CHECK_FALSE(taken("[remote \"up\"]\n\turl = " + std::string(url) + "\n", own));
}

TEST_CASE("names of remotes are no URLs, paths or options") {
    for (const char* name :
         {"https://example.org/x.git", "../up", "/srv", "-x", "a/b", "a:b", "", ".x", "x y"})
        CHECK_FALSE(taken("[remote \"" + std::string(name) + "\"]\n\turl = https://example.org/\n"));
    CHECK_FALSE(taken(
        "[remote \"up\"]\n\turl = https://e.example/\n[branch \"t\"]\n\tremote = https://e.example/\n"));
    CHECK_FALSE(taken("[branch \"t\"]\n\tremote = elsewhere\n"));
}

TEST_CASE("what is fetched lands among the remote's own names") {
    for (const char* fetch :
         {"+refs/heads/*:refs/heads/*", "+refs/*:refs/*", "refs/heads/x:refs/remotes/origin/x",
          "+refs/tags/*:refs/tags/*", "refs/heads/*:refs/remotes/up/x", "refs/heads/x", "x:refs/remotes/up/x",
          "refs/heads/x:refs/remotes/up/../x"})
        CHECK_FALSE(
            taken("[remote \"up\"]\n\turl = https://e.example/\n\tfetch = " + std::string(fetch) + "\n"));
    CHECK(taken("[remote \"up\"]\n\turl = https://e.example/\n\tfetch = +refs/tags/v1:refs/tags/v1\n"));
}

TEST_CASE("the change of a remote or branch that is there is asked, with both values") {
    const auto asked = [](const std::string& from, const std::string& to) {
        const GitConfigChange change = change_of(from, to);
        CHECK(change.refused == "");
        CHECK(change.unasked != "");
        CHECK(change_of(from, to, own).asked.empty());
        return change.asked;
    };
    using Lines = std::vector<std::string>;
    CHECK(asked("https://example.org/x.git", "https://evil.example/x.git") ==
          Lines{R"(remote.origin.url: "https://example.org/x.git" -> "https://evil.example/x.git")"});
    CHECK(asked("merge = refs/heads/main", "merge = refs/heads/evil") ==
          Lines{R"(branch.main.merge: "refs/heads/main" -> "refs/heads/evil")"});
    CHECK(asked("remote = origin", "remote = .") == Lines{R"(branch.main.remote: "origin" -> ".")"});
    CHECK(asked("\tmerge = refs/heads/main\n", "") ==
          Lines{R"(branch.main.merge: "refs/heads/main" -> nothing)"});
    CHECK(asked("+refs/heads/*:refs/remotes/origin/*", "+refs/heads/a:refs/remotes/origin/a") ==
          Lines{R"(remote.origin.fetch: "+refs/heads/*:refs/remotes/origin/*" -> )"
                R"("+refs/heads/a:refs/remotes/origin/a")"});
    CHECK(
        asked("remote = origin\n\tmerge = refs/heads/main", "remote = .\n\tmerge = refs/heads/evil").size() ==
        2);
    CHECK(change_of("x.git", "y.git").unasked == "remote.origin.url is there already, and would change");
}

TEST_CASE("what no person could judge is refused without a question") {
    CHECK(change_of("https://example.org/x.git", "ext::sh").refused != "");
    CHECK(change_of("https://example.org/x.git", "https://e\x1b[2J").refused != "");
    CHECK(change_of("remote = origin", "remote = https://evil.example/").refused != "");
    CHECK(change_of("x.git", std::string(4096, 'x')).refused != "");
    CHECK(change_of("filemode = true", "filemode = false").refused != "");
    CHECK(change_of("url = https", "pushurl = https://evil.example/\n\turl = https").refused != "");
    // A name that looks like another key with its values, and more branches than one can look at.
    std::string odd = user_file + "[branch \"x: \\\"a\\\" -> \\\"b\\\"\"]\n\tmerge = refs/heads/main\n";
    CHECK(change_in(odd, "heads/main\n[", "heads/evil\n[").refused == "");
    CHECK(change_in(odd, "heads/main", "heads/evil", odd.rfind("heads/main")).refused != "");
    std::string many = user_file, others = user_file;
    for (int branch = 0; branch < 9; ++branch) {
        const std::string head = "[branch \"b" + std::to_string(branch) + "\"]\n\tmerge = refs/heads/";
        many += head + "main\n";
        others += head + "evil\n";
    }
    CHECK(git_config_change(many, others, theirs).refused != "");
}

TEST_CASE("values in a question are printable, and differ if the values do") {
    const auto line = [](const std::string& value) {
        const std::string before = "[remote \"up\"]\n\turl = " + value + "\n";
        const auto change =
            git_config_change(before, "[remote \"up\"]\n\turl = https://b.example/\n", theirs);
        REQUIRE(change.asked.size() == 1);
        CHECK(std::ranges::all_of(change.asked[0], [](char one) { return one >= 0x20 && one <= 0x7e; }));
        return change.asked[0];
    };
    CHECK(line("\"a\\n\\tb\"") == R"(remote.up.url: "a\x0a\x09b" -> "https://b.example/")");
    CHECK(line("\"a\\\\x0a\"") == R"(remote.up.url: "a\x5cx0a" -> "https://b.example/")");
    CHECK(line("\xd0\xb0") == R"(remote.up.url: "\xd0\xb0" -> "https://b.example/")");
    CHECK(line("\"a\\\", \\\"b\"") == R"(remote.up.url: "a\x22, \x22b" -> "https://b.example/")");
}

TEST_CASE("what is there stays, unless the file is the run's own") {
    const auto changed = [](const std::string& from, const std::string& to, const GitConfigRights& rights) {
        return change_of(from, to, rights).refused;
    };
    CHECK(changed("filemode = true", "filemode = false", theirs) != "");
    for (const auto& [from, to] :
         {std::pair<std::string, std::string>{"https://example.org/x.git", "https://evil.example/x.git"},
          {"merge = refs/heads/main", "merge = refs/heads/evil"},
          {"remote = origin", "remote = ."},
          {"filemode = true", "filemode = false"},
          {"\tmerge = refs/heads/main\n", ""}})
        CHECK(changed(from, to, own) == "");
    CHECK(changed("editor = vim", "editor = evil", own) == "core.editor is no setting that a run may change");
    CHECK(changed("\teditor = vim ; best\n", "", own) != "");
    CHECK(changed("vim ; best", "vim", theirs) == "");
    CHECK_FALSE(taken("[core]\n\tbare = true\n"));
    CHECK(taken("[core]\n\tbare = true\n", own));
    CHECK_FALSE(taken("[remote \"origin\"]\n\turl = https://evil.example/\n"));
    CHECK_FALSE(taken("[branch \"main\"]\n\tmerge = refs/heads/evil\n", own));
}

TEST_CASE("another order of the settings that are not on the list is a change") {
    const std::string one = "[a]\n\tx = 1\n", two = "[a]\n\ty = 2\n";
    CHECK(git_config_change(one + two, two + one, own).refused != "");
}

TEST_CASE("a remote that has any setting is not new") {
    CHECK_FALSE(taken("[remote \"up\"]\n\turl = https://e.example/\n", theirs,
                      "[remote \"up\"]\n\tpushurl = https://x.example/\n"));
}

TEST_CASE("what git could read in another way is refused whole") {
    for (const std::string text : {"[core]\n\tx = a\\\n b\n",
                                   "[core]\n\tx = \"a\n",
                                   "[core]\r\n\tx = a\r\n",
                                   "[core]\n\tx = a\x01\n",
                                   "x = a\n",
                                   "[core\n\tx = a\n",
                                   "[core] x = a\n",
                                   "[a.b]\n\tx = a\n",
                                   "[a \"b\n\"]\n",
                                   "[a \"b\" ]\n",
                                   "[ a]\n",
                                   "[]\n",
                                   "[core]\n\tx y\n",
                                   "[core]\n\tx = a\\q\n",
                                   "[core]\n\t1x = a\n",
                                   "[core]\n\tx_y = a\n",
                                   "\xef\xbb\xbf[core]\n",
                                   "[core]\n\tx = a\tb\n",
                                   "[core]\n\tx = a\\",
                                   "[a \"b\\q\"]\n",
                                   "[core]\n\tx # c\n",
                                   "text\n",
                                   "[core]\n\tx = a \"b\n"}) {
        INFO(text);
        CHECK_FALSE(plain(text));
    }
    CHECK_FALSE(plain(std::string("[core]\n\tx = a\0b\n", 16)));
}

TEST_CASE("the new text is written as git writes it") {
    CHECK(read_back("[a]\nx=1") == "[a]\n\tx = 1\n");
    CHECK(read_back(" [a \"b\\\"c\\\\\"]  # n\n  x\n") == "[a \"b\\\"c\\\\\"] # n\n\tx\n");
    CHECK(read_back("[a]\n\tx = \" b \"\n") == "[a]\n\tx = \" b \"\n");
    CHECK(read_back("[a]\n\tx = b\"c d\"e   ; n\n") == "[a]\n\tx = bc de ; n\n");
    CHECK(read_back("[a]\n\tx = \"a;b\\n\\t\\\"\\\\\"\n") == "[a]\n\tx = \"a;b\\n\\t\\\"\\\\\"\n");
    CHECK(read_back("[a]\n\tx = \"\"   b\n") == "[a]\n\tx = b\n");
    CHECK(read_back("[a]\n\tx = a\t\n\ty =\n") == "[a]\n\tx = a\n\ty = \n");
}

}  // namespace callgate::calls
