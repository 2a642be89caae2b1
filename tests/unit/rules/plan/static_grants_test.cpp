#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "tests/unit/rules/random_rules.hpp"

using namespace callgate;
using namespace callgate::rules;
using namespace callgate::rules::testing;

namespace {

Plan with(std::vector<Grant> grants) {
    Plan made;
    made.grants = std::move(grants);
    return made;
}

constexpr OperationSet making{Operation::create, Operation::remove};
constexpr std::array programs = {"", "/bin/sh", "/bin/other"};

}  // namespace

TEST_SUITE("static grants") {
    TEST_CASE("a directory grant holds at and beneath, and for names strictly beneath") {
        const StaticGrants grants(with({{"/w/d", true, making | Operation::read, {}, false}}));
        CHECK(grants.allow(Operation::read, "/w/d"));
        CHECK(grants.allow(Operation::read, "/w/d/x/y"));
        CHECK(grants.allow(making, "/w/d/x"));
        CHECK_FALSE(grants.allow(making, "/w/d"));
        CHECK_FALSE(grants.allow(Operation::read, "/w"));
        CHECK_FALSE(grants.allow(Operation::read, "/w/dd"));
        CHECK_FALSE(grants.allow(Operation::read, "/w/d "));
        CHECK_FALSE(grants.allow(Operation::modify, "/w/d/x"));
        CHECK_FALSE(grants.allow(making | Operation::modify, "/w/d/x"));
    }

    TEST_CASE("a file grant holds on the file alone") {
        const StaticGrants grants(
            with({{"/w/f", false, OperationSet{Operation::read, Operation::modify}, {}, false}}));
        CHECK(grants.allow(Operation::read, "/w/f"));
        CHECK_FALSE(grants.allow(Operation::read, "/w/f/x"));
        CHECK_FALSE(grants.allow(Operation::read, "/w"));
        CHECK_FALSE(grants.allow(Operation::remove, "/w/f"));
    }

    TEST_CASE("the root is a directory like others") {
        const StaticGrants grants(with({{"/", true, making | Operation::read, {}, false}}));
        CHECK(grants.allow(Operation::read, "/"));
        CHECK(grants.allow(making, "/x"));
        CHECK(grants.allow(Operation::read, "/x/y"));
        CHECK_FALSE(grants.allow(making, "/"));
    }

    TEST_CASE("metadata, connect, bind, nothing, and relative names are never static") {
        const StaticGrants grants(with({{"/", true, file_operations | network_operations, {}, false}}));
        CHECK_FALSE(grants.allow(Operation::metadata, "/x"));
        CHECK_FALSE(grants.allow(Operation::connect, "/x"));
        CHECK_FALSE(grants.allow(Operation::bind, "/x"));
        CHECK_FALSE(grants.allow(OperationSet{}, "/x"));
        CHECK_FALSE(grants.allow(Operation::read, "x"));
        CHECK_FALSE(grants.allow(Operation::read, ""));
    }

    TEST_CASE("grants of several depths add up") {
        const StaticGrants grants(
            with({{"/w", true, Operation::read, {}, false}, {"/w/d", true, making, {}, false}}));
        CHECK(grants.allow(making | Operation::read, "/w/d/x"));
        CHECK_FALSE(grants.allow(making | Operation::read, "/w/d"));
    }

    TEST_CASE("no grants allow nothing") {
        const StaticGrants grants(with({}));
        CHECK_FALSE(grants.allow(Operation::read, "/"));
        CHECK_FALSE(grants.allow(Operation::read, "/a/b"));
        CHECK_FALSE(grants.may_carry("/"));
    }

    TEST_CASE("what is forgotten no longer stands, at or beneath the name") {
        const StaticGrants grants(with({{"/w/a", true, Operation::read, {}, false},
                                        {"/w/a/b", true, Operation::modify, {}, false},
                                        {"/w/a.x", true, Operation::read, {}, false},
                                        {"/w/f", false, Operation::read, {}, false}}));
        grants.forget("/w/a");
        CHECK_FALSE(grants.allow(Operation::read, "/w/a/x"));
        CHECK_FALSE(grants.allow(Operation::modify, "/w/a/b/x"));
        CHECK(grants.allow(Operation::read, "/w/a.x/y"));
        CHECK(grants.allow(Operation::read, "/w/f"));
        grants.forget("/w/f");
        CHECK_FALSE(grants.allow(Operation::read, "/w/f"));
        grants.forget("/");
        CHECK_FALSE(grants.allow(Operation::read, "/w/a.x/y"));
    }

    TEST_CASE("what may carry a grant is known, and after one moved anything may") {
        const StaticGrants grants(with({{"/w/a/b", true, Operation::read, {}, false}}));
        CHECK(grants.may_carry("/w/a"));
        CHECK(grants.may_carry("/w/a/b"));
        CHECK_FALSE(grants.may_carry("/w/a/b/c"));
        CHECK_FALSE(grants.may_carry("/w/c"));
        grants.forget("/w/c");
        CHECK_FALSE(grants.may_carry("/w/c"));
        grants.forget("/w/a");
        CHECK(grants.may_carry("/w/c"));
    }

    TEST_CASE("a file that was replaced is forgotten, but carries nothing elsewhere") {
        const StaticGrants grants(with({{"/w/f", false, Operation::read, {}, false}}));
        CHECK(grants.may_carry("/w/f"));
        grants.forget("/w/f");
        CHECK_FALSE(grants.allow(Operation::read, "/w/f"));
        CHECK_FALSE(grants.may_carry("/w/x"));
    }

    TEST_CASE("many threads may ask while one forgets") {
        std::vector<Grant> all;
        for (int index = 0; index < 500; ++index)
            all.push_back({"/w/d" + std::to_string(index), true, Operation::read, {}, false});
        const StaticGrants grants(with(all));
        std::atomic<int> kept = 0;
        std::vector<std::thread> threads;
        for (int thread = 0; thread < 4; ++thread)
            threads.emplace_back([&grants, &kept] {
                for (int index = 1; index < 500; index += 2)
                    if (grants.allow(Operation::read, "/w/d" + std::to_string(index) + "/x")) ++kept;
            });
        for (int index = 0; index < 500; index += 2) grants.forget("/w/d" + std::to_string(index));
        for (std::thread& thread : threads) thread.join();
        CHECK(kept == 4 * 250);
        for (int index = 0; index < 500; ++index)
            CHECK(grants.allow(Operation::read, "/w/d" + std::to_string(index) + "/x") == (index % 2 == 1));
    }

    TEST_CASE("whatever the grants allow the rules allow, whoever asks") {
        std::size_t allowed = 0;
        for (unsigned seed = 0; seed < 1500; ++seed) {
            Random random(seed);
            const RuleSet rules = random.rules();
            const MemoryTree tree = random.tree();
            const Plan made = plan(rules, tree);
            const StaticGrants grants(made);
            for (int question = 0; question < 60; ++question) {
                const std::string path = question == 0 ? "/" : random.path(6);
                const OperationSet operations = random.operations();
                if (!grants.allow(operations, path)) continue;
                // The grant is attached to inodes. No object lies beneath a former file or link.
                ++allowed;
                for (const char* program : programs) {
                    const Verdict verdict = rules.evaluate({.operations = operations,
                                                            .object = FileObject{path},
                                                            .program = program,
                                                            .arguments = {}});
                    REQUIRE_MESSAGE(verdict.action == Action::allow, "seed ", seed, ": ", names(operations),
                                    " ", path, " by ", program, " is ", name(verdict.action), " by ",
                                    verdict.rule_name());
                }
            }
            for (const Grant& grant : made.grants) {
                const bool directory = tree.kind(grant.path) == FileTree::Kind::directory;
                REQUIRE(directory == grant.directory);
                REQUIRE(tree.kind(grant.path) != FileTree::Kind::absent);
            }
        }
        CHECK(allowed > 5000);
    }

    TEST_CASE(
        "what the rules may let execute, Landlock lets execute, and without a notification nothing else") {
        std::size_t asked = 0, notified = 0;
        for (unsigned seed = 0; seed < 1500; ++seed) {
            Random random(seed);
            const RuleSet rules = random.rules();
            const MemoryTree tree = random.tree();
            const Plan made = plan(rules, tree);
            const StaticGrants grants(made);
            const auto allowed = [&](Operation operation, const std::string& path) {
                return std::any_of(std::begin(programs), std::end(programs), [&](const char* program) {
                    const Request request{operation, FileObject{path}, program, {}};
                    return rules.evaluate(request).action == Action::allow;
                });
            };
            // A rule may ask about it; a default that asks denies an execution.
            const auto asks = [&](const std::string& path) {
                return std::any_of(std::begin(programs), std::end(programs), [&](const char* program) {
                    const Request request{Operation::execute, FileObject{path}, program, {}};
                    const Verdict verdict = rules.evaluate(request);
                    return verdict.action == Action::ask && verdict.rule != nullptr;
                });
            };
            for (const auto& [path, entry] : tree.all()) {
                if (entry.symbolic_link) continue;
                // Checks existing objects, and names that may be created.
                const std::string asked_path = !entry.directory ? path : path == "/" ? "/new" : path + "/new";
                if (entry.directory && !allowed(Operation::create, asked_path)) continue;
                ++asked;
                const bool may = allowed(Operation::execute, asked_path) || asks(asked_path);
                notified += made.notify_only_execute;
                if (may) REQUIRE_MESSAGE(grants.let_execute(asked_path), "seed ", seed, " ", asked_path);
                if (!may && !made.notify_only_execute)
                    REQUIRE_MESSAGE(!grants.let_execute(asked_path), "seed ", seed, " ", asked_path);
            }
        }
        CHECK(asked > 10'000);
        CHECK(notified > 1000);
        CHECK(notified < asked);
    }

    TEST_CASE("a hierarchy that is allowed without restrictions is granted whole") {
        std::size_t seen = 0;
        for (unsigned seed = 0; seed < 1500; ++seed) {
            Random random(seed);
            const RuleSet rules = random.rules();
            const MemoryTree tree = random.tree();
            const Plan made = plan(rules, tree);
            const StaticGrants grants(made);
            for (const Rule& rule : rules.rules()) {
                if (rule.action != Action::allow || rule.except || !rule.when.program.empty()) continue;
                for (const Glob& glob : rule.when.path) {
                    const Glob::Branch& branch = glob.branches().front();
                    if (!branch.hierarchy || tree.kind(branch.head) != FileTree::Kind::directory) continue;
                    OperationSet free = rule.operations - Operation::metadata;
                    for (const Rule& other : rules.rules()) {
                        const auto beneath = [&](const Glob& one) {
                            return one.may_match_beneath(branch.head);
                        };
                        const auto& paths = other.when.path;
                        if (other.action != Action::allow &&
                            (paths.empty() || std::any_of(paths.begin(), paths.end(), beneath)))
                            free = free - other.operations;
                    }
                    // No further grant of execution is made beneath a notify-only path.
                    if (made.notify_only_execute && free.contains(Operation::execute)) {
                        REQUIRE_MESSAGE(grants.let_execute(branch.head + "/anything/x"), "seed ", seed, " ",
                                        glob.text());
                        free = free - Operation::execute;
                    }
                    if (free.empty()) continue;
                    ++seen;
                    REQUIRE_MESSAGE(grants.allow(free, branch.head + "/anything/x"), "seed ", seed, " ",
                                    glob.text());
                }
            }
        }
        CHECK(seen > 300);
    }

    TEST_CASE(
        "minimal records leave an operation to the kernel only where the grants are what the rules say") {
        std::size_t left = 0;
        for (unsigned seed = 0; seed < 3000; ++seed) {
            Random random(seed);
            const RuleSet rules = random.rules();
            const MemoryTree tree = random.tree();
            const Plan made = plan(rules, tree, 7, RecordMode::minimal);
            const StaticGrants grants(made);
            for (const auto& object : tree.all()) {
                const std::string& path = object.first;
                if (object.second.symbolic_link) continue;
                for (const Operation operation : {Operation::read, Operation::modify, Operation::execute}) {
                    if (made.notified.contains(operation)) continue;
                    // A directory is never executed, so a grant on it concerns the objects beneath.
                    if (operation == Operation::execute && object.second.directory) continue;
                    const Verdict verdict = rules.evaluate({.operations = operation,
                                                            .object = FileObject{path},
                                                            .program = {},
                                                            .arguments = {}});
                    ++left;
                    REQUIRE_MESSAGE(grants.allow(operation, path) == (verdict.action == Action::allow),
                                    "seed ", seed, ": ", name(operation), " ", path, " is ",
                                    name(verdict.action), " by ", verdict.rule_name());
                }
            }
        }
        CHECK(left > 3000);
    }
}
