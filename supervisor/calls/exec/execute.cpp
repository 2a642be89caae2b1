// execve, execveat: judged before, and where that is not enough, again on what then runs.
//
// An attacker controls path, arguments and environment in memory, which the kernel reads again when the call
// is continued. It cannot be performed on behalf. Two ways are sound:
// - Nothing is notify-only for execution (plan.hpp). Landlock then lets execute only what the rules allow, so
// a
//   call is continued whatever its path then names. Landlock does not mediate a memfd or a loader of one's
//   own. Its domain and filter are the caller's, and it gains nothing but another name.
// - Otherwise Landlock alone would let too much execute. Every execve is judged here on pinned objects and
//   copied arguments. The program that the kernel then starts is judged again before its first instruction
//   (watch.hpp). A call that leads nowhere is answered here and not continued: it could lead elsewhere by
//   then.
// A script is judged together with the interpreters that its first line names: the strictest verdict counts.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/words.hpp"
#include "supervisor/calls/arguments.hpp"
#include "supervisor/calls/exec/becoming.hpp"
#include "supervisor/calls/exec/needs.hpp"
#include "supervisor/calls/exec/script.hpp"
#include "supervisor/calls/exec/watch.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/decide/ask.hpp"
#include "supervisor/decide/decide.hpp"
#include "supervisor/kernel/argument_list.hpp"
#include "supervisor/kernel/start_stack.hpp"

namespace callgate::calls {

namespace {

using rules::Operation;

constexpr int only_check = 0x10000;     // AT_EXECVE_CHECK, Linux 6.14: older kernels refuse it
constexpr std::size_t max_in_turn = 6;  // the file, and five interpreters: fs/exec.c, exec_binprm

/// A file that the kernel will open for an execve; the last one runs.
struct Step {
    Object object;
    std::vector<std::string> arguments;  // the known ones: all, or the first ones of an interpreter
};

class Execution {
public:
    explicit Execution(ExecCall& context)
        : context_(context), held_(context.exec.held), by_arguments_(context.exec.by_arguments) {}

    void run();

private:
    bool find_object();
    bool find_arguments();
    void find_interpreters();
    [[nodiscard]] std::string name_in_kernel() const;
    [[nodiscard]] bool all_static() const;
    [[nodiscard]] Subject judged(const Step& step) const;
    [[nodiscard]] Subject recorded(const Step& step) const;
    struct Judgement {
        rules::Verdict verdict;
        const Step* decisive = nullptr;
    };
    [[nodiscard]] Judgement strictest() const;
    [[nodiscard]] Subject recorded_with_interpreters() const;
    void decide_all();
    struct Answered;
    [[nodiscard]] std::optional<rules::Verdict> answers();
    [[nodiscard]] bool record_answer(const Answered& part);
    bool find_parties();
    [[nodiscard]] bool watched() const;
    [[nodiscard]] bool leave_agent();
    void allowed(const rules::Verdict& verdict);
    void watch(const rules::Verdict& verdict);
    void refuse(int error) { pass_errno(context_, error, held_); }
    void unreadable(int error);

