/* What floor does for one stopped call. */
#ifndef FLOOR_ACTS_H
#define FLOOR_ACTS_H

#include <linux/seccomp.h>
#include <stdint.h>

/* Fills the response. Returns whether it was already sent. */
typedef int (*act)(int listener, const struct seccomp_notif *call, struct seccomp_notif_resp *response);

struct mode {
    const char *name;
    act answer;
    uint32_t calls[16]; /* those that are trapped; 0 ends them */
};

/* Null where there is none of that name. */
const struct mode *find_mode(const char *name);

#endif
