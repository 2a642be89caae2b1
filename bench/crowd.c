/* Starts a command many times at once: crowd AT_ONCE ROUNDS COMMAND...
 *
 * In each round all wait until the last is there, then become the command together; the round is over when the last has
 * ended. Prints, for one start and in ns: the time that passed, divided by AT_ONCE, and the processor time of the command
 * with whatever it waited for; of both the median of the rounds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

static void die(const char *what) {
    fprintf(stderr, "crowd: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t nanoseconds(struct timeval t) { return (int64_t)t.tv_sec * 1000000000 + (int64_t)t.tv_usec * 1000; }

/* Of those that ended and were waited for. */
static int64_t processor_time(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_CHILDREN, &usage) != 0) die("getrusage");
    return nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);
}

static void round_of(int at_once, char **command, double *wall, double *processor) {
    int gate[2], up[2];
    char byte;
    if (pipe(gate) != 0 || pipe(up) != 0) die("pipe");
    for (int i = 0; i < at_once; i++) {
        pid_t child = fork();
        if (child < 0) die("fork");
        if (child != 0) continue;
        close(gate[1]);
        close(up[0]);
        if (write(up[1], "x", 1) != 1 || read(gate[0], &byte, 1) != 0) _exit(126);
        close(gate[0]);
        close(up[1]);
        execvp(command[0], command);
        _exit(127);
    }
    close(gate[0]);
    close(up[1]);
    for (int i = 0; i < at_once; i++)
        if (read(up[0], &byte, 1) != 1) die("read");
    close(up[0]);
    int64_t used = processor_time(), start = now();
    close(gate[1]);
    for (int i = 0; i < at_once; i++) {
        int status;
        if (wait(&status) < 0) die("wait");
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) die("the command failed");
    }
    *wall = (double)(now() - start) / at_once;
    *processor = (double)(processor_time() - used) / at_once;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof values[0], compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

int main(int argc, char **argv) {
    int at_once = argc < 4 ? 0 : atoi(argv[1]), rounds = argc < 4 ? 0 : atoi(argv[2]);
    if (at_once < 1 || rounds < 1) {
        fputs("usage: crowd AT_ONCE ROUNDS COMMAND...\n", stderr);
        return 2;
    }
    double *wall = calloc((size_t)rounds, sizeof *wall), *processor = calloc((size_t)rounds, sizeof *processor);
    if (!wall || !processor) die("calloc");
    for (int n = 0; n < rounds; n++) round_of(at_once, argv + 3, &wall[n], &processor[n]);
    printf("%.0f %.0f\n", median(wall, rounds), median(processor, rounds));
    return 0;
}
