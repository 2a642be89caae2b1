#include "rules/plan/plan.hpp"

#include <cerrno>

#include "rules/model/limits.hpp"
#include "tests/unit/rules/plan/plan_support.hpp"

using namespace callgate;
using namespace callgate::rules;
using namespace callgate::rules::testing;

TEST_SUITE("plan") {
    TEST_CASE("an allowed hierarchy without restrictions becomes one grant") {
        const MemoryTree tree{"/w/a/b", "/usr/lib/x"};
        const RuleSet rules({rule("work", Action::allow, read_write, {"/w/**"})}, Action::deny);
        const Plan made = plan(rules, tree);
        REQUIRE(made.grants.size() == 1);
        CHECK(made.grants[0].path == "/w");
        CHECK(made.grants[0].directory);
        CHECK(names(made.grants[0].operations) == "read,modify,create,delete");
        CHECK(made.grants[0].rules == std::vector<std::string>{"work"});
        CHECK(tier(made, "work") == Tier::landlock);
    }

    TEST_CASE("what one party alone may do is decided call by call") {
        const MemoryTree tree{"/w/a/b", "/l/login"};
        Rule of_agent = rule("login", Action::allow, read_write, {"/l/**"});
        of_agent.when.party = Party::agent;
        Rule of_tools = rule("closed", Action::deny, Operation::read, {"/w/a/**"});
        of_tools.when.party = Party::tools;
        const Plan made =
            plan(RuleSet({rule("work", Action::allow, Operation::read, {"/w/**"}), of_agent, of_tools},
                         Action::deny),
                 tree);
        CHECK(made.parties);
        CHECK(granted(made, "/l") == "");
        CHECK(granted(made, "/l/login") == "");
        CHECK(granted(made, "/w/a") == "");
        CHECK(made.notified.contains(Operation::read));
    }

    TEST_CASE("a literal deny inside splits the hierarchy, and only the way to it is contested") {
        const MemoryTree tree{"/w/src/", "/w/main.c", "/w/.git/config", "/w/.git/objects/", "/w/.git/HEAD"};
        const RuleSet rules({rule("work", Action::allow, read_write, {"/w/**"}),
                             rule("config", Action::deny, write_operations, {"/w/.git/config"})},
                            Action::deny);
        const Plan made = plan(rules, tree);
        CHECK(granted(made, "/w") == "read");
        CHECK(granted(made, "/w/src") == "read,modify,create,delete");
        CHECK(granted(made, "/w/main.c") == "read,modify");
        CHECK(granted(made, "/w/.git/objects") == "read,modify,create,delete");
        CHECK(granted(made, "/w/.git/HEAD") == "read,modify");
        CHECK(granted(made, "/w/.git") == "");
        CHECK(granted(made, "/w/.git/config") == "");
        CHECK(tier(made, "work") == Tier::contested);
        CHECK(why(made, "work").find("rule config may decide beneath /w") != std::string::npos);
        CHECK(why(made, "config") == "it may decide inside what is allowed: beneath /w");
    }

    TEST_CASE("a denied object that does not exist yet splits the hierarchy the same way") {
        const MemoryTree tree{"/w/src/", "/w/.git/objects/"};
        const RuleSet rules(
            {rule("work", Action::allow, Operation::read, {"/w/**"}),
             rule("config", Action::deny, Operation::read, {"/w/.git/config", "/w/gone/key"})},
            Action::deny);
        const Plan made = plan(rules, tree);
        CHECK(granted(made, "/w") == "");
        CHECK(granted(made, "/w/src") == "read");
        CHECK(granted(made, "/w/.git") == "");
        CHECK(granted(made, "/w/.git/objects") == "read");
    }

    TEST_CASE("a deny of the directory itself leaves what lies beneath to Landlock") {
        const MemoryTree tree{"/w/src/", "/w/a"};
        const RuleSet rules(
            {rule("work", Action::allow, OperationSet{Operation::read, Operation::create}, {"/w/**"}),
             rule("listing", Action::deny, OperationSet{Operation::read, Operation::create}, {"/w"})},
            Action::deny);
        const Plan made = plan(rules, tree);
        CHECK(granted(made, "/w") == "create");  // creating /w itself depends on its parent
        CHECK(granted(made, "/w/src") == "read,create");
        CHECK(granted(made, "/w/a") == "read");
    }

    TEST_CASE("a glob that may match anywhere beneath makes the whole hierarchy contested") {
        const MemoryTree tree{"/w/src/", "/w/a"};
        const RuleSet rules(
            {rule("work", Action::allow, OperationSet{Operation::read, Operation::execute}, {"/w/**"}),
             rule("secrets", Action::deny, Operation::read, {"/w/**/.env"})},
            Action::deny);
        const Plan made = plan(rules, tree);
        CHECK(granted(made, "/w") == "execute");
        CHECK(made.grants.size() == 1);
        CHECK(made.grants[0].notify_only_read);
        CHECK(made.notify_only);
    }

    TEST_CASE("a glob within one directory splits only there") {
        const MemoryTree tree{"/home/u/.ssh/id", "/home/u/src/", "/home/v/x", "/w/"};
        const RuleSet rules({rule("all", Action::allow, Operation::read),
                             rule("keys", Action::deny, Operation::read, {"/home/*/.ssh/**"}),
                             rule("text", Action::deny, Operation::read, {"/w/*.txt"})},
                            Action::deny);
        const Plan made = plan(rules, tree);
        CHECK(granted(made, "/") == "");
        CHECK(granted(made, "/home") == "");
        CHECK(granted(made, "/home/u") == "");
        CHECK(granted(made, "/home/u/src") == "read");
        CHECK(granted(made, "/home/u/.ssh") == "");
        CHECK(granted(made, "/home/v/x") == "read");
        CHECK(granted(made, "/w") == "");
    }

    TEST_CASE("symbolic links are never granted") {
        const MemoryTree tree{"/w/link@", "/w/a", "/w/secret"};
        const RuleSet rules({rule("work", Action::allow, Operation::read, {"/w/**"}),
                             rule("no", Action::deny, Operation::read, {"/w/secret"})},
                            Action::deny);
        const Plan made = plan(rules, tree);
        CHECK(made.grants.size() == 1);
        CHECK(granted(made, "/w/a") == "read");
    }

    TEST_CASE("the hierarchy of processes is granted whole or not at all") {
        const MemoryTree tree{"/proc/1/status", "/proc/77/status", "/usr/a"};
        CHECK(granted(plan(RuleSet({}, Action::allow), tree), "/") != "");
        const RuleSet rules({rule("no", Action::deny, Operation::read, {"/proc/1/**"})}, Action::allow);
        const Plan made = plan(rules, tree);
        CHECK(granted(made, "/usr").starts_with("read"));
        CHECK(granted(made, "/proc/77") == "");
        CHECK(granted(made, "/proc") == "");
    }

    TEST_CASE("a directory with more entries than the limit stays contested") {
        MemoryTree tree{"/w/secret", "/v/secret"};
        for (int index = 0; index < 256; ++index) tree.add("/w/f" + std::to_string(index));
        for (int index = 0; index < 255; ++index) tree.add("/v/f" + std::to_string(index));
        const RuleSet rules({rule("all", Action::allow, Operation::read, {"/w/**", "/v/**"}),
                             rule("no", Action::deny, Operation::read, {"/w/secret", "/v/secret"})},
                            Action::deny);
        const Plan made = plan(rules, tree);
        CHECK(made.grants.size() == 255);
        CHECK(granted(made, "/v/f0") == "read");
        CHECK(granted(made, "/w/f0") == "");
    }

    TEST_CASE("splitting stops at sixteen levels") {
        MemoryTree tree;
        std::string path = "/w";
        for (int level = 0; level < 20; ++level) {
            tree.add(path + "/other/");
            path += "/d";
        }
        tree.add(path + "/secret");
        const RuleSet rules({rule("all", Action::allow, Operation::read, {"/w/**"}),
                             rule("no", Action::deny, Operation::read, {path + "/secret"})},
                            Action::deny);
        CHECK(plan(rules, tree).grants.size() == 16);
    }

    TEST_CASE("the number of grants is bounded") {
        MemoryTree tree;
        std::vector<std::string> secrets;
        for (int outer = 0; outer < 20; ++outer) {
            const std::string directory = "/w/d" + std::to_string(outer);
            for (int inner = 0; inner < 200; ++inner) tree.add(directory + "/f" + std::to_string(inner));
            secrets.push_back(directory + "/secret");
        }
        const RuleSet rules({rule("all", Action::allow, Operation::read, {"/w/**"}),
                             rule("no", Action::deny, Operation::read, secrets)},
                            Action::deny);
        const Plan made = plan(rules, tree);
        CHECK(made.grants.size() <= 2000);
        CHECK(made.grants.size() > 1000);
    }

    TEST_CASE("an allow that depends on the asking program is not granted") {
        const MemoryTree tree{"/w/a"};
        const RuleSet rules({by(rule("git", Action::allow, read_write, {"/w/**"}), "/usr/bin/git")},
                            Action::deny);
        const Plan made = plan(rules, tree);
        CHECK(made.grants.empty());
        CHECK(tier(made, "git") == Tier::contested);
        CHECK(why(made, "git").find("asking program") != std::string::npos);
    }

    TEST_CASE("a deny that depends on the asking program contests nonetheless") {
        const MemoryTree tree{"/w/a", "/w/b/"};
        const RuleSet rules(
            {rule("work", Action::allow, Operation::read, {"/w/**"}),
             by(rule("not-curl", Action::deny, Operation::read, {"/w/b/**"}), "/usr/bin/curl")},
            Action::deny);
        const Plan made = plan(rules, tree);
        CHECK(granted(made, "/w/a") == "read");
        CHECK(granted(made, "/w/b") == "");
    }

    TEST_CASE("the exception of an allow is contested where it may match") {
        const MemoryTree tree{"/w/a", "/w/keys/k"};
        const RuleSet rules({except(rule("work", Action::allow, Operation::read, {"/w/**"}), {"/w/keys/**"})},
                            Action::deny);
        const Plan made = plan(rules, tree);
        CHECK(granted(made, "/w") == "");
        CHECK(granted(made, "/w/a") == "read");
        CHECK(granted(made, "/w/keys") == "");
    }

    TEST_CASE("the exception of a deny frees only what it covers whole") {
        const MemoryTree tree{"/h/.ssh/known_hosts", "/h/.ssh/id", "/h/.ssh/pub/a"};
        const Rule allow = rule("home", Action::allow, Operation::read, {"/h/**"});
        SUBCASE("a file") {
            const RuleSet rules(
                {allow,
                 except(rule("ssh", Action::deny, Operation::read, {"/h/.ssh/**"}), {"/h/.ssh/known_hosts"}),
                 rule("hosts", Action::allow, Operation::read, {"/h/.ssh/known_hosts"})},
                Action::deny);
            const Plan made = plan(rules, tree);
            CHECK(granted(made, "/h/.ssh/known_hosts") == "read");
            CHECK(granted(made, "/h/.ssh") == "");
            CHECK(granted(made, "/h/.ssh/id") == "");
        }
        SUBCASE("a hierarchy") {
            const RuleSet rules(
                {rule("pub", Action::allow, Operation::read, {"/h/.ssh/pub/**"}),
                 except(rule("ssh", Action::deny, Operation::read, {"/h/.ssh/**"}), {"/h/.ssh/pub/**"})},
                Action::deny);
            CHECK(granted(plan(rules, tree), "/h/.ssh/pub") == "read");
        }
        SUBCASE("not one that depends on the asking program") {
            Rule deny =
                except(rule("ssh", Action::deny, Operation::read, {"/h/.ssh/**"}), {"/h/.ssh/pub/**"});
            deny.except->program = globs({"/usr/bin/ssh"});
            const RuleSet rules({rule("pub", Action::allow, Operation::read, {"/h/.ssh/pub/**"}), deny},
                                Action::deny);
            CHECK(plan(rules, tree).grants.empty());
        }
    }

    TEST_CASE("a default of allow is split around built-in rules") {
        const MemoryTree tree{"/usr/bin/ls", "/home/u/.local/state/callgate/log", "/home/u/src/"};
        Rule state = rule("callgate.state", Action::deny, read_write, {"/home/u/.local/state/callgate/**"});
        state.built_in = true;
        const RuleSet rules({state}, Action::allow);
        const Plan made = plan(rules, tree);
        CHECK(granted(made, "/usr") == "read,modify,create,delete,execute");
        CHECK(granted(made, "/home/u/src") == "read,modify,create,delete,execute");
        CHECK(granted(made, "/") == "execute");
        CHECK(find(made, "/")->notify_only_read);
        CHECK(find(made, "/usr")->rules == std::vector<std::string>{"default"});
        CHECK(granted(made, "/home/u/.local/state/callgate") == "");
    }

    TEST_CASE("what is decided beyond the rules gets no grant, and nothing else is lost") {
        const MemoryTree tree{"/dev/null", "/dev/shm/x", "/w/a"};
        for (const RuleSet& rules :
             {RuleSet({}, Action::allow),
              RuleSet({rule("all", Action::allow, read_write, {"/**"})}, Action::deny)}) {
            const Plan made =
                make_plan(rules, {.landlock_abi = 7, .tree = &tree, .shared_memory = "/dev/shm"});
            const StaticGrants grants(made);
            for (const char* path : {"/dev/shm", "/dev/shm/x"}) {
                for (const Operation one : {Operation::read, Operation::modify, Operation::create})
                    CHECK_FALSE(grants.allow(one, path));
            }
            CHECK(grants.allow(Operation::read, "/w/a"));
            CHECK(grants.allow(Operation::read, "/dev/null"));
            CHECK(StaticGrants(make_plan(rules, {.landlock_abi = 7, .tree = &tree}))
                      .allow(Operation::read, "/dev/shm/x"));
        }
    }

    TEST_CASE("nothing in /proc gets a grant where callgate decides who reads what it shows of a process") {
        const MemoryTree tree{"/proc/meminfo", "/proc/17/mem", "/proc/sys/x", "/w/a"};
        const RuleSet all({rule("all", Action::allow, read_write, {"/**"})}, Action::deny);
        const RuleSet some({rule("all", Action::allow, read_write, {"/**"}),
                            rule("no", Action::deny, Operation::read, {"/proc/kcore"})},
                           Action::deny);
        const PlanInput input{.landlock_abi = 7, .tree = &tree, .processes = true};
        for (const char* path : {"/proc", "/proc/17/mem", "/proc/17/environ"}) {
            CHECK_FALSE(StaticGrants(make_plan(all, input)).allow(Operation::read, path));
            CHECK_FALSE(StaticGrants(make_plan(all, input)).allow(Operation::modify, path));
        }
        CHECK(StaticGrants(make_plan(all, input)).allow(Operation::read, "/w/a"));
        CHECK(make_plan(all, input).processes_read);
        CHECK_FALSE(make_plan(some, input).processes_read);
        CHECK_FALSE(make_plan(RuleSet({}, Action::deny), input).processes_read);
        CHECK(make_plan(all, input).notified.contains(Operation::read));
    }

    TEST_CASE("a default of ask or deny does not restrict inside an allowed hierarchy, nor does it allow") {
        const MemoryTree tree{"/w/a", "/etc/x"};
        for (const Action fallback : {Action::ask, Action::deny}) {
            const RuleSet rules({rule("work", Action::allow, Operation::read, {"/w/**"})}, fallback);
            const Plan made = plan(rules, tree);
            CHECK(made.grants.size() == 1);
            CHECK(granted(made, "/w") == "read");
        }
    }

    TEST_CASE("literal files are granted where they exist, directories and missing files are not") {
        const MemoryTree tree{"/etc/hosts", "/etc/ssl/"};
        const RuleSet rules({rule("etc", Action::allow, read_write, {"/etc/hosts", "/etc/ssl", "/etc/gone"})},
                            Action::deny);
        const Plan made = plan(rules, tree);
        REQUIRE(made.grants.size() == 1);
        CHECK(made.grants[0].path == "/etc/hosts");
        CHECK_FALSE(made.grants[0].directory);
        CHECK(names(made.grants[0].operations) == "read,modify");
    }

    TEST_CASE("grants of one path are merged and implied ones dropped") {
        const MemoryTree tree{"/w/a/f", "/w/b/"};
        const RuleSet rules(
            {rule("one", Action::allow, Operation::read, {"/w/**"}),
             rule("two", Action::allow, Operation::create, {"/w/**"}),
             rule("three", Action::allow, OperationSet{Operation::read, Operation::create}, {"/w/a/**"}),
             rule("four", Action::allow, Operation::remove, {"/w/b/**"})},
            Action::deny);
        const Plan made = plan(rules, tree);
        REQUIRE(made.grants.size() == 2);
        CHECK(granted(made, "/w") == "read,create");
        CHECK(made.grants[0].rules == std::vector<std::string>{"one", "two"});
        // Inherited operations are repeated, so that Landlock's REFER sees both rights for a rename.
        CHECK(granted(made, "/w/b") == "read,create,delete");
    }

    TEST_CASE("execution without static reading is notify-only") {
        const MemoryTree tree{"/usr/bin/ls", "/opt/"};
        SUBCASE("reading is not allowed at all") {
            const RuleSet rules({rule("run", Action::allow, Operation::execute, {"/usr/**"})}, Action::deny);
            const Plan made = plan(rules, tree);
            CHECK(find(made, "/usr")->notify_only_read);
            CHECK(made.notify_only);
        }
        SUBCASE("reading is granted above") {
            const RuleSet rules({rule("run", Action::allow, Operation::execute, {"/usr/**"}),
                                 rule("read", Action::allow, Operation::read, {"/**"})},
                                Action::deny);
            const Plan made = plan(rules, tree);
            CHECK_FALSE(find(made, "/usr")->notify_only_read);
            CHECK_FALSE(made.notify_only);
        }
    }

    TEST_CASE("a rule for sockets says nothing about files, also where it names file operations") {
        const MemoryTree tree{"/w/a"};
        const Rule mixed =
            socket("mixed", Action::allow, read_write | OperationSet(Operation::connect), {"/run/**"});
        CHECK(plan(RuleSet({mixed}, Action::deny), tree).grants.empty());
        Rule foreign = except(rule("no", Action::deny, Operation::read, {"/w/**"}), {"/w/**"});
        foreign.except->port = {{1, 1}};  // never true of a file
        const RuleSet rules({rule("work", Action::allow, Operation::read, {"/w/**"}), foreign}, Action::deny);
        CHECK(plan(rules, tree).grants.empty());
    }

    TEST_CASE("no Landlock means no grants, and everything notified but what all rules allow") {
        const MemoryTree tree{"/w/"};
        const RuleSet rules({}, Action::allow);
        CHECK(plan(rules, tree, 0).grants.empty());
        CHECK_FALSE(plan(rules, tree, 0).notified.contains(Operation::read));
        const RuleSet mixed({rule("no", Action::deny, Operation::read, {"/w/a"})}, Action::allow);
        CHECK(plan(mixed, tree, 0).grants.empty());
        CHECK(plan(mixed, tree, 0).notified.contains(Operation::read));
        CHECK(plan(mixed, tree, 0).notified.contains(Operation::create));  // a rename could free it
    }

    TEST_CASE("no file tree means no grants and everything notified") {
        const RuleSet rules({}, Action::allow);
        const Plan blind =
            make_plan(rules, {.landlock_abi = 7, .record = RecordMode::minimal, .tree = nullptr});
        CHECK(blind.grants.empty());
        CHECK(blind.notified.contains(Operation::read));
    }

    TEST_CASE("nothing is notified where nothing contests") {
        const MemoryTree tree{"/w/a"};
        const RuleSet rules({}, Action::allow);
        const Plan made = plan(rules, tree);
        CHECK(made.notified.empty());
        CHECK(made.contests.empty());
        CHECK(made.tcp_connect.all);
        CHECK(made.tcp_bind.all);
        CHECK(granted(made, "/") == "read,modify,create,delete,execute");
        const Plan all = plan(rules, tree, 7, RecordMode::all);
        CHECK(all.notified == (file_operations | network_operations));
        CHECK(all.contest(Operation::read)->because == std::vector<std::string>{"record"});
    }

    TEST_CASE("an allow for every path by rule contests nothing of its operation") {
        const MemoryTree tree{"/w/a"};
        const RuleSet rules({rule("all", Action::allow, Operation::read, {"/**"})}, Action::deny);
        const Plan made = plan(rules, tree);
        CHECK_FALSE(made.notified.contains(Operation::read));
        CHECK(made.notified.contains(Operation::modify));
        CHECK(made.contest(Operation::modify)->because == std::vector<std::string>{"default"});
    }

    TEST_CASE("each contest names the rules that made it so") {
        const MemoryTree tree{"/w/a"};
        const RuleSet rules({rule("no", Action::deny, Operation::read, {"/w/a"}),
                             rule("ask", Action::ask, Operation::connect)},
                            Action::allow);
        const Plan made = plan(rules, tree);
        REQUIRE(made.contest(Operation::read) != nullptr);
        CHECK(made.contest(Operation::read)->because == std::vector<std::string>{"no"});
        CHECK(made.contest(Operation::read)->why == "rule no may deny read");
        CHECK(made.contest(Operation::connect)->because == std::vector<std::string>{"ask"});
        CHECK(made.contest(Operation::modify) == nullptr);
        // A rename could take /w/a to a name where it may be read.
        REQUIRE(made.contest(Operation::create) != nullptr);
        CHECK(made.contest(Operation::create)->because[0] == "no");
    }
}

