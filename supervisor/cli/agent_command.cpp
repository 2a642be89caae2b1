#include "supervisor/cli/agent_command.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/test_switch.hpp"
#include "base/words.hpp"
#include "rules/load/shipped.hpp"
#include "supervisor/cli/environment.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/host/host.hpp"

namespace callgate::cli {

namespace {

bool is_one(const std::vector<rules::Glob>& programs, const std::string& path) {
    return std::ranges::any_of(programs, [&](const rules::Glob& glob) { return glob.matches(path); });
}

/// Throws Failure if the agent's tools may change what runs in its process.
void refuse_writable(const rules::RuleSet& rules, const std::string& program) {
    for (const rules::Operation operation : rules::write_operations) {
        const rules::Request write{operation, rules::FileObject{program}, {}, {}, rules::Party::tools};
        if (rules.evaluate(write).action == rules::Action::allow)
            throw Failure(
                "the agent " + program +
                " may be written in this run, so its tools could put their code into it: install it "
                "outside the work directory");
    }
}

}  // namespace

std::string program_of(const std::vector<std::string>& candidates, const std::string& directory) {
    const auto exists = [](const std::string& path) { return ::access(path.c_str(), X_OK) == 0; };
    const auto found = std::ranges::find_if(candidates, exists);
    if (found == candidates.end()) return "";
    return canonical(found->starts_with('/') ? *found : directory + '/' + *found);
}

std::string agent_program(const rules::Agent& agent, const std::string& path) {
    if (is_one(agent.programs, path)) return path;
    if (!is_one(agent.launchers, path)) return "";
    for (std::size_t end = path.rfind('/'); end != 0 && end != std::string::npos;
         end = path.rfind('/', end - 1)) {
        for (const std::string& name : agent.starts) {
            const std::string found = path.substr(0, end) + "/node_modules/" + name;
            if (::access(found.c_str(), agent.interpreter.empty() ? X_OK : R_OK) != 0) continue;
            std::string program = canonical(found);
            return is_one(agent.programs, program) || !check_enabled("agent-launched") ? program : "";
        }
    }
    return "";
}

std::string profile_of_agent(const std::string& command) {
    const std::string_view name = std::string_view(command).substr(command.rfind('/') + 1);
    for (const rules::ShippedProfile& profile : rules::shipped_profiles()) {
        const auto agent = rules::root(profile.tree).member("agent");
        if (!agent) continue;
        const auto other = agent->value.member("command");
        if (profile.name == name || (other && other->value.text() == name)) return std::string(profile.name);
    }
    return "";
}

void find_agent(const Request& request, const Compiled& compiled, Command& command) {
    const std::string found = program_of(command.executables, request.directory);
    if (found.empty()) return;
    const rules::Agent& agent = compiled.agent;
    const std::string program = agent_program(agent, found);
    std::string executed = program;
    std::vector<std::string> first{command.words[0]};
    if (!program.empty() && program != found) {
        first = agent.interpreter;
        first.push_back(program);
        command.executables = executable_candidates(first[0], command.environment);
        executed = program_of(command.executables, request.directory);
        if (executed.empty())
            throw Failure("the agent " + program + " needs " + first[0] +
                          ", which is not in PATH; add its directory");
    }
    struct stat status {};
    if (program.empty() || ::stat(executed.c_str(), &status) != 0) {
        if (!request.quiet)
            say(found + " is not the agent that these rules are for: all that runs is judged as its tools");
        return;
    }
    refuse_writable(*compiled.rules, program);
    if (executed != program) refuse_writable(*compiled.rules, executed);
    command.agent = audit::FileIdentity{status.st_ino, status.st_dev};
    first.insert(first.end(), agent.arguments.begin(), agent.arguments.end());
    command.words.erase(command.words.begin());
    command.words.insert(command.words.begin(), first.begin(), first.end());
    if (!request.verbose) return;
    say(program + " is the agent; what it starts is judged as its tools");
    if (!agent.arguments.empty()) say("its profile adds the arguments: " + joined(agent.arguments, " "));
}

}  // namespace callgate::cli
