/* What all attack programs share: one program holds related attacks, each a MODE that its first argument
 * names.
 *
 * A mode's exit status is its own account: 0 it reached its goal, 1 it was refused, 77 this kernel has no
 * such thing. What counts is what the test sees from outside.
 */
#ifndef CALLGATE_ATTACK_H
#define CALLGATE_ATTACK_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define REFUSED 1
#define UNSUPPORTED 77

static struct mode {
    const char *name;
    int (*run)(void);
} modes[256];
static int mode_count;

static inline void add_mode(const char *name, int (*run)(void)) {
    modes[mode_count].name = name;
    modes[mode_count++].run = run;
}

/* Defines an attack: MODE(name) { ... return 0; } */
#define MODE(name)                                                                              \
    static int mode_##name(void);                                                               \
    __attribute__((constructor)) static void add_##name(void) { add_mode(#name, mode_##name); } \
    static int mode_##name(void)

static inline int refused(const char *what) {
    int error = errno;
    fprintf(stderr, "%s: %s\n", what, strerror(error));
    switch (error) {
        case ENOSYS:
        case EAFNOSUPPORT:
        case EPROTONOSUPPORT:
        case ESOCKTNOSUPPORT:
            return UNSUPPORTED;
        default:
            return REFUSED;
    }
}

/* For calls that return a negative number when they fail. */
static inline int done(long result, const char *what) { return result < 0 ? refused(what) : 0; }

static inline int run_mode(const char *name) {
    for (int i = 0; i < mode_count; i++) {
        if (strcmp(modes[i].name, name) != 0) continue;
        int result = modes[i].run();
        printf("%s\n", result == 0 ? "WON" : "HELD");
        fflush(stdout);
        return result;
    }
    fprintf(stderr, "no such mode: %s\n", name);
    return 2;
}

#endif