TEST_SUITE("plan, minimal records") {
    TEST_CASE("static rules leave opens and TCP connects to the kernel") {
        const MemoryTree tree{"/w/a", "/usr/bin/ls"};
        const RuleSet rules({rule("work", Action::allow, read_write, {"/w/**"}),
                             rule("system", Action::allow, read_execute, {"/usr/**"}),
                             ports(rule("web", Action::allow, Operation::connect), {{443, 443}})},
                            Action::deny);
        const Plan made = plan(rules, tree, 7, RecordMode::minimal);
        // "web" names a port, so nothing opens unix sockets: the filter closes them.
        CHECK(made.unix_closed);
        CHECK(made.notified == OperationSet{Operation::metadata, Operation::bind});
        CHECK(made.tcp_connect.ports == std::vector<PortRange>{{443, 443}});
        CHECK(made.tcp_connect.exact);
        CHECK(tier(made, "web") == Tier::landlock);
        CHECK(plan(rules, tree).notified == (file_operations | network_operations));
        CHECK_FALSE(plan(rules, tree).unix_closed);
    }

    TEST_CASE("what is not static is notified") {
        const MemoryTree tree{"/w/a", "/w/b/"};
        const Rule work = rule("work", Action::allow, read_write, {"/w/**"});
        const auto notified = [&](Rule other, Action fallback = Action::deny) {
            return plan(RuleSet({work, std::move(other)}, fallback), tree, 7, RecordMode::minimal).notified;
        };
        CHECK(notified(rule("no", Action::deny, Operation::read, {"/w/b/**"})).contains(Operation::read));
        CHECK(notified(rule("no", Action::deny, Operation::read, {"/w/**/.env"})).contains(Operation::read));
        CHECK_FALSE(
            notified(rule("no", Action::deny, Operation::read, {"/etc/**"})).contains(Operation::read));
        CHECK(notified(rule("no", Action::ask, Operation::read, {"/etc/**"})).contains(Operation::read));
        CHECK(notified(rule("no", Action::kill, Operation::read, {"/etc/**"})).contains(Operation::read));
        CHECK(notified(rule("no", Action::allow, Operation::read, {"/etc/*.d"})).contains(Operation::read));
        CHECK_FALSE(
            notified(rule("no", Action::allow, Operation::read, {"/etc/gone"})).contains(Operation::read));
        CHECK(notified(rule("no", Action::allow, Operation::modify, {"/w/new"})).empty() == false);
        CHECK(notified(by(rule("no", Action::allow, Operation::read, {"/etc/**"}), "/bin/x"))
                  .contains(Operation::read));
        CHECK(notified(rule("no", Action::deny, Operation::connect), Action::ask).contains(Operation::read));
        Rule hidden = rule("no", Action::deny, Operation::read, {"/etc/**"});
        hidden.error = ENOENT;
        CHECK(notified(hidden).contains(Operation::read));
        hidden.error = EACCES;
        CHECK_FALSE(notified(hidden).contains(Operation::read));
    }

    TEST_CASE("a file that may appear in an allowed directory is notified") {
        const MemoryTree tree{"/w/"};
        const RuleSet rules(
            {rule("make", Action::allow, OperationSet{Operation::create, Operation::remove}, {"/w/**"}),
             rule("one", Action::allow, Operation::read, {"/w/one"})},
            Action::deny);
        const Plan made = plan(rules, tree, 7, RecordMode::minimal);
        CHECK(made.notified.contains(Operation::read));
        CHECK(made.notified.contains(Operation::create));
        CHECK(why(made, "one") == "/w/one does not exist yet");
    }

    TEST_CASE("renames are notified where Landlock would not compare what they free") {
        const MemoryTree tree{"/w/a", "/w/b", "/v/x"};
        const auto notified = [&](std::vector<Rule> rules) {
            return plan(RuleSet(std::move(rules), Action::deny), tree, 7, RecordMode::minimal).notified;
        };
        const OperationSet moving{Operation::create, Operation::remove};
        const Rule work = rule("work", Action::allow, read_write, {"/w/**"});
        CHECK_FALSE(notified({work}).contains(Operation::create));
        CHECK(notified({rule("work", Action::allow, moving, {"/w/**"}),
                        rule("a", Action::allow, Operation::read, {"/w/a"})})
                  .contains(Operation::create));
        CHECK(notified({work, rule("meta", Action::allow, Operation::metadata, {"/v/**"})})
                  .contains(Operation::create));
        CHECK(notified({work, socket("bus", Action::allow, Operation::connect, {"/w/bus"})})
                  .contains(Operation::create));
        CHECK(notified({work, rule("run", Action::allow, Operation::execute, {"/v/**"})})
                  .contains(Operation::create));
    }

    TEST_CASE("notify-only reading is notified") {
        const MemoryTree tree{"/usr/bin/ls"};
        const RuleSet rules({rule("run", Action::allow, Operation::execute, {"/usr/**"})}, Action::deny);
        CHECK(plan(rules, tree, 7, RecordMode::minimal).notified.contains(Operation::read));
    }

    TEST_CASE("connect is notified where unix sockets are neither all allowed nor closed") {
        const MemoryTree tree;
        const auto notified = [&](std::vector<Rule> rules, Action fallback = Action::deny) {
            return plan(RuleSet(std::move(rules), fallback), tree, 7, RecordMode::minimal).notified;
        };
        const Rule web = ports(rule("web", Action::allow, Operation::connect), {{443, 443}});
        CHECK_FALSE(notified({web}).contains(Operation::connect));
        CHECK(notified({web, socket("bus", Action::allow, Operation::connect, {"/run/bus"})})
                  .contains(Operation::connect));
        CHECK_FALSE(notified({rule("any", Action::allow, Operation::connect)}).contains(Operation::connect));
        CHECK(notified({rule("any", Action::allow, Operation::connect),
                        socket("bus", Action::deny, Operation::connect, {"/run/bus"})})
                  .contains(Operation::connect));
        CHECK(notified({socket("bus", Action::deny, Operation::connect, {"/run/bus"})}, Action::allow)
                  .contains(Operation::connect));
    }

    TEST_CASE("TCP is notified where Landlock's ports are not what the rules say") {
        const MemoryTree tree;
        const auto notified = [&](std::vector<Rule> rules) {
            return plan(RuleSet(std::move(rules), Action::deny), tree, 7, RecordMode::minimal)
                .notified.contains(Operation::connect);
        };
        const Rule web = ports(rule("web", Action::allow, Operation::connect), {{443, 443}});
        Rule address = web;
        address.id = "address";
        address.when.address = {{}};
        CHECK_FALSE(notified({web, address}));  // the port is allowed to every host already
        address.when.port = {{80, 80}};
        CHECK(notified({web, address}));
        address.action = Action::deny;
        CHECK_FALSE(notified({web, address}));
        address.when.port = {{443, 443}};
        CHECK(notified({web, address}));
        address.when.address.clear();
        CHECK_FALSE(notified({web, address}));  // the whole port is denied
        CHECK(notified({ports(rule("wide", Action::allow, Operation::connect), {{1, 65535}})}));
        Rule udp = web;
        udp.id = "udp";
        udp.when.protocol.udp = true;
        CHECK(notified({web, udp}));
    }
}

