// The steps that all changes of an existing object share: pin it, judge it, act on the pin.
//
// An attacker controls path, descriptor number and arguments, copied once. Both lead to an O_PATH pin: a
// number by /proc/TID/fd, which gives the object of that moment. The path that the kernel gives for that pin
// is judged, and the object that the pin holds is changed. So a sibling's dup2 changes nothing. The pin of a
// number is on the same mount and inode as the descriptor, and no change depends on more of it. Landlock
// mediates no such change but truncation, so the answer is always ours. The pin is dropped before the answer.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "supervisor/calls/arguments.hpp"
#include "supervisor/calls/files/held_open.hpp"
#include "supervisor/calls/files/needs.hpp"
#include "supervisor/calls/files/set_ids.hpp"
#include "supervisor/calls/files/terminals.hpp"
#include "supervisor/decide/decide.hpp"

namespace callgate::calls {

/// Checks the caller's other arguments once the object is known: 0, or the errno that ends the call. The
/// kernel looks at some arguments after the path; these are read here.
struct NothingToCheck {
    int operator()(const Object&) const { return 0; }
};

/// The access by which a descriptor may make this change, where its file has no name. Taking bits from the
/// mode opens nothing. bash does so by the reading descriptor of each long here-document.
inline rules::Operation access_to_change(const FileCall& context, const Object& object) {
    if (context.entry.mode < 0) return rules::Operation::modify;
    const auto mode = static_cast<mode_t>(context.word(context.entry.mode)) & 07777;
    return (mode & ~object.status.st_mode) == 0 ? rules::Operation::read : rules::Operation::modify;
}

/// Judges `metadata` on a described object and runs `act(object)`: 0, or -1 with errno.
template <class Act>
void judge_and_change(FileCall& context, Object object, const audit::CallInput& input, Act act) {
    std::uint64_t sequence = 0;
    bool own = false;
    if (!object.unnamed && !holds_open(context, object, access_to_change(context, object))) {
        Subject subject;
        subject.operations = rules::Operation::metadata;
        subject.object = rules::FileObject{object.path, object.unlinked};
        subject.identity = identity_of(object.status);
        subject.settled = terminal_of_run(context, object, rules::Operation::metadata);
        subject.input = input;
        if (context.entry.mode >= 0 && !object.directory() &&
            leaves_set_ids_out(context, static_cast<mode_t>(context.word(context.entry.mode))))
            subject.note = set_ids_left_out;
        const Decision decision = decide(context, subject);
        if (!decision.allowed()) {
            object.pin.reset();
            return context.fail(decision.error);
        }
        sequence = decision.sequence;
        own = in_proc_of_callgate(object.path, context.files.guardian);
    }
    int error = own ? EACCES : 0;
    if (!own && act(object) != 0) error = errno;
    object.pin.reset();
    errno = error;
    answer_act(context, sequence, error == 0 ? 0 : -1);
}

/// The object of the call's first path. `detail` is kept in the record beside the path.
template <class Act, class Check = NothingToCheck>
void change_object(FileCall& context, Follow follow, EmptyPath empty, Act act, Check check = {},
                   std::string_view* detail = nullptr) {
    auto given = read_path_argument(context, context.entry.first, context.buffers.path,
                                    context.buffers.directory, empty);
    if (!given) return context.fail(given.error().value());
    const bool itself = given->text->empty();
    auto object =
        itself ? describe(std::move(given->base)) : resolve_object(given->request(context.thread(), follow));
    const int wrong = object ? check(*object) : object.error().value();
    if (!context.call.waiting()) return;
    if (wrong != 0) return context.fail(wrong);
    audit::CallInput input;
    if (!itself) input = input_of(*given);
    if (detail != nullptr) input.second_path = *detail;
    judge_and_change(context, std::move(*object), input, act);
}

/// The object of descriptor `number`.
template <class Act, class Check = NothingToCheck>
void change_descriptor(FileCall& context, int number, Act act, Check check = {},
                       std::string_view* detail = nullptr) {
    auto pin = kernel::open_descriptor_pin(context.thread(), number);
    if (!pin) return context.fail(pin.error().value());
    auto object = describe(std::move(*pin));
    const int wrong = object ? check(*object) : object.error().value();
    if (!context.call.waiting()) return;
    if (wrong != 0) {
        if (object) object->pin.reset();
        return context.fail(wrong);
    }
    audit::CallInput input;
    input.directory_fd = number;
    if (detail != nullptr) input.second_path = *detail;
    judge_and_change(context, std::move(*object), input, act);
}

/// Whether this kernel has a call that is newer than the oldest supported kernel. The call is made with
/// arguments that the kernel refuses before it looks at anything else.
inline bool kernel_has(const CallEntry& entry) {
    return ::syscall(static_cast<long>(entry.number), -1, nullptr, ~0U, nullptr, nullptr, std::size_t{0}) !=
               -1 ||
           errno != ENOSYS;
}

}  // namespace callgate::calls
