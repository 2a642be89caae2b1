#include "rules/match/rule_set.hpp"

#include <cerrno>

#include "tests/unit/rules/rule_maker.hpp"

using namespace callgate;
using namespace callgate::rules;
using namespace callgate::rules::tests;

TEST_CASE("the words of actions and deciders are those of the log") {
    CHECK(name(Action::allow) == "allow");
    CHECK(name(Action::ask) == "ask");
    CHECK(name(Action::deny) == "deny");
    CHECK(name(Action::kill) == "kill");
    CHECK(name(DecidedBy::rule) == "rule");
    CHECK(name(DecidedBy::fallback) == "default");
    CHECK(name(DecidedBy::grant) == "grant");
    CHECK(name(DecidedBy::person) == "person");
    CHECK(name(DecidedBy::program) == "program");
    CHECK(name(DecidedBy::timeout) == "timeout");
    CHECK(name(DecidedBy::failure) == "failure");
}

TEST_CASE("a verdict names its rule and its reason") {
    Rule secrets = path_rule("secrets", Action::deny, Operation::read, "/s/**");
    secrets.reason = "credentials";
    const RuleSet rules = make({secrets});
    CHECK(rules.evaluate(file(Operation::read, "/s/x")).reason() == "credentials");
    CHECK(rules.evaluate(file(Operation::read, "/x")).rule_name() == "default");
    CHECK(rules.evaluate(file(Operation::read, "/x")).reason().empty());
}

TEST_CASE("whether anything can be asked is known beforehand") {
    const auto only = [](Action action) { return path_rule("one", action, Operation::read, "/s/**"); };
    CHECK_FALSE(make({only(Action::allow), only(Action::deny), only(Action::kill)}).may_ask());
    CHECK(make({only(Action::deny), only(Action::ask)}).may_ask());
    CHECK(make({only(Action::deny)}, Action::ask).may_ask());
}

TEST_CASE("the stricter action wins whatever the order of rules") {
    const std::vector<Action> actions = {Action::allow, Action::ask, Action::deny, Action::kill};
    for (const Action one : actions) {
        for (const Action other : actions) {
            const RuleSet rules = make({path_rule("one", one, Operation::read, "/a/**"),
                                        path_rule("other", other, Operation::read, "/a/b")},
                                       Action::allow);
            CHECK(rules.evaluate(file(Operation::read, "/a/b")).action == std::max(one, other));
            CHECK(verdict(rules, file(Operation::read, "/a/c")) == std::string(name(one)) + " one");
        }
    }
}

TEST_CASE("a quiet deny stands in for a default that asks or denies, and loses to every other rule") {
    Rule quiet = path_rule("quiet", Action::deny, Operation::read, "/h/**");
    quiet.quiet = true;
    quiet.error = ENOENT;
    for (const Action other : {Action::allow, Action::ask, Action::deny, Action::kill}) {
        const RuleSet rules = make({quiet, path_rule("other", other, Operation::read, "/h/x")}, Action::ask);
        CHECK(verdict(rules, file(Operation::read, "/h/x")) == std::string(name(other)) + " other");
        CHECK(verdict(rules, file(Operation::read, "/h/y")) == "deny quiet");
        CHECK(rules.evaluate(file(Operation::read, "/h/y")).error == ENOENT);
        CHECK(rules.evaluate(file(Operation::read, "/h/y")).decided_by == DecidedBy::rule);
        CHECK(verdict(rules, file(Operation::modify, "/h/y")) == "ask default");
        CHECK(verdict(rules, file({Operation::read, Operation::modify}, "/h/y")) == "ask default");
        CHECK(verdict(rules, file(Operation::read, "/other")) == "ask default");
        CHECK(rules.rules().size() == 1);
    }
    CHECK(verdict(make({quiet}), file(Operation::read, "/h/y")) == "deny quiet");
    CHECK(verdict(make({quiet}, Action::allow), file(Operation::read, "/h/y")) == "allow default");
}

