/* What the programs share that make the rows of a table of equality. */
#ifndef CALLGATE_PROBE_H
#define CALLGATE_PROBE_H

#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Bare and supervised runs compare only where both have none. */
static inline void drop_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2];
    memset(none, 0, sizeof none);
    if (syscall(SYS_capset, &header, none) != 0) perror("capset");
}

/* Text with %XX for a byte. */
static inline char *decode(const char *text) {
    char *out = malloc(strlen(text) + 1), *end = out;
    for (; *text; text++) {
        unsigned value;
        if (*text == '%' && sscanf(text + 1, "%2x", &value) == 1) {
            *end++ = (char)value;
            text += 2;
        } else {
            *end++ = *text;
        }
    }
    *end = 0;
    return out;
}

#endif
