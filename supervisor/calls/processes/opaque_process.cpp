// Calls that make a process opaque, and calls that would reach into one (opaque.hpp).
//
// An attacker controls numbers of processes, which the kernel looks up again when a call is continued. By
// then a number may be that of a new copy of an opaque memory. So once there is such a memory, the calls that
// give out content at once are refused on every other process. PTRACE_ATTACH and PTRACE_SEIZE give out
// nothing by themselves: the caller is held on the way back, and killed if it then traces an opaque process.
//
// A process may also become opaque between the look and the call. So each caller is held until its call is
// over, and PR_SET_DUMPABLE waits meanwhile. Such a call is short. A caller that another process traces
// cannot be held, and is refused. Further requests of a tracer are not looked at. It began before the mark,
// or its tracee asked for it (PTRACE_TRACEME). Natively it could then set all registers.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <span>
#include <string>

#include "base/directory.hpp"
#include "base/test_switch.hpp"
#include "supervisor/calls/announced.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/calls/processes/needs.hpp"
#include "supervisor/decide/decide.hpp"
#include "supervisor/kernel/acting_identity.hpp"
#include "supervisor/kernel/target.hpp"
#include "supervisor/kernel/target_memory.hpp"
#include "supervisor/kernel/tracer.hpp"

namespace callgate::calls {

namespace {

using rules::Operation;

std::string proc_path(pid_t process, const char* leaf) {
    return "/proc/" + std::to_string(process > 0 ? process : 0) + leaf;
}

/// The kernel hands a core to a program only if the limit is not 1 (fs/coredump.c), and makes no file of one
/// byte. The limit stays after an execve. False: it cannot be set.
bool allows_no_core(pid_t thread) {
    const kernel::ReadingCaller reading;  // of another user
    const rlimit none{1, 1};
    if (!check_enabled("opaque-core") || ::prlimit(thread, RLIMIT_CORE, &none, nullptr) == 0) return true;
    rlimit now{};
    if (::prlimit(thread, RLIMIT_CORE, nullptr, &now) != 0 || now.rlim_max != 0) return false;
    // A hard limit of 0 keeps files away, but no program.
    const UniqueFd pattern(::open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC));
    char first = '|';
    return pattern && ::read(pattern.get(), &first, 1) == 1 && first != '|';
}

/// The same for the other processes that the mark is about: a core of one that shares the memory holds all of
/// it. One that is made meanwhile has the limit of its maker. Outside processes may have such places by
/// chance.
bool leaves_no_core(pid_t thread, const kernel::MemoryPlaces& places, pid_t guardian) {
    const Directory entries(::opendir(*kernel::proc_root != 0 ? kernel::proc_root : "."));
    if (!entries || !allows_no_core(thread)) return false;
    while (const dirent* entry = ::readdir(entries.get())) {
        const auto process = static_cast<pid_t>(std::atoi(entry->d_name));
        if (process > 0 && process != thread && kernel::memory_places(process) == places &&
            kernel::descends_from(process, guardian) && check_enabled("opaque-core-shared") &&
            !allows_no_core(process))
            return false;
    }
    return true;
}

Subject reached(const std::string& path, Operation operation) {
    Subject subject;
    subject.operations = operation;
    subject.object = rules::FileObject{path};
    return subject;
}

/// Records the denial and answers.
void refuse_reach(ProcessCall& context, const Subject& subject) {
    const auto verdict = OpaqueMemories::denial(*subject.operations.begin(), EPERM);
    context.fail(decide_with(context, subject, verdict).error);
}

/// The call's target as the record shows it. A descriptor of a process may be exchanged by a sibling.
pid_t target_of(ProcessCall& context) {
    const std::string_view name = context.entry.name;
    if (name == "ptrace") return context.integer(1);
    if (name == "kcmp")
        return context.integer(OpaqueMemories::is_own(context.integer(0), context.thread()) ? 1 : 0);
    if (name != "pidfd_getfd") return context.integer(0);
    const std::string leaf = "fdinfo/" + std::to_string(context.integer(0));
    const UniqueFd fd(::open(kernel::ProcPath(context.thread(), leaf.c_str()).text, O_RDONLY | O_CLOEXEC));
    char text[512] = {};
    if (!fd || ::read(fd.get(), text, sizeof text - 1) <= 0) return 0;
    const std::string_view shown(text);
    const std::size_t at = shown.find("\nPid:\t");
    return at == std::string_view::npos ? 0 : std::atoi(text + at + 6);
}

/// Whether it can only be the caller's own process. Its number is no other's while the caller lives; that of
/// a sibling thread may become one.
bool is_on_itself(ProcessCall& context) {
    const auto itself = [&context](pid_t number) {
        if (number == context.thread()) return true;
        const auto caller = kernel::status(context.thread());
        return caller && caller->process == number;
    };
    if (context.entry.name == "pidfd_getfd") return false;
    if (context.entry.name == "kcmp") return itself(context.integer(0)) && itself(context.integer(1));
    return itself(context.integer(context.entry.name == "ptrace" ? 1 : 0));
}

/// Continues the call, and holds the caller on its way back.
void continue_held(ProcessCall& context, const Subject& subject, pid_t traced) {
    auto tracer = kernel::Tracer::seize(context.thread());
    if (!context.call.waiting()) {
        if (tracer && tracer->wait() != kernel::Tracer::Stop::gone) tracer->let_go();
        return;
    }
    if (!tracer) {
        return deny_failure(
            context, subject, EPERM,
            "the caller cannot be held by ptrace (a debugger traces it, or its program cannot "
            "be read), so a process could make itself opaque before the call is over");
    }
    context.call.let_continue();
    if (tracer->wait() == kernel::Tracer::Stop::gone) return;
    const auto error = tracer->returned_error();
    if (traced == 0 || (error && *error != 0) || !context.processes.opaque.is_opaque(traced) ||
        !check_enabled("opaque-attach"))
        return tracer->let_go();
    audit::Decision decision =
        decision_on(context, subject, OpaqueMemories::denial(Operation::modify, EPERM));
    decision.mechanism = audit::Mechanism::kill;
    decision.reason = "its number became that of an opaque process: the tracer was killed";
    static_cast<void>(record(context, decision));
    tracer->kill();
    ::kill(traced, SIGCONT);  // PTRACE_ATTACH has stopped it
}

}  // namespace

