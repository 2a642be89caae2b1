#include "supervisor/jobs/command_line.hpp"

#include <algorithm>
#include <filesystem>

#include "base/test_switch.hpp"
#include "supervisor/jobs/language.hpp"
#include "supervisor/run/limits/held.hpp"
#include "supervisor/run/request.hpp"

namespace callgate::jobs {

namespace {

/// Longer rules are read from a descriptor: one argument holds 128 KiB (execve(2)).
constexpr std::size_t max_rules = 100'000;
constexpr std::string_view test_switches = "CALLGATE_TEST_";

class Words {
public:
    void add(std::string_view option, std::string_view value) {
        words.push_back("--" + std::string(option) + "=" + std::string(value));
    }
    void duration(std::string_view option, const std::optional<std::chrono::milliseconds>& value) {
        if (value) add(option, std::to_string(value->count()) + "ms");
    }
    void number(std::string_view option, const std::optional<std::uint64_t>& value) {
        if (value) add(option, std::to_string(*value));
    }

    std::vector<std::string> words;
};

void add_limits(Words& words, const rules::Limits& limits) {
    words.duration("timeout", limits.wall);
    words.duration("idle-timeout", limits.idle);
    words.duration("cpu", limits.cpu);
    words.number("memory", limits.memory);
    words.number("processes", limits.processes);
    words.number("disk", limits.disk);
    words.number("open-files", limits.open_files);
    words.number("file-size", limits.file_size);
}

/// The kernel counts all tasks of the user together. Else a job could fork no more once others have.
void add_tasks_beside(std::optional<std::uint64_t> processes, std::size_t jobs, CommandLine& line) {
    constexpr std::uint64_t of_callgate = 16;  // of the run and its guardian
    if (!processes || jobs < 2) return;
    const std::uint64_t all = (jobs - 1) * (*processes + of_callgate);
    line.variables.push_back(std::string(limits::beside_variable) + '=' + std::to_string(all));
}

/// A run gets each option as a word. A variable could set options that `callgate exec` does not have.
bool is_passed(const std::string& variable) {
    return !variable.starts_with("CALLGATE_") || variable.starts_with(test_switches);
}

void add_rules(const Job& job, Words& words, CommandLine& line) {
    for (const std::string& name : job.profiles) words.add("profile", name);
    if (job.rules.size() > max_rules) {
        words.add("rules", "/proc/self/fd/" + std::to_string(rules_descriptor));
        line.rules = job.rules;
    } else if (!job.rules.empty()) {
        words.add("rules-json", job.rules);
    }
    for (const auto& [option, value] : job.allowances) words.add(option, value);
}

/// A command may ignore SIGTERM. With a long grace it would outlive the time that the server's options state,
/// or its rules.
std::optional<std::chrono::milliseconds> grace(const Job& job, const Settings& settings) {
    if (!job.grace) return settings.grace;
    const bool stated = settings.grace || settings.limits.wall || !settings.policy.empty();
    return stated ? std::min(*job.grace, settings.grace.value_or(usual_grace)) : job.grace;
}

/// As the run resolves it: "~" is the home there. Links count that exist now, which may lead elsewhere. No
/// job can make one meanwhile: the run follows none that a run could have made (cli/linked_paths.hpp).
bool lies_beneath(const std::string& workdir, const std::string& top) {
    if (top.empty() || workdir.starts_with('~')) return false;
    const std::filesystem::path named = std::filesystem::path(top) / workdir;
    if (std::ranges::find(named, "..") != named.end()) return false;
    std::error_code failed;
    const std::string path = std::filesystem::weakly_canonical(named, failed).string();
    return !failed && (path == top || path.starts_with(top.ends_with('/') ? top : top + '/'));
}

}  // namespace

Expected<void> check_allowed(const Job& job, const Settings& settings) {
    const auto refused = [](std::string_view member, std::string_view option) {
        return Problem{std::string(member) + ": the command line of callgate exec has " +
                       std::string(option) + ", which holds for every job; leave out one of them"};
    };
    if (!job.workdir.empty() && settings.workdir) return refused("workdir", "--workdir");
    if (!job.cwd.empty() && settings.cwd) return refused("cwd", "--cwd");
    if (!job.workdir.empty() && settings.beneath && !lies_beneath(job.workdir, *settings.beneath) &&
        check_enabled("job-workdir-beneath"))
        return Problem{"workdir: under " + settings.policy + " it has to lie in " +
                       (settings.beneath->empty() ? "a project's directory, in which the service was started"
                                                  : "the service's own, " + *settings.beneath)};
    if (settings.policy.empty()) return {};
    if (!job.rules.empty()) return refused("rules", settings.policy);
    if (!job.profiles.empty()) return refused("profiles", settings.policy);
    const auto allowed =
        std::ranges::find_if(job.allowances, [](const auto& one) { return one.first != "deny"; });
    if (allowed != job.allowances.end()) return refused(allowed->first, settings.policy);
    const auto passed = std::ranges::find_if(job.environment, [](const auto& one) { return !one.second; });
    if (passed != job.environment.end()) return refused("env." + passed->first, settings.policy);
    return {};
}

std::vector<std::string> passed_on(const std::vector<std::string>& environment) {
    std::vector<std::string> passed;
    std::ranges::copy_if(environment, std::back_inserter(passed), is_passed);
    return passed;
}

CommandLine command_line(const Job& job, const Settings& settings,
                         const std::vector<std::string>& environment) {
    CommandLine line;
    Words words;
    words.words = {"--quiet"};
    words.words.insert(words.words.end(), settings.options.begin(), settings.options.end());
    if (!job.workdir.empty()) words.add("workdir", job.workdir);
    if (!job.cwd.empty()) words.add("cwd", job.cwd);
    add_rules(job, words, line);
    words.add("report", "fd:" + std::to_string(report_descriptor));
    if (!job.script.empty()) words.add("pass-fd", std::to_string(script_descriptor));
    const rules::Limits held = settings.limits.tighter(job.limits);
    add_limits(words, held);
    add_tasks_beside(settings.limits.processes ? settings.limits.processes : held.processes, settings.jobs,
                     line);
    words.duration("grace", grace(job, settings));
    line.environment = passed_on(environment);
    for (const auto& [name, value] : job.environment) {
        if (value)
            line.variables.push_back(std::string(variable_prefix) + name + "=" + *value);
        else
            words.add("env", name);
    }
    words.words.emplace_back("--");
    words.words.insert(words.words.end(), job.command.begin(), job.command.end());
    line.words = std::move(words.words);
    return line;
}

}  // namespace callgate::jobs