TEST_CASE("an allow beats the default, also a strict one") {
    const RuleSet rules = make({path_rule("work", Action::allow, Operation::read, "/w/**")});
    CHECK(verdict(rules, file(Operation::read, "/w/x")) == "allow work");
    CHECK(verdict(rules, file(Operation::read, "/x")) == "deny default");
    CHECK(verdict(rules, file(Operation::modify, "/w/x")) == "deny default");
}

TEST_CASE("of several rules of the winning action the first in file order names the verdict") {
    const RuleSet rules = make({path_rule("allowed", Action::allow, Operation::read, "/a/b/c"),
                                path_rule("first", Action::deny, Operation::read, "/a/**"),
                                path_rule("second", Action::deny, Operation::read, "/a/b/c"),
                                rule("third", Action::deny, Operation::read)});
    CHECK(verdict(rules, file(Operation::read, "/a/b/c")) == "deny first");
    CHECK(verdict(rules, file(Operation::read, "/b")) == "deny third");
}

TEST_CASE("the strictest operation of a request decides") {
    const RuleSet rules = make({path_rule("reading", Action::allow, Operation::read, "/w/**"),
                                path_rule("writing", Action::ask, write_operations, "/w/**"),
                                path_rule("no-delete", Action::deny, Operation::remove, "/w/**")},
                               Action::allow);
    CHECK(verdict(rules, file(Operation::read, "/w/x")) == "allow reading");
    const Verdict both = rules.evaluate(file({Operation::read, Operation::modify}, "/w/x"));
    CHECK(both.action == Action::ask);
    CHECK(both.operation == Operation::modify);
    const Verdict rename = rules.evaluate(file({Operation::create, Operation::remove}, "/w/x"));
    CHECK(rename.rule_name() == "no-delete");
    CHECK(rename.operation == Operation::remove);
}

TEST_CASE("an operation without a rule falls back although another one is allowed") {
    const RuleSet rules = make({path_rule("reading", Action::allow, Operation::read, "/w/**")});
    const Verdict both = rules.evaluate(file({Operation::read, Operation::modify}, "/w/x"));
    CHECK(both.action == Action::deny);
    CHECK(both.decided_by == DecidedBy::fallback);
    CHECK(both.operation == Operation::modify);
}

TEST_CASE("a rule names the verdict before a default of the same action") {
    const RuleSet rules = make({path_rule("writing", Action::deny, Operation::modify, "/w/**")});
    CHECK(verdict(rules, file({Operation::read, Operation::modify}, "/w/x")) == "deny writing");
}

TEST_CASE("of operations that are decided alike the first is named") {
    const RuleSet rules = make({path_rule("all", Action::deny, file_operations, "/w/**")});
    const OperationSet both{Operation::modify, Operation::execute};
    CHECK(rules.evaluate(file(both, "/w/x")).operation == Operation::modify);
    CHECK(rules.evaluate(file(both, "/x")).operation == Operation::modify);
    CHECK(rules.evaluate(file(both, "/x")).error == EACCES);
}

TEST_CASE("a file rule without a path covers every file and no socket") {
    const RuleSet rules = make({rule("all", Action::deny, file_operations)}, Action::allow);
    CHECK(verdict(rules, file(Operation::read, "/")) == "deny all");
    CHECK(verdict(rules, file(Operation::execute, "/bin/sh")) == "deny all");
    CHECK(verdict(rules, socket("/run/x")) == "allow default");
    CHECK(verdict(rules, endpoint("127.0.0.1", 80)) == "allow default");
}

TEST_CASE("an exception takes its objects out of the rule") {
    Rule secrets = path_rule("secrets", Action::deny, Operation::read, "/h/.ssh/**");
    secrets.except.emplace();
    secrets.except->path.push_back(glob("/h/.ssh/known_hosts"));
    secrets.except->path.push_back(glob("/h/.ssh/*.pub"));
    const RuleSet rules = make({secrets}, Action::allow);
    CHECK(verdict(rules, file(Operation::read, "/h/.ssh/id")) == "deny secrets");
    CHECK(verdict(rules, file(Operation::read, "/h/.ssh/known_hosts")) == "allow default");
    CHECK(verdict(rules, file(Operation::read, "/h/.ssh/id.pub")) == "allow default");
}

