// System calls on System V objects by kind, shared by their handlers.
#pragma once

#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

#include <cstddef>

#include "supervisor/calls/ipc/ipc_objects.hpp"
#include "supervisor/calls/ipc/needs.hpp"

namespace callgate::calls::system_v {

/// The status of an object of any kind.
union Status {
    shmid_ds memory;
    semid_ds semaphores;
    msqid_ds queue;
};
[[nodiscard]] std::size_t status_size(ObjectKind kind);

/// shmctl, semctl or msgctl of this thread: -1 with errno.
int control(ObjectKind kind, int id, int command, Status* status);

/// Whether any object, the user's or another's, has this id. Reads its status as anybody may (SHM_STAT_ANY).
[[nodiscard]] bool exists(ObjectKind kind, int id, Status& status);

/// Whether the run made it.
[[nodiscard]] bool owns(IpcCall& context, ObjectKind kind, int id);

/// Answers a call on an object that the run did not make: `error` if there is one, else EINVAL.
void refuse(IpcCall& context, ObjectKind kind, int id, int error);

}  // namespace callgate::calls::system_v
