/* Giving a denied file, or a directory above it, another name, and reading it by that one (door.h). */
#define _GNU_SOURCE
#include <linux/fs.h>
#include <sys/stat.h>

#include "door.h"

MODE(hardlink) {
    if (link(victim, in(allowed, "hard")) != 0) return refused("link");
    return show_path(in(allowed, "hard"));
}
MODE(hardlink_fd) {
    int fd = open(victim, O_PATH | O_CLOEXEC);
    const char *self = text("/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, self, AT_FDCWD, in(allowed, "hard-fd"), AT_SYMLINK_FOLLOW) != 0) return refused("linkat");
    return show_path(in(allowed, "hard-fd"));
}
MODE(hardlink_empty) {
    int fd = open(victim, O_PATH | O_CLOEXEC);
    if (linkat(fd, "", AT_FDCWD, in(allowed, "hard-empty"), AT_EMPTY_PATH) != 0)
        return errno == ENOENT ? UNSUPPORTED : refused("linkat");
    return show_path(in(allowed, "hard-empty"));
}
MODE(rename) {
    if (rename(victim, in(allowed, "renamed")) != 0) return refused("rename");
    return show_path(in(allowed, "renamed"));
}
MODE(exchange) {
    const char *mine = own_file("mine");
    if (syscall(SYS_renameat2, AT_FDCWD, mine, AT_FDCWD, victim, RENAME_EXCHANGE) != 0) return refused("exchange");
    return show_path(mine);
}
MODE(rename_folder) {
    if (rename(folder, in(allowed, "folder-moved")) != 0) return refused("rename");
    return show_path(in(allowed, in("folder-moved", name)));
}
MODE(exchange_folder) {
    const char *mine = own_folder("folder-mine");
    if (syscall(SYS_renameat2, AT_FDCWD, mine, AT_FDCWD, folder, RENAME_EXCHANGE) != 0) return refused("exchange");
    return show_path(in(mine, name));
}
/* PARENT/FOLDER/VICTIM: the parent of the denied folder gets another name */
MODE(rename_ancestor) {
    const char *moved = text("%s-moved", parent);
    if (rename(parent, moved) != 0) return refused("rename");
    return show_path(in(moved, in(folder_name, name)));
}
MODE(exchange_ancestor) {
    const char *mine = own_folder("ancestor-mine");
    if (syscall(SYS_renameat2, AT_FDCWD, mine, AT_FDCWD, parent, RENAME_EXCHANGE) != 0) return refused("exchange");
    return show_path(in(mine, in(folder_name, name)));
}
MODE(cwd_kept) {
    const char *moved = text("%s-moved", parent);
    if (chdir(folder) != 0) return refused("chdir");
    if (rename(parent, moved) != 0) return refused("rename");
    return show_path(name);
}
MODE(dirfd_kept) {
    const char *moved = text("%s-moved", parent);
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || rename(parent, moved) != 0) return refused("rename");
    return show(openat(fd, name, O_RDONLY), "openat");
}

/* A file that has lost its name: reached by the descriptor, which says no longer what the file was called. */
MODE(reopen_gone) {
    int fd = open(victim, O_PATH | O_CLOEXEC);
    if (unlink(victim) != 0) return refused("unlink");
    return show_path(text("/proc/self/fd/%d", fd));
}
/* An O_PATH descriptor on a link that is gone, while another, denied name of the object stands. */
MODE(link_gone) {
    const char *second = in(folder, "second");
    mkdir(second, 0755);
    if (link(victim, in(second, name)) != 0) return refused("link");
    int fd = open(in(second, name), O_PATH | O_CLOEXEC);
    if (unlink(in(second, name)) != 0) return refused("unlink");
    if (linkat(fd, "", AT_FDCWD, in(allowed, "plain"), AT_EMPTY_PATH) != 0 &&
        linkat(AT_FDCWD, text("/proc/self/fd/%d", fd), AT_FDCWD, in(allowed, "plain"), AT_SYMLINK_FOLLOW) != 0) {
        return refused("linkat");
    }
    return show_path(in(allowed, "plain"));
}