void handle_dumpable(ProcessCall& context) {
    OpaqueMemories& opaque = context.processes.opaque;
    if (context.integer(0) == PR_GET_DUMPABLE) {
        if (opaque.is_opaque(context.thread()) || !check_enabled("prctl"))
            return context.call.succeed(0), void();
        return context.call.let_continue(), void();
    }
    if (context.word(1) != 0) return context.call.let_continue(), void();
    const auto places = kernel::memory_places(context.thread());
    if (!context.call.waiting()) return;
    // The kernel hides by itself whatever it does not show to us, and makes no core of it.
    if (!places || !leaves_no_core(context.thread(), *places, context.needs.guardian))
        return context.call.let_continue(), void();
    const auto process = kernel::status(context.thread());
    const std::string path = proc_path(process ? process->process : context.thread(), "");
    Subject subject = reached(path, Operation::read);
    subject.settled = OpaqueMemories::denial(Operation::read, 0);
    subject.settled->action = rules::Action::allow;
    subject.note = "the process is opaque to all others of the run, and not to callgate";
    const Decision decision = decide(context, subject);
    if (!decision.allowed()) return context.fail(decision.error);
    const Announced announced(context.blocking);
    if (const int error = check_enabled("prctl") ? opaque.mark(*places) : 0) return context.fail(error);
    if (!context.call.succeed(0)) note_lost_answer(context, decision.sequence);
}

/// An opaque process keeps the limit that it has.
void handle_core_limit(ProcessCall& context) {
    const bool by_number = context.entry.name == "prlimit64";
    const pid_t number = by_number ? context.integer(0) : 0;
    if (!check_enabled(context.entry.name) || !check_enabled("opaque-core") ||
        !context.processes.opaque.is_opaque(number == 0 ? context.thread() : number))
        return context.call.let_continue(), void();
    if (number != 0 && !OpaqueMemories::is_own(number, context.thread())) return context.fail(EPERM);
    const kernel::ReadingCaller reading;  // of another user
    rlimit now{};
    const std::uint64_t former = by_number ? context.word(3) : 0;
    if (::prlimit(context.thread(), RLIMIT_CORE, nullptr, &now) != 0 || !context.call.waiting())
        return context.fail(ESRCH);
    const auto bytes = std::as_bytes(std::span<const rlimit, 1>(&now, 1));
    if (former != 0 && !kernel::write_memory(context.thread(), former, bytes)) return context.fail(EFAULT);
    context.call.succeed(0);
}

void handle_reach(ProcessCall& context) {
    if (!check_enabled(context.entry.name) || is_on_itself(context))
        return context.call.let_continue(), void();
    const bool attaches = context.entry.name == "ptrace";
    const pid_t target = target_of(context);
    const std::string path = target > 0 ? proc_path(target, "/mem") : "/proc";
    const bool changes = attaches || context.entry.name == "process_vm_writev";
    const Subject subject = reached(path, changes ? Operation::modify : Operation::read);
    const Announced announced(context.blocking);
    if (!announced.entered())
        return deny_failure(context, subject, EAGAIN, "overload: too many calls are blocked");
    OpaqueMemories& opaque = context.processes.opaque;
    const std::shared_lock<std::shared_mutex> reaching(opaque.reaching());
    if (!context.call.waiting()) return;
    const bool closed = attaches ? check_enabled("opaque-look") && opaque.is_opaque(target) : opaque.any();
    if (closed) return refuse_reach(context, subject);
    continue_held(context, subject, attaches && opaque.any() ? target : 0);
}

}  // namespace callgate::calls