    ExecCall& context_;
    const bool held_;          // Landlock lets execute only what is allowed: calls may be continued
    const bool by_arguments_;  // some rule looks at them, or a question shows them
    std::optional<GivenPath> given_;
    std::vector<Step> steps_;
    bool readable_ = true;                         // the last step, by this identity
    Parties::Stage next_ = Parties::Stage::tools;  // of the command's process, if this succeeds
    bool leaves_ = false;                          // the caller is the agent, or a copy, and would be a tool
    std::vector<std::string> withheld_;            // then: what it gives of the agent's own variables
};

/// Answers if memory or directory of the caller cannot be read: its own error, or callgate may not look at
/// it.
void Execution::unreadable(int error) {
    if (held_ || (error != EPERM && error != EACCES)) return refuse(error);
    Subject subject;
    subject.operations = Operation::execute;
    subject.object = rules::FileObject{};
    deny_failure(context_, subject, EPERM, "the caller cannot be looked at (it is not dumpable)");
}

/// Whether the kernel looks at unknown flags before it reads the path. 7.2 does, and 6.18 does not.
bool flags_come_first() {
    constexpr int unknown = 1 << 30;
    static const bool first =
        ::syscall(SYS_execveat, -1, nullptr, nullptr, nullptr, unknown) != 0 && errno == EINVAL;
    return first;
}

/// Returns false if it has answered.
bool Execution::find_object() {
    const int flags = context_.entry.flags < 0 ? 0 : context_.integer(context_.entry.flags);
    const bool known = (flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | only_check)) == 0;
    if (!known && flags_come_first()) return refuse(EINVAL), false;
    auto given = read_path_argument(context_, context_.entry.first, context_.buffers.path,
                                    context_.buffers.directory, empty_of(flags));
    if (!given) return unreadable(given.error().value()), false;
    if (!known) return refuse(EINVAL), false;
    given_ = std::move(*given);
    auto object = given_->text->empty()
                      ? describe(std::move(given_->base))
                      : resolve_object(given_->request(context_.thread(), follow_of(flags)));
    // Path and pin are the caller's only if it still waits.
    if (!context_.call.waiting()) return false;
    if (!object) return refuse(object.error().value()), false;
    if (object->symbolic_link()) return refuse(ELOOP), false;
    if (!S_ISREG(object->status.st_mode)) return refuse(EACCES), false;
    if (object->unnamed) object->unlinked = true;  // a memfd: no name that a rule could allow
    steps_.push_back({std::move(*object), {}});
    return true;
}

/// Returns false if it has answered.
bool Execution::find_arguments() {
    if (!by_arguments_) return true;
    const int index = context_.entry.first.path + 1;
    auto arguments = kernel::read_arguments(context_.thread(), context_.word(index));
    if (!context_.call.waiting()) return false;
    if (!arguments) return unreadable(arguments.error().value()), false;
    steps_.front().arguments = std::move(*arguments);
    return true;
}

/// bprm->filename of fs/exec.c: the name of a script that its interpreter gets.
std::string Execution::name_in_kernel() const {
    if (!given_->directory_fd) return *given_->text;
    const std::string directory = "/dev/fd/" + std::to_string(*given_->directory_fd);
    return given_->text->empty() ? directory : directory + '/' + *given_->text;
}

/// Finds the interpreters. The kernel does not find one that is not found here, or it finds an unexpected
/// one.
void Execution::find_interpreters() {
    std::string name = name_in_kernel();
    while (steps_.size() < max_in_turn) {
        const auto head = read_head(steps_.back().object);
        readable_ = head.has_value();
        const auto line = head ? script_line(*head) : std::nullopt;
        if (!line) return;
        UniqueFd base;
        if (!line->interpreter.starts_with('/')) {
            auto directory = kernel::working_directory(context_.thread());
            if (!directory) return;
            base = std::move(*directory);
        }
        auto object = resolve_object({context_.thread(), base.get(), line->interpreter});
        if (!object || !S_ISREG(object->status.st_mode)) return;
        if (object->unnamed) object->unlinked = true;
        auto arguments = interpreter_arguments(*line, name, steps_.back().arguments);
        name = line->interpreter;
        steps_.push_back({std::move(*object), std::move(arguments)});
    }
}

bool Execution::all_static() const {
    return std::all_of(steps_.begin(), steps_.end(), [this](const Step& step) {
        return !step.object.unlinked && context_.exec.grants.allow(Operation::execute, step.object.path);
    });
}

/// The part of a step that the rules look at.
Subject Execution::judged(const Step& step) const {
    Subject subject;
    subject.operations = Operation::execute;
    subject.object = rules::FileObject{step.object.path, step.object.unlinked};
    subject.allowed_by = audit::Mechanism::continued;
    if (by_arguments_) subject.input.arguments = step.arguments;
    return subject;
}

Subject Execution::recorded(const Step& step) const {
    Subject subject = judged(step);
    subject.identity = identity_of(step.object.status);
    if (given_->text->empty()) return subject;
    const auto arguments = subject.input.arguments;
    subject.input = input_of(*given_);
    subject.input.arguments = arguments;
    return subject;
}

/// Returns false if it has answered.
bool Execution::find_parties() {
    std::vector<const Object*> files;
    for (const Step& step : steps_) files.push_back(&step.object);
    next_ = stage_after(context_, files);
    leaves_ = next_ == Parties::Stage::tools && runs_agent(context_);
    const std::vector<std::string>& own = context_.needs.parties->variables();
    if (!leaves_ || own.empty()) return true;
    const auto environment =
        kernel::read_arguments(context_.thread(), context_.word(context_.entry.first.path + 2));
    if (!context_.call.waiting()) return false;
    if (!environment) return unreadable(environment.error().value()), false;
    for (const std::string& one : *environment)
        if (kernel::is_variable_of(one, own)) withheld_.push_back(one.substr(0, one.find('=')));
    return true;
}

/// Whether what then runs is looked at before its first instruction.
bool Execution::watched() const {
    return !held_ || next_ != Parties::Stage::tools ||
           (leaves_ && !context_.needs.parties->variables().empty());
}

void Execution::run() {
    if (!find_object() || !find_arguments()) return;
    find_interpreters();
    if (context_.needs.parties != nullptr && !find_parties()) return;
    if (held_ && !watched() && all_static()) {
        if (!leave_agent()) return;
        const bool on_record = records_every_call(context_);
        return let_continue(context_, on_record ? recorded_with_interpreters() : judged(steps_.front()));
    }
    // The kernel refuses by the mode of a file or its file system before it asks any security module.
    for (const Step& step : steps_) {
        if (::faccessat(step.object.pin.get(), "", X_OK, AT_EMPTY_PATH | AT_EACCESS) != 0)
            return refuse(EACCES);
    }
    decide_all();
}

/// The strictest verdict over the file and its interpreters; of several, the first names it.
Execution::Judgement Execution::strictest() const {
    Judgement found;
    for (const Step& step : steps_) {
        const rules::Verdict one = evaluate(context_, judged(step));
        if (found.decisive != nullptr && one.action <= found.verdict.action) continue;
        found = {one, &step};
    }
    return found;
}

Subject Execution::recorded_with_interpreters() const {
    Subject subject = recorded(steps_.front());
    for (std::size_t index = 1; index < steps_.size(); ++index)
        subject.others.push_back(recorded(steps_[index]));
    return subject;
}

void Execution::decide_all() {
    const auto [verdict, decisive] = strictest();
    if (verdict.action == rules::Action::ask && context_.needs.questions != nullptr) {
        if (const auto answer = answers()) allowed(*answer);
        return;
    }
    if (verdict.action == rules::Action::allow) return allowed(verdict);
    const Decision decision = decide_with(context_, recorded(*decisive), verdict);
    context_.fail(decision.allowed() ? EACCES : decision.error);
}

/// An interpreter that an answer allows, and that answer.
struct Execution::Answered {
    const Step* step = nullptr;
    rules::Verdict verdict;
    std::uint64_t question = 0, grant = 0;
    std::optional<approval::Subject> granted;
};

/// If nothing denies, each file that the rules ask about is a question of its own. Returns the verdict on the
/// first file, with its answer in the context; the answers on the others are then on record. Returns nothing
/// if the call was parked or answered.
std::optional<rules::Verdict> Execution::answers() {
    std::vector<Answered> all;
    for (const Step& step : steps_) {
        Answered& part = all.emplace_back();
        part.step = &step;
        part.verdict = evaluate(context_, judged(step));
        if (part.verdict.action != rules::Action::ask) continue;
        const Subject subject = recorded(step);
        const Questioned answer = put_question(context_, subject, part.verdict);
        if (answer.parked) return std::nullopt;
        if (answer.verdict.action != rules::Action::allow) {
            context_.fail(decide_with(context_, subject, answer).error);
            return std::nullopt;
        }
        part = {&step, answer.verdict, context_.question, context_.grant, std::move(context_.granted)};
    }
    for (std::size_t index = 1; index < all.size(); ++index) {
        if (all[index].question == 0 || record_answer(all[index])) continue;
        context_.fail(EACCES);
        return std::nullopt;
    }
    context_.question = all.front().question;
    context_.grant = all.front().grant;
    context_.granted = std::move(all.front().granted);
    return all.front().verdict;
}

/// For an interpreter; the record of the execution itself is about the first file.
bool Execution::record_answer(const Answered& part) {
    context_.question = part.question;
    context_.grant = part.grant;
    context_.granted = part.granted;
    const Subject subject = recorded(*part.step);
    audit::Decision decision = decision_on(context_, subject, part.verdict);
    decision.interpreter_of = steps_.front().object.path;
    return record(context_, decision).has_value();
}

/// From here on the caller's process is tools, even if the execution then fails. Returns false if it has
/// answered: what the agent holds open would stay open in a tool.
bool Execution::leave_agent() {
    if (context_.needs.parties == nullptr || next_ != Parties::Stage::tools) return true;
    if (const auto kept = leaves_ ? agents_descriptor(context_) : std::nullopt) {
        deny_failure(context_, recorded(steps_.front()), EACCES, *kept);
        return false;
    }
    leave(context_);
    return true;
}

void Execution::allowed(const rules::Verdict& verdict) {
    for (const Step& step : steps_) {
        const std::string& path = step.object.path;
        // Only a default of allow covers a file without a name, and Landlock does not ask for it.
        const bool lets =
            step.object.unlinked || (held_ ? context_.exec.grants.allow(Operation::execute, path)
                                           : context_.exec.grants.let_execute(path));
        if (lets) continue;
        return deny_failure(
            context_, recorded(step), EACCES,
            "execution is allowed here, but not held by the kernel: the directory was made, or replaced, "
            "after the run began");
    }
    if (!leave_agent()) return;
    if (watched()) return watch(verdict);
    const Decision decision = decide_with(context_, recorded_with_interpreters(), verdict);
    if (!decision.allowed()) return context_.fail(decision.error);
    context_.call.let_continue();
}

void Execution::watch(const rules::Verdict& verdict) {
    const Step& last = steps_.back();
    Subject subject = recorded(steps_.front());
    if (!readable_) {
        return deny_failure(
            context_, subject, EACCES,
            "it may be executed but not read, so whether it is what then runs could not be judged");
    }
    ExpectedProgram expected{identity_of(last.object.status), {}, next_};
    if (leaves_) expected.variables = context_.needs.parties->variables();
    expected.withheld = withheld_.size();
    const std::string note = "not passed on, as only the agent has it: " + joined(withheld_, ", ");
    if (!withheld_.empty()) subject.note = note;
    if (steps_.size() > 1) {
        subject.second_object = rules::FileObject{last.object.path, last.object.unlinked};
        subject.second_operations = Operation::execute;
    }
    if (by_arguments_ || steps_.size() > 1) expected.arguments = {last.arguments, by_arguments_};
    execute_watched(context_, subject, verdict, expected);
}

}  // namespace

void handle_execute(ExecCall& context) { Execution(context).run(); }

}  // namespace callgate::calls
