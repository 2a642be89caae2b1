// Calls that name processes by number: limits, priorities and affinity. If Landlock has no
// scope for signals, these are also calls that send signals, or that set the owner of a file, who gets them.
//
// An attacker controls only scalars, which the kernel does not read again; so a call on a process of the tree
// is continued. A process outside, callgate's own included, is answered as one of another user: EPERM.
//
// A number may be reused between looking and the continued call. It is free only once its process was reaped,
// and given anew only after all others up to pid_max were. The call would then reach an outside process that
// started in that very instant. Nothing holds a number without its process, and these calls know no other
// name, so that much remains.
//
// A group is another matter. A sibling thread can take the caller into another group between looking and the
// call, and its own group may be the user's whole job. So a call that reaches more than one process is done
// here, to the processes of the tree alone, one by one. The answer is as if all others were another user's.
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <optional>
#include <vector>

#include "base/directory.hpp"
#include "base/test_switch.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/calls/processes/needs.hpp"
#include "supervisor/decide/decide.hpp"
#include "supervisor/decide/parties.hpp"
#include "supervisor/kernel/acting_identity.hpp"

namespace callgate::calls {

namespace {

enum class Reach : std::uint8_t {
    none,  // the kernel refuses the arguments by themselves
    process,
    group,
    user,
    everyone
};

struct Named {
    Reach reach = Reach::process;
    pid_t number = 0;
};

constexpr int first_io_class = 1;  // IOPRIO_WHO_PROCESS; the others follow in the order of PRIO_*

Named named_by_priority(int which, pid_t who) {
    switch (which) {
        case PRIO_PROCESS:
            return {who < 0 ? Reach::none : Reach::process, who};
        case PRIO_PGRP:
            return {who < 0 ? Reach::none : Reach::group, who};
        case PRIO_USER:
            return {Reach::user, who};
        default:
            return {Reach::none, who};
    }
}

Named named_by_kill(pid_t number, int signal) {
    // The least number has no opposite: the kernel knows no such group.
    if (signal < 0 || signal >= NSIG || number == std::numeric_limits<pid_t>::min()) return {Reach::none, 0};
    if (number == -1) return {Reach::everyone, 0};
    if (number <= 0) return {Reach::group, -number};
    return {Reach::process, number};
}

Named named_by(ProcessCall& context) {
    const std::string_view name = context.entry.name;
    if (name == "setpriority") return named_by_priority(context.integer(0), context.integer(1));
    if (name == "ioprio_set")
        return named_by_priority(context.integer(0) - first_io_class, context.integer(1));
    if (name == "kill") return named_by_kill(context.integer(0), context.integer(1));
    const bool owner = name == "fcntl";
    const pid_t number = context.integer(owner ? 2 : 0);
    if (number >= 0) return {Reach::process, number};
    if (!owner || number == std::numeric_limits<pid_t>::min()) return {Reach::none, 0};
    return {Reach::group, -number};
}

/// For a tool the agent is a process of another user: a signal could open its debugger. Signal 0 is no
/// signal. It tells only whether the process is there, as /proc does; a tool may end itself if the agent is
/// gone.
bool in_tree(ProcessCall& context, pid_t process) {
    const bool probes = context.entry.name == "kill" && context.integer(1) == 0;
    if (!probes && context.needs.parties != nullptr && party_of(context) == rules::Party::tools &&
        context.needs.parties->is_agent(process) && check_enabled("party-signals"))
        return false;
    return (process != context.processes.guardian || !check_enabled("guardian-is-outside")) &&
           kernel::descends_from(process, context.processes.guardian);
}

/// Calls `visit` for each number that a directory of /proc holds. False: it cannot be read.
template <class Visit>
bool for_each_number(const char* path, Visit visit) {
    const Directory entries(::opendir(path));
    if (!entries) return false;
    while (const dirent* entry = ::readdir(entries.get())) {
        const auto number = static_cast<pid_t>(std::atoi(entry->d_name));
        if (number > 0) visit(number);
    }
    return true;
}

/// The processes of a group or user.
struct Members {
    std::vector<pid_t> own;  // of the tree
    bool outside = false;    // there are others
};

template <class Belongs>
Members members(ProcessCall& context, Belongs belongs) {
    Members found;
    const bool read = for_each_number("/proc", [&](pid_t process) {
        if (!belongs(process)) return;
        if (in_tree(context, process)) {
            found.own.push_back(process);
        } else {
            found.outside = true;
        }
    });
    if (!read) found.outside = true;
    return found;
}

Members members_of(ProcessCall& context, const Named& named) {
    if (named.reach == Reach::group) {
        const pid_t group = named.number == 0 ? ::getpgid(context.thread()) : named.number;
        return members(context, [group](pid_t process) { return ::getpgid(process) == group; });
    }
    if (named.reach == Reach::user) {
        // 0 is the caller's own to setpriority, and root to ioprio_set.
        const bool own = named.number == 0 && context.entry.name == "setpriority";
        const auto caller = kernel::status(context.thread());
        const auto user = own && caller ? caller->real_uid : static_cast<uid_t>(named.number);
        return members(context, [user](pid_t process) {
            const auto status = kernel::status(process);
            return status && status->real_uid == user;
        });
    }
    const auto caller = kernel::status(context.thread());
    const pid_t self = caller ? caller->process : 0;
    return members(context, [self](pid_t process) { return process > 1 && process != self; });
}

/// Signals through a pidfd: never a process that got the number since. 0, or an errno.
int send_signal(ProcessCall& context, pid_t process, int signal) {
    const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0U)));
    if (!handle) return errno;
    if (!in_tree(context, process) || !kernel::may_signal(context.thread(), process)) return EPERM;
    // A caller with its own real id may do more than the acting thread, whose real id is another.
    std::optional<kernel::ReadingCaller> reaching;
    if (kernel::taken_identity() != nullptr) reaching.emplace();
    return ::syscall(SYS_pidfd_send_signal, handle.get(), signal, nullptr, 0U) == 0 ? 0 : errno;
}