TEST_CASE("all conditions of an exception must hold") {
    Rule metadata = rule("private", Action::deny, Operation::connect);
    metadata.when.address = {block("10.0.0.0/8")};
    metadata.except.emplace();
    metadata.except->address = {block("10.0.0.53")};
    metadata.except->port = {{53, 53}};
    metadata.except->protocol.udp = true;
    const RuleSet rules = make({metadata}, Action::allow);
    CHECK(verdict(rules, endpoint("10.0.0.53", 53, Protocol::udp)) == "allow default");
    CHECK(verdict(rules, endpoint("10.0.0.53", 53)) == "deny private");
    CHECK(verdict(rules, endpoint("10.0.0.53", 54, Protocol::udp)) == "deny private");
    CHECK(verdict(rules, endpoint("10.0.0.54", 53, Protocol::udp)) == "deny private");
}

TEST_CASE("a program condition looks at who asks") {
    Rule git = path_rule("git", Action::allow, Operation::read, "/h/.git-credentials");
    git.when.program.push_back(glob("**/git"));
    const RuleSet rules = make({git});
    CHECK(verdict(rules, file(Operation::read, "/h/.git-credentials", "/usr/bin/git")) == "allow git");
    CHECK(verdict(rules, file(Operation::read, "/h/.git-credentials", "/usr/bin/cat")) == "deny default");
    CHECK(verdict(rules, file(Operation::read, "/h/.git-credentials")) == "deny default");
    CHECK(rules.needs_program());
    CHECK_FALSE(make({path_rule("x", Action::allow, Operation::read, "/**")}).needs_program());
    Rule excepted = path_rule("x", Action::deny, Operation::read, "/**");
    excepted.except.emplace().program.push_back(glob("/bin/ls"));
    CHECK(make({excepted}).needs_program());
}

TEST_CASE("arguments are matched element by element") {
    const auto matches = [](std::vector<std::string_view> patterns, std::vector<std::string> arguments) {
        Rule push = path_rule("push", Action::ask, Operation::execute, "**/git");
        push.when.argv.emplace();
        for (const std::string_view pattern : patterns)
            push.when.argv->push_back(glob(pattern, GlobKind::text));
        const RuleSet rules = make({push}, Action::allow);
        const Request request{Operation::execute, FileObject{"/usr/bin/git", false}, "", arguments};
        return rules.evaluate(request).action == Action::ask;
    };
    CHECK(matches({"*", "push", "**"}, {"git", "push"}));
    CHECK(matches({"*", "push", "**"}, {"git", "push", "origin", "main"}));
    CHECK_FALSE(matches({"*", "push", "**"}, {"git", "pull"}));
    CHECK_FALSE(matches({"*", "push", "**"}, {"git"}));
    CHECK_FALSE(matches({"*", "push"}, {"git", "push", "origin"}));
    CHECK(matches({"*", "**", "--force"}, {"git", "push", "--force"}));
    CHECK(matches({"*", "**", "-c", "*", "**"}, {"git", "-c", "-c", "x", "y"}));
    CHECK_FALSE(matches({"*", "**", "--force"}, {"git", "--force", "x"}));
    CHECK(matches({"**"}, {}));
    CHECK(matches({}, {}));
    CHECK_FALSE(matches({}, {"git"}));
    CHECK(matches({"*", "a/*"}, {"git", "a/b/c"}));
}

TEST_CASE("a default of ask denies execution") {
    const RuleSet rules =
        make({path_rule("git", Action::ask, Operation::execute, "/usr/bin/git")}, Action::ask);
    CHECK(verdict(rules, file(Operation::read, "/x")) == "ask default");
    CHECK(verdict(rules, file(Operation::execute, "/x")) == "deny default");
    CHECK(verdict(rules, file(Operation::execute, "/usr/bin/git")) == "ask git");
    CHECK(rules.evaluate(file(Operation::execute, "/x")).decided_by == DecidedBy::fallback);
}

