/* Changing the attributes, access lists and flags of a denied file, by name or through the descriptor of reading it (door.h).
 * The victim has the attribute user.kept, which the test has put there.
 */
#define _GNU_SOURCE
#include <linux/fs.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>

#include "door.h"

#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#define SYS_removexattrat 466
#endif
#ifndef SYS_file_setattr
#define SYS_file_getattr 468
#define SYS_file_setattr 469
#endif

static const char attribute[] = "user.callgate";

MODE(setxattr) { return done(setxattr(victim, attribute, "x", 1, 0), "setxattr"); }
MODE(lsetxattr) { return done(lsetxattr(victim, attribute, "x", 1, 0), "lsetxattr"); }
MODE(removexattr) { return done(removexattr(victim, "user.kept"), "removexattr"); }
MODE(lremovexattr) { return done(lremovexattr(victim, "user.kept"), "lremovexattr"); }
MODE(setxattr_link) {
    if (symlink(victim, in(allowed, "to-victim")) != 0) return refused("symlink");
    return done(setxattr(in(allowed, "to-victim"), attribute, "x", 1, 0), "setxattr");
}
MODE(setxattr_proc) {
    return done(setxattr(text("/proc/self/fd/%d", open(victim, O_PATH | O_CLOEXEC)), attribute, "x", 1, 0), "setxattr");
}

/* Everybody may write: an access control list is an attribute. */
static const unsigned char access_list[] = {2,   0,   0, 0, 1, 0,   7,   0,   255, 255, 255, 255, 4,   0,
                                            7,   0,   255, 255, 255, 255, 32,  0,   7,   0,   255, 255, 255, 255};
MODE(acl) { return done(setxattr(victim, "system.posix_acl_access", access_list, sizeof access_list, 0), "setxattr"); }
MODE(acl_default) {
    return done(setxattr(folder, "system.posix_acl_default", access_list, sizeof access_list, 0), "setxattr");
}

/* Linux 6.13 */
static long setxattrat(int at, const char *path, unsigned flags) {
    struct {
        uint64_t value;
        uint32_t size, flags;
    } arguments = {(uintptr_t) "x", 1, 0};
    return syscall(SYS_setxattrat, at, path, flags, attribute, &arguments, sizeof arguments);
}
static int folder_fd(void) { return open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC); }
MODE(setxattrat) { return done(setxattrat(folder_fd(), name, 0), "setxattrat"); }
MODE(removexattrat) { return done(syscall(SYS_removexattrat, AT_FDCWD, victim, 0, "user.kept"), "removexattrat"); }

/* Linux 6.17; the flag "no dump" is one that any owner may set */
static long set_no_dump(int at, const char *path, unsigned flags) {
    uint64_t attributes[3] = {FS_XFLAG_NODUMP, 0, 0};
    return syscall(SYS_file_setattr, at, path, attributes, sizeof attributes, flags);
}
MODE(file_setattr) {
    if (set_no_dump(folder_fd(), name, 0) == 0) return 0;
    return errno == EOPNOTSUPP ? UNSUPPORTED : refused("file_setattr");
}

/* ---- a file that may be read but not changed ---- */

static int reader(void) {
    int fd = open(victim, O_RDONLY | O_CLOEXEC);
    if (fd < 0) exit(refused("open"));
    return fd;
}
MODE(reader_fsetxattr) { return done(fsetxattr(reader(), attribute, "x", 1, 0), "fsetxattr"); }
MODE(reader_fremovexattr) { return done(fremovexattr(reader(), "user.kept"), "fremovexattr"); }
MODE(reader_setxattrat) { return done(setxattrat(reader(), "", AT_EMPTY_PATH), "setxattrat"); }
MODE(reader_removexattrat) {
    return done(syscall(SYS_removexattrat, reader(), NULL, AT_EMPTY_PATH, "user.kept"), "removexattrat");
}
MODE(reader_acl) {
    return done(fsetxattr(reader(), "system.posix_acl_access", access_list, sizeof access_list, 0), "fsetxattr");
}
MODE(reader_file_setattr) {
    if (set_no_dump(reader(), "", AT_EMPTY_PATH) == 0) return 0;
    return errno == EOPNOTSUPP ? UNSUPPORTED : refused("file_setattr");
}

static int no_flags(const char *what) { return errno == ENOTTY || errno == EOPNOTSUPP ? UNSUPPORTED : refused(what); }
/* The kernel ignores the upper half of a request's number. */
static int set_flags(unsigned long high) {
    int flags = 0, fd = reader();
    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) != 0) return no_flags("FS_IOC_GETFLAGS");
    flags |= FS_NODUMP_FL;
    return done(syscall(SYS_ioctl, fd, FS_IOC_SETFLAGS | high, &flags), "FS_IOC_SETFLAGS");
}
MODE(reader_setflags) { return set_flags(0); }
MODE(reader_setflags_high) { return set_flags(0xabcdUL << 32); }
static int set_extended(unsigned long high) {
    struct fsxattr attributes;
    int fd = reader();
    if (ioctl(fd, FS_IOC_FSGETXATTR, &attributes) != 0) return no_flags("FS_IOC_FSGETXATTR");
    attributes.fsx_xflags |= FS_XFLAG_NODUMP;
    return done(syscall(SYS_ioctl, fd, FS_IOC_FSSETXATTR | high, &attributes), "FS_IOC_FSSETXATTR");
}
MODE(reader_setxflags) { return set_extended(0); }
MODE(reader_setxflags_high) { return set_extended(1UL << 33); }
MODE(reader_setversion) {
    int version = 7;
    return ioctl(reader(), FS_IOC_SETVERSION, &version) == 0 ? 0 : no_flags("FS_IOC_SETVERSION");
}
