/* Two processes, each in a run of its own. One makes CARRIERS/N/.hooks/x while the other moves CARRIERS/N to PROJECTS/N, where no
 * .hooks/x may be made.
 *
 *   attack_two_runs move|plant MEETING CARRIERS PROJECTS MILLISECONDS ROUNDS WINS
 *
 * They meet in the file MEETING, which both map. `plant` waits for `move`, and ends with it. `move` ends as attack_race does, and
 * prints the same: WON, how often PROJECTS/N/.hooks/x is there; TWIN, how often a directory was moved without it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../programs/clock.h"

enum { OTHERS = 100 }; /* entries of .hooks that are judged as well, which takes a while */

struct meeting {
    atomic_long planting; /* the round that begins, from 1 on */
    atomic_long begun;    /* the round that the one who plants has seen begin */
    atomic_long planted;  /* the round that has ended for it */
    atomic_int there, over;
};

static struct meeting *meet(const char *path) {
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof(struct meeting)) != 0) return NULL;
    void *const mapped = mmap(NULL, sizeof(struct meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return mapped == MAP_FAILED ? NULL : mapped;
}

/* Of any length: a call takes microseconds bare, and a hundred times as long where its entries are judged. */
static void a_while(void) {
    const int most = 1 << (rand() % 20), turns = rand() % most;
    for (volatile int i = 0; i < turns; i++) {}
}

static void make(const char *path) {
    const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd >= 0) close(fd);
}

/* A .hooks to be, full of what nobody minds. */
static void fill(const char *directory) {
    if (mkdir(directory, 0755) != 0 && errno != EEXIST) return;
    for (int i = 0; i < OTHERS; i++) {
        char name[4300];
        snprintf(name, sizeof name, "%s/%d", directory, i);
        make(name);
    }
}

static int planted(const char *hooks) {
    char name[4300];
    snprintf(name, sizeof name, "%s/x", hooks);
    return access(name, F_OK) == 0;
}

static void without(const char *hooks) {
    char name[4300];
    snprintf(name, sizeof name, "%s/x", hooks);
    unlink(name);
}

static int plant(struct meeting *meeting, const char *carriers) {
    srand((unsigned)getpid());
    meeting->there = 1;
    for (long round = 1; !meeting->over;) {
        if (meeting->planting != round) {
            sched_yield();
            continue;
        }
        char inside[4300];
        snprintf(inside, sizeof inside, "%s/%ld/.hooks/x", carriers, round);
        meeting->begun = round;
        a_while();
        make(inside);
        meeting->planted = round++;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 8) return 2;
    struct meeting *const meeting = meet(argv[2]);
    if (meeting == NULL) return 3;
    if (strcmp(argv[1], "plant") == 0) return plant(meeting, argv[3]);
    const double begin = now(), patience = begin + 60;
    while (!meeting->there)
        if (now() > patience) return 3;
    const double end = now() + atof(argv[5]) / 1000;
    const long rounds = atol(argv[6]), wanted = atol(argv[7]);
    long won = 0, twin = 0, tried = 0;
    char spare[4096];
    snprintf(spare, sizeof spare, "%s/spare", argv[3]);
    for (int filled = 0; (tried < rounds || won < wanted || twin == 0) && now() < end;) {
        char carrier[4096], project[4096], inside[4200], moved_inside[4200];
        if (!filled) fill(spare);
        tried++;
        snprintf(carrier, sizeof carrier, "%s/%ld", argv[3], tried);
        snprintf(project, sizeof project, "%s/%ld", argv[4], tried);
        snprintf(inside, sizeof inside, "%s/.hooks", carrier);
        snprintf(moved_inside, sizeof moved_inside, "%s/.hooks", project);
        if (mkdir(carrier, 0755) != 0 || rename(spare, inside) != 0) {
            printf("cannot: %s\n", strerror(errno));
            meeting->over = 1;
            return 3;
        }
        meeting->planting = tried;
        while (meeting->begun != tried && now() < end + 10) sched_yield();
        a_while();
        const int moved = rename(carrier, project) == 0;
        while (meeting->planted != tried && now() < end + 10) sched_yield();
        const int there = planted(moved_inside);
        won += there, twin += moved && !there;
        if (!moved) without(inside);
        filled = !there && rename(moved ? moved_inside : inside, spare) == 0;
    }
    meeting->over = 1;
    printf("WON %ld TWIN %ld TRIED %ld\n", won, twin, tried);
    return won == 0;
}
