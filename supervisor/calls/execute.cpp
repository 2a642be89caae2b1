// execve, execveat.
//
// An attacker controls path, arguments and environment in memory, which the kernel reads again when the call
// is continued; it cannot be performed on behalf. So it is continued only where Landlock alone holds
// execution: whatever the path then names, it runs only beneath a hierarchy that is allowed to execute.
// Everything else is denied here, on record. What Landlock does not mediate (a memfd, a loader of one's own)
// runs under the same domain and filter as the caller: it gains nothing but another program's name (threat
// model: execution identifies, it does not confine).
#include <fcntl.h>

#include "supervisor/calls/arguments.hpp"
#include "supervisor/calls/decide.hpp"

namespace callgate::calls {

void handle_execute(CallContext& context) {
    const int flags = context.entry.flags < 0 ? 0 : context.integer(context.entry.flags);
    const EmptyPath empty = (flags & AT_EMPTY_PATH) != 0 ? EmptyPath::allow : EmptyPath::refuse;
    auto given = read_path_argument(context, context.entry.first, context.scratch.path,
                                    context.scratch.directory, empty);
    // What leads nowhere the kernel refuses by itself.
    if (!given) return refuse_natively(context, given.error().value(), true);
    const Follow follow = (flags & AT_SYMLINK_NOFOLLOW) != 0 ? Follow::no : Follow::yes;
    auto object = given->text->empty() ? describe(std::move(given->base))
                                       : resolve_object(given->request(context.thread(), follow));
    if (!context.call.waiting()) return;
    if (!object || object->directory() || object->symbolic_link()) {
        return refuse_natively(context, object ? EACCES : object.error().value(), true);
    }
    if (object->anonymous) object->nameless = true;  // a memfd: no name that a rule could allow
    Subject subject;
    subject.operations = rules::Operation::execute;
    subject.object = rules::FileObject{object->path, object->nameless};
    subject.identity = identity_of(object->status);
    if (!given->text->empty()) subject.input = input_of(*given);
    if (!object->nameless && context.run.grants.allow(rules::Operation::execute, object->path)) {
        return let_continue(context, subject);
    }
    const rules::Verdict verdict = judge(context, subject);
    if (verdict.action == rules::Action::allow && !object->nameless) {
        return deny_failure(
            context, subject, EACCES,
            "execution is allowed here, but not held by the kernel: the directory was made, or replaced, "
            "after the run began");
    }
    if (verdict.action == rules::Action::allow) {  // a default of allow covers what has no name
        return context.call.let_continue(), void();
    }
    if (rule_on(context, subject, verdict) == Ruling::proceed) context.fail(EACCES);
}

}  // namespace callgate::calls
