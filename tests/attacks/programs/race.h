/* What programs share that race against callgate: how they give up, and how a racer begins. */
#ifndef CALLGATE_RACE_H
#define CALLGATE_RACE_H

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../programs/clock.h"

/* No account of the race: the test says that it could not be run. */
static inline void fail(const char *what) {
    printf("cannot: %s: %s\n", what, strerror(errno));
    fflush(stdout);
    exit(3);
}

static inline void start_thread(void *(*what)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, what, NULL) != 0) fail("thread");
}

#endif
