// Writes docs/system-calls.md from the table of system calls, to standard output.
//
// `./dev docs` puts it in place; the test `docs` fails if the page differs from this output.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "supervisor/enforce/call_classes.hpp"
#include "supervisor/enforce/call_table.hpp"

namespace {

using namespace callgate;
using namespace callgate::enforce;

constexpr const char* introduction =
    R"(# What becomes of every system call

`./dev docs` generates this page from the call tables (`supervisor/enforce/call_rows.hpp`, `unmediated.cpp`,
`refusals.cpp`). A test fails when the page is out of date, and another when a call is missing.

A program reaches the objects of rules through many calls. Each call of x86_64 and aarch64 up to number %u is in one
class:

| class | what happens |
|---|---|
| *mediated* | notified if a rule or the default contests it, and decided on the very object; otherwise free |
| *held by Landlock* | the kernel refuses access beyond the run |
| *held by arguments* | the filter refuses some arguments, which lie in registers; the rest is harmless |
| *harmless* | reaches no object of a rule, for the given reason |
| *closed* | refused with any arguments, by an errno after which programs fall back |

Unassigned numbers and numbers above %u answer `ENOSYS`. Calls of other architectures, and of x32, kill the process.
`callgate plan` shows the calls that are notified under a given rule set.
)";

std::string error_name(int error) {
    const char* name = ::strerrorname_np(error);
    return name == nullptr ? std::to_string(error) : name;
}

std::string number_on(std::string_view name, Architecture on) {
    const std::uint32_t number = call_number(name, on);
    return number == no_number ? "–" : std::to_string(number);
}

std::string numbers(std::string_view name) {
    return number_on(name, Architecture::x86_64) + " | " + number_on(name, Architecture::aarch64);
}

std::string code(std::string_view text) { return "`" + std::string(text) + "`"; }

std::string_view who(Performed performed) {
    switch (performed) {
        case Performed::on_behalf:
            return "callgate";
        case Performed::either:
            return "the kernel if that is as sound, else callgate";
        case Performed::by_kernel:
            return "the kernel";
    }
    return "";
}

std::string arguments(const CallEntry& entry) {
    std::vector<std::string> parts;
    const auto path = [&parts](const PathArgument& argument, const char* name) {
        if (argument.path < 0) return;
        std::string text = name;
        text += " " + std::to_string(argument.path);
        if (argument.directory >= 0) text += " from " + std::to_string(argument.directory);
        parts.push_back(text);
    };
    path(entry.first, "path");
    path(entry.second, "path");
    if (entry.flags >= 0) parts.push_back("flags " + std::to_string(entry.flags));
    if (entry.mode >= 0) parts.push_back("mode " + std::to_string(entry.mode));
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
    return text;
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string decided_as(const CallEntry& entry) {
    switch (entry.scope) {
        case Scope::process:
            return "on a process";
        case Scope::ipc_object:
            return "on an object of the user";
        case Scope::object:
            break;
    }
    return callgate::rules::names(entry.operations);
}

void mediated() {
    print(
        "\n## Mediated\n\nArguments are numbered from 0. \"On a process\" means processes outside the run, "
        "and "
        "those of it that made themselves opaque. \"On an object of the user\" means objects that the run "
        "did "
        "not create. The run's other ones are free. `ioctl` with `TIOCGPTPEER` is decided as an open of the "
        "terminal.\n\n"
        "| call | x86_64 | aarch64 | decided as | arguments | performed by |\n|---|---|---|---|---|---|\n");
    for (const CallEntry& entry : call_table()) {
        print("| " + code(entry.name) + " | " + numbers(entry.name) + " | " + decided_as(entry) + " | " +
              arguments(entry) + " | " + std::string(who(entry.performed)) + " |\n");
    }
}

std::string_view when(When condition) {
    switch (condition) {
        case When::always:
            return "always";
        case When::metadata_limited:
            return "if a rule or the default limits `metadata`";
        case When::signals_not_held:
            return "before Landlock ABI 6, or if rules tell an agent from its tools";
        case When::parties:
            return "if rules tell an agent from its tools";
        case When::run_servers:
            return "if a rule is about servers of the run's own";
    }
    return "";
}

void by_arguments() {
    print(
        "\n## Held by arguments\n\n`socket` and `socketpair` have allow-lists:\n\n"
        "- internet streams (TCP), and datagrams (UDP) if a rule opens them;\n"
        "- unix streams and sequenced packets, and unix datagrams if a rule opens them;\n"
        "- `NETLINK_ROUTE`.\n\n"
        "Other families are refused by `EAFNOSUPPORT`, other protocols and types by `EPROTONOSUPPORT`, and "
        "`SOCK_RAW`\nof the internet families by `EPERM`.\n\n| call | x86_64 | aarch64 | what is refused | "
        "errno | when | why "
        "|\n|---|---|---|---|---|---|---|\n");
    for (const Refusal& refusal : refusals()) {
        print("| " + code(refusal.call) + " | " + numbers(refusal.call) + " | " + std::string(refusal.what) +
              " | " + code(error_name(refusal.error)) + " | " + std::string(when(refusal.when)) + " | " +
              std::string(refusal.why) + " |\n");
    }
}

void groups(CallClass held, const char* title) {
    print("\n## " + std::string(title) + "\n\n| calls | " + (held == CallClass::closed ? "errno | " : "") +
          "why |\n|---|---|" + (held == CallClass::closed ? "---|" : "") + "\n");
    for (const CallGroup& group : call_groups()) {
        if (group.held != held) continue;
        print("| " + code(group.calls) + " | " +
              (held == CallClass::closed ? code(error_name(group.error)) + " | " : "") +
              std::string(group.reason) + " |\n");
    }
}

void by_number(Architecture on, const char* title) {
    print("\n### " + std::string(title) + "\n\n| number | call | class |\n|---|---|---|\n");
    for (std::uint32_t number = 0; number <= newest_call; ++number) {
        const std::string name = call_name(number, on);
        const auto found = name.empty() ? std::nullopt : classify(name);
        if (!found) continue;
        static constexpr const char* classes[] = {"mediated", "held by Landlock", "held by arguments",
                                                  "harmless", "closed"};
        print("| " + std::to_string(number) + " | " + code(name) + " | " +
              classes[static_cast<std::size_t>(found->held)] + " |\n");
    }
}

}  // namespace

int main() {
    std::printf(introduction, newest_call, newest_call);
    mediated();
    groups(CallClass::landlock, "Held by Landlock");
    by_arguments();
    groups(CallClass::closed, "Closed");
    groups(CallClass::harmless, "Harmless");
    print("\n## By number\n");
    by_number(Architecture::x86_64, "x86_64");
    by_number(Architecture::aarch64, "aarch64");
    return 0;
}
