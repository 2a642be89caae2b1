// mq_open, mq_unlink: POSIX message queues that the run made work; those of the user's other programs look
// like another user's.
//
// An attacker controls name, flags, mode and attributes, each copied once. The queue is opened here, which
// has no effect of its own. The caller gets it only if it is the very object that the run made under that
// name. Removing goes by name. If an outside process of the same user replaces one of the run's queues
// between the look and the removal, it loses its own queue.
#include <fcntl.h>
#include <mqueue.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/test_switch.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/calls/ipc/ipc_objects.hpp"
#include "supervisor/calls/ipc/needs.hpp"
#include "supervisor/calls/with_umask.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

namespace {

struct Opening {
    std::string name;
    int flags = 0;
    mode_t mode = 0;
    std::optional<mq_attr> attributes;
};

Result<UniqueFd> open_queue(const Opening& wanted, int flags) {
    mq_attr attributes = wanted.attributes.value_or(mq_attr{});
    const long opened = ::syscall(SYS_mq_open, wanted.name.c_str(), flags, wanted.mode,
                                  wanted.attributes ? &attributes : nullptr);
    if (opened < 0) return errno_code();
    return UniqueFd(static_cast<int>(opened));
}

std::uint64_t inode_of(const UniqueFd& queue) {
    struct stat status {};
    return ::fstat(queue.get(), &status) == 0 ? status.st_ino : 0;
}

Result<UniqueFd> make_queue(IpcCall& context, OwnQueues& own, const Opening& wanted) {
    if (own.full()) return errno_code(ENOSPC);
    const auto caller = kernel::status(context.thread());
    if (!caller) return caller.error();
    const WithUmask with_umask(context.buffers, caller->umask);
    auto made = open_queue(wanted, wanted.flags | O_CREAT | O_EXCL);
    if (made) own.add(wanted.name, inode_of(*made));
    return made;
}

Result<UniqueFd> find_queue(IpcCall& context, OwnQueues& own, const Opening& wanted) {
    auto found = open_queue(wanted, wanted.flags & ~(O_CREAT | O_EXCL));
    const bool ours = found && inode_of(*found) == own.inode(wanted.name);
    if (found && !ours && check_enabled(context.entry.name)) return errno_code(EACCES);
    return found;
}

Result<UniqueFd> make_or_find(IpcCall& context, OwnQueues& own, const Opening& wanted) {
    constexpr int max_tries = 16;  // others may make and remove the name meanwhile
    const bool creates = (wanted.flags & O_CREAT) != 0;
    const bool only_new = creates && (wanted.flags & O_EXCL) != 0;
    for (int tries = 0; tries < max_tries; ++tries) {
        if (creates) {
            auto made = make_queue(context, own, wanted);
            if (made || only_new) return made;
            if (made.error().value() != EEXIST && made.error().value() != ENOSPC) return made;
        }
        auto found = find_queue(context, own, wanted);
        if (found || found.error().value() != ENOENT || !creates) return found;
        if (own.full()) return errno_code(ENOSPC);
    }
    return errno_code(EACCES);
}

/// The errno of mq_unlink(2) for a name that is not the run's.
int foreign_name_error(const std::string& name) {
    if (name.find('/') != std::string::npos || name == "." || name == "..") return EACCES;
    const UniqueFd there(
        static_cast<int>(::syscall(SYS_mq_open, name.c_str(), O_RDONLY | O_NONBLOCK, 0, nullptr)));
    return there || errno == EACCES ? EPERM : errno;
}

}  // namespace

void handle_mq_open(IpcCall& context) {
    Opening wanted;
    wanted.flags = context.integer(1);
    wanted.mode = static_cast<mode_t>(context.integer(2)) & 0xffff;
    if (context.word(3) != 0) {
        const auto given = kernel::read_object<mq_attr>(context.thread(), context.word(3));
        if (!given) return context.fail(EFAULT);
        wanted.attributes = *given;
    }
    const auto read = kernel::read_path(context.thread(), context.word(0), wanted.name);
    if (!context.call.waiting()) return;
    if (!read) return context.fail(read.error().value());
    if (wanted.name.empty()) return context.fail(ENOENT);
    // Checked before anything is made.
    if (kernel::descriptors_exhausted(context.thread())) return context.fail(EMFILE);
    OwnQueues& own = context.objects.queues;
    Result<UniqueFd> queue = errno_code(EACCES);
    {
        const auto held = own.lock();
        queue = make_or_find(context, own, wanted);
    }
    if (!queue) return context.fail(queue.error().value());
    int error = 0;
    constexpr bool close_on_exec = true;  // always, ipc/mqueue.c
    context.call.hand_over(std::move(*queue), close_on_exec, error);
}

void handle_mq_unlink(IpcCall& context) {
    std::string name;
    const auto read = kernel::read_path(context.thread(), context.word(0), name);
    if (!context.call.waiting()) return;
    if (!read) return context.fail(read.error().value());
    OwnQueues& own = context.objects.queues;
    int error = 0;
    {
        const auto held = own.lock();
        const std::uint64_t inode = own.inode(name);
        const bool ours = inode != 0 && agent::is_message_queue(name.c_str(), inode, true);
        if (!ours && check_enabled(context.entry.name)) {
            error = foreign_name_error(name);
        } else if (::syscall(SYS_mq_unlink, name.c_str()) != 0) {
            error = errno;
        } else {
            own.remove(name);
        }
    }
    if (error != 0) return context.fail(error);
    context.call.succeed(0);
}

}  // namespace callgate::calls
