/* What a run can make the host pay for: records of refused calls, the person's footer, shared memory.
 *
 *   attack_costs MODE VICTIM COUNT [COUNTERS]
 *
 * The modes `flood_*` make the same call COUNT times and print how many were refused and how many were not.
 * `flood_without_end` makes it until it is ended. Each of its processes counts in the file COUNTERS.
 * `semaphores` makes COUNT sets of them. The test looks at the log, and at what is left, from outside.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack.h"

static const char *victim, *counters;
static long count;

static int flood(int (*call)(void)) {
    long refused_calls = 0;
    for (long i = 0; i < count; i++) refused_calls += call() != 0;
    printf("refused %ld other %ld\n", refused_calls, count - refused_calls);
    return refused_calls == count ? REFUSED : 0;
}

static int open_it(void) {
    const int fd = open(victim, O_RDONLY);
    if (fd < 0) return -1;
    return close(fd);
}
static int open_second(void) {
    char other[4096];
    static long turn;
    snprintf(other, sizeof other, "%s%s", victim, turn++ % 2 ? ".b" : "");
    const int fd = open(other, O_RDONLY | O_CREAT, 0600);
    if (fd < 0) return -1;
    return close(fd);
}
static int open_distinct(void) {
    char other[4096];
    static long turn;
    snprintf(other, sizeof other, "%s.%ld", victim, turn++);
    const int fd = open(other, O_WRONLY | O_CREAT, 0600);
    if (fd < 0) return -1;
    return close(fd);
}
static int spelt_differently(void) {
    char other[4096];
    static int turn;
    snprintf(other, sizeof other, "%.*s%s", turn++ % 1000 + 1, "////////////////////////////////////////////////////////////////", victim);
    const int fd = open(other, O_RDONLY | (turn % 3 ? O_CLOEXEC : O_NONBLOCK));
    if (fd < 0) return -1;
    return close(fd);
}
static int chmod_it(void) { return chmod(victim, 0600); }
static int truncate_it(void) { return truncate(victim, 1); }
static int make_beside(void) {
    char other[4096];
    snprintf(other, sizeof other, "%s.made", victim);
    const int made = mkdir(other, 0700);
    return made == 0 ? rmdir(other) : -1;
}
static int rename_it(void) {
    char other[4096];
    snprintf(other, sizeof other, "%s.moved", victim);
    return rename(victim, other) == 0 ? rename(other, victim) : -1;
}

MODE(flood_open) { return flood(open_it); }
MODE(flood_spelt) { return flood(spelt_differently); }
MODE(flood_two) { return flood(open_second); }
MODE(flood_distinct) { return flood(open_distinct); }
MODE(flood_chmod) { return flood(chmod_it); }
MODE(flood_truncate) { return flood(truncate_it); }
MODE(flood_mkdir) { return flood(make_beside); }
MODE(flood_rename) { return flood(rename_it); }
MODE(flood_processes) {
    const long all = count;
    count /= 4;
    for (int i = 0; i < 4; i++) {
        if (fork() != 0) continue;
        long refused_calls = 0;
        for (long turn = 0; turn < count; turn++) refused_calls += open_it() != 0;
        _exit(refused_calls == count ? 1 : 0);
    }
    int reached = 0, status = 0;
    while (wait(&status) > 0) reached += WEXITSTATUS(status) == 0;
    printf("refused %ld other %ld\n", all - all / 4 * reached, all / 4 * reached);
    return reached == 0 ? REFUSED : 0;
}

/* Says `ready` after COUNT calls of the first process. At COUNT times 2 that one opens VICTIM.end, too. */
MODE(flood_without_end) {
    enum { processes = 4 };
    const int file = open(counters, O_RDWR);
    atomic_long *made = mmap(NULL, processes * sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (made == MAP_FAILED) return 3;
    int mine = 0;
    while (mine + 1 < processes && fork() == 0) mine++;
    char last[4096];
    snprintf(last, sizeof last, "%s.end", victim);
    for (long turn = 1;; turn++) {
        open_it();
        atomic_fetch_add(&made[mine], 1);
        if (mine == 0 && turn == count && write(1, "ready\n", 6) != 6) return 3;
        if (mine != 0 || turn != count * 2) continue;
        close(open(last, O_RDONLY));  /* none where no rule ends the run: ENOENT, which is no denial */
    }
}

/* Fills standard error, which is not read, and leaves it non-blocking: what others say there is lost. */
MODE(stderr_full) {
    static const char line[] = "noise noise noise noise noise noise noise noise noise noise noise\n";
    static char noise[4096];
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = line[i % (sizeof line - 1)];
    open_it();
    if (fcntl(2, F_SETFL, fcntl(2, F_GETFL) | O_NONBLOCK) != 0) return 3;
    while (write(2, noise, sizeof noise) > 0) {
    }
    while (write(2, noise, 1) > 0) {
    }
    return errno == EAGAIN ? 0 : 3;
}

/* COUNT sets of semaphores, whose memory the kernel takes at once. They are removed again. */
MODE(semaphores) {
    enum { each = 16000, most = 100 };
    int sets[most];
    long made = 0;
    for (; made < count && made < most; made++)
        if ((sets[made] = semget(IPC_PRIVATE, each, 0600)) < 0) break;
    const int result = made == count ? 0 : refused("semget");
    for (long i = 0; i < made; i++)
        if (semctl(sets[i], 0, IPC_RMID) != 0) return 3;
    return result;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    victim = argv[2], count = strtol(argv[3], NULL, 10), counters = argc > 4 ? argv[4] : "";
    return run_mode(argv[1]);
}
