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

#include <optional>

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

struct KnownCommand {
    int number;
    Command command;
    std::optional<ObjectKind> kind = std::nullopt;  // of one kind of object only
};
constexpr KnownCommand known_commands[] = {
    {IPC_INFO, Command::limits},
    {IPC_STAT, Command::status},
    {IPC_SET, Command::change},
    {IPC_RMID, Command::remove},
    {SHM_INFO, Command::limits, ObjectKind::memory},
    {SHM_STAT, Command::by_index, ObjectKind::memory},
    {SHM_STAT_ANY, Command::by_index, ObjectKind::memory},
    {SHM_LOCK, Command::lock, ObjectKind::memory},
    {SHM_UNLOCK, Command::lock, ObjectKind::memory},
    {SEM_INFO, Command::limits, ObjectKind::semaphores},
    {SEM_STAT, Command::by_index, ObjectKind::semaphores},
    {SEM_STAT_ANY, Command::by_index, ObjectKind::semaphores},
    {GETALL, Command::values, ObjectKind::semaphores},
    {GETVAL, Command::values, ObjectKind::semaphores},
    {GETPID, Command::values, ObjectKind::semaphores},
    {GETNCNT, Command::values, ObjectKind::semaphores},
    {GETZCNT, Command::values, ObjectKind::semaphores},
    {SETALL, Command::values, ObjectKind::semaphores},
    {SETVAL, Command::set_value, ObjectKind::semaphores},
    {MSG_INFO, Command::limits, ObjectKind::queue},
    {MSG_STAT, Command::by_index, ObjectKind::queue},
    {MSG_STAT_ANY, Command::by_index, ObjectKind::queue},
};

Command command_of(ObjectKind kind, int number) {
    for (const KnownCommand& one : known_commands)
        if (one.number == number && one.kind.value_or(kind) == kind) return one.command;
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
