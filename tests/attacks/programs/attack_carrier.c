/* One thread makes CARRIERS/N/.hooks/x while the other moves CARRIERS/N to PROJECTS/N, where no .hooks/x may be made.
 *
 *   attack_carrier CARRIERS PROJECTS MILLISECONDS ROUNDS WINS
 *
 * Ends as attack_race does, and prints the same: WON, how often PROJECTS/N/.hooks/x is there; TWIN, how often a directory was
 * moved without it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../programs/clock.h"

static pthread_barrier_t both;
static char inside[4300];
static atomic_int over;

static void a_while(void) {
    for (volatile int i = 0; i < (rand() & 16383); i++) {}
}

static void *plant(void *unused) {
    for (;;) {
        pthread_barrier_wait(&both);
        if (over) return unused;
        a_while();
        int fd = open(inside, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        if (fd >= 0) close(fd);
        pthread_barrier_wait(&both);
    }
}

/* Whoever answers is busy with more than one caller. */
static void *keep_busy(void *carriers) {
    char absent[4096];
    snprintf(absent, sizeof absent, "%s/nothing", (char *)carriers);
    while (!over) unlink(absent);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 6) return 2;
    const double end = now() + atof(argv[3]) / 1000;
    const long rounds = atol(argv[4]), wanted = atol(argv[5]);
    long won = 0, twin = 0, tried = 0;
    pthread_t thread, other;
    pthread_barrier_init(&both, NULL, 2);
    if (pthread_create(&thread, NULL, plant, NULL) != 0) return 3;
    if (pthread_create(&other, NULL, keep_busy, argv[1]) != 0) return 3;
    for (; (tried < rounds || won < wanted || twin == 0) && now() < end; tried++) {
        char carrier[4096], project[4096], planted[4200];
        snprintf(carrier, sizeof carrier, "%s/%ld", argv[1], tried);
        snprintf(project, sizeof project, "%s/%ld", argv[2], tried);
        snprintf(planted, sizeof planted, "%s/.hooks", carrier);
        if (mkdir(carrier, 0755) != 0 || mkdir(planted, 0755) != 0) {
            printf("cannot: mkdir: %s\n", strerror(errno));
            return 3;
        }
        snprintf(inside, sizeof inside, "%s/x", planted);
        snprintf(planted, sizeof planted, "%s/.hooks/x", project);
        pthread_barrier_wait(&both);
        a_while();
        const int moved = rename(carrier, project);
        pthread_barrier_wait(&both);
        const int there = access(planted, F_OK) == 0;
        won += there, twin += moved == 0 && !there;
    }
    over = 1;
    pthread_barrier_wait(&both);
    pthread_join(thread, NULL);
    printf("WON %ld TWIN %ld TRIED %ld\n", won, twin, tried);
    return won == 0;
}
