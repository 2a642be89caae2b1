// Shipped profiles: each loads without a finding, and its own examples hold.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "base/sha256.hpp"
#include "rules/plan/plan.hpp"
#include "tests/unit/rules/host_fixture.hpp"

using namespace callgate;
using namespace callgate::rules;

namespace {

/// A host with merged /usr and some objects that profiles name.
TestMachine debian() {
    TestMachine machine;
    for (const char* directory :
         {"/usr/bin", "/usr/lib/x86_64-linux-gnu", "/usr/include", "/opt", "/etc/ssl/certs",
          "/etc/ssl/private", "/etc/ssh", "/dev/shm", "/dev/pts", "/proc", "/sys/fs/cgroup"})
        machine.tree.directory(directory);
    for (const char* file :
         {"/usr/bin/python3", "/usr/lib/x86_64-linux-gnu/libc.so.6", "/etc/passwd", "/etc/shadow",
          "/etc/hostname", "/etc/ssh/ssh_host_rsa_key", "/etc/ssh/sshd_config", "/dev/null",
          "/home/u/.bashrc", "/home/u/.gitconfig", "/home/u/work/main.py"})
        machine.tree.file(file);
    for (const char* link : {"bin", "sbin", "lib", "lib64"})
        machine.tree.link(std::string("/") + link, std::string("/usr/") + link);
    machine.tree.link("/var/run", "/run");
    machine.tree.directory("/run");
    return machine;
}

LoadedRules load_profile(const TestMachine& machine, const std::string& name, bool check = true) {
    RuleSources sources;
    sources.parts.emplace_back(RuleSources::Profile{name});
    return load(sources, machine.context(check));
}

Plan plan_of(const TestMachine& machine, const LoadedRules& loaded) {
    PlanInput input;
    input.landlock_abi = 7;
    input.tree = &machine.tree;
    return make_plan(*loaded.rules, input);
}

}  // namespace

TEST_CASE("every profile of the contract is shipped, with a description") {
    for (const char* name :
         {"base",     "agent",    "python",   "node",     "rust",         "go",           "build",
          "git",      "network",  "java",     "readonly", "open",         "python+net",   "node+net",
          "rust+net", "go+net",   "java+net", "git+net",  "shared-cache", "agent+strict", "claude",
          "gemini",   "apt+net",  "codex",    "qwen",     "opencode",     "copilot",      "aider",
          "pi",       "continue", "droid",    "cline",    "mini",         "vibe",         "gpu",
          "dgram",    "ruby",     "ruby+net", "php",      "php+net"}) {
        const auto all = shipped_profiles();
        const auto found =
            std::find_if(all.begin(), all.end(), [&](const ShippedProfile& one) { return one.name == name; });
        REQUIRE_MESSAGE(found != all.end(), name);
        CHECK(found->description.size() > 10);
    }
    CHECK(shipped_profiles().size() == 40);
}

TEST_CASE("every shipped profile loads without a finding and its examples hold") {
    const TestMachine machine = debian();
    for (const ShippedProfile& profile : shipped_profiles()) {
        const LoadedRules loaded = load_profile(machine, std::string(profile.name));
        CHECK_MESSAGE(findings(loaded) == "", profile.name);
        REQUIRE(loaded.rules != nullptr);
        CHECK(loaded.description == profile.description);
        CHECK(profile.json.find("\"examples\"") != std::string_view::npos);
    }
}

TEST_CASE("what was made of a profile when callgate was built is what its text says") {
    for (const ShippedProfile& profile : shipped_profiles()) {
        std::vector<Diagnostic> out;
        Findings findings(std::string(profile.name), out);
        const auto document = parse_json(profile.json, findings);
        REQUIRE_MESSAGE(document, profile.name);
        CHECK(out.empty());
        CHECK(document->texts == profile.tree.texts);
        CHECK(std::equal(document->nodes.begin(), document->nodes.end(), profile.tree.nodes.begin(),
                         profile.tree.nodes.end()));
        CHECK(sha256_hex(canonical_json(profile.tree)) == profile.sha256);
        const auto stated = root(profile.tree).member("description");
        REQUIRE(stated);
        CHECK(stated->value.text() == profile.description);
    }
}

