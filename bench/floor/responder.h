/* What both programs of the floor are made of. */
#ifndef FLOOR_RESPONDER_H
#define FLOOR_RESPONDER_H

#include <stdint.h>

#include "acts.h"

/* Says what failed, and ends with 125. */
void die(const char *what);

/* The calling process from here on: the mode's calls are trapped, in a filter of at least `instructions`. The listener. */
int install(const struct mode *mode, unsigned instructions);

/* Until nobody is left who could call. */
void answer_all(int listener, act answer);

#endif
