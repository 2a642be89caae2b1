// The handlers of all mediated calls; receive/dispatch.cpp says which rows of the call table each handles.
#pragma once

namespace callgate::calls {

struct FileCall;
struct ExecCall;
struct NetworkCall;
struct ProcessCall;
struct IpcCall;

// files/open.cpp
void handle_terminal_peer(FileCall& context);
void handle_open(FileCall& context);
void handle_openat2(FileCall& context);

// files/create.cpp
void handle_mkdir(FileCall& context);
void handle_mknod(FileCall& context);
void handle_symlink(FileCall& context);

// files/remove.cpp
void handle_unlink(FileCall& context);
void handle_rmdir(FileCall& context);

// files/move.cpp
void handle_rename(FileCall& context);
void handle_link(FileCall& context);

// files/metadata.cpp
void handle_truncate(FileCall& context);
void handle_chmod(FileCall& context);
void handle_chown(FileCall& context);
void handle_times(FileCall& context);
void handle_fchmod(FileCall& context);
void handle_fchown(FileCall& context);

// files/attributes.cpp
void handle_setxattr(FileCall& context);
void handle_removexattr(FileCall& context);
void handle_setxattrat(FileCall& context);
void handle_removexattrat(FileCall& context);
void handle_file_setattr(FileCall& context);
void handle_ioctl(FileCall& context);

// exec/execute.cpp
void handle_execute(ExecCall& context);

// network/socket.cpp
void handle_socket(NetworkCall& context);
void handle_socketpair(NetworkCall& context);

// network/connect.cpp
void handle_connect(NetworkCall& context);

// network/bind.cpp
void handle_bind(NetworkCall& context);
void handle_listen(NetworkCall& context);
void handle_getsockname(NetworkCall& context);

// network/listeners.cpp
void handle_shutdown(NetworkCall& context);
void handle_setsockopt(NetworkCall& context);

// network/send.cpp
void handle_sendto(NetworkCall& context);
void handle_sendmsg(NetworkCall& context);

// network/send_many.cpp
void handle_sendmmsg(NetworkCall& context);

// processes/outside_process.cpp
void handle_outside_process(ProcessCall& context);

// processes/opaque_process.cpp
void handle_dumpable(ProcessCall& context);
void handle_core_limit(ProcessCall& context);
void handle_reach(ProcessCall& context);

// ipc/system_v_use.cpp
void handle_shmget(IpcCall& context);
void handle_semget(IpcCall& context);
void handle_msgget(IpcCall& context);
void handle_shmat(IpcCall& context);
void handle_semop(IpcCall& context);
void handle_semtimedop(IpcCall& context);
void handle_msgsnd(IpcCall& context);
void handle_msgrcv(IpcCall& context);

// ipc/system_v_control.cpp
void handle_shmctl(IpcCall& context);
void handle_semctl(IpcCall& context);
void handle_msgctl(IpcCall& context);

// ipc/message_queues.cpp
void handle_mq_open(IpcCall& context);
void handle_mq_unlink(IpcCall& context);

}  // namespace callgate::calls