TEST_CASE("profiles can be given together") {
    const TestMachine machine = debian();
    RuleSources sources;
    for (const char* name : {"agent", "python", "network", "git"})
        sources.parts.emplace_back(RuleSources::Profile{name});
    const LoadedRules loaded = load(sources, machine.context());
    CHECK(findings(loaded) == "");
    REQUIRE(loaded.rules != nullptr);
    CHECK(loaded.rules->fallback() == Action::ask);
    CHECK(loaded.environment.set.at("TMPDIR") == machine.tmp);
}

TEST_CASE("the agent profile keeps system directories static and no hierarchy notify-only") {
    TestMachine machine = debian();
    machine.tree.file("/home/u/work/src/main.py");
    const LoadedRules loaded = load_profile(machine, "agent", false);
    REQUIRE_MESSAGE(loaded.rules != nullptr, findings(loaded));
    const Plan plan = plan_of(machine, loaded);
    CHECK_FALSE(plan.notify_only);
    const StaticGrants grants(plan);
    for (const char* path : {"/usr/bin/python3", "/usr/lib/x86_64-linux-gnu/libc.so.6"}) {
        CHECK_MESSAGE(grants.allow(Operation::read, path), path);
        CHECK_MESSAGE(grants.allow(Operation::execute, path), path);
    }
    CHECK(grants.allow(Operation::read, "/etc/passwd"));
    CHECK(grants.allow(Operation::read, "/etc/ssl/certs/ca-certificates.crt"));
    CHECK(grants.allow(Operation::read, "/home/u/work/main.py"));
    CHECK(grants.allow(write_operations - Operation::metadata, "/home/u/work/src/new.py"));
    CHECK_FALSE(grants.allow(Operation::read, "/etc/shadow"));
    CHECK_FALSE(grants.allow(Operation::read, "/etc/ssh/ssh_host_rsa_key"));
    // Settings are decided one by one: a start does not split /etc around its secrets.
    CHECK_FALSE(grants.allow(Operation::read, "/etc/ssh/sshd_config"));
    CHECK(decide(loaded, Operation::read, "/etc/ssh/sshd_config") == Action::allow);
    CHECK(decide(loaded, Operation::read, "/etc") == Action::allow);
    CHECK(std::count_if(plan.grants.begin(), plan.grants.end(),
                        [](const Grant& one) { return one.path.starts_with("/etc/"); }) < 30);
}

TEST_CASE("the profile gpu leaves the nodes of GPUs to the kernel, and those of a display closed") {
    TestMachine machine = debian();
    for (const char* directory : {"/dev/dri", "/dev/nvidia-caps"}) machine.tree.directory(directory);
    const std::initializer_list<const char*> open = {"/dev/nvidia0",
                                                     "/dev/nvidia1",
                                                     "/dev/nvidiactl",
                                                     "/dev/nvidia-uvm",
                                                     "/dev/nvidia-caps/nvidia-cap3",
                                                     "/dev/dri/renderD128",
                                                     "/dev/kfd",
                                                     "/dev/dxg"};
    const std::initializer_list<const char*> closed = {
        "/dev/dri/card0", "/dev/nvidia-modeset", "/dev/nvidia-uvm-tools", "/dev/nvidia-caps/nvidia-cap1",
        "/dev/nvidia-caps/nvidia-cap2"};
    for (const char* node : open) machine.tree.file(node);
    for (const char* node : closed) machine.tree.file(node);
    const LoadedRules loaded = load_profile(machine, "gpu", false);
    REQUIRE_MESSAGE(loaded.rules != nullptr, findings(loaded));
    const StaticGrants grants(plan_of(machine, loaded));
    for (const char* node : open)
        CHECK_MESSAGE(grants.allow({Operation::read, Operation::modify}, node), node);
    for (const char* node : closed)
        CHECK_MESSAGE(decide(loaded, Operation::modify, node) == Action::ask, node);
    for (const char* node : closed) CHECK_FALSE(grants.allow(Operation::read, node));
}

