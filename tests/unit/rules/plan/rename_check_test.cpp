#include "rules/plan/rename_check.hpp"

#include <cerrno>
#include <deque>

#include "rules/plan/pattern_remainder.hpp"
#include "tests/unit/rules/random_rules.hpp"

using namespace callgate;
using namespace callgate::rules;
using namespace callgate::rules::testing;
using Because = MoveVerdict::Because;

namespace {

/// A rename check with the objects that it borrows.
struct Bench {
    RuleSet rules;
    StaticGrants grants;
    RenameCheck check;
    Bench(RuleSet set, const FileTree& tree)
        : rules(std::move(set)), grants(plan(rules, tree)), check(rules, grants) {}
    explicit Bench(std::vector<Rule> all, Action fallback = Action::deny)
        : Bench(RuleSet(std::move(all), fallback), MemoryTree()) {}

    [[nodiscard]] MoveVerdict move(std::string_view from, std::string_view to, MovedKind kind) const {
        return check.evaluate({from, to, kind});
    }
    [[nodiscard]] bool file(std::string_view from, std::string_view to) const {
        return move(from, to, MovedKind::file).allowed;
    }
    [[nodiscard]] bool directory(std::string_view from, std::string_view to) const {
        return move(from, to, MovedKind::directory).allowed;
    }
};

/// Tries random moves: none that is allowed gives an object a weaker verdict. Returns how many were tried.
template <class Renamed>
std::size_t moves_that_free_nothing(const RuleSet& rules, Random& random, unsigned seed, Renamed renamed) {
    std::size_t moved = 0;
    const Bench bench(RuleSet({rules.rules().begin(), rules.rules().end()}, rules.fallback()), MemoryTree());
    for (int question = 0; question < 30; ++question) {
        const std::string from = renamed(random.path(4)), to = renamed(random.path(4));
        const bool directory = random.below(2) == 0;
        if (from == to || !bench.move(from, to, directory ? MovedKind::directory : MovedKind::file).allowed)
            continue;
        for (int sample = 0; sample < 12; ++sample) {
            const std::string beneath = !directory || sample == 0 ? "" : renamed(random.path(3));
            const std::string old_name = from + beneath, new_name = to + beneath;
            const auto operation = static_cast<Operation>(random.below(6));
            if (!directory && operation == Operation::create) continue;
            const char* program = sample % 2 == 0 ? "/bin/sh" : "/bin/other";
            const auto action = [&](const std::string& path) {
                return bench.rules
                    .evaluate({.operations = operation,
                               .object = FileObject{path},
                               .program = program,
                               .arguments = {}})
                    .action;
            };
            if (action(new_name) > Action::ask) continue;
            ++moved;
            REQUIRE_MESSAGE(action(old_name) <= action(new_name), "seed ", seed, ": ", name(operation), " ",
                            old_name, " -> ", new_name, " by ", program);
        }
    }
    return moved;
}

/// A work directory as the default profile has it.
std::vector<Rule> work_directory() {
    return {rule("work", Action::allow, read_write | OperationSet(Operation::execute), {"/w/**"}),
            rule("system", Action::allow, read_execute, {"/usr/**"}),
            rule("tmp", Action::allow, read_write, {"/tmp/**"}),
            rule("secrets", Action::deny, read_write, {"/w/**/.env", "/w/**/*.pem"}),
            rule("hooks", Action::deny, write_operations, {"/w/.git/config", "/w/.git/hooks/**"})};
}

}  // namespace

