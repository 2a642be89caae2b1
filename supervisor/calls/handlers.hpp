// The handlers of all mediated calls, one source per family; dispatch.cpp says which rows each handles.
#pragma once

namespace callgate::calls {

struct CallContext;

// files/open.cpp
void handle_open(CallContext& context);
void handle_openat2(CallContext& context);

// files/create.cpp
void handle_mkdir(CallContext& context);
void handle_mknod(CallContext& context);
void handle_symlink(CallContext& context);

// files/remove.cpp
void handle_unlink(CallContext& context);
void handle_rmdir(CallContext& context);

// files/move.cpp
void handle_rename(CallContext& context);
void handle_link(CallContext& context);

// files/metadata.cpp
void handle_truncate(CallContext& context);
void handle_chmod(CallContext& context);
void handle_chown(CallContext& context);
void handle_times(CallContext& context);
void handle_fchmod(CallContext& context);
void handle_fchown(CallContext& context);

// files/attributes.cpp
void handle_setxattr(CallContext& context);
void handle_removexattr(CallContext& context);
void handle_setxattrat(CallContext& context);
void handle_removexattrat(CallContext& context);
void handle_file_setattr(CallContext& context);
void handle_inode_flags(CallContext& context);

// exec/execute.cpp
void handle_execute(CallContext& context);

// network/connect.cpp
void handle_connect(CallContext& context);

// network/bind.cpp
void handle_bind(CallContext& context);
void handle_listen(CallContext& context);
void handle_getsockname(CallContext& context);

// network/send.cpp
void handle_sendto(CallContext& context);
void handle_sendmsg(CallContext& context);

// network/send_many.cpp
void handle_sendmmsg(CallContext& context);

// processes/outside_process.cpp
void handle_outside_process(CallContext& context);

// ipc/system_v_use.cpp
void handle_shmget(CallContext& context);
void handle_semget(CallContext& context);
void handle_msgget(CallContext& context);
void handle_shmat(CallContext& context);
void handle_semop(CallContext& context);
void handle_semtimedop(CallContext& context);
void handle_msgsnd(CallContext& context);
void handle_msgrcv(CallContext& context);

// ipc/system_v_control.cpp
void handle_shmctl(CallContext& context);
void handle_semctl(CallContext& context);
void handle_msgctl(CallContext& context);

// ipc/message_queues.cpp
void handle_mq_open(CallContext& context);
void handle_mq_unlink(CallContext& context);

}  // namespace callgate::calls
