// Calls that name a process by number: limits, priorities, affinity, and signals (also those of a file whose
// owner is set) where Landlock has no scope for them.
//
// An attacker controls only scalars, which the kernel does not read again; so a call on a process of the tree
// is continued. A process outside, callgate's own included, is answered as one of another user: EPERM. A
// number may be reused between looking and continuing; only a process that died in that instant could be
// meant.
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <memory>

#include "rules/test_switch.hpp"
#include "supervisor/calls/decide.hpp"
#include "supervisor/calls/table.hpp"

namespace callgate::calls {

namespace {

/// Process groups and users reach further than the tree.
enum class Reach : std::uint8_t { process, group, everyone };

struct Named {
    Reach reach = Reach::process;
    pid_t number = 0;
};

Named named_by(const CallContext& context) {
    const std::string_view name = context.entry.name;
    if (name == "setpriority" || name == "ioprio_set") {
        const int which = context.integer(0) - (name == "ioprio_set" ? 1 : 0);
        const pid_t who = context.integer(1);
        if (which == PRIO_PROCESS) return {Reach::process, who};
        if (which == PRIO_PGRP) return {Reach::group, who};
        return {Reach::everyone, who};
    }
    const bool owner = name == "fcntl";
    const pid_t number = context.integer(owner ? 2 : 0);
    // The least number has no opposite: the kernel knows no such group.
    if ((name != "kill" && !owner) || number == std::numeric_limits<pid_t>::min()) {
        return {Reach::process, number};
    }
    if (number == -1 && !owner) return {Reach::everyone, number};
    if (number <= 0) return {Reach::group, -number};
    return {Reach::process, number};
}

bool in_tree(const CallContext& context, pid_t process) {
    return (process != context.run.guardian || !check_enabled("guardian-is-a-stranger")) &&
           kernel::descends_from(process, context.run.guardian);
}

/// Whether every member of a process group is in the tree.
bool group_in_tree(const CallContext& context, pid_t group) {
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir("/proc"), &::closedir);
    if (!entries) return false;
    bool any = false;
    while (const dirent* entry = ::readdir(entries.get())) {
        const pid_t process = static_cast<pid_t>(std::atoi(entry->d_name));
        if (process <= 0 || ::getpgid(process) != group) continue;
        if (!in_tree(context, process)) return false;
        any = true;
    }
    return any;
}

}  // namespace

void handle_stranger(CallContext& context) {
    const Named named = named_by(context);
    bool own = false;
    switch (named.reach) {
        case Reach::process:
            own = named.number == 0 || in_tree(context, named.number);
            break;
        case Reach::group:
            own = group_in_tree(context, named.number == 0 ? ::getpgid(context.thread()) : named.number);
            break;
        case Reach::everyone:
            break;
    }
    if (!context.call.waiting()) return;
    if (own || !check_enabled(context.entry.name)) {
        context.call.let_continue();
    } else {
        // A number that nobody has is the kernel's to refuse (ESRCH).
        const bool nobody = named.reach == Reach::process && ::kill(named.number, 0) != 0 && errno == ESRCH;
        context.fail(nobody ? ESRCH : EPERM);
    }
}

}  // namespace callgate::calls