TEST_SUITE("plan, network") {
    TEST_CASE("ports that are allowed to every host and never restricted are Landlock's") {
        const MemoryTree tree;
        Rule host = ports(rule("host", Action::allow, Operation::connect), {{22, 22}});
        host.when.host.push_back({"example.org", false});
        Rule deny = ports(rule("no", Action::deny, Operation::connect), {{8005, 8006}});
        deny.when.address = {{}};
        const RuleSet rules(
            {ports(rule("web", Action::allow, Operation::connect), {{8000, 8009}, {443, 443}}), host, deny,
             ports(rule("serve", Action::allow, Operation::bind), {{0, 0}, {3000, 3000}})},
            Action::deny);
        const Plan made = plan(rules, tree);
        CHECK(made.tcp_connect.ports == std::vector<PortRange>{{443, 443}, {8000, 8004}, {8007, 8009}});
        CHECK_FALSE(made.tcp_connect.exact);
        CHECK(made.tcp_bind.ports == std::vector<PortRange>{{0, 0}, {3000, 3000}});
        CHECK(made.tcp_bind.exact);
        CHECK(why(made, "host") == "Landlock knows ports, not hosts or addresses");
    }

    TEST_CASE("conditions of program, unix, protocol and exceptions keep a port from Landlock") {
        const MemoryTree tree;
        const Rule web = ports(rule("web", Action::allow, Operation::connect), {{443, 443}});
        CHECK(plan(RuleSet({by(web, "/bin/curl")}, Action::deny), tree).tcp_connect.ports.empty());
        Rule excepted = web;
        excepted.except.emplace();
        excepted.except->port = {{443, 443}};
        CHECK(plan(RuleSet({excepted}, Action::deny), tree).tcp_connect.ports.empty());
        Rule udp = web;
        udp.when.protocol.udp = true;
        const Plan made = plan(RuleSet({udp}, Action::deny), tree);
        CHECK(made.tcp_connect.ports.empty());
        CHECK(made.udp);
        Rule datagrams = rule("datagrams", Action::deny, Operation::connect);
        datagrams.when.protocol.udp = true;
        const RuleSet both({web, datagrams}, Action::deny);
        const Plan filtered = plan(both, tree);
        CHECK(filtered.tcp_connect.ports.size() == 1);
        CHECK(tier(filtered, "datagrams") == Tier::filter);
    }

    TEST_CASE("no more ports than Landlock is given, the narrow ranges first") {
        const MemoryTree tree;
        const RuleSet rules(
            {ports(rule("web", Action::allow, Operation::connect), {{1, 5000}, {8000, 8999}, {9100, 9100}})},
            Action::deny);
        const Plan made = plan(rules, tree);
        CHECK(made.tcp_connect.ports == std::vector<PortRange>{{8000, 8999}, {9100, 9100}});
        CHECK_FALSE(made.tcp_connect.exact);
    }
}

