#include "rules/plan/link_names.hpp"

#include "tests/unit/rules/random_rules.hpp"

using namespace callgate;
using namespace callgate::rules;
using namespace callgate::rules::testing;

namespace {

std::string reserving(const RuleSet& rules, std::string_view path) {
    const Rule* const rule = LinkNames(rules).reserving(path);
    return rule == nullptr ? "" : rule->id;
}

}  // namespace

TEST_SUITE("names for links") {
    TEST_CASE("no link may stand at what a rule names, nor at a directory above it") {
        const RuleSet rules({rule("out", Action::allow, read_write, {"/w/build/out/**"}),
                             rule("pattern", Action::allow, read_write, {"/w/data/*.txt"}),
                             rule("key", Action::deny, read_write, {"/h/.config/tool/key"}),
                             rule("asked", Action::ask, read_write, {"/h/mail/**"})},
                            Action::deny);
        CHECK(reserving(rules, "/w/build/out") == "out");
        CHECK(reserving(rules, "/w/build") == "out");
        CHECK(reserving(rules, "/w/data") == "pattern");
        CHECK(reserving(rules, "/h/.config/tool/key") == "key");
        CHECK(reserving(rules, "/h/.config") == "key");
        CHECK(reserving(rules, "/h/mail") == "asked");
        for (const char* const free :
             {"/w/build/out/x", "/w/build/out2", "/w/buil", "/w/data/x.txt", "/h/.config/too",
              "/h/.config/tool/key2", "/h/.config/other", "/h/mail/x"}) {
            CAPTURE(free);
            CHECK(reserving(rules, free).empty());
        }
    }

    TEST_CASE("a restriction that floats reserves nothing, an allowance that floats its root") {
        const RuleSet rules(
            {rule("work", Action::allow, read_write, {"/w/**"}),
             rule("tests", Action::allow, read_write, {"/t/sub/**/test"}),
             rule("secrets", Action::deny, read_write, {"/w/**/.env", "/w/deep/down/**/*.key"})},
            Action::deny);
        CHECK(reserving(rules, "/w") == "work");
        CHECK(reserving(rules, "/t/sub") == "tests");
        CHECK(reserving(rules, "/w/.env").empty());
        CHECK(reserving(rules, "/w/deep/down").empty());
        CHECK(reserving(rules, "/w/node_modules/left-pad").empty());
    }

    TEST_CASE("a rule for links denies them alone, wherever its patterns match") {
        Rule links = rule("links", Action::deny, OperationSet(), {"/w/**/.git/**"});
        links.links = true;
        links.except.emplace().path = globs({"/w/**/.git/t??????", "/w/.git/other"});
        const RuleSet rules({rule("work", Action::allow, read_write, {"/w/**"}), links}, Action::deny);
        const LinkNames names(rules);
        for (const char* const denied : {"/w/.git", "/w/.git/MERGE_MSG", "/w/a/b/.git/logs/refs/heads/x"}) {
            CAPTURE(denied);
            CHECK(reserving(rules, denied) == "links");
        }
        for (const char* const free : {"/w/.git/tXzvDRJ", "/w/.gitlab/x", "/w/x", "/v/.git/x"}) {
            CAPTURE(free);
            CHECK(reserving(rules, free).empty());
        }
        CHECK(reserving(rules, "/w/.git/other").empty());  // a name of the exception reserves nothing
        CHECK(names.denies_beneath("/w/a/.git"));
        CHECK(names.denies_beneath("/w/a/.git/logs"));
        CHECK_FALSE(names.denies_beneath("/w/a"));
        Request made;
        made.operations = Operation::create;
        made.object = FileObject{"/w/.git/x"};
        CHECK(rules.evaluate(made).action == Action::allow);
    }

    TEST_CASE("exceptions and unix sockets are names, too") {
        Rule work = rule("work", Action::allow, read_write, {"/w/**"});
        work.except.emplace().path = globs({"/w/private/inner/**"});
        Rule socket = rule("socket", Action::deny, network_operations, {});
        socket.when.unix_socket = globs({"/run/agent/S.*", "@abstract"});
        const RuleSet rules({work, socket}, Action::deny);
        CHECK(reserving(rules, "/w/private") == "work");
        CHECK(reserving(rules, "/run/agent") == "socket");
        CHECK(reserving(rules, "/abstract").empty());
    }

    TEST_CASE("the names beneath a directory are relative to it") {
        const RuleSet rules({rule("a", Action::allow, read_write, {"/w/a/**", "/w/a-b/**", "/w/a/x/y"})},
                            Action::deny);
        const LinkNames names(rules);
        const auto below = [&names](std::string_view directory) {
            std::vector<std::string> all;
            for (const LinkNames::Reserved& one : names.beneath(directory)) all.emplace_back(one.below);
            return all;
        };
        CHECK(below("/w") == std::vector<std::string>{"a", "a/x/y", "a-b"});
        CHECK(below("/w/a") == std::vector<std::string>{"x/y"});
        CHECK(below("/w/a/x/y").empty());
        CHECK(below("/") == std::vector<std::string>{"w/a", "w/a/x/y", "w/a-b"});
    }
}