TEST_SUITE("moves") {
    TEST_CASE("unrelated files and directories move freely in a work directory with secrets") {
        const Bench bench(work_directory());
        CHECK(bench.directory("/w/node_modules/.left-pad-x1", "/w/node_modules/left-pad"));
        CHECK(bench.directory("/w/target/debug/incremental/s-1-working",
                              "/w/target/debug/incremental/s-1-abc"));
        CHECK(bench.directory("/w/a", "/w/b/c/d"));
        CHECK(bench.file("/w/.git/index.lock", "/w/.git/index"));
        CHECK(bench.file("/w/.git/objects/tmp_obj", "/w/.git/objects/ab/cdef"));
        CHECK(bench.directory("/tmp/x", "/tmp/y"));
        CHECK_FALSE(bench.check.may_carry_in("/w/node_modules/.left-pad-x1", "/w/node_modules/left-pad"));
        CHECK_FALSE(bench.check.may_carry_in("/w/a", "/w/b/c/d"));
    }

    TEST_CASE("a literal deny beneath the old name would be lost") {
        const Bench bench(work_directory());
        const MoveVerdict verdict = bench.move("/w/.git", "/w/git2", MovedKind::directory);
        CHECK_FALSE(verdict.allowed);
        CHECK(verdict.because == Because::restriction_lost);
        CHECK(verdict.verdict.action == Action::deny);
        CHECK(verdict.verdict.rule_name() == "hooks");
        CHECK(verdict.verdict.error == EXDEV);
        CHECK_FALSE(bench.directory("/w/.git/hooks", "/w/hooks"));
        CHECK_FALSE(bench.file("/w/.git/config", "/w/config"));
        CHECK_FALSE(bench.file("/w/.git/hooks/pre-commit", "/w/x"));
        CHECK_FALSE(bench.directory("/w", "/tmp/w"));
        CHECK(bench.directory("/w", "/v"));  // nothing is allowed there at all
        CHECK(bench.directory("/w/.git/objects", "/w/objects"));
    }

    TEST_CASE("a denied file keeps its remainder only under a denied name") {
        const Bench bench(work_directory());
        CHECK_FALSE(bench.file("/w/.env", "/w/env"));
        CHECK(bench.file("/w/.env", "/w/d/.env"));
        CHECK_FALSE(bench.directory("/w/.env", "/w/env"));
        CHECK_FALSE(bench.file("/w/key.pem", "/w/key.pem.bak"));
        CHECK_FALSE(bench.file("/w/d/key.pem", "/w/d/key"));
        CHECK(bench.file("/w/key.pem", "/w/other.pem"));
    }

    TEST_CASE("what is not allowed at the old name is not gained at the new one") {
        const Bench bench(work_directory());
        const MoveVerdict verdict = bench.move("/usr/lib/x", "/w/x", MovedKind::file);
        CHECK_FALSE(verdict.allowed);
        CHECK(verdict.because == Because::allowance_gained);
        CHECK(verdict.verdict.rule_name() == "work");
        CHECK_FALSE(bench.file("/etc/passwd", "/tmp/p"));
        // The rules allow execution beneath /w.
        CHECK_FALSE(bench.directory("/tmp/x", "/w/x"));
        CHECK_FALSE(bench.file("/tmp/x", "/w/x"));
        CHECK(bench.directory("/w/x", "/tmp/y") == false);  // the secrets beneath /w would be free there
        CHECK(bench.file("/w/x", "/tmp/x"));
    }

    TEST_CASE("an allow that covers equally at the old name makes up for one that is new") {
        std::vector<Rule> rules{rule("a", Action::allow, read_write, {"/a/**"}),
                                rule("b", Action::allow, read_write, {"/b/**"})};
        CHECK(Bench(rules).directory("/a/x", "/b/x"));
        rules[0].operations = Operation::read;
        CHECK_FALSE(Bench(rules).directory("/a/x", "/b/x"));
        CHECK(Bench(rules).directory("/b/x", "/a/x"));
        rules[0] = by(rule("a", Action::allow, read_write, {"/a/**"}), "/bin/git");
        CHECK_FALSE(Bench(rules).directory("/a/x", "/b/x"));
    }

    TEST_CASE("a deny that covers equally at the new name makes up for one that is lost") {
        const std::vector<Rule> rules{rule("a", Action::deny, Operation::read, {"/a/secret/**"}),
                                      rule("b", Action::kill, Operation::read, {"/b/**"})};
        const Bench bench(rules, Action::allow);
        CHECK(bench.directory("/a", "/b/a"));
        CHECK_FALSE(bench.directory("/b/x", "/a/x"));
        CHECK(bench.directory("/b/x", "/a/secret/x"));
    }

    TEST_CASE("what is denied everywhere at the new name cannot be freed there") {
        const std::vector<Rule> rules{
            rule("in", Action::allow, read_write, {"/in/**"}),
            rule("no", Action::deny, Operation::read, {"/in/key"}),
            rule("out", Action::allow, OperationSet{Operation::create}, {"/out/**"})};
        CHECK(Bench(rules).file("/in/key", "/out/key"));
    }

    TEST_CASE("asking at the new name frees what was denied at the old one") {
        const std::vector<Rule> rules{rule("ask", Action::ask, Operation::read, {"/b/**"}),
                                      rule("some", Action::allow, Operation::read, {"/c/**"})};
        CHECK_FALSE(Bench(rules).file("/a/x", "/b/x"));
        CHECK(Bench(rules).file("/c/x", "/b/x"));
        CHECK(Bench(rules, Action::ask).file("/a/x", "/b/x"));
        CHECK_FALSE(Bench(rules, Action::ask).file("/b/x", "/c/x"));
    }

    TEST_CASE("exceptions count against a restriction and for an allowance") {
        const std::vector<Rule> deny{
            except(rule("no", Action::deny, Operation::read, {"/s/**"}), {"/s/pub/**"})};
        const Bench denied(deny, Action::allow);
        CHECK_FALSE(denied.file("/s/x", "/s/pub/x"));
        CHECK_FALSE(denied.directory("/s/x", "/s/pub/x"));
        CHECK(denied.directory("/s/pub/x", "/s/x"));
        CHECK(denied.directory("/s/pub/x", "/elsewhere"));
        const std::vector<Rule> allow{
            except(rule("yes", Action::allow, Operation::read, {"/s/**"}), {"/s/key/**"})};
        const Bench allowed(allow);
        CHECK_FALSE(allowed.directory("/s/key/x", "/s/x"));
        CHECK_FALSE(allowed.directory("/s/key", "/s/k"));
        CHECK(allowed.directory("/s/x", "/s/key/x"));
    }

    TEST_CASE("whoever asks, the comparison is the same") {
        const std::vector<Rule> rules{
            rule("work", Action::allow, read_write, {"/w/**"}),
            by(rule("not-curl", Action::deny, Operation::read, {"/w/keys/**"}), "/bin/curl")};
        CHECK_FALSE(Bench(rules).directory("/w/keys/a", "/w/a"));
        CHECK(Bench(rules).directory("/w/keys/a", "/w/keys/b"));
    }

    TEST_CASE("sockets are freed by names too") {
        const std::vector<Rule> rules{rule("work", Action::allow, read_write, {"/w/**"}),
                                      socket("own", Action::allow, Operation::connect, {"/w/run/**"}),
                                      socket("bus", Action::deny, Operation::connect, {"/w/run/bus"})};
        const Bench bench(rules);
        CHECK_FALSE(bench.move("/w/sock", "/w/run/sock", MovedKind::socket).allowed);
        CHECK_FALSE(bench.move("/w/run/bus", "/w/run/other", MovedKind::socket).allowed);
        CHECK(bench.move("/w/run/a", "/w/run/b", MovedKind::socket).allowed);
        CHECK(bench.move("/w/run/bus", "/w/run/other", MovedKind::file).allowed);
        CHECK_FALSE(bench.directory("/w/d", "/w/run/d"));
    }

    TEST_CASE("a rule's own errno is the answer to a move that it forbids") {
        Rule hidden = rule("hidden", Action::deny, Operation::read, {"/w/key"});
        hidden.error = ENOENT;
        const Bench bench({hidden}, Action::allow);
        CHECK(bench.move("/w/key", "/w/x", MovedKind::file).verdict.error == ENOENT);
    }

    TEST_CASE("what may carry a static grant does not move to where less is allowed") {
        const std::vector<Rule> rules{rule("work", Action::allow, read_write, {"/w/**"}),
                                      rule("secret", Action::deny, Operation::read, {"/w/secret/**"})};
        const MemoryTree tree{"/w/a/", "/w/secret/key"};
        const Bench bench(RuleSet(rules, Action::deny), tree);
        REQUIRE(bench.grants.allow(Operation::read, "/w/a/x"));
        const MoveVerdict verdict = bench.move("/w/a", "/w/secret/a", MovedKind::directory);
        CHECK_FALSE(verdict.allowed);
        CHECK(verdict.because == Because::grant_would_move);
        CHECK(verdict.verdict.rule_name() == "secret");
        // An object that the run created carries no grant, until a granted object has moved.
        CHECK(bench.directory("/w/new", "/w/secret/new"));
        CHECK(bench.directory("/w/a", "/w/b"));
        bench.grants.forget("/w/a");
        CHECK_FALSE(bench.directory("/w/b", "/w/secret/b"));
    }

    TEST_CASE("a directory is walked only where create or modify is more restricted at the new name") {
        const Bench bench(work_directory());
        CHECK(bench.check.may_carry_in("/w/x", "/w/.git"));
        CHECK(bench.check.may_carry_in("/w/x", "/w/.git/hooks"));
        CHECK(bench.check.may_carry_in("/w/x", "/etc/x"));
        CHECK(bench.check.may_carry_in("/tmp/x", "/w/x"));  // secrets may be beneath
        CHECK_FALSE(bench.check.may_carry_in("/w/x", "/w/.gitlab"));
        CHECK(bench.check.evaluate_entry("/w/.git/config", false, "").action == Action::deny);
        CHECK(bench.check.evaluate_entry("/w/.git/config", false, "").rule_name() == "hooks");
        CHECK(bench.check.evaluate_entry("/w/.git/HEAD", false, "").action == Action::allow);
        CHECK(bench.check.evaluate_entry("/w/.git/hooks", true, "").action == Action::deny);
        CHECK(bench.check.evaluate_entry("/w/.git/objects", true, "").action == Action::allow);
    }

    TEST_CASE("a file is carried in where it could be made but not modified") {
        const Bench bench({rule("drop", Action::allow, Operation::create, {"/d/**"})});
        CHECK(bench.check.evaluate_entry("/d/x", false, "").action == Action::deny);
        CHECK(bench.check.evaluate_entry("/d/x", true, "").action == Action::allow);
    }

    TEST_CASE("a remainder is the rest of a pattern beneath a name") {
        std::deque<BranchPattern> kept;  // remainders are views of it
        const auto left = [&kept](const std::string& pattern, std::string_view directory) {
            const BranchPattern& branch = kept.emplace_back(glob(pattern).branches().front());
            PatternRemainders remainders;
            branch.remainders(directory, remainders);
            remainders.finish();
            return remainders;
        };
        const auto same = [&left](const std::string& pattern, std::string_view one, std::string_view other) {
            return left(pattern, one).cover(left(pattern, other)) &&
                   left(pattern, other).cover(left(pattern, one));
        };
        CHECK(same("**/.env", "/a", "/b/c"));
        CHECK(same("/w/**/.env", "/w", "/w/b/c"));
        CHECK_FALSE(same("/w/**/.env", "/w/a", "/w/.env"));
        CHECK(left("/w/**/.env", "/w/.env").cover(left("/w/**/.env", "/w/a")));
        CHECK(left("/w/**/.env", "/v").empty());
        CHECK(left("/w/*/x", "/w/a/y").empty());
        CHECK(same("/w/*/x", "/w/a", "/w/b"));
        CHECK_FALSE(same("/w/[ab]/x", "/w/a", "/w/c"));
        CHECK(same("/w/[ab]/x", "/w/a", "/w/b"));
        CHECK(left("/w/**", "/w/a").cover(left("/w/a/b", "/w/a")));
        CHECK(left("/w/a/b", "/").cover(left("/w/a/b", "/")));
        CHECK_FALSE(left("/w/a/b", "/").empty());
        // A literal byte and the pattern that looks alike are not the same.
        const BranchPattern star(Glob::literal("/w/x/a*b").branches().front());
        PatternRemainders literal;
        star.remainders("/w/x", literal);
        literal.finish();
        CHECK_FALSE(literal.cover(left("/w/y/a*b", "/w/y")));
        // "**" within a component crosses directories, so its remainder is unknown.
        const PatternRemainders unsure = left("/w/*/a**b/c", "/w/x/ayy/b");
        CHECK_FALSE(unsure.empty());
        CHECK_FALSE(unsure.cover(unsure));
    }

    TEST_CASE("no allowed move frees anything, at the name or beneath it, for anybody") {
        std::size_t moved = 0;
        for (unsigned seed = 0; seed < 3000; ++seed) {
            Random random(seed);
            const RuleSet rules = random.rules();
            moved +=
                moves_that_free_nothing(rules, random, seed, [](const std::string& text) { return text; });
        }
        CHECK(moved > 20000);
    }

    TEST_CASE("and neither do names whose bytes sort on both sides of the slash") {
        const auto renamed = [](const std::string& text) {
            std::string made;
            for (const char one : text)
                made += one == 'b' ? "a!" : one == 'c' ? "a-\xff" : std::string(1, one);
            return made;
        };
        std::size_t moved = 0;
        for (unsigned seed = 0; seed < 1000; ++seed) {
            Random random(seed);
            const RuleSet made = random.rules();
            std::vector<Rule> all(made.rules().begin(), made.rules().end());
            for (Rule& one : all) {
                for (Glob& path : one.when.path) path = glob(renamed(path.text()));
                if (one.except)
                    for (Glob& path : one.except->path) path = glob(renamed(path.text()));
            }
            moved += moves_that_free_nothing({std::move(all), made.fallback()}, random, seed, renamed);
        }
        CHECK(moved > 6000);
    }

    TEST_CASE("a move to another name with the same verdicts everywhere beneath one hierarchy is allowed") {
        for (unsigned seed = 0; seed < 300; ++seed) {
            Random random(seed);
            const RuleSet made = random.rules();
            // Patterns of random rules say a, b and c: beneath x they leave only what "**" leaves.
            const Bench bench(RuleSet({made.rules().begin(), made.rules().end()}, made.fallback()),
                              MemoryTree());
            const std::string place = random.path(2) + "/x";
            REQUIRE(bench.directory(place + "/one", place + "/two"));
            REQUIRE(bench.file(place + "/one", place + "/two"));
            REQUIRE_FALSE(bench.check.may_carry_in(place + "/one", place + "/two"));
        }
    }

    TEST_CASE("the walk is skipped only if no entry would be carried in") {
        for (unsigned seed = 0; seed < 2000; ++seed) {
            Random random(seed);
            const Bench bench(random.rules(), MemoryTree());
            const std::string from = random.path(4), to = random.path(4);
            if (bench.check.may_carry_in(from, to)) continue;
            for (int sample = 0; sample < 20; ++sample) {
                const std::string beneath = random.path(3);
                const bool before =
                    bench.check.evaluate_entry(from + beneath, false, "").action == Action::allow;
                const bool after =
                    bench.check.evaluate_entry(to + beneath, false, "").action == Action::allow;
                REQUIRE_MESSAGE((after || !before), "seed ", seed, ": ", from, beneath, " -> ", to, beneath);
            }
        }
    }
}
