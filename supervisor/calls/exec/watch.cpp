#include "supervisor/calls/exec/watch.hpp"
#include "supervisor/calls/exec/needs.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/test_switch.hpp"
#include "supervisor/calls/announced.hpp"
#include "supervisor/calls/arguments.hpp"
#include "supervisor/calls/exec/binfmt.hpp"
#include "supervisor/kernel/acting_identity.hpp"
#include "supervisor/kernel/memory_places.hpp"
#include "supervisor/kernel/start_stack.hpp"
#include "supervisor/kernel/tracer.hpp"

namespace callgate::calls {

namespace {

class Watch {
public:
    Watch(ExecCall& context, const Subject& subject, const ExpectedProgram& expected, kernel::Tracer tracer)
        : context_(context), subject_(subject), expected_(expected), tracer_(std::move(tracer)) {}

    void run(const rules::Verdict& verdict);

private:
    void executed();
    [[nodiscard]] bool as_judged(const Result<Object>& program) const;
    [[nodiscard]] bool variables_taken() const;
    void kill(const Object* program);
    void other_program(const Object& program);
    /// Lets go of a caller that was held for nothing.
    void abandon();

    ExecCall& context_;
    const Subject& subject_;
    const ExpectedProgram& expected_;
    kernel::Tracer tracer_;
    audit::Decision decision_;  // the first one
    std::string asker_;         // its caller's executable: by then /proc/PID/exe is another
    std::uint64_t sequence_ = 0;
};

void Watch::run(const rules::Verdict& verdict) {
    // Its number may have been somebody else's when it was seized.
    if (!context_.call.waiting()) return abandon();
    decision_ = decision_on(context_, subject_, verdict);
    asker_ = decision_.caller.executable;
    decision_.caller.executable = asker_;
    const auto sequence = record(context_, decision_);
    if (!sequence) {
        context_.fail(unrecorded_error);
        return abandon();
    }
    sequence_ = *sequence;
    context_.call.let_continue();
    switch (tracer_.wait()) {
        case kernel::Tracer::Stop::gone:
            return note_lost_answer(context_, sequence_);
        case kernel::Tracer::Stop::executed:
            return executed();
        case kernel::Tracer::Stop::returned:
            if (const auto error = tracer_.returned_error(); error && *error != 0) {
                constexpr int first_restart =
                    512;  // ERESTARTSYS and its like: the kernel makes the call again
                note_failed_act(context_, sequence_, *error < first_restart ? *error : EINTR);
            }
            return tracer_.let_go();
    }
}

void Watch::abandon() {
    if (tracer_.wait() != kernel::Tracer::Stop::gone) tracer_.let_go();
}

Result<Object> program_of(pid_t process) {
    const kernel::ReadingCaller reading;
    UniqueFd pin(::open(kernel::ProcPath(process, "exe").text, O_PATH | O_CLOEXEC));
    if (!pin) return errno_code();
    return describe(std::move(pin));
}

bool Watch::as_judged(const Result<Object>& program) const {
    const audit::FileIdentity found = identity_of(program->status);
    const bool file = found.inode == expected_.file.inode && found.device == expected_.file.device;
    if (!file && check_enabled("what-runs")) return false;
    return !check_enabled("what-runs-by-arguments") || expected_.arguments.are_those_of(tracer_.process());
}

bool Watch::variables_taken() const {
    if (expected_.variables.empty() || !check_enabled("party-variables")) return true;
    const auto stack = tracer_.stack_pointer();
    if (!stack) return false;
    const auto taken = kernel::take_variables(tracer_.process(), *stack, expected_.variables);
    return taken && *taken == expected_.withheld;
}

void Watch::executed() {
    const auto program = program_of(tracer_.process());
    if (!program) return kill(nullptr);
    if (as_judged(program)) {
        if (!variables_taken()) return kill(nullptr);
        if (context_.needs.parties != nullptr && expected_.next != Parties::Stage::tools)
            context_.needs.parties->go_on(expected_.next, expected_.file,
                                          kernel::memory_places(tracer_.process()));
        return tracer_.let_go();
    }
    if (is_binfmt_interpreter(*program)) return other_program(*program);
    kill(&*program);
}

/// The kernel gave the judged file to a program that is registered for its kind: that is judged by itself.
void Watch::other_program(const Object& program) {
    std::vector<std::string> arguments;
    if (context_.needs.enforced.rules.needs_arguments()) {
        auto read = kernel::arguments_of(tracer_.process());
        if (!read) return kill(&program);
        arguments = std::move(*read);
    }
    const rules::FileObject object{program.path, program.unlinked || program.unnamed};
    const rules::Verdict verdict =
        context_.needs.enforced.rules.evaluate({rules::Operation::execute, object, asker_, arguments});
    if (verdict.action != rules::Action::allow) return kill(&program);
    audit::Decision second = decision_;
    second.object = object;
    second.second_object.reset();
    second.identity = identity_of(program.status);
    second.input.arguments = arguments;
    second.verdict = verdict;
    second.of_sequence = sequence_;
    record(context_, second) ? tracer_.let_go() : tracer_.kill();
}

void Watch::kill(const Object* program) {
    if (!tracer_.held()) {  // killed by somebody else: nothing of it can be read any more
        note_lost_answer(context_, sequence_);
        return tracer_.kill();
    }
    audit::Decision second = decision_;
    second.verdict = failure(rules::Operation::execute, EPERM);
    second.mechanism = audit::Mechanism::kill;
    second.second_object.reset();
    second.reason = "what began to run could not be read: the process was killed";
    if (program != nullptr) {
        second.object = rules::FileObject{program->path, program->unlinked || program->unnamed};
        second.identity = identity_of(program->status);
        second.reason =
            "it began to run in place of what was judged, or with other arguments: "
            "the process was killed";
    }
    second.of_sequence = sequence_;
    // Killed whether or not it can be recorded.
    static_cast<void>(record(context_, second));
    tracer_.kill();
}

std::string why_not_held(ExecCall& context, int error) {
    if (error != EPERM) return "the caller cannot be held by ptrace: " + errno_code(error).message();
    const pid_t tracer = kernel::traced_by(context.thread());
    if (tracer == 0) {
        return "the caller cannot be held by ptrace (it is not dumpable), so what it then runs could not be "
               "judged";
    }
    return "process " + std::to_string(tracer) +
           " traces the caller (a debugger in the run), so what it then runs could not be judged";
}

}  // namespace

void execute_watched(ExecCall& context, const Subject& subject, const rules::Verdict& verdict,
                     const ExpectedProgram& expected) {
    const Announced announced(context.blocking);
    if (!announced.entered())
        return deny_failure(context, subject, EAGAIN, "overload: too many calls are blocked");
    auto tracer = kernel::Tracer::seize(context.thread());
    if (!tracer) {
        if (!context.call.waiting()) return;
        return deny_failure(context, subject, EPERM, why_not_held(context, tracer.error().value()));
    }
    Watch(context, subject, expected, std::move(*tracer)).run(verdict);
}

}  // namespace callgate::calls
