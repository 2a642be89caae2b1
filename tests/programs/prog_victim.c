/* An outside process of the same user. It holds a secret in memory, in its environment and in an open, unlinked file.
 * It counts the signals that reach it, and answers `state` lines on stdin. It first prints: PID ADDRESS FD.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile sig_atomic_t signals;
static void count(int number) { (void)number, signals++; }

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 3;
    snprintf(memory, 4096, "%s", argv[1]);
    int fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, argv[1], strlen(argv[1])) < 0) return 4;
    unlink(argv[2]);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* so that Yama's level 1 does not hold instead of us */
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = count;
    action.sa_flags = SA_RESTART;
    int all[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGHUP, SIGCONT, SIGINT};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) sigaction(all[i], &action, NULL);
    printf("%d %ju %d\n", getpid(), (uintmax_t)(uintptr_t)memory, fd);
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        printf("%d %s\n", (int)signals, memory);
        fflush(stdout);
    }
    return 0;
}
