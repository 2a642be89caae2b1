// truncate, chmod, chown, utimens and their relatives: a change of an object that exists.
//
// An attacker controls path and arguments, copied once; the object is pinned, judged by its own path and
// changed through that pin (change.hpp). Only truncate, which Landlock mediates, is ever continued.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utime.h>

#include <array>

#include "supervisor/calls/files/change.hpp"
#include "supervisor/calls/files/needs.hpp"
#include "supervisor/calls/files/replaced_files.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

namespace {

using rules::Operation;

/// The mode for this object: only a directory gets set-user-id and set-group-id bits.
mode_t mode_for(const FileCall& context, const Object& object, mode_t mode) {
    return object.directory() ? mode : permitted_mode(context, mode);
}

int chmod_pin(const Object& object, mode_t mode) {
    if (object.symbolic_link()) {
        errno = EOPNOTSUPP;  // what fchmodat2(2) says of links
        return -1;
    }
    return ::fchmodat(kernel::own_descriptors(), kernel::PinPath(object.pin.get()).number(), mode, 0);
}

/// Times as utimensat(2) takes them, from any of the older forms. `present` false: now.
struct Times {
    bool present = false;
    std::array<timespec, 2> values{};
    /// The kernel then does not even look at the object.
    [[nodiscard]] bool omit_both() const {
        return present && values[0].tv_nsec == UTIME_OMIT && values[1].tv_nsec == UTIME_OMIT;
    }
    [[nodiscard]] const timespec* get() const { return present ? values.data() : nullptr; }
};

int set_times(const Object& object, const Times& times) {
    return static_cast<int>(::syscall(SYS_utimensat, object.pin.get(), "", times.get(), AT_EMPTY_PATH));
}

int chown_pin(const Object& object, uid_t uid, gid_t gid) {
    return ::fchownat(object.pin.get(), "", uid, gid, AT_EMPTY_PATH);
}

Result<Times> read_times(FileCall& context, std::uint64_t address) {
    Times times;
    times.present = address != 0;
    if (!times.present) return times;
    const std::string_view name = context.entry.name;
    if (name == "utimensat") {
        const auto read = kernel::read_object<std::array<timespec, 2>>(context.thread(), address);
        if (!read) return read.error();
        times.values = *read;
        return times;
    }
    if (name == "utime") {
        const auto read = kernel::read_object<utimbuf>(context.thread(), address);
        if (!read) return read.error();
        times.values = {timespec{read->actime, 0}, timespec{read->modtime, 0}};
        return times;
    }
    const auto read = kernel::read_object<std::array<timeval, 2>>(context.thread(), address);
    if (!read) return read.error();
    for (std::size_t index = 0; index < 2; ++index) {
        const timeval& value = (*read)[index];
        if (value.tv_usec < 0 || value.tv_usec >= 1'000'000) return errno_code(EINVAL);
        times.values[index] = {value.tv_sec, value.tv_usec * 1000};
    }
    return times;
}

}  // namespace

