/* Calls that only older processors have. Elsewhere their number is -1, and the kernel answers ENOSYS. */
#pragma once
#include <sys/syscall.h>
#ifndef SYS_open
#define SYS_open (-1L)
#define SYS_creat (-1L)
#define SYS_mkdir (-1L)
#define SYS_rmdir (-1L)
#define SYS_unlink (-1L)
#define SYS_rename (-1L)
#define SYS_link (-1L)
#define SYS_symlink (-1L)
#define SYS_chmod (-1L)
#define SYS_chown (-1L)
#define SYS_lchown (-1L)
#define SYS_mknod (-1L)
#define SYS_utime (-1L)
#define SYS_utimes (-1L)
#define SYS_futimesat (-1L)
#endif
