// prog_name_storm ROUNDS: four threads make, remove, rename and open a few names of the working directory at
// once, and it prints how often each call gave each errno: "CALL ERRNO COUNT".
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))
enum { THREADS = 4, ERRORS = 134 };

static const char* const names[] = {"a", "b", "a/c", "b/c",    "a/c/d",   "b/c/d", "a/f",   "b/f",
                                    "f", "g", "l",   "a/../f", "./b/./f", "a/l",   "b/l/x", "l/f"};

static int listed(const char* name, const char* other) {
    (void)other;
    DIR* directory = opendir(name);
    if (directory == NULL) return -1;
    while (readdir(directory) != NULL) {
    }
    return closedir(directory);
}
static int directory_made(const char* name, const char* other) {
    (void)other;
    return mkdir(name, 0755);
}
static int directory_removed(const char* name, const char* other) {
    (void)other;
    return rmdir(name);
}
static int removed(const char* name, const char* other) {
    (void)other;
    return unlink(name);
}
static int renamed(const char* name, const char* other) { return rename(name, other); }
static int exchanged(const char* name, const char* other) {
    return renameat2(AT_FDCWD, name, AT_FDCWD, other, RENAME_EXCHANGE);
}
static int linked(const char* name, const char* other) { return link(name, other); }
static int linked_by_name(const char* name, const char* other) { return symlink(other, name); }
static int mode_set(const char* name, const char* other) {
    (void)other;
    return chmod(name, 0755);
}
static int owner_set(const char* name, const char* other) {
    (void)other;
    return chown(name, getuid(), getgid());
}
static int times_set(const char* name, const char* other) {
    (void)other;
    return utimes(name, NULL);
}
static int attribute_set(const char* name, const char* other) {
    (void)other;
    return setxattr(name, "user.storm", "1", 1, 0);
}

static const struct {
    const char* name;
    int (*call)(const char* name, const char* other);  // NULL: an open with the flags
    int flags;
} calls[] = {
    {"creat", NULL, O_WRONLY | O_CREAT},
    {"excl", NULL, O_RDWR | O_CREAT | O_EXCL},
    {"rdonly", NULL, O_RDONLY | O_NONBLOCK},
    {"wronly", NULL, O_WRONLY | O_APPEND},
    {"trunc", NULL, O_WRONLY | O_TRUNC},
    {"nofollow", NULL, O_RDONLY | O_NOFOLLOW},
    {"list", listed, 0},
    {"mkdir", directory_made, 0},
    {"rmdir", directory_removed, 0},
    {"unlink", removed, 0},
    {"rename", renamed, 0},
    {"exchange", exchanged, 0},
    {"link", linked, 0},
    {"symlink", linked_by_name, 0},
    {"chmod", mode_set, 0},
    {"chown", owner_set, 0},
    {"utimes", times_set, 0},
    {"setxattr", attribute_set, 0},
};

static long seen[COUNT(calls)][ERRORS + 1], rounds;

static void* storm(void* which) {
    unsigned state = *(const unsigned*)which;
    for (long round = 0; round < rounds; ++round) {
        const size_t call = (size_t)rand_r(&state) % COUNT(calls);
        const char* const name = names[(size_t)rand_r(&state) % COUNT(names)];
        const char* const other = names[(size_t)rand_r(&state) % COUNT(names)];
        const int fd = calls[call].call == NULL ? open(name, calls[call].flags, 0644) : -1;
        const int result = calls[call].call == NULL ? fd : calls[call].call(name, other);
        const int error = result < 0 ? errno : 0;
        if (fd >= 0) close(fd);
        __atomic_add_fetch(&seen[call][error < ERRORS ? error : ERRORS], 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

int main(int count, char** arguments) {
    pthread_t threads[THREADS];
    unsigned seeds[THREADS];
    rounds = count > 1 ? atol(arguments[1]) : 1000;
    for (unsigned one = 0; one < THREADS; ++one) {
        seeds[one] = one + 1;
        if (pthread_create(&threads[one], NULL, storm, &seeds[one]) != 0) return 1;
    }
    for (unsigned one = 0; one < THREADS; ++one) pthread_join(threads[one], NULL);
    for (size_t call = 0; call < COUNT(calls); ++call)
        for (int error = 0; error <= ERRORS; ++error)
            if (seen[call][error] != 0)
                printf("%s %s %ld\n", calls[call].name,
                       error == 0       ? "0"
                       : error < ERRORS ? strerrorname_np(error)
                                        : "other",
                       seen[call][error]);
    return 0;
}