TEST_CASE("only profiles that say so open datagram sockets") {
    const TestMachine machine = debian();
    for (const ShippedProfile& profile : shipped_profiles()) {
        const LoadedRules loaded = load_profile(machine, std::string(profile.name), false);
        REQUIRE(loaded.rules != nullptr);
        const bool opens = profile.name == "open" || profile.name == "network";
        CHECK_MESSAGE(loaded.rules->opens_udp() == opens, profile.name);
        CHECK_MESSAGE(
            loaded.rules->opens_unix_datagram() == (profile.name == "open" || profile.name == "dgram"),
            profile.name);
    }
}

TEST_CASE("where Landlock knows sockets, agent's datagrams are its own, and no sendmsg is decided") {
    TestMachine machine = debian();
    machine.landlock_unix = true;
    PlanInput input;
    input.landlock_abi = 9;
    input.tree = &machine.tree;
    std::size_t held = 0;
    for (const ShippedProfile& profile : shipped_profiles()) {
        const LoadedRules loaded = load_profile(machine, std::string(profile.name), false);
        REQUIRE(loaded.rules != nullptr);
        CHECK(loaded.snapshot.landlock_unix);
        const bool opens = std::ranges::any_of(loaded.rules->rules(), &Rule::needs_landlock_unix);
        const bool decides = profile.name == "dgram";
        CHECK_MESSAGE(make_plan(*loaded.rules, input).messages_held == (opens && !decides), profile.name);
        held += opens && !decides ? 1 : 0;
    }
    CHECK(held > 20);
}

TEST_CASE("a rule that needs what the kernel lacks is left out, and the log says what was had") {
    TestMachine machine = debian();
    machine.tree.file("/home/u/work/rules.json");
    const char* const text = R"({"version": 1, "rules": [{"id": "mine", "allow": ["connect", "bind"],
        "protocol": "datagram", "unix": "${tmp}/**", "needs": "landlock-unix"}]})";
    RuleSources sources;
    sources.parts.emplace_back(RuleSources::Text{text, "mine"});
    LoadContext context = machine.context();
    const LoadedRules without = load(sources, context);
    REQUIRE(without.rules != nullptr);
    CHECK(without.rules->rules().empty());
    CHECK(findings(without).find("the rule \"mine\" is left out: it needs landlock-unix") !=
          std::string::npos);
    context.landlock_unix = true;
    const LoadedRules with = load(sources, context);
    REQUIRE(with.rules != nullptr);
    CHECK(with.rules->leaves_datagrams_to_kernel());
    CHECK(findings(with).empty());
    context.earlier = &without.snapshot;
    CHECK(load(sources, context).rules->rules().empty());
}

TEST_CASE("the profile dgram opens datagrams between processes of the run") {
    const TestMachine machine = debian();
    const LoadedRules loaded = load_profile(machine, "dgram", false);
    REQUIRE(loaded.rules != nullptr);
    const auto action = [&](Operation operation, std::string_view name) {
        return loaded.rules->evaluate({operation, UnixObject{name, UnixType::datagram}, {}, {}}).action;
    };
    for (const Operation operation : {Operation::connect, Operation::bind}) {
        CHECK(action(operation, machine.tmp + "/log") == Action::allow);
        CHECK(action(operation, "/home/u/work/control") == Action::allow);
        const bool quiet = operation == Operation::connect;  // the system's log: without a question
        CHECK(action(operation, "/dev/log") == (quiet ? Action::deny : Action::ask));
        CHECK(action(operation, "/run/systemd/journal/dev-log") == Action::deny);
        CHECK(action(operation, "/run/systemd/notify") == Action::deny);
        CHECK(action(operation, "@name") == Action::ask);
    }
}