/// kernel/signal.c, __kill_pgrp_info and kill_something_info.
int signal_all(ProcessCall& context, const Named& named, const Members& all) {
    bool reached = false;
    int error = all.outside ? EPERM : ESRCH;
    for (const pid_t process : all.own) {
        const int result = send_signal(context, process, context.integer(1));
        if (result == 0) reached = true;
        if (result != 0 && result != EPERM) error = result;
    }
    return reached || named.reach == Reach::everyone ? 0 : error;
}

/// kernel/sys.c, setpriority; block/ioprio.c: each thread of each process. One that may not be changed
/// decides the answer for all.
template <class Set>
int set_all(const Members& all, Set set) {
    bool reached = false;
    int error = 0;
    for (const pid_t process : all.own) {
        for_each_number(kernel::ProcPath(process, "task").text, [&](pid_t thread) {
            if (set(thread) == 0) {
                reached = true;
            } else if (errno != ESRCH) {
                error = errno;
            }
        });
    }
    if (all.outside) return EPERM;
    if (error != 0) return error;
    return reached ? 0 : ESRCH;
}

/// Does what was asked for to the processes of the tree. 0, or the errno.
int act_on_all(ProcessCall& context, const Named& named, const Members& all) {
    const int value = context.integer(2);
    if (context.entry.name == "kill") return signal_all(context, named, all);
    if (context.entry.name == "setpriority") {
        return set_all(all, [value](pid_t thread) {
            return ::setpriority(PRIO_PROCESS, static_cast<id_t>(thread), value);
        });
    }
    return set_all(all, [value, &context](pid_t thread) {
        if (!kernel::may_signal(context.thread(), thread)) return errno = EPERM, -1;
        return static_cast<int>(::syscall(SYS_ioprio_set, first_io_class, thread, value));
    });
}

void handle_one(ProcessCall& context, pid_t number) {
    const bool own = number == 0 || in_tree(context, number);
    if (!context.call.waiting()) return;
    if (own) return context.call.let_continue(), void();
    // The kernel's errno for a number that no process has is ESRCH.
    context.fail(::kill(number, 0) != 0 && errno == ESRCH ? ESRCH : EPERM);
}

void handle_many(ProcessCall& context, const Named& named) {
    const Members all = members_of(context, named);
    if (!context.call.waiting()) return;
    // Only a group that is named by its number stays the same until the kernel looks. Continued, its members
    // learn who sent the signal. An owner gets its signals later: only the meant processes matter.
    const bool lasting = named.reach == Reach::group && named.number != 0;
    if (lasting && !all.outside && !all.own.empty()) return context.call.let_continue(), void();
    if (context.entry.name == "fcntl") return context.fail(all.outside ? EPERM : ESRCH);
    const int error = act_on_all(context, named, all);
    if (error != 0) return context.fail(error);
    context.call.succeed(0);
}

}  // namespace

void handle_outside_process(ProcessCall& context) {
    const Named named = named_by(context);
    if (context.entry.name == "prlimit64" && context.integer(1) == RLIMIT_CORE && context.word(2) != 0 &&
        context.processes.opaque.is_opaque(named.number == 0 ? context.thread() : named.number))
        return handle_core_limit(context);
    if (named.reach == Reach::none || !check_enabled(context.entry.name)) {
        context.call.let_continue();
    } else if (named.reach == Reach::process) {
        handle_one(context, named.number);
    } else {
        handle_many(context, named);
    }
}

}  // namespace callgate::calls
