/* Seconds since some moment, for programs that stop after a while. */
#ifndef CALLGATE_CLOCK_H
#define CALLGATE_CLOCK_H

#include <time.h>

static inline double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

#endif
