// shmctl, semctl, msgctl.
//
// An attacker controls id, command and buffer. A call that only changes or reads an object that the run made
// is continued (system_v_use.cpp says why that is sound). Removal is on behalf, so that the list of own
// objects stays true. A look by index is on behalf too: unlike an id, an index may lead to an outside object
// the next moment. For an object that the run did not make, the answer is the kernel's answer to another
// user.
#include <sys/ipc.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/test_switch.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/calls/ipc/needs.hpp"
#include "supervisor/calls/ipc/system_v.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

namespace {

using namespace system_v;

enum class Command : std::uint8_t {
    limits,    // IPC_INFO and the like: no object
    by_index,  // SHM_STAT and the like
    status,
    change,
    remove,
    lock,
    values,     // of semaphores
    set_value,  // SETVAL
    unknown,
};

Command memory_command(int number) {
    switch (number) {
        case SHM_INFO:
            return Command::limits;
        case SHM_STAT:
        case SHM_STAT_ANY:
            return Command::by_index;
        case SHM_LOCK:
        case SHM_UNLOCK:
            return Command::lock;
        default:
            return Command::unknown;
    }
}

Command semaphore_command(int number) {
    switch (number) {
        case SEM_INFO:
            return Command::limits;
        case SEM_STAT:
        case SEM_STAT_ANY:
            return Command::by_index;
        case GETALL:
        case GETVAL:
        case GETPID:
        case GETNCNT:
        case GETZCNT:
        case SETALL:
            return Command::values;
        case SETVAL:
            return Command::set_value;
        default:
            return Command::unknown;
    }
}

Command queue_command(int number) {
    switch (number) {
        case MSG_INFO:
            return Command::limits;
        case MSG_STAT:
        case MSG_STAT_ANY:
            return Command::by_index;
        default:
            return Command::unknown;
    }
}

Command command_of(ObjectKind kind, int number) {
    switch (number) {
        case IPC_INFO:
            return Command::limits;
        case IPC_STAT:
            return Command::status;
        case IPC_SET:
            return Command::change;
        case IPC_RMID:
            return Command::remove;
        default:
            break;
    }
    switch (kind) {
        case ObjectKind::memory:
            return memory_command(number);
        case ObjectKind::semaphores:
            return semaphore_command(number);
        case ObjectKind::queue:
            return queue_command(number);
    }
    return Command::unknown;
}

struct Control {
    ObjectKind kind = ObjectKind::memory;
    int id = 0;
    int number = 0;            // of the command
    std::uint64_t buffer = 0;  // in the target
};

void remove_object(IpcCall& context, const Control& call) {
    OwnIds& own = context.objects.of(call.kind);
    int error = 0;
    {
        const auto held = own.lock();
        if (!own.has(call.id) && check_enabled(context.entry.name)) {
            error = -1;
        } else if (control(call.kind, call.id, IPC_RMID, nullptr) != 0) {
            error = errno;
        }
        // Shared memory stays as long as it is attached.
        Status status{};
        if (error != -1 && !exists(call.kind, call.id, status)) own.remove(call.id);
    }
    if (error == -1) return refuse(context, call.kind, call.id, EPERM);
    error == 0 ? context.call.succeed(0) : context.call.fail(error);
}

void look_by_index(IpcCall& context, const Control& call) {
    Status status{};
    const int id = control(call.kind, call.id, call.number, &status);
    if (id < 0) return context.fail(errno);
    if (!owns(context, call.kind, id)) return context.fail(EACCES);
    const std::span bytes(reinterpret_cast<const std::byte*>(&status), status_size(call.kind));
    const auto written = kernel::write_memory(context.thread(), call.buffer, bytes);
    if (!context.call.waiting()) return;
    if (!written) return context.fail(EFAULT);
    context.call.succeed(id);
}

/// Refuses a new value for one semaphore of a set that the run did not make.
void refuse_value(IpcCall& context, const Control& call) {
    constexpr int max_value = 32767;  // SEMVMX
    const auto value = static_cast<int>(call.buffer);
    if (value < 0 || value > max_value) return context.fail(ERANGE);
    Status status{};
    if (!exists(call.kind, call.id, status)) return context.fail(EINVAL);
    const int index = context.integer(1);
    const bool inside = index >= 0 && static_cast<unsigned long>(index) < status.semaphores.sem_nsems;
    context.fail(inside ? EACCES : EINVAL);
}

void refuse_change(IpcCall& context, const Control& call) {
    Status wanted{};
    const std::span bytes(reinterpret_cast<std::byte*>(&wanted), status_size(call.kind));
    if (!kernel::read_memory(context.thread(), call.buffer, bytes)) return context.fail(EFAULT);
    refuse(context, call.kind, call.id, EPERM);
}

void handle_control(IpcCall& context, const Control& call) {
    if (call.id < 0 || call.number < 0) return context.fail(EINVAL);
    const Command command = command_of(call.kind, call.number);
    if (command == Command::unknown) return context.fail(EINVAL);
    if (command == Command::remove) return remove_object(context, call);
    if (command == Command::by_index) return look_by_index(context, call);
    if (command == Command::limits || owns(context, call.kind, call.id))
        return context.call.let_continue(), void();
    if (command == Command::set_value) return refuse_value(context, call);
    if (command == Command::change) return refuse_change(context, call);
    refuse(context, call.kind, call.id, command == Command::lock ? EPERM : EACCES);
}

}  // namespace

void handle_shmctl(IpcCall& context) {
    handle_control(context, {ObjectKind::memory, context.integer(0), context.integer(1), context.word(2)});
}

void handle_semctl(IpcCall& context) {
    handle_control(context,
                   {ObjectKind::semaphores, context.integer(0), context.integer(2), context.word(3)});
}

void handle_msgctl(IpcCall& context) {
    handle_control(context, {ObjectKind::queue, context.integer(0), context.integer(1), context.word(2)});
}

}  // namespace callgate::calls