TEST_SUITE("plan, older kernels") {
    TEST_CASE("the flags say what each Landlock ABI holds") {
        const MemoryTree tree{"/w/"};
        const RuleSet rules({rule("work", Action::allow, read_write, {"/w/**"}),
                             ports(rule("web", Action::allow, Operation::connect), {{443, 443}})},
                            Action::deny);
        for (int abi = 1; abi <= 10; ++abi) {
            CAPTURE(abi);
            const Plan made = plan(rules, tree, abi, RecordMode::minimal);
            CHECK(made.truncation_held == (abi >= 3));
            CHECK(made.signals_held == (abi >= 6));
            CHECK(granted(made, "/w") == "read,modify,create,delete");
            CHECK(made.notified.contains(Operation::modify) == (abi < 3));
            // A modification that is decided call by call must not be freed by a rename.
            CHECK(made.notified.contains(Operation::create) == (abi < 3));
            CHECK(made.notified.contains(Operation::connect) == (abi < 4));
            CHECK(made.tcp_connect.ports.empty() == (abi < 4));
            CHECK_FALSE(made.notified.contains(Operation::read));
        }
    }

    Rule of(Rule from, bool udp, bool datagram) {
        from.when.protocol.udp = udp;
        from.when.protocol.datagram = datagram;
        return from;
    }

    TEST_CASE("from ABI 10 UDP ports are Landlock's, and datagrams are not notified") {
        const MemoryTree tree{"/w/"};
        const Rule names =
            of(ports(rule("names", Action::allow, Operation::connect), {{53, 53}}), true, false);
        const Rule any =
            of(ports(rule("any", Action::allow, Operation::bind), {{0, 0}, {5000, 5001}}), true, false);
        const Rule fixed =
            of(ports(rule("fixed", Action::allow, Operation::bind), {{5000, 5000}}), true, false);
        const auto minimal = [&](std::vector<Rule> rules, int abi = 10,
                                 RecordMode mode = RecordMode::minimal) {
            return plan(RuleSet(std::move(rules), Action::deny), tree, abi, mode);
        };
        const Plan held = minimal({names, any});
        CHECK(held.udp_connect.ports == std::vector<PortRange>{{53, 53}});
        CHECK(held.udp_connect.limited());
        CHECK(held.udp_bind.ports == std::vector<PortRange>{{0, 0}, {5000, 5001}});
        CHECK(held.udp_bind.limited());
        CHECK(held.sends_held);
        CHECK_FALSE(held.notified.contains(Operation::connect));
        CHECK_FALSE(minimal({names, any}, 9).sends_held);
        CHECK(minimal({names, any}, 9).notified.contains(Operation::connect));
        CHECK_FALSE(minimal({names, any}, 10, RecordMode::contested).sends_held);
        // A socket that is not bound could not send, so binds stay with callgate.
        const Plan without = minimal({names, fixed});
        CHECK(without.sends_held);
        CHECK_FALSE(without.udp_bind.limited());
        CHECK(without.notified.contains(Operation::bind));
        Rule local = names;
        local.when.address = {{IpAddress{{127, 0, 0, 1}, false}, 8}};
        for (const Rule& one :
             {local, by(names, "/bin/dig"),
              of(ports(rule("ask", Action::ask, Operation::connect), {{54, 54}}), true, false)}) {
            CAPTURE(one.id);
            CHECK_FALSE(minimal({one}).sends_held);
            CHECK_FALSE(minimal({one}).udp_connect.limited());
            CHECK(minimal({one}).notified.contains(Operation::connect));
        }
        Rule host = rule("host", Action::allow, Operation::connect);
        host.when.host.push_back({"example.org", false});
        CHECK_FALSE(minimal({names, any, host}).sends_held);
    }

    TEST_CASE("from ABI 9 unix sockets in whole directories are Landlock's, where binds allow no more") {
        const MemoryTree tree{"/w/s/", "/w/f", "/w/l@", "/t/"};
        constexpr OperationSet both{Operation::connect, Operation::bind};
        const auto minimal = [&](std::vector<Rule> rules, int abi = 9) {
            return plan(RuleSet(std::move(rules), Action::deny), tree, abi, RecordMode::minimal);
        };
        const auto held = [&](std::vector<Rule> rules) { return minimal(std::move(rules)).sockets_held; };
        const Rule here = socket("here", Action::allow, both, {"/w/s/**", "/t/**"});
        const Plan made = minimal({here});
        CHECK(made.sockets_held);
        CHECK(granted(made, "/w/s") == "connect");
        CHECK(granted(made, "/t") == "connect");
        CHECK(made.contest(Operation::connect) == nullptr);
        CHECK(made.notified.contains(Operation::bind));
        CHECK(made.notified.contains(Operation::create));  // a name of a socket could move
        CHECK(StaticGrants(made).may_carry("/w"));
        CHECK_FALSE(minimal({here}, 8).sockets_held);
        CHECK(minimal({here}, 8).notified.contains(Operation::connect));
        CHECK_FALSE(plan(RuleSet({here}, Action::deny), tree, 9).sockets_held);  // denials are on record
        CHECK(held({socket("c", Action::allow, Operation::connect, {"/t/**"})}));
        CHECK_FALSE(held({socket("b", Action::allow, Operation::bind, {"/t/**"})}));
        CHECK_FALSE(held({here, socket("b", Action::allow, Operation::bind, {"/t/**"})}));
        for (const std::string name :
             {"/w/f", "/w/s/one", "/w/l/**", "/w/none/**", "/w/s/*", "@x", "/w/*/**"}) {
            CAPTURE(name);
            CHECK_FALSE(held({socket("n", Action::allow, Operation::connect, {name})}));
        }
        CHECK_FALSE(held({here, socket("d", Action::deny, Operation::connect, {"/w/s/x"})}));
        CHECK_FALSE(held({here, socket("d", Action::deny, both, {"/**/x"})}));
        CHECK(held({here, socket("d", Action::deny, both, {"/run/**", "/w/x"})}));
        CHECK(held({here, socket("d", Action::deny, Operation::bind, {"/w/s/x"})}));
        CHECK_FALSE(held({here, socket("a", Action::ask, Operation::connect, {"/run/**"})}));
        CHECK_FALSE(held({here, socket("k", Action::kill, Operation::bind, {"/run/**"})}));
        CHECK_FALSE(held({by(here, "/bin/sh")}));
        Rule besides = socket("d", Action::deny, both, {"/w/**"});
        besides.except.emplace().unix_socket = globs({"/w/s/**"});
        CHECK(held({here, besides}));
        // Landlock knows no types of sockets.
        const Rule datagrams = of(socket("dgram", Action::allow, both, {"/t/**"}), false, true);
        CHECK_FALSE(held({here, datagrams}));
        const Plan same =
            minimal({here, of(socket("dgram", Action::allow, both, {"/w/s/**", "/t/**"}), false, true)});
        CHECK(same.sockets_held);
        CHECK(same.sends_held);
    }

    TEST_CASE("from ABI 9 messages to the run's own sockets are Landlock's, where rules leave them to it") {
        const MemoryTree tree{"/w/s/", "/t/"};
        constexpr OperationSet both{Operation::connect, Operation::bind};
        Rule left = of(socket("left", Action::allow, both, {"/w/s/**", "/t/**"}), false, true);
        left.needs_landlock_unix = true;
        const Rule streams = socket("streams", Action::allow, both, {"/w/**"});
        const auto made = [&](std::vector<Rule> rules, int abi = 9, Action fallback = Action::ask) {
            return plan(RuleSet(std::move(rules), fallback), tree, abi);
        };
        const auto held = [&](std::vector<Rule> rules) { return made(std::move(rules)).messages_held; };
        const Plan ours = made({streams, left});
        CHECK(ours.messages_held);
        CHECK_FALSE(ours.sockets_held);
        CHECK_FALSE(ours.sends_held);
        CHECK(granted(ours, "/t").find("connect") == std::string::npos);
        CHECK(ours.notified.contains_all(both));
        CHECK_FALSE(made({streams, left}, 8).messages_held);
        CHECK_FALSE(made({left}, 9, Action::allow).messages_held);
        CHECK(made({left}, 9, Action::deny).messages_held);
        CHECK_FALSE(held({streams}));
        // A rule decides datagrams, or could stop one to a server of the run.
        CHECK_FALSE(held({left, of(socket("d", Action::allow, both, {"/t/**"}), false, true)}));
        CHECK_FALSE(held({left, of(socket("d", Action::ask, both, {"/t/**"}), false, true)}));
        const RuleSet stops({left, socket("d", Action::deny, Operation::connect, {"/w/s/x"})}, Action::ask);
        CHECK_FALSE(plan(stops, tree, 9).messages_held);
        CHECK_FALSE(plan(stops, tree, 9).unix_datagram);  // rather none than a decision for each sendmsg
        CHECK(ours.unix_datagram);
        CHECK(held({left, socket("d", Action::deny, both, {"@*x*"})}));
        CHECK(held({left, socket("d", Action::deny, Operation::connect, {"/run/**"})}));
        CHECK_FALSE(held({left, socket("k", Action::kill, Operation::connect, {"/run/**"})}));
        CHECK(held({left, ports(of(rule("u", Action::allow, Operation::connect), true, false), {{53, 53}})}));
        for (const OperationSet one : {OperationSet(Operation::connect), OperationSet(Operation::bind)}) {
            Rule half = left;
            half.operations = one;
            CHECK_FALSE(held({half}));
        }
        PlanInput copies{.landlock_abi = 9, .tree = &tree, .sockets_on_behalf = true};
        CHECK_FALSE(make_plan(RuleSet({left}, Action::ask), copies).messages_held);
        copies.sockets_on_behalf = false;
        CHECK(make_plan(RuleSet({left}, Action::ask), copies).messages_held);
    }

    TEST_CASE("before ABI 2 renames are answered on behalf even where everything is allowed") {
        const MemoryTree tree{"/w/"};
        const RuleSet rules({}, Action::allow);
        for (const RecordMode mode : {RecordMode::minimal, RecordMode::contested}) {
            CHECK(plan(rules, tree, 1, mode).notified == OperationSet{Operation::create});
            CHECK(plan(rules, tree, 2, mode).notified.empty());
            CHECK(plan(rules, tree, 1, mode).contest(Operation::create)->because ==
                  std::vector<std::string>{"landlock"});
        }
        CHECK(plan(rules, tree, 1).tcp_connect.all);
    }
}

