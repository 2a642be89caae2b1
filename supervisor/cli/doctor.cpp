// `callgate doctor` shows what this host offers, what is missing, and the consequences.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/escape.hpp"
#include "base/json_writer.hpp"
#include "base/words.hpp"
#include "rules/load/load_snapshot.hpp"
#include "supervisor/audit/verbs/show.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/gpu.hpp"
#include "supervisor/cli/platform.hpp"
#include "supervisor/cli/run_setup.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/host/host.hpp"
#include "supervisor/nested/outer_run.hpp"

namespace callgate::cli {

namespace {

struct Findings {
    Platform platform;
    ListenerTrial trial;
    std::vector<Feature> features;
    std::string state;              // the state directory
    std::string state_trouble;      // "" if logs can be written
    bool nested = false;            // a run is around this process, and keeps the log
    std::string obstacle;           // "" if a run works
    std::vector<std::string> gpus;  // their nodes
};

/// Makes nothing: if the directory does not exist yet, the nearest one above it must be writable.
std::string find_state_trouble(const std::string& state) {
    if (state.empty()) return "HOME and XDG_STATE_HOME are not set";
    std::string at = state;
    struct stat status {};
    while (at.size() > 1 && ::stat(at.c_str(), &status) != 0 && errno == ENOENT)
        at.erase(std::max<std::size_t>(at.rfind('/'), 1));
    if (::access(at.c_str(), W_OK | X_OK) != 0) return at + ": " + std::strerror(errno);
    if (at != state) return "";
    if (status.st_uid != ::geteuid()) return at + " belongs to another user";
    return (status.st_mode & 022) != 0 ? at + " is writable by others; chmod 700 it" : "";
}

std::string find_obstacle(const Findings& findings) {
    if (const auto why = obstacle(findings.platform)) return *why;
    if (findings.trial.error == EBUSY)
        return "another supervisor already holds this process's seccomp listener; start the command outside "
               "of it";
    if (findings.trial.error != 0)
        return std::string("a seccomp listener cannot be installed: ") + std::strerror(findings.trial.error);
    if (!findings.state_trouble.empty())
        return "logs cannot be written: " + findings.state_trouble + "; give --audit FILE or --no-audit";
    return "";
}

Findings find() {
    Findings findings;
    const bool nested = find_outer_run(true, findings.platform) != nullptr;
    findings.trial = nested ? ListenerTrial() : try_listener();
    findings.features = features(findings.platform, findings.trial);
    findings.state = find_places().state;
    findings.nested = nested;
    findings.state_trouble = nested ? "" : find_state_trouble(findings.state);
    findings.obstacle = find_obstacle(findings);
    findings.gpus = gpu_nodes();
    return findings;
}

std::string yama_text(const Platform& platform) {
    if (!platform.ptrace_scope) return "no Yama: ordinary rules of ptrace";
    const std::string number = "ptrace_scope " + std::to_string(*platform.ptrace_scope);
    if (*platform.ptrace_scope < 2) return number + ": good";
    return number + ": 1 or less is needed" +
           (*platform.ptrace_scope == 2 && platform.root ? ", except for root" : "");
}

std::string capability_text(const Platform& platform) {
    if (platform.capabilities == 0) return "none: good, none are needed";
    return "some are held; the command runs without them (see --keep-capabilities)";
}

std::string as_text(const Findings& findings) {
    const bool colour = audit::colour_wanted(STDOUT_FILENO);
    const auto mark = [colour](bool good) -> std::string {
        if (!colour) return good ? "ok       " : "MISSING  ";
        return good ? "\x1b[32mok\x1b[0m       " : "\x1b[31mMISSING\x1b[0m  ";
    };
    const auto row = [](std::string name, const std::string& value) {
        name.append(20 - name.size(), ' ');
        return "  " + name + terminal_safe(value) + "\n";
    };
    const Platform& platform = findings.platform;
    std::string text =
        "Host:\n" + row("kernel", "Linux " + platform.kernel + (platform.gvisor ? ", by gVisor" : ""));
    text += row("Landlock ABI", std::to_string(platform.landlock_abi));
    text += row("seccomp", platform.container.filtered
                               ? "a filter is around this process (a container's profile?)"
                               : "no filter around this process");
    text += row("within callgate", findings.nested ? "yes" : "no");
    text += row("Yama", yama_text(platform)) + row("capabilities", capability_text(platform));
    text += row("logs",
                findings.state + (findings.state_trouble.empty() ? ": good" : ": " + findings.state_trouble));
    text +=
        row("GPUs", findings.gpus.empty() ? "none" : joined(findings.gpus, ", ") + ": closed without -p gpu");
    const bool held = rules::tells_own_sockets(platform.landlock_abi, platform.container.descriptors);
    text += row("unix datagrams", held ? "between processes of the run; -p dgram decides each sendmsg"
                                       : "closed without -p dgram, by which each sendmsg is decided");
    text += "\nFeatures (callgate run --require NAME):\n";
    for (const Feature& one : findings.features) {
        std::string name(one.name);
        name.append(20 - name.size(), ' ');
        text +=
            "  " + name + mark(one.present) + std::string(one.purpose) +
            (one.present ? "" : " (" + std::string(one.since) + "); without: " + std::string(one.without)) +
            (one.present || one.help.empty() ? "" : "; " + std::string(one.help)) + "\n";
    }
    text += findings.obstacle.empty()
                ? "\ncallgate run works here.\n"
                : "\ncallgate run does not work here: " + terminal_safe(findings.obstacle) + "\n";
    return text;
}

std::string as_json(const Findings& findings) {
    const Platform& platform = findings.platform;
    return json_text([&](JsonWriter& json) {
               json.begin_object()
                   .member("kernel", platform.kernel)
                   .member("gvisor", platform.gvisor)
                   .member("landlock_abi", platform.landlock_abi)
                   .member("nested", platform.listener == Platform::Listener::nested)
                   .member("ptrace_scope", platform.ptrace_scope)
                   .member("capabilities", platform.capabilities)
                   .member("state", findings.state)
                   .text_or_null("state_trouble", findings.state_trouble);
               json.list("gpus", findings.gpus, [&](const std::string& node) { json.value(node); });
               json.list("features", findings.features, [&](const Feature& one) {
                   json.begin_object()
                       .member("name", one.name)
                       .member("present", one.present)
                       .member("since", one.since)
                       .member("what", one.purpose)
                       .member("without", one.without)
                       .member("help", one.help)
                       .end_object();
               });
               json.member("works", findings.obstacle.empty())
                   .text_or_null("obstacle", findings.obstacle)
                   .end_object();
           }) +
           "\n";
}

}  // namespace

int doctor(const Arguments& arguments) {
    const Findings findings = find();
    print(arguments.has("json") ? as_json(findings) : as_text(findings));
    return findings.obstacle.empty() ? 0 : exit_finding;
}

}  // namespace callgate::cli
