/* Runs a list of calls that change names and metadata, and prints what came of each, for comparison.
 *
 * stdin, one case a line, fields separated by tabs: ID CALL ARG... An ARG is
 *   p:PATH (percent-encoded; @null, @fault, @long:N)   d:DIRFD (cwd, bad, dir:PATH, opath:PATH, file:PATH, rw:PATH)
 *   n:NUMBER   t:TIMES (null, now, omit, set, bad, fault)   s:STRING (as p:, but no path: names and values)
 *   x:VALUE,SIZE,FLAGS (struct xattr_args; a fourth number follows the struct)   i:NUMBER (pointer to it)
 *   a:XFLAGS,EXTSIZE,PROJECT (struct fsxattr)   f:XFLAGS (struct file_attr; a second number follows the struct)
 * CALL is a system call's name, or cd PATH, umask MODE. After the call, every path argument and descriptor is
 * described, extended attributes and inode flags included.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#include "probe.h"

#include "old_calls.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#define SYS_removexattrat 466
#endif
#ifndef SYS_file_setattr
#define SYS_file_setattr 469
#endif

static const char *make_path(const char *text) {
    if (strcmp(text, "@null") == 0) return NULL;
    if (strcmp(text, "@fault") == 0) return (const char *)8;
    if (strncmp(text, "@long:", 6) == 0) {
        size_t length = strtoul(text + 6, NULL, 10);
        char *name = malloc(length + 1);
        memset(name, 'n', length);
        name[length] = 0;
        return name;
    }
    return decode(text);
}

static int make_dirfd(const char *text) {
    if (strcmp(text, "cwd") == 0) return AT_FDCWD;
    if (strcmp(text, "bad") == 0) return 987;
    int flags = O_RDONLY;
    if (strncmp(text, "opath:", 6) == 0) flags = O_PATH;
    if (strncmp(text, "rw:", 3) == 0) flags = O_RDWR;
    if (strncmp(text, "neither:", 8) == 0) flags = O_ACCMODE; /* for ioctls alone */
    int fd = open(decode(strchr(text, ':') + 1), flags | O_CLOEXEC);
    if (fd < 0) fprintf(stderr, "%s: %s\n", text, strerror(errno));
    return fd;
}

static struct timespec times_[2];
static struct timeval values_[2];
static struct utimbuf utime_;

/* Fixed instants, so that what was set can be compared. */
static void *make_times(const char *text, const char *call) {
    int old = strncmp(call, "utimes", 6) == 0 || strncmp(call, "futimesat", 9) == 0;
    if (strcmp(text, "null") == 0) return NULL;
    if (strcmp(text, "fault") == 0) return (void *)8;
    long nano = strcmp(text, "now") == 0 ? UTIME_NOW : strcmp(text, "omit") == 0 ? UTIME_OMIT : strcmp(text, "bad") == 0 ? 2000000000L : 500;
    for (int i = 0; i < 2; i++) {
        times_[i].tv_sec = 1000000 + i;
        times_[i].tv_nsec = nano;
        values_[i].tv_sec = 1000000 + i;
        values_[i].tv_usec = strcmp(text, "bad") == 0 ? 2000000 : 5;
    }
    utime_.actime = 1000000;
    utime_.modtime = 1000001;
    return strcmp(call, "utime") == 0 ? (void *)&utime_ : old ? (void *)values_ : (void *)times_;
}

struct number {
    const char *name;
    long number;
};

static const struct number numbers[] = {
    {"mkdir", SYS_mkdir}, {"mkdirat", SYS_mkdirat}, {"unlink", SYS_unlink}, {"unlinkat", SYS_unlinkat}, {"rmdir", SYS_rmdir},
    {"rename", SYS_rename}, {"renameat", SYS_renameat}, {"renameat2", SYS_renameat2}, {"link", SYS_link}, {"linkat", SYS_linkat},
    {"symlink", SYS_symlink}, {"symlinkat", SYS_symlinkat}, {"chmod", SYS_chmod}, {"fchmod", SYS_fchmod}, {"fchmodat", SYS_fchmodat},
    {"fchmodat2", SYS_fchmodat2}, {"chown", SYS_chown}, {"lchown", SYS_lchown}, {"fchown", SYS_fchown}, {"fchownat", SYS_fchownat},
    {"utime", SYS_utime}, {"utimes", SYS_utimes}, {"futimesat", SYS_futimesat}, {"utimensat", SYS_utimensat},
    {"truncate", SYS_truncate}, {"ftruncate", SYS_ftruncate}, {"mknod", SYS_mknod}, {"mknodat", SYS_mknodat},
    {"setxattr", SYS_setxattr}, {"lsetxattr", SYS_lsetxattr}, {"fsetxattr", SYS_fsetxattr}, {"setxattrat", SYS_setxattrat},
    {"removexattr", SYS_removexattr}, {"lremovexattr", SYS_lremovexattr}, {"fremovexattr", SYS_fremovexattr},
    {"removexattrat", SYS_removexattrat}, {"file_setattr", SYS_file_setattr}, {"ioctl", SYS_ioctl},
};

static uint64_t structs_[16];