TEST_SUITE("plan, look-ups") {
    Plan planned(std::vector<Rule> rules, Action fallback = Action::deny) {
        const RuleSet set(std::move(rules), fallback);
        return make_plan(set, {.landlock_abi = 7});
    }

    TEST_CASE("look-ups are decided where a rule names hosts, or the default asks") {
        Rule host = rule("h", Action::allow, Operation::connect);
        host.when.host.push_back({"example.org", false});
        Rule udp = rule("u", Action::allow, Operation::connect);
        udp.when.protocol.udp = true;
        const Rule files = rule("f", Action::allow, Operation::read, {"/x"});
        CHECK(planned({host}).look_ups);
        CHECK(planned({host, udp}).look_ups);
        CHECK(planned({host}, Action::allow).look_ups);
        CHECK(planned({files}, Action::ask).look_ups);
        CHECK_FALSE(planned({files, udp}, Action::ask).look_ups);
        CHECK_FALSE(planned({files}).look_ups);
        CHECK_FALSE(planned({files}, Action::allow).look_ups);
        CHECK_FALSE(planned({udp}).look_ups);
    }

    TEST_CASE("name servers are reached by connect, so every connect is notified") {
        Rule denied = rule("h", Action::deny, Operation::connect);
        denied.when.host.push_back({"example.org", false});
        CHECK(planned({denied}, Action::allow).notified.contains(Operation::connect));
    }
}