TEST_CASE("an object without a name is allowed by the default only") {
    const std::vector<Rule> all = {rule("everything", Action::allow, file_operations),
                                   path_rule("asked", Action::ask, Operation::read, "/asked/**"),
                                   path_rule("denied", Action::deny, Operation::read, "/denied/**"),
                                   path_rule("killed", Action::kill, Operation::read, "/killed/**")};
    const auto unlinked = [&](Action fallback, std::string_view path) {
        return verdict(make(all, fallback), {Operation::read, FileObject{path, true}, "", {}});
    };
    for (const Action fallback : {Action::deny, Action::ask}) {
        CHECK(unlinked(fallback, "/x") == "deny default");
        CHECK(unlinked(fallback, "/asked/x") == "deny default");
    }
    CHECK(unlinked(Action::allow, "/x") == "allow default");
    CHECK(unlinked(Action::allow, "/asked/x") == "ask asked");
    for (const Action fallback : {Action::deny, Action::ask, Action::allow}) {
        CHECK(unlinked(fallback, "/denied/x") == "deny denied");
        CHECK(unlinked(fallback, "/killed/x") == "kill killed");
    }
}

TEST_CASE("a denial carries the rule's errno, else that of its operation") {
    Rule hidden = path_rule("hidden", Action::deny, Operation::read, "/hidden");
    hidden.error = ENOENT;
    const RuleSet rules = make({hidden, path_rule("asked", Action::ask, Operation::execute, "/bin/git")});
    CHECK(rules.evaluate(file(Operation::read, "/hidden")).error == ENOENT);
    CHECK(rules.evaluate(file(Operation::read, "/x")).error == EACCES);
    CHECK(rules.evaluate(file(Operation::execute, "/x")).error == EPERM);
    CHECK(rules.evaluate(file(Operation::execute, "/bin/git")).error == EPERM);
    CHECK(rules.evaluate(endpoint("127.0.0.1", 1)).error == ECONNREFUSED);
    CHECK(rules.evaluate(endpoint("127.0.0.1", 1, Protocol::tcp, Operation::bind)).error == EACCES);
    CHECK(make({}, Action::ask).evaluate(file(Operation::read, "/x")).error == EACCES);
    CHECK(make({}, Action::allow).evaluate(file(Operation::read, "/x")).error == 0);
}

TEST_CASE("a request that makes no sense is denied, whatever the default") {
    const RuleSet rules = make({rule("all", Action::allow, OperationSet::from_bits(0xff))}, Action::allow);
    CHECK(verdict(rules, file({}, "/x")) == "deny default");
    CHECK(verdict(rules, file(Operation::connect, "/x")) == "deny default");
    CHECK(verdict(rules, endpoint("127.0.0.1", 1, Protocol::tcp, Operation::read)) == "deny default");
    CHECK(rules.evaluate(file({}, "/x")).error != 0);
}

TEST_CASE("every matching rule can be listed, in file order, for one operation") {
    const RuleSet rules = make({path_rule("b", Action::allow, Operation::read, "/a/**"),
                                path_rule("a", Action::deny, file_operations, "/a/b"),
                                path_rule("c", Action::kill, Operation::modify, "/a/b")});
    const auto listed = [&](Operation operation) {
        std::string ids;
        for (const Rule* found : rules.matching(file(file_operations, "/a/b"), operation)) ids += found->id;
        return ids;
    };
    CHECK(listed(Operation::read) == "ba");
    CHECK(listed(Operation::modify) == "ac");
    CHECK(listed(Operation::execute) == "a");
    CHECK(listed(Operation::connect).empty());
}

TEST_CASE("a rule set keeps its rules when it is moved") {
    RuleSet first = make({path_rule("a", Action::deny, Operation::read, "/a")}, Action::allow);
    const Verdict before = first.evaluate(file(Operation::read, "/a"));
    const RuleSet second = std::move(first);
    CHECK(second.evaluate(file(Operation::read, "/a")).rule == before.rule);
    CHECK(second.rules().size() == 1);
    CHECK(second.fallback() == Action::allow);
}
