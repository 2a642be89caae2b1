// `callgate run`: a run from its command line, and the report of a run that cannot start.
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "agent/landlock.hpp"
#include "agent/report_target.hpp"
#include "base/process/held_signals.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/rule_options.hpp"
#include "supervisor/cli/run_options.hpp"
#include "supervisor/cli/run_rules.hpp"
#include "supervisor/cli/run_setup.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/run/run.hpp"

namespace callgate::cli {

namespace {

/// Rules and plan fill about this much. Taken from the kernel at once, it costs less than by page faults.
/// More than that would cost more. This comes after the fork, which would copy each page.
void take_memory() {
    constexpr std::size_t size = 512U << 10U, page = 4096;
    ::mallopt(M_TRIM_THRESHOLD, 4 << 20);
    ::mallopt(M_MMAP_THRESHOLD, 4 << 20);
    void* const block = std::malloc(size);
    if (block == nullptr) return;
    const std::size_t skipped = page - reinterpret_cast<std::uintptr_t>(block) % page;
    ::madvise(static_cast<char*>(block) + skipped, size - skipped, MADV_POPULATE_WRITE);  // else by faults
    std::free(block);
}

/// Guardian and agent are forked before any rule is read. They confine themselves while this process goes on.
/// All of this lives until the process ends.
[[noreturn]] void start(const Arguments& arguments, const Caller& caller, RunFacts& known,
                        const RunNotices& notices) {
    RequestedRun requested = read_request(arguments, caller, known);
    const Request& request = requested.request;
    Launch launch(request);
    launch.fork_guardian(request, requested.terminal.terminal.get());
    take_memory();
    const TreeWithTmp tree(request.temporary_directory);
    const Compiled compiled = compile(arguments, requested, std::move(requested.terminal), tree);
    const std::unique_ptr<Launched> launched = std::move(launch).confine(compiled);
    const Command command = make_command(arguments, requested, compiled);
    say_environment(request, command);
    launched->send_command(request, command);
    Run(request, compiled, *launched).complete(command, notices);
}

/// The report is written whatever the end is, also if nothing ran.
void report_failure(const Arguments& arguments, const RunFacts& known, const std::string& message) {
    OutputTarget target;
    try {
        const Places places = find_places();
        LinkedPaths linked;
        target = read_output_target(arguments, places.home, "report", TargetKind::any, linked);
        linked.require_no_recorded_links(places);
    } catch (const Failure&) {
        return;  // the failure at hand concerns the report itself, or comes first
    }
    if (!target.wanted() || message.starts_with("--report")) return;
    RunOutcome outcome;
    outcome.error = message;
    const std::string text = RunReport().json(known, outcome, 0, "");
    agent::ReportTarget place;
    if (target.descriptor < 0)
        place = agent::open_report(target.path);
    else
        place.descriptor.reset(::fcntl(target.descriptor, F_DUPFD_CLOEXEC, 3));
    if (!place.wanted() || !agent::write_report(place, text))
        say("the report could not be written: " + std::string(std::strerror(errno)));
}

}  // namespace

int run(const Arguments& arguments) { return run_with(arguments, {}); }

int run_with(const Arguments& arguments, const RunNotices& notices) {
    const Caller caller = Caller::current();
    hold_signals();
    RunFacts known;
    known.command = arguments.rest();
    known.audited = false;
    known.landlock_abi = agent::kernel_landlock_abi();
    try {
        if (known.command.empty())
            throw Failure("the command is missing; usage: callgate run [OPTIONS] [--] COMMAND [ARG...]");
        if (known.command[0].empty())
            throw Failure("the command's name is empty; give the name of a program");
        start(arguments, caller, known, notices);
    } catch (const Failure& failure) {
        report_failure(arguments, known, failure.detail());
        throw;
    } catch (const std::exception& failure) {
        report_failure(arguments, known, failure.what());
        throw;
    }
}

}  // namespace callgate::cli
