// Making, finding and using System V shared memory, semaphores and message queues. Objects that the run made
// work; all others of the user look like another user's.
//
// An attacker controls keys, ids, commands and all memory. Objects are made and looked up by key on behalf,
// so that their ids are known (ipc_objects.hpp). A call on an id that is the run's own is continued. The id
// is a scalar, and no memory that the kernel then reads names an object. Between looking and continuing the
// id cannot become that of an outside object (agent/created_ipc.hpp). So a call that waits waits natively.
// All other calls are answered here, with the errors that the kernel gives to another user, in its order.
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <vector>

#include "base/test_switch.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/calls/ipc/needs.hpp"
#include "supervisor/calls/ipc/system_v.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

namespace {

using namespace system_v;

/// shmget, semget or msgget of this thread with other flags: an id, or -1 with errno.
int get(const IpcCall& context, ObjectKind kind, int flags) {
    const auto key = static_cast<key_t>(context.integer(0));
    switch (kind) {
        case ObjectKind::memory:
            return static_cast<int>(::syscall(SYS_shmget, key, context.word(1), flags));
        case ObjectKind::semaphores:
            return static_cast<int>(::syscall(SYS_semget, key, context.integer(1), flags));
        case ObjectKind::queue:
            return static_cast<int>(::syscall(SYS_msgget, key, flags));
    }
    return -1;
}

/// Bound for a key that others make and remove meanwhile.
constexpr int max_tries = 16;

/// An id, or a negative errno. A call that asks for no access also gets the id of an outside object, as
/// natively.
int look_up(IpcCall& context, ObjectKind kind, OwnIds& own, int flags) {
    constexpr int asked_access = 0777;
    const std::uint32_t semaphores =
        kind == ObjectKind::semaphores ? static_cast<std::uint32_t>(std::max(context.integer(1), 0)) : 0;
    const bool wants_new = context.integer(0) == IPC_PRIVATE || (flags & IPC_CREAT) != 0;
    for (int tries = 0; tries < max_tries; ++tries) {
        if (wants_new && !own.exhausted(semaphores)) {
            // Only an object that did not exist is certainly ours.
            const int made = get(context, kind, flags | IPC_CREAT | IPC_EXCL);
            if (made >= 0) {
                own.add(made, semaphores);
                return made;
            }
            if (errno != EEXIST || (flags & IPC_EXCL) != 0) return -errno;
        } else if (context.integer(0) == IPC_PRIVATE) {
            return -ENOSPC;
        }
        const int found = get(context, kind, flags & ~(IPC_CREAT | IPC_EXCL));
        const bool reachable =
            own.has(found) || (flags & asked_access) == 0 || !check_enabled(context.entry.name);
        if (found >= 0 && reachable) return found;
        if (found >= 0) return -EACCES;
        if (errno != ENOENT || !wants_new) return -errno;
        if (own.exhausted(semaphores)) return -ENOSPC;
    }
    return -EACCES;
}

void handle_get(IpcCall& context, ObjectKind kind, int flags) {
    OwnIds& own = context.objects.of(kind);
    int found = 0;
    {
        const auto held = own.lock();
        found = look_up(context, kind, own, flags);
    }
    if (found < 0) return context.fail(-found);
    context.call.succeed(found);
}

/// Whether shmat(2) refuses its address before it looks for the object.
bool bad_attachment(std::uint64_t address, int flags) {
    if (address == 0) return (flags & SHM_REMAP) != 0;
    const std::uint64_t beyond = address % static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    if (beyond == 0) return false;
    return (flags & SHM_RND) == 0 || (address == beyond && (flags & SHM_REMAP) != 0);
}

unsigned max_operations() {
    seminfo limits{};
    ::syscall(SYS_semctl, 0, 0, IPC_INFO, &limits);
    return static_cast<unsigned>(limits.semopm);
}

std::uint64_t max_text() {
    msginfo limits{};
    ::syscall(SYS_msgctl, 0, IPC_INFO, &limits);
    return static_cast<std::uint64_t>(limits.msgmax);
}

/// The errno of semop(2) on another user's set.
int operation_error(IpcCall& context, bool timed) {
    timespec limit{};
    if (timed && context.word(3) != 0) {
        const auto given = kernel::read_object<timespec>(context.thread(), context.word(3));
        if (!given) return EFAULT;
        limit = *given;
    }
    const auto count = static_cast<unsigned>(context.integer(2));
    if (count > max_operations()) return E2BIG;
    if (count < 1) return EINVAL;
    std::vector<sembuf> operations(count);
    if (!kernel::read_memory(context.thread(), context.word(1),
                             std::as_writable_bytes(std::span(operations))))
        return EFAULT;
    constexpr long second = 1'000'000'000;
    if (limit.tv_sec < 0 || limit.tv_nsec < 0 || limit.tv_nsec >= second) return EINVAL;
    Status status{};
    if (!exists(ObjectKind::semaphores, context.integer(0), status)) return EINVAL;
    const bool beyond = std::ranges::any_of(
        operations, [&](const sembuf& one) { return one.sem_num >= status.semaphores.sem_nsems; });
    return beyond ? EFBIG : EACCES;
}

void handle_operation(IpcCall& context, bool timed) {
    if (owns(context, ObjectKind::semaphores, context.integer(0))) return context.call.let_continue(), void();
    context.fail(operation_error(context, timed));
}

/// The errno that msgsnd(2) gives before it looks for the queue; 0: none.
int text_error(IpcCall& context) {
    const auto type = kernel::read_object<long>(context.thread(), context.word(1));
    if (!type) return EFAULT;
    const std::uint64_t size = context.word(2);
    if (size > max_text() || size > LONG_MAX || context.integer(0) < 0 || *type < 1) return EINVAL;
    constexpr std::uint64_t looked_at = std::uint64_t{1} << 20;
    std::vector<std::byte> text(std::min(size, looked_at));
    return kernel::read_memory(context.thread(), context.word(1) + sizeof(long), text) ? 0 : EFAULT;
}

}  // namespace

void handle_shmget(IpcCall& context) { handle_get(context, ObjectKind::memory, context.integer(2)); }
void handle_semget(IpcCall& context) { handle_get(context, ObjectKind::semaphores, context.integer(2)); }
void handle_msgget(IpcCall& context) { handle_get(context, ObjectKind::queue, context.integer(1)); }

void handle_shmat(IpcCall& context) {
    const int id = context.integer(0);
    if (owns(context, ObjectKind::memory, id)) return context.call.let_continue(), void();
    if (bad_attachment(context.word(1), context.integer(2))) return context.fail(EINVAL);
    refuse(context, ObjectKind::memory, id, EACCES);
}

void handle_semop(IpcCall& context) { handle_operation(context, false); }
void handle_semtimedop(IpcCall& context) { handle_operation(context, true); }

void handle_msgsnd(IpcCall& context) {
    const int id = context.integer(0);
    if (owns(context, ObjectKind::queue, id)) return context.call.let_continue(), void();
    if (const int error = text_error(context)) return context.fail(error);
    refuse(context, ObjectKind::queue, id, EACCES);
}

void handle_msgrcv(IpcCall& context) {
    const int id = context.integer(0);
    if (owns(context, ObjectKind::queue, id)) return context.call.let_continue(), void();
    const int flags = context.integer(4);
    if (context.word(2) > LONG_MAX) return context.fail(EINVAL);
    if ((flags & MSG_COPY) != 0 && ((flags & MSG_EXCEPT) != 0 || (flags & IPC_NOWAIT) == 0))
        return context.fail(EINVAL);
    refuse(context, ObjectKind::queue, id, EACCES);
}

}  // namespace callgate::calls