TEST_SUITE("plan, servers of the run's own") {
    Rule servers(OperationSet operations) {
        Rule made = rule("servers", Action::allow, operations);
        made.when.address = {{IpAddress{{127, 0, 0, 1}, false}, 8}};
        made.when.run_server = true;
        return made;
    }

    TEST_CASE("no port is Landlock's, and what the run binds is seen") {
        const RuleSet rules({servers(Operation::connect)}, Action::deny);
        for (const RecordMode record : {RecordMode::contested, RecordMode::minimal}) {
            const Plan plan = make_plan(rules, {.landlock_abi = 7, .record = record});
            CHECK(plan.run_servers);
            CHECK(plan.tcp_connect.ports.empty());
            CHECK(plan.notified.contains_all({Operation::connect, Operation::bind}));
        }
    }

    TEST_CASE("where descriptors cannot be copied, both calls on sockets are seen or neither is") {
        const PlanInput input{
            .landlock_abi = 7, .record = RecordMode::minimal, .sockets_on_behalf = true, .reasons = true};
        Rule host = rule("host", Action::deny, Operation::connect);
        host.when.address = {{IpAddress{{127, 0, 0, 1}, false}, 8}};
        const Plan some = make_plan(RuleSet({host}, Action::allow), input);
        CHECK(some.sockets_on_behalf);
        CHECK(some.notified.contains_all({Operation::connect, Operation::bind}));
        const Plan none = make_plan(RuleSet({}, Action::allow), input);
        CHECK_FALSE(none.sockets_on_behalf);
        CHECK_FALSE(none.notified.intersects({Operation::connect, Operation::bind}));
    }

    TEST_CASE("where all is allowed nothing is decided") {
        CHECK_FALSE(
            make_plan(RuleSet({servers(Operation::bind)}, Action::allow), {.landlock_abi = 7}).run_servers);
        CHECK_FALSE(make_plan(RuleSet({rule("all", Action::allow, Operation::connect)}, Action::deny),
                              {.landlock_abi = 7})
                        .run_servers);
    }
}