TEST_CASE("secrets in the work directory that exist at start are denied, new ones are free") {
    TestMachine machine = debian();
    machine.tree.file("/home/u/work/app/.env");
    machine.tree.file("/home/u/work/app/.env.example");
    machine.tree.file("/home/u/work/.git/hooks/pre-commit");
    machine.tree.file("/home/u/work/.git/config");
    const LoadedRules loaded = load_profile(machine, "agent", false);
    REQUIRE_MESSAGE(loaded.rules != nullptr, findings(loaded));
    CHECK(decide(loaded, Operation::read, "/home/u/work/app/.env") == Action::deny);
    CHECK(decide(loaded, Operation::read, "/home/u/work/app/.env.example") == Action::allow);
    CHECK(decide(loaded, Operation::read, "/home/u/work/.env") == Action::allow);
    CHECK(decide(loaded, Operation::modify, "/home/u/work/.git/config") == Action::deny);
    CHECK(decide(loaded, Operation::read, "/home/u/work/.git/config") == Action::allow);
    CHECK(decide(loaded, Operation::create, "/home/u/work/.git/hooks/post-commit") == Action::deny);
    CHECK(decide(loaded, Operation::create, "/home/u/work/clone/.git/config") == Action::allow);
    CHECK(decide(loaded, Operation::create, "/home/u/work/.git/objects/aa/bb") == Action::allow);
}

TEST_CASE(
    "what tools of the user run later is held at the root of the work directory, also where it is absent") {
    TestMachine machine = debian();
    machine.tree.file("/home/u/work/sub/.git/config");
    machine.tree.file("/home/u/work/sub/.git/hooks/pre-commit.sample");
    machine.tree.file("/home/u/work/sub/.git/worktrees/one/HEAD");
    machine.tree.file("/home/u/work/linked/.git");
    machine.tree.file("/home/u/work/node_modules/x/.vscode/settings.json");
    machine.tree.file("/home/u/work/node_modules/x/test.key");
    const LoadedRules loaded = load_profile(machine, "agent", false);
    REQUIRE_MESSAGE(loaded.rules != nullptr, findings(loaded));
    const std::string root = "/home/u/work/";
    for (const char* name :
         {".git/hooks/pre-commit", ".git/commondir", ".hg/hgrc", ".jj/repo/config.toml", ".vscode/tasks.json",
          ".vscode", ".envrc", ".mcp.json", ".claude/settings.json", "mise.toml", ".gdbinit",
          "sub/.git/config", "sub/.git/hooks/post-checkout", ".git/rebase-merge/msgnum",
          ".git/worktrees/new/rebase-apply/next", "sub/.git/rebase-merge/end",
          "sub/.git/worktrees/one/rebase-apply/last", "sub/.git/worktrees/one/commondir"}) {
        CHECK_MESSAGE(decide(loaded, Operation::create, root + name) == Action::deny, name);
        CHECK_MESSAGE(decide(loaded, Operation::read, root + name) == Action::allow, name);
    }
    CHECK(decide(loaded, Operation::modify, root + ".git") == Action::deny);
    CHECK(decide(loaded, Operation::create, root + ".git") == Action::allow);
    CHECK(decide(loaded, Operation::modify, root + "linked/.git") == Action::deny);
    for (const char* name :
         {".git/hooks", ".git/hooks/pre-commit.sample", ".git/branches", ".git/index", "package.json",
          ".husky/pre-commit", "node_modules/x/.vscode/settings.json", "new/.envrc"})
        CHECK_MESSAGE(decide(loaded, Operation::create, root + name) == Action::allow, name);
    CHECK(decide(loaded, Operation::read, root + "node_modules/x/test.key") == Action::allow);
}

