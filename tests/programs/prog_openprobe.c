/* Runs a list of open-family calls and prints what came of each, one line per case, for comparison.
 *
 * stdin, one case a line, fields separated by tabs (paths percent-encoded):
 *   ID  CALL  DIRFD  PATH  FLAGS  MODE  RESOLVE  SIZE
 * CALL: open openat openat2 creat, or a directive: cd PATH, deep N NAME, umask MODE, gone (a removed working directory).
 * DIRFD: cwd, bad, max, dir:PATH, opath:PATH, file:PATH, gone. PATH: text, or @null @fault @edge:TEXT @long:N @exact:N @unterminated:TEXT.
 * FLAGS, MODE, RESOLVE: C numbers. SIZE: of open_how; `-`: as the kernel's; `+N`: N bytes, one set beyond it.
 * Capabilities are dropped first: callgate drops them too, so both runs are the same caller.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "probe.h"

#include "old_calls.h"

static void on_alarm(int number) { (void)number; }

/* The last bytes before an inaccessible page: what reads beyond the terminator faults. */
static char *at_page_edge(const char *text, int with_terminator) {
    long page = sysconf(_SC_PAGESIZE);
    size_t length = strlen(text) + (with_terminator ? 1 : 0);
    size_t pages = length / (size_t)page + 1;
    char *area = mmap(NULL, (pages + 1) * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED) exit(3);
    char *guard = area + pages * (size_t)page;
    memcpy(guard - length, text, length);
    mprotect(guard, (size_t)page, PROT_NONE);
    return guard - length;
}

static const char *make_path(const char *field) {
    if (strcmp(field, "@null") == 0) return NULL;
    if (strcmp(field, "@fault") == 0) return (const char *)8;
    if (strncmp(field, "@edge:", 6) == 0) return at_page_edge(decode(field + 6), 1);
    if (strncmp(field, "@unterminated:", 14) == 0) return at_page_edge(decode(field + 14), 0);
    if (strncmp(field, "@long:", 6) == 0 || strncmp(field, "@exact:", 7) == 0) {
        /* @long: one name of N bytes; @exact: N bytes that name "a" */
        size_t length = strtoul(strchr(field, ':') + 1, NULL, 10);
        char *name = malloc(length + 1);
        memset(name, field[1] == 'e' ? '/' : 'n', length);
        if (field[1] == 'e') name[0] = '.', name[length - 1] = 'a';
        name[length] = 0;
        return name;
    }
    return decode(field);
}

static int make_dirfd(const char *field) {
    if (strcmp(field, "cwd") == 0) return AT_FDCWD;
    if (strcmp(field, "bad") == 0) return 987;
    if (strcmp(field, "max") == 0) return 0x7fffffff;
    if (strcmp(field, "minus") == 0) return -1;
    const char *path = strchr(field, ':');
    char *name = decode(path ? path + 1 : ".");
    int flags = O_RDONLY | O_CLOEXEC;
    if (strncmp(field, "opath:", 6) == 0) flags = O_PATH | O_CLOEXEC;
    int fd = open(name, flags);
    if (fd < 0) fprintf(stderr, "dirfd %s: %s\n", field, strerror(errno));
    return fd;
}

static void print_bytes(const char *bytes, ssize_t length) {
    for (ssize_t i = 0; i < length; i++) {
        unsigned char one = (unsigned char)bytes[i];
        if (one > 32 && one < 127 && one != '%')
            putchar(one);
        else
            printf("%%%02x", one);
    }
}

