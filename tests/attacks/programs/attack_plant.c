/* Planting: a name that may not be made beneath BAD is carried there by a rename that was judged without it.
 *
 *   attack_plant MODE RACER GOOD BAD SCRATCH MILLISECONDS ROUNDS WINS
 *
 * In SCRATCH everything may be made, beneath BAD/NAME no `hooks`. A sibling makes one in what is moved while
 * the rename is decided. RACER and GOOD are not used. Ends and prints as attack_race does: WON, how often
 * `hooks` was seen beneath BAD; TWIN, how often what may be moved was.
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

#include "../../programs/text.h"
#include "race.h"

static const char *bad, *scratch;
static long won, twin, tried;
static atomic_int stop, seen;

static void touch(const char *name) {
    int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd >= 0) close(fd);
}

/* What may be done: a directory moved where nothing is gained, a file moved to where less may be made beneath it. */
static void benign(void) {
    const char *one = text("%s/one", bad), *two = text("%s/two", bad), *file = text("%s/file", scratch);
    mkdir(one, 0755);
    touch(file);
    if (rename(one, two) == 0 && rename(file, text("%s/file", bad)) == 0 && access(file, F_OK) != 0) twin++;
    rmdir(two);
    unlink(text("%s/file", bad));
}

/* What was planted may be there for a moment only. */
static void watch(void) {
    static const char *planted;
    if (planted == NULL) planted = text("%s/swapped/hooks", bad);
    for (int i = rand() & 15; i >= 0; i--)
        if (access(planted, F_OK) == 0) atomic_store(&seen, 1);
}
/* Without a sibling: bare that is enough, and judged it is seen. */
static void plainly(void) {
    const char *plain = text("%s/plain", scratch), *moved = text("%s/plain", bad), *planted = text("%s/plain/hooks", bad);
    mkdir(plain, 0755);
    mkdir(text("%s/plain/hooks", scratch), 0755);
    if (rename(plain, moved) == 0 && access(planted, F_OK) == 0) won++;
    rmdir(planted);
    rmdir(moved);
}

/* ---- entries: a directory whose entries are being judged gets one more ---- */

enum { entries = 400 };
static const char *carrier;

static void *add_entry(void *unused) {
    (void)unused;
    while (!atomic_load(&stop)) {
        int folder = open(carrier, O_PATH | O_DIRECTORY | O_CLOEXEC);
        mkdirat(folder, "hooks", 0755);
        watch();
        unlinkat(folder, "hooks", AT_REMOVEDIR);
        close(folder);
    }
    return NULL;
}
static void try_entries(void) {
    const char *moved = text("%s/moved%ld", bad, tried);
    if (tried == 0) {
        carrier = text("%s/carrier", scratch);
        start_thread(add_entry);
    }
    if (mkdir(carrier, 0755) == 0)
        for (int i = 0; i < entries; i++) mkdir(text("%s/%d", carrier, i), 0755);
    if (rename(carrier, moved) != 0) return;
    if (access(text("%s/hooks", moved), F_OK) == 0) won++;
    rename(moved, carrier); /* bare it is used again */
}

/* ---- swap: what was a file when it was looked at is a directory ---- */

static void *swap_kinds(void *unused) {
    (void)unused;
    const char *name = text("%s/swapped", scratch), *inside = text("%s/swapped/hooks", scratch);
    while (!atomic_load(&stop)) {
        unlink(name);
        mkdir(name, 0755);
        mkdir(inside, 0755);
        watch();
        rmdir(inside);
        rmdir(name);
        touch(name);
        watch();
    }
    return NULL;
}
static void try_swap(void) {
    if (tried == 0) start_thread(swap_kinds);
    const char *moved = text("%s/swapped", bad), *inside = text("%s/swapped/hooks", bad);
    rename(text("%s/swapped", scratch), moved);
    if (access(inside, F_OK) == 0 || atomic_load(&seen)) won++;
    atomic_store(&seen, 0);
    rmdir(inside);
    if (rmdir(moved) != 0) unlink(moved);
}

int main(int argc, char **argv) {
    if (argc != 9) return 2;
    void (*try_once)(void) = strcmp(argv[1], "entries") == 0 ? try_entries : try_swap;
    bad = argv[4], scratch = argv[5];
    double end = now() + atof(argv[6]) / 1000;
    long rounds = atol(argv[7]), wins = atol(argv[8]);
    for (; (tried < rounds || won < wins || twin == 0) && now() < end; tried++) plainly(), try_once(), benign();
    atomic_store(&stop, 1);
    printf("%s WON %ld TWIN %ld TRIED %ld\n", won ? "WON" : "HELD", won, twin, tried);
    fflush(stdout);
    _exit(0);
}