TEST_CASE("no profile restricts execution, and only those with +net and those of agents name hosts") {
    const TestMachine machine = debian();
    for (const ShippedProfile& profile : shipped_profiles()) {
        const LoadedRules loaded = load_profile(machine, std::string(profile.name), false);
        REQUIRE(loaded.rules != nullptr);
        for (const Rule& rule : loaded.rules->rules()) {
            const bool restricts =
                rule.action != Action::allow && rule.operations.contains(Operation::execute);
            CHECK_MESSAGE(!restricts, rule.id);
            const bool agent = !loaded.agent.programs.empty();
            CHECK_MESSAGE((rule.when.host.empty() || profile.name.ends_with("+net") || agent), rule.id);
        }
    }
}

TEST_CASE("in the profile of an agent its login and its model are the agent's alone") {
    TestMachine machine = debian();
    const auto action = [](const LoadedRules& loaded, Operation operation, const Object& object,
                           Party party) {
        return loaded.rules->evaluate({operation, object, {}, {}, party}).action;
    };
    for (const auto& [name, login, host] :
         {std::tuple("claude", "/home/u/.claude/.credentials.json", "api.anthropic.com"),
          std::tuple("gemini", "/home/u/.gemini/oauth_creds.json", "generativelanguage.googleapis.com"),
          std::tuple("codex", "/home/u/.codex/auth.json", "api.openai.com"),
          std::tuple("qwen", "/home/u/.qwen/oauth_creds.json", "portal.qwen.ai"),
          std::tuple("opencode", "/home/u/.local/share/opencode/auth.json", "opencode.ai"),
          std::tuple("copilot", "/home/u/.copilot/config.json", "api.githubcopilot.com"),
          std::tuple("aider", "/home/u/.aider/oauth-keys.env", "openrouter.ai"),
          std::tuple("pi", "/home/u/.pi/agent/auth.json", "api.openai.com"),
          std::tuple("continue", "/home/u/.continue/auth.json", "api.continue.dev"),
          std::tuple("droid", "/home/u/.factory/auth.json", "api.factory.ai"),
          std::tuple("cline", "/home/u/.cline/data/settings/providers.json", "api.cline.bot"),
          std::tuple("mini", "/home/u/.config/mini-swe-agent/.env", "api.mistral.ai")}) {
        const LoadedRules loaded = load_profile(machine, name, false);
        REQUIRE_MESSAGE(loaded.rules != nullptr, findings(loaded));
        const std::vector<std::string> names{host};
        const Endpoint model{.address = {{192, 0, 2, 1}, false}, .port = 443, .names = names};
        for (const Operation operation : {Operation::read, Operation::modify, Operation::remove}) {
            CHECK(action(loaded, operation, FileObject{login}, Party::agent) == Action::allow);
            CHECK(action(loaded, operation, FileObject{login}, Party::tools) == Action::deny);
        }
        CHECK(action(loaded, Operation::connect, model, Party::agent) == Action::allow);
        CHECK(action(loaded, Operation::connect, model, Party::tools) == Action::deny);
        for (const Party party : {Party::agent, Party::tools})
            CHECK(action(loaded, Operation::read, FileObject{"/home/u/.ssh/id_ed25519"}, party) ==
                  Action::deny);
        CHECK(loaded.rules->rules().front().id == "callgate-parties");
    }
}

TEST_CASE("a home that is the work directory keeps its secrets") {
    TestMachine machine = debian();
    machine.workdir = "/home/u";
    const LoadedRules loaded = load_profile(machine, "agent", false);
    REQUIRE_MESSAGE(loaded.rules != nullptr, findings(loaded));
    CHECK(decide(loaded, Operation::read, "/home/u/.ssh/id_ed25519") == Action::deny);
    CHECK(decide(loaded, Operation::read, "/home/u/notes.txt") == Action::allow);
    CHECK(decide(loaded, Operation::modify, "/home/u/.bashrc") == Action::deny);
}