static void describe(int fd) {
    struct stat st;
    printf(" fl=%#o fd=%d", fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
    if (fstat(fd, &st) == 0) {
        printf(" mode=%o uid=%u gid=%u", st.st_mode, st.st_uid, st.st_gid);
        if (S_ISREG(st.st_mode)) printf(" size=%lld", (long long)st.st_size);
    } else {
        printf(" fstat=%d", errno);
    }
    printf(" at=%lld", (long long)lseek(fd, 0, SEEK_CUR));
    int mode = fcntl(fd, F_GETFL);
    if (!(mode & O_PATH) && S_ISREG(st.st_mode)) {
        if ((mode & O_ACCMODE) == O_RDONLY || (mode & O_ACCMODE) == O_RDWR) {
            char content[32];
            ssize_t got = read(fd, content, sizeof content);
            printf(" read=%zd:", got);
            print_bytes(content, got);
        }
        if ((mode & O_ACCMODE) == O_WRONLY || (mode & O_ACCMODE) == O_RDWR) {
            ssize_t put = write(fd, "+", 1);
            printf(" wrote=%zd at=%lld", put, (long long)lseek(fd, 0, SEEK_CUR));
        }
    }
}

static void describe_name(const char *path, int dirfd) {
    struct stat st;
    if (path == NULL || path == (const char *)8) return;
    if (fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        printf(" | after=%d", errno);
        return;
    }
    printf(" | after=%o:%u:%u:%lu", st.st_mode, st.st_uid, st.st_gid, (unsigned long)st.st_nlink);
    if (S_ISREG(st.st_mode)) printf(":%lld", (long long)st.st_size);
}

static long call(const char *name, int dirfd, const char *path, unsigned long long flags, unsigned mode,
                 const char *resolve, const char *size) {
    if (strcmp(name, "open") == 0) return syscall(SYS_open, path, (long)flags, mode);
    if (strcmp(name, "creat") == 0) return syscall(SYS_creat, path, mode);
    if (strcmp(name, "openat") == 0) return syscall(SYS_openat, (long)dirfd, path, (long)flags, mode);
    if (strcmp(name, "openat2") == 0) {
        if (strcmp(resolve, "@fault") == 0) return syscall(SYS_openat2, dirfd, path, (void *)8, sizeof(struct open_how));
        struct {
            struct open_how how;
            char tail[4096 * 2];
        } big;
        memset(&big, 0, sizeof big);
        big.how.flags = flags;
        big.how.mode = mode;
        big.how.resolve = strtoull(resolve, NULL, 0);
        size_t length = sizeof(struct open_how);
        if (size[0] == '+') {          /* larger struct with a bit set in its tail */
            length = strtoul(size + 1, NULL, 0);
            big.tail[0] = 1;
        } else if (size[0] != '-') {
            length = strtoul(size, NULL, 0);
        }
        return syscall(SYS_openat2, dirfd, path, &big, length);
    }
    errno = ENOSYS;
    return -1;
}

static void directive(char **field, int count) {
    if (strcmp(field[1], "cd") == 0 && chdir(decode(field[2])) != 0) perror(field[2]);
    if (strcmp(field[1], "umask") == 0) umask((mode_t)strtoul(field[2], NULL, 8));
    if (strcmp(field[1], "deep") == 0 && count > 3)
        for (long n = strtol(field[2], NULL, 10); n > 0; n--)
            if (chdir(field[3]) != 0) { perror("deep"); break; }
    if (strcmp(field[1], "gone") == 0) {
        if (mkdir("gone", 0755) != 0 || chdir("gone") != 0 || rmdir("../gone") != 0) perror("gone");
    }
    printf("%s %s\n", field[0], field[1]);
}

/* Only then is it interrupted: any other open may take its time on a busy machine. */
static int may_block(int dirfd, const char *path, unsigned long long flags) {
    struct stat st;
    if ((flags & (O_NONBLOCK | O_PATH)) || (flags & O_ACCMODE) == O_RDWR) return 0;
    return path && path != (const char *)8 && fstatat(dirfd, path, &st, 0) == 0 && S_ISFIFO(st.st_mode);
}

static void run_case(char **field, int count) {
    if (count < 8) {
        directive(field, count);
        return;
    }
    const char *path = make_path(field[3]);
    int dirfd = make_dirfd(field[2]);
    unsigned long long flags = strtoull(field[4], NULL, 0);
    /* so that an open that blocks (a FIFO without a peer) ends; no SA_RESTART */
    struct itimerval soon = {{0, 200000}, {0, 200000}}, never = {{0, 0}, {0, 0}};
    if (may_block(dirfd, path, flags)) setitimer(ITIMER_REAL, &soon, NULL);
    errno = 0;
    long fd = call(field[1], dirfd, path, flags, (unsigned)strtoul(field[5], NULL, 8), field[6], field[7]);
    int error = fd < 0 ? errno : 0;
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%s %s", field[0], fd < 0 ? "-1" : "fd");
    if (fd < 0) printf(" errno=%d", error);
    if (fd >= 0) describe((int)fd);
    describe_name(path, dirfd);
    printf("\n");
    if (fd >= 0) close((int)fd);
    if (dirfd >= 0 && dirfd < 900) close(dirfd);
}

int main(void) {
    drop_capabilities();
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    char *line = NULL;
    size_t room = 0;
    /* all cases first: "/dev/stdin" cases must not disturb the list */
    char **cases = NULL;
    size_t total = 0;
    while (getline(&line, &room, stdin) > 0) {
        line[strcspn(line, "\n")] = 0;
        cases = realloc(cases, (total + 1) * sizeof *cases);
        cases[total++] = strdup(line);
    }
    for (size_t i = 0; i < total; i++) {
        char *field[8] = {0}, *rest = cases[i];
        int count = 0;
        while (count < 8 && (field[count] = strsep(&rest, "\t")) != NULL) count++;
        if (count >= 2) run_case(field, count);
        fflush(stdout);
    }
    return 0;
}
