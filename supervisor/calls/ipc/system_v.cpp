#include "supervisor/calls/ipc/system_v.hpp"
#include "supervisor/calls/ipc/needs.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/test_switch.hpp"
#include "supervisor/enforce/call_table.hpp"

namespace callgate::calls::system_v {

std::size_t status_size(ObjectKind kind) {
    switch (kind) {
        case ObjectKind::memory:
            return sizeof(shmid_ds);
        case ObjectKind::semaphores:
            return sizeof(semid_ds);
        case ObjectKind::queue:
            return sizeof(msqid_ds);
    }
    return 0;
}

int control(ObjectKind kind, int id, int command, Status* status) {
    switch (kind) {
        case ObjectKind::memory:
            return static_cast<int>(::syscall(SYS_shmctl, id, command, status));
        case ObjectKind::semaphores:
            return static_cast<int>(::syscall(SYS_semctl, id, 0, command, status));
        case ObjectKind::queue:
            return static_cast<int>(::syscall(SYS_msgctl, id, command, status));
    }
    return -1;
}

bool exists(ObjectKind kind, int id, Status& status) {
    constexpr int by_index[] = {SHM_STAT_ANY, SEM_STAT_ANY, MSG_STAT_ANY};
    // The kernel takes the index out of the id, and gives the id of what is there.
    return id >= 0 && control(kind, id, by_index[static_cast<std::size_t>(kind)], &status) == id;
}

bool owns(IpcCall& context, ObjectKind kind, int id) {
    return context.objects.of(kind).owns(id) || !check_enabled(context.entry.name);
}

void refuse(IpcCall& context, ObjectKind kind, int id, int error) {
    Status status{};
    context.fail(exists(kind, id, status) ? error : EINVAL);
}

}  // namespace callgate::calls::system_v