TEST_SUITE("plan, execution") {
    const OperationSet read_execute{Operation::read, Operation::execute};

    Rule arguments(Rule from, const std::vector<std::string>& patterns) {
        from.when.argv.emplace();
        for (const std::string& pattern : patterns)
            from.when.argv->push_back(Glob::compile(pattern, GlobKind::text).value());
        return from;
    }
    /// The paths at which execution is notify-only.
    std::vector<std::string> notify_only(const Plan& made) {
        std::vector<std::string> paths;
        for (const Grant& grant : made.grants)
            if (grant.notify_only_execute) paths.push_back(grant.path);
        CHECK(made.notify_only_execute == !paths.empty());
        // Execution that is not static is notified.
        if (!paths.empty()) CHECK(made.notified.contains(Operation::execute));
        return paths;
    }
    using Paths = std::vector<std::string>;

    TEST_CASE("a denial where nothing can be made is left out of the grants and costs nothing more") {
        const MemoryTree tree{"/usr/bin/cat", "/usr/bin/gdb", "/usr/lib/libc.so"};
        const Rule system = rule("system", Action::allow, read_execute, {"/usr/**"});
        for (const Action action : {Action::deny, Action::kill}) {
            const RuleSet rules({system, rule("no", action, Operation::execute, {"/usr/bin/gdb"})},
                                Action::deny);
            for (const RecordMode mode : {RecordMode::minimal, RecordMode::contested}) {
                const Plan made = plan(rules, tree, 7, mode);
                CHECK(notify_only(made).empty());
                CHECK(granted(made, "/usr") == "read");
                CHECK(granted(made, "/usr/lib") == "read,execute");
                CHECK(granted(made, "/usr/bin/cat") == "read,execute");
                const StaticGrants grants(made);
                CHECK(grants.let_execute("/usr/bin/cat"));
                CHECK(grants.let_execute("/usr/lib/new"));
                CHECK_FALSE(grants.let_execute("/usr/bin/gdb"));
                CHECK_FALSE(grants.let_execute("/usr/bin/new"));
                CHECK_FALSE(grants.allow(Operation::execute, "/usr/bin/gdb"));
            }
        }
    }

    TEST_CASE("what is asked about can be executed once it is allowed") {
        const MemoryTree tree{"/usr/bin/cat", "/usr/bin/gdb", "/w/tools/one"};
        const Rule system = rule("system", Action::allow, read_execute, {"/usr/**"});
        const Plan one = plan(
            RuleSet({system, rule("ask", Action::ask, Operation::execute, {"/usr/bin/gdb"})}, Action::deny),
            tree, 7);
        CHECK(notify_only(one) == Paths{"/usr/bin/gdb"});
        CHECK(StaticGrants(one).let_execute("/usr/bin/gdb"));
        CHECK_FALSE(StaticGrants(one).allow(Operation::execute, "/usr/bin/gdb"));
        const Rule tools = rule("ask", Action::ask, Operation::execute, {"/w/tools/**"});
        CHECK(notify_only(plan(RuleSet({tools}, Action::deny), tree, 7)) == Paths{"/w/tools"});
        // Nor is it let through where a denial stands above.
        const Rule no = rule("no", Action::deny, Operation::execute, {"/w/**"});
        CHECK(notify_only(plan(RuleSet({tools, no}, Action::deny), tree, 7)).empty());
    }

    TEST_CASE("where something may be made, execution is notify-only") {
        const MemoryTree tree{"/w/secret/tool", "/w/build/tool", "/w/run"};
        const OperationSet all = read_write | OperationSet{Operation::execute};
        const Rule work = rule("work", Action::allow, all, {"/w/**"});
        const Rule no = rule("no", Action::deny, all, {"/w/secret/**"});
        const Plan made = plan(RuleSet({work, no}, Action::deny), tree);
        CHECK(notify_only(made) == Paths{"/w"});
        CHECK(made.notify_only);  // EXECUTE needs READ_FILE, and the secret is not to be read
        CHECK(granted(made, "/w/build") == "read,modify,create,delete");
        const StaticGrants grants(made);
        CHECK(grants.let_execute("/w/secret/tool"));
        CHECK(grants.let_execute("/w/new/tool"));
        CHECK_FALSE(grants.allow(Operation::execute, "/w/run"));

        // Only execution is restricted: reading stays with Landlock.
        const Plan readable = plan(
            RuleSet({work, rule("no", Action::deny, Operation::execute, {"/w/secret/**"})}, Action::deny),
            tree);
        CHECK(notify_only(readable) == Paths{"/w"});
        CHECK_FALSE(readable.notify_only);
    }

    TEST_CASE("a pattern that may match anywhere beneath is notify-only") {
        const MemoryTree tree{"/usr/bin/git", "/opt/x/run"};
        const Rule system = rule("system", Action::allow, read_execute, {"/usr/**"});
        const RuleSet denied({system, rule("no", Action::deny, Operation::execute, {"**/git"})},
                             Action::deny);
        CHECK(notify_only(plan(denied, tree)) == Paths{"/usr"});
        CHECK_FALSE(plan(denied, tree).notify_only);
        const RuleSet allowed({rule("some", Action::allow, read_execute, {"/usr/bin/g*"})}, Action::deny);
        CHECK(notify_only(plan(allowed, tree)) == Paths{"/usr/bin"});
        CHECK(plan(allowed, tree).notify_only);
        const RuleSet anywhere({rule("some", Action::allow, read_execute, {"**/git"})}, Action::deny);
        CHECK(notify_only(plan(anywhere, tree)) == Paths{"/"});
        const RuleSet absent({rule("some", Action::allow, read_execute, {"/none/*/git"})}, Action::deny);
        CHECK(notify_only(plan(absent, tree)).empty());
    }

    TEST_CASE("arguments and programs are known only when somebody asks") {
        const MemoryTree tree{"/usr/bin/git", "/usr/bin/cat", "/opt/x/run"};
        const Rule system = rule("system", Action::allow, read_execute, {"/usr/**"});
        const Rule push =
            arguments(rule("push", Action::deny, Operation::execute, {"/usr/bin/git"}), {"*", "push", "**"});
        CHECK(notify_only(plan(RuleSet({system, push}, Action::deny), tree)) == Paths{"/usr/bin/git"});
        const Rule status =
            arguments(rule("status", Action::allow, read_execute, {"/usr/bin/git"}), {"*", "status"});
        CHECK(notify_only(plan(RuleSet({status}, Action::deny), tree)) == Paths{"/usr/bin/git"});
        const Rule shell = by(rule("shell", Action::allow, read_execute, {"/opt/**"}), "/bin/sh");
        CHECK(notify_only(plan(RuleSet({shell}, Action::deny), tree)) == Paths{"/opt"});
        // A static grant of another rule makes it unnecessary.
        CHECK(notify_only(plan(RuleSet({system, status}, Action::deny), tree)).empty());
    }

    TEST_CASE("what surely nobody may execute is not let through") {
        const MemoryTree tree{"/usr/bin/git", "/opt/x/run"};
        const Rule no = rule("no", Action::deny, Operation::execute, {"/usr/**"});
        const Rule some = rule("some", Action::allow, read_execute, {"/usr/bin/g*", "/opt/x/run"});
        const Plan made = plan(RuleSet({some, no}, Action::deny), tree);
        CHECK(notify_only(made).empty());
        CHECK(granted(made, "/opt/x/run") == "read,execute");
        const Rule except_git =
            except(rule("most", Action::allow, read_execute, {"/usr/**"}), {"/usr/bin/git"});
        const Plan most = plan(RuleSet({except_git}, Action::deny), tree);
        CHECK(notify_only(most).empty());
        CHECK(granted(most, "/usr/bin/git").empty());
    }

    TEST_CASE("a default of allow lets everything be made, so a denial is notify-only") {
        const MemoryTree tree{"/usr/bin/gdb", "/usr/bin/cat"};
        const Rule no = rule("no", Action::deny, Operation::execute, {"/usr/bin/gdb"});
        CHECK(notify_only(plan(RuleSet({no}, Action::allow), tree)) == Paths{"/"});
        CHECK(notify_only(plan(RuleSet({}, Action::allow), tree)).empty());
    }

    TEST_CASE("a directory that cannot be listed is notify-only, with the mode minimal too") {
        MemoryTree tree{"/usr/lib/libc.so"};
        for (int number = 0; number < 300; ++number) tree.add("/usr/bin/program" + std::to_string(number));
        const Rule system = rule("system", Action::allow, read_execute, {"/usr/**"});
        const Rule no = rule("no", Action::deny, Operation::execute, {"/usr/bin/program7"});
        const Plan made = plan(RuleSet({system, no}, Action::deny), tree, 7, RecordMode::minimal);
        CHECK(notify_only(made) == Paths{"/usr/bin"});
        CHECK(granted(made, "/usr/lib") == "read,execute");
    }
}