TEST_SUITE("roots of links") {
    using Paths = std::vector<std::string>;

    TEST_CASE("links can be made beneath what rules let a run create, and nowhere else") {
        const RuleSet rules({rule("work", Action::allow, read_write, {"/w/**", "/w/deep/er/**"}),
                             rule("pattern", Action::allow, read_write, {"/data/*.txt", "/m{1,2}/**"}),
                             rule("one", Action::allow, read_write, {"/tmp"}),
                             rule("looked", Action::allow, {Operation::read, Operation::modify}, {"/usr/**"}),
                             rule("asked", Action::ask, read_write, {"/h/**"}),
                             rule("denied", Action::deny, read_write, {"/d/**", "/w/.git/**"}),
                             rule("private", Action::allow, read_write, {"/t/own/**"})},
                            Action::ask);
        CHECK(LinkRoots(rules, "/t/own").roots() == Paths{"/data/", "/m1/", "/m2/", "/w/"});
        CHECK(LinkRoots(rules, "").roots() == Paths{"/data/", "/m1/", "/m2/", "/t/own/", "/w/"});
        CHECK(LinkRoots(rules, "").closed().empty());
    }

    TEST_CASE("a .git that is always denied is no pointer of a run") {
        Rule excepted = rule("excepted", Action::deny, Operation::modify, {"/w/c/.git"});
        excepted.except.emplace().path.push_back(Glob::literal("/w/c/.git"));
        const RuleSet rules(
            {rule("work", Action::allow, read_write, {"/w/**"}),
             rule("file", Action::deny, Operation::modify, {"/w/.git", "/w/a/.git", "/w/b/x.git"}),
             rule("asked", Action::ask, Operation::modify, {"/w/d/.git"}),
             rule("made", Action::deny, Operation::create, {"/w/e/.git"}), excepted},
            Action::ask);
        const LinkRoots pointers = LinkRoots::of_pointers(rules, "");
        CHECK(pointers.roots() == Paths{"/w/"});
        CHECK(pointers.closed() == Paths{"/w/.git", "/w/a/.git"});
        CHECK(pointers.may_hold("/w/e/.git"));
        CHECK_FALSE(pointers.may_hold("/w/a/.git"));
        CHECK(pointers.lies_in_root("/w/.git/worktrees/x/gitdir"));
    }

    TEST_CASE("a default that allows, and a rule without a path, reach everything") {
        CHECK(LinkRoots(RuleSet({}, Action::allow), "").roots() == Paths{"/"});
        CHECK(LinkRoots(RuleSet({rule("all", Action::allow, read_write, {})}, Action::deny), "").roots() ==
              Paths{"/"});
        CHECK(LinkRoots(RuleSet({rule("floats", Action::allow, read_write, {"**/out"})}, Action::deny), "")
                  .roots() == Paths{"/"});
        CHECK(LinkRoots(RuleSet({}, Action::deny), "").roots().empty());
    }

    TEST_CASE("where the default allows, what is denied wholly and to everybody is closed") {
        Rule lifted = rule("lifted", Action::deny, read_write, {"/lifted/**"});
        lifted.except.emplace().path.push_back(Glob::literal("/lifted/x"));
        Rule some = rule("some", Action::deny, read_write, {"/some/**"});
        some.when.program.push_back(Glob::literal("/bin/sh"));
        const RuleSet rules(
            {rule("system", Action::deny, read_write, {"/usr/{local/,}bin/**", "/h/.ssh/*"}),
             rule("killed", Action::kill, {Operation::create}, {"/k/**"}),
             rule("asked", Action::ask, read_write, {"/asked/**"}),
             rule("read", Action::deny, {Operation::read, Operation::modify}, {"/read/**"}), lifted, some},
            Action::allow);
        const LinkRoots roots(rules, "");
        CHECK(roots.closed() == Paths{"/k", "/usr/bin", "/usr/local/bin"});
        for (const char* const closed : {"/usr/bin/tool", "/usr/bin", "/usr", "/usr/local", "/k/x/y"}) {
            CAPTURE(closed);
            CHECK_FALSE(roots.may_hold(closed));
        }
        for (const char* const open : {"/h/.ssh/id", "/asked/x", "/read/x", "/lifted/y", "/some/x",
                                       "/usr/share/x", "/usr/bins", "/x"}) {
            CAPTURE(open);
            CHECK(roots.may_hold(open));
        }
    }

    TEST_CASE("a root with a slash at its end does not hold its own name") {
        LinkRoots roots;
        for (const char* const root : {"/w/b/", "/w/a-b/", "/w/a/"}) roots.add(root);
        for (const char* const inside : {"/w/a/x", "/w/a/x/y", "/w/a-b/x", "/w/b/x"}) {
            CAPTURE(inside);
            CHECK(roots.may_hold(inside));
        }
        for (const char* const outside : {"/w", "/w/a", "/w/a-b", "/w/a-", "/w/ab/x", "/w/b0/x"}) {
            CAPTURE(outside);
            CHECK_FALSE(roots.may_hold(outside));
        }
        roots.add("/w/a");
        CHECK(roots.roots() == Paths{"/w/a", "/w/a-b/", "/w/b/"});
        CHECK(roots.may_hold("/w/a"));
        CHECK(roots.may_hold("/w/a/x"));
        roots.add("/w/");
        CHECK(roots.roots() == Paths{"/w/"});
        CHECK_FALSE(roots.may_hold("/w"));
        roots.add("/");
        CHECK(roots.roots() == Paths{"/"});
        CHECK(roots.may_hold("/w"));
    }

    TEST_CASE("one set covers another where it holds all that the other holds") {
        LinkRoots wide, narrow, other, open;
        CHECK(wide.covers(narrow));
        wide.add("/w/");
        narrow.add("/w/a/");
        narrow.add("/w/b");
        other.add("/w/a/");
        other.add("/x/");
        open.add("/");
        open.close("/w/a");
        CHECK(wide.covers(narrow));
        CHECK_FALSE(narrow.covers(wide));
        CHECK_FALSE(wide.covers(other));
        CHECK_FALSE(open.covers(narrow));
        CHECK_FALSE(narrow.covers(open));
        open.add_all(narrow);
        CHECK(open.covers(narrow));
        CHECK(open.closed().empty());
    }

    TEST_CASE("of two sets, that is closed where neither could make a link") {
        LinkRoots one, other;
        one.add("/");
        for (const char* const closed : {"/etc", "/usr/bin", "/opt/x", "/h/u"}) one.close(closed);
        other.add("/");
        for (const char* const closed : {"/etc/cron", "/usr", "/h/v"}) other.close(closed);
        LinkRoots third;
        third.add("/opt/x/sub/");
        const auto joined = [&](std::vector<LinkRoots> sets) {
            LinkRoots all;
            for (const LinkRoots& set : sets) all.add_all(set);
            return all.closed();
        };
        CHECK(joined({one, other}) == Paths{"/etc/cron", "/usr/bin"});
        CHECK(joined({other, one}) == Paths{"/etc/cron", "/usr/bin"});
        CHECK(joined({one, third}) == Paths{"/etc", "/h/u", "/usr/bin"});
        CHECK(joined({third, one}) == Paths{"/etc", "/h/u", "/usr/bin"});
    }

    TEST_CASE("many roots of one directory become the directory") {
        LinkRoots roots;
        for (const char* const root : {"/a/", "/t/1/", "/t/2", "/t/3/", "/u/1/", "/u/2/"}) roots.add(root);
        roots.join(2);
        CHECK(roots.roots() == Paths{"/a/", "/t/", "/u/1/", "/u/2/"});
        for (const char* const root : {"/b/", "/c/"}) roots.add(root);
        roots.join(3);
        CHECK(roots.roots() == Paths{"/"});
        roots.join(0);
        CHECK(roots.roots() == Paths{"/"});
    }
}