void handle_truncate(FileCall& context) {
    const auto length = static_cast<off_t>(context.word(1));
    if (length < 0) return context.fail(EINVAL);
    auto given =
        read_path_argument(context, context.entry.first, context.buffers.path, context.buffers.directory);
    if (!given) return context.fail(given.error().value());
    const auto object = resolve_object(given->request(context.thread(), Follow::yes));
    if (!context.call.waiting()) return;
    if (!object) return context.fail(object.error().value());
    if (object->directory()) return context.fail(EISDIR);
    if (!S_ISREG(object->status.st_mode)) return context.fail(EINVAL);
    Subject subject;
    subject.operations = Operation::modify;
    subject.object = rules::FileObject{object->path, object->unlinked};
    subject.identity = identity_of(object->status);
    subject.input = input_of(*given);
    if (context.files.plan.truncation_held && context.files.grants.allow(Operation::modify, object->path) &&
        !may_have_been_replaced(context.files.grants, Operation::modify, *object)) {
        return let_continue(context, subject);
    }
    const Decision decision = decide(context, subject);
    if (!decision.allowed()) return context.fail(decision.error);
    // The size limit is the caller's, and so is the signal (fs/attr.c, inode_newsize_ok).
    const bool grows = length > object->status.st_size;
    const auto limit = grows ? kernel::soft_limit(context.thread(), kernel::Limit::file_size) : RLIM_INFINITY;
    if (!limit) {
        errno = EPERM;
        return answer_act(context, decision.sequence, -1);
    }
    if (grows && static_cast<rlim_t>(length) > *limit) {
        // The kernel looks at the caller's permission first.
        if (::syscall(SYS_faccessat2, object->pin.get(), "", W_OK, AT_EACCESS | AT_EMPTY_PATH) != 0)
            return answer_act(context, decision.sequence, -1);
        kernel::signal_thread(context.thread(), SIGXFSZ);
        errno = EFBIG;
        return answer_act(context, decision.sequence, -1);
    }
    if (in_proc_of_callgate(object->path, context.files.guardian)) {
        errno = EACCES;
        return answer_act(context, decision.sequence, -1);
    }
    answer_act(context, decision.sequence, ::truncate(kernel::PinPath(object->pin.get()).text, length));
}

void handle_chmod(FileCall& context) {
    if (context.entry.name == "fchmodat2" && !kernel_has(context.entry)) return context.fail(ENOSYS);
    const int flags = context.entry.flags < 0 ? 0 : context.integer(context.entry.flags);
    if ((flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) != 0) return context.fail(EINVAL);
    const auto mode = static_cast<mode_t>(context.word(context.entry.mode)) & 07777;
    change_object(context, follow_of(flags), empty_of(flags), [&context, mode](const Object& object) {
        return chmod_pin(object, mode_for(context, object, mode));
    });
}

void handle_chown(FileCall& context) {
    const bool at = context.entry.flags >= 0;
    const int flags = at ? context.integer(context.entry.flags)
                         : (context.entry.name == "lchown" ? AT_SYMLINK_NOFOLLOW : 0);
    if ((flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) != 0) return context.fail(EINVAL);
    const int owner = context.entry.first.path + 1;
    const auto uid = static_cast<uid_t>(context.word(owner));
    const auto gid = static_cast<gid_t>(context.word(owner + 1));
    change_object(context, follow_of(flags), empty_of(flags),
                  [uid, gid](const Object& object) { return chown_pin(object, uid, gid); });
}

void handle_times(FileCall& context) {
    const int path = context.entry.first.path;
    const auto times = read_times(context, context.word(path + 1));
    if (!times) return context.fail(times.error().value());
    if (context.entry.name == "utimensat" && times->omit_both()) return context.call.succeed(0), void();
    const int flags = context.entry.flags < 0 ? 0 : context.integer(context.entry.flags);
    const int directory = context.entry.first.directory;
    if (context.word(path) == 0 && directory >= 0 && context.integer(directory) != AT_FDCWD) {
        // futimens: the descriptor itself
        if (flags != 0) return context.fail(EINVAL);
        return change_descriptor(context, context.integer(directory),
                                 [&times](const Object& object) { return set_times(object, *times); });
    }
    if ((flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) != 0) return context.fail(EINVAL);
    change_object(context, follow_of(flags), empty_of(flags),
                  [&times](const Object& object) { return set_times(object, *times); });
}

void handle_fchmod(FileCall& context) {
    const auto mode = static_cast<mode_t>(context.word(context.entry.mode)) & 07777;
    change_descriptor(context, context.integer(0), [&context, mode](const Object& object) {
        return chmod_pin(object, mode_for(context, object, mode));
    });
}

void handle_fchown(FileCall& context) {
    const auto uid = static_cast<uid_t>(context.word(1));
    const auto gid = static_cast<gid_t>(context.word(2));
    change_descriptor(context, context.integer(0),
                      [uid, gid](const Object& object) { return chown_pin(object, uid, gid); });
}

}  // namespace callgate::calls
