// What the handlers of System V objects share: the calls themselves, by kind.
#pragma once

#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

#include <cstddef>

#include "supervisor/decide/supervision.hpp"
#include "supervisor/calls/ipc/ipc_objects.hpp"

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

/// Whether an object of the user, or of anybody else, has this id; its status is looked at without leave, as
/// anybody may (SHM_STAT_ANY).
[[nodiscard]] bool exists(ObjectKind kind, int id, Status& status);

/// Whether the run made it.
[[nodiscard]] bool owns(CallContext& context, ObjectKind kind, int id);

/// Answers a call on what the run did not make: `error` where there is such an object, else EINVAL.
void refuse(CallContext& context, ObjectKind kind, int id, int error);

}  // namespace callgate::calls::system_v