/* Comma-separated numbers as the struct that `kind` names. */
static void *make_struct(char kind, const char *text) {
    if (strcmp(text, "fault") == 0) return (void *)8;
    uint64_t given[4] = {0};
    char *words = strdup(text), *rest = words, *word;
    for (int i = 0; i < 4 && (word = strsep(&rest, ",")) != NULL; i++)
        given[i] = kind == 'x' && i == 0 ? (uint64_t)(uintptr_t)make_path(word) : strtoull(word, NULL, 0);
    memset(structs_, 0, sizeof structs_);
    uint32_t *half = (uint32_t *)structs_;
    switch (kind) {
        case 'x':
            structs_[0] = given[0], half[2] = (uint32_t)given[1], half[3] = (uint32_t)given[2], structs_[2] = given[3];
            break;
        case 'i':
            structs_[0] = given[0];
            break;
        case 'a':
            half[0] = (uint32_t)given[0], half[1] = (uint32_t)given[1], half[3] = (uint32_t)given[2];
            break;
        default:
            structs_[0] = given[0], structs_[3] = given[1];
            break;
    }
    free(words);
    return structs_;
}

static int by_text(const void *one, const void *other) { return strcmp(*(char *const *)one, *(char *const *)other); }

/* Extended attributes in the order of their names, and inode flags where they can be had: `opened` is closed. */
static void describe_attributes(int fd, int opened) {
    char self[64], list[4096], value[4096], *names[64];
    int count = 0;
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    ssize_t length = listxattr(self, list, sizeof list);
    for (ssize_t at = 0; at < length && count < 64; at += (ssize_t)strlen(list + at) + 1) names[count++] = list + at;
    qsort(names, (size_t)count, sizeof *names, by_text);
    for (int i = 0; i < count; i++) {
        ssize_t got = getxattr(self, names[i], value, sizeof value);
        printf(":%s=%zd", names[i], got);
        for (ssize_t at = 0; at < got && at < 64; at++) printf("%s%02x", at == 0 ? "," : "", (unsigned char)value[at]);
    }
    unsigned long flags = 0;
    if (opened >= 0 && ioctl(opened, FS_IOC_GETFLAGS, &flags) == 0) printf(":F%lx", flags);
    close(opened);
}

static void describe(const char *path, int dirfd) {
    struct stat st;
    if (path == NULL || path == (const char *)8 || fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        printf(" | %d", path == NULL || path == (const char *)8 ? 0 : errno);
        return;
    }
    printf(" | %o:%u:%u:%lu", st.st_mode, st.st_uid, st.st_gid, S_ISDIR(st.st_mode) ? 0 : (unsigned long)st.st_nlink);
    if (!S_ISDIR(st.st_mode)) printf(":%lld", (long long)st.st_size);
    if (st.st_mtim.tv_sec < 2000000) printf(":%ld.%09ld", st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    if (st.st_atim.tv_sec < 2000000) printf(":a%ld", st.st_atim.tv_sec);
    if (S_ISLNK(st.st_mode)) {
        char target[256];
        ssize_t length = readlinkat(dirfd, path, target, sizeof target);
        printf(":->%.*s", (int)length, target);
    }
    int pin = openat(dirfd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int opened = S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) ? openat(dirfd, path, O_RDONLY | O_CLOEXEC) : -1;
    if (pin >= 0) describe_attributes(pin, opened);
    close(pin);
}

static void run_case(char **field, int count) {
    long argument[6] = {0};
    const char *paths[4];
    int directories[4], opened[4], path_count = 0, open_count = 0, last = AT_FDCWD;
    for (int i = 2; i < count && i < 8; i++) {
        const char *text = field[i] + 2;
        if (field[i][0] == 'p') {
            paths[path_count] = make_path(text);
            directories[path_count] = last;
            argument[i - 2] = (long)paths[path_count++];
            last = AT_FDCWD;
        } else if (field[i][0] == 'd') {
            last = make_dirfd(text);
            if (last >= 0 && last < 900) opened[open_count++] = last;
            argument[i - 2] = last;
        } else if (field[i][0] == 't') {
            argument[i - 2] = (long)make_times(text, field[1]);
        } else if (field[i][0] == 's') {
            argument[i - 2] = (long)make_path(text);
        } else if (strchr("xiaf", field[i][0]) != NULL) {
            argument[i - 2] = (long)make_struct(field[i][0], text);
        } else {
            argument[i - 2] = (long)strtoull(text, NULL, 0);
        }
    }
    long number = -1;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i].name, field[1]) == 0) number = numbers[i].number;
    if (number < 0) {
        fprintf(stderr, "no call %s\n", field[1]);
        exit(2);
    }
    errno = 0;
    long result = syscall(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
    printf("%s %ld errno=%d", field[0], result, result < 0 ? errno : 0);
    for (int i = 0; i < path_count; i++) describe(paths[i], directories[i]);
    for (int i = 0; i < open_count; i++) {
        struct stat st;
        if (fstat(opened[i], &st) == 0) printf(" | fd %o:%u:%u", st.st_mode, st.st_uid, st.st_gid);
        if (S_ISREG(st.st_mode)) printf(":%lld", (long long)st.st_size);
        if (st.st_mtim.tv_sec < 2000000) printf(":%ld", st.st_mtim.tv_sec);
        describe_attributes(opened[i], opened[i]);
    }
    printf("\n");
}

int main(void) {
    drop_capabilities();
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        line[strcspn(line, "\n")] = 0;
        char *field[9] = {0}, *rest = line;
        int count = 0;
        while (count < 8 && (field[count] = strsep(&rest, "\t")) != NULL) count++;
        if (count < 3) continue;
        if (strcmp(field[1], "cd") == 0) {
            if (chdir(decode(field[2])) != 0) perror("cd");
        } else if (strcmp(field[1], "umask") == 0) {
            umask((mode_t)strtoul(field[2], NULL, 8));
        } else {
            run_case(field, count);
        }
        fflush(stdout);
    }
    return 0;
}
