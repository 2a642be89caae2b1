/* What attacks on a file share.
 *
 *   PROGRAM MODE VICTIM ALLOWED [EXTRA]
 *
 * VICTIM is the file, ALLOWED a directory in which everything is allowed, EXTRA what the mode needs. Reading
 * modes print what they read; changing modes change VICTIM or its directory.
 */
#ifndef CALLGATE_DOOR_H
#define CALLGATE_DOOR_H

#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../programs/text.h"
#include "attack.h"

/* VICTIM = PARENT/FOLDER_NAME/NAME, FOLDER = PARENT/FOLDER_NAME */
static const char *victim, *allowed, *extra;
static char folder[4096], name[256], parent[4096], folder_name[256];

static inline const char *in(const char *directory, const char *leaf) { return text("%s/%s", directory, leaf); }

/* Prints what can be read from a descriptor. */
static inline int show(long fd, const char *what) {
    char content[256];
    if (fd < 0) return refused(what);
    ssize_t got = read((int)fd, content, sizeof content - 1);
    if (got < 0) return refused("read");
    content[got] = 0;
    printf("got: %s\n", content);
    return 0;
}

static inline int show_path(const char *path) { return show(open(path, O_RDONLY | O_CLOEXEC), path); }

/* Makes an empty file of one's own. */
static inline const char *own_file(const char *leaf) {
    const char *mine = in(allowed, leaf);
    close(open(mine, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    return mine;
}

static inline const char *own_folder(const char *leaf) {
    const char *mine = in(allowed, leaf);
    syscall(SYS_mkdirat, AT_FDCWD, mine, 0755);
    return mine;
}

static inline void split(const char *path, char *head, size_t head_size, char *tail, size_t tail_size) {
    char copy[4096];
    snprintf(copy, sizeof copy, "%s", path);
    snprintf(tail, tail_size, "%s", basename(copy));
    snprintf(copy, sizeof copy, "%s", path);
    snprintf(head, head_size, "%s", dirname(copy));
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    victim = argv[2], allowed = argv[3], extra = argc > 4 ? argv[4] : "";
    split(victim, folder, sizeof folder, name, sizeof name);
    split(folder, parent, sizeof parent, folder_name, sizeof folder_name);
    return run_mode(argv[1]);
}

#endif
