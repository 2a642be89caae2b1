/* Takes the descriptors of whoever made a connection to its own server, by a pidfd of the peer (SO_PEERPIDFD).
 *
 *   prog_peer NAME
 *
 * Prints where each descriptor leads that it got, and at last how many these were. The peer is a child of its own, unless
 * somebody connects on that child's behalf.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "socket_names.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static int fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    return 1;
}

int main(int count, char **words) {
    if (count != 2) return 2;
    struct sockaddr_un name;
    socklen_t length = named(&name, words[1]);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&name, length) != 0 || listen(listener, 1) != 0) return fail("bind");
    pid_t child = fork();
    if (child == 0) {
        if (connect(client, (struct sockaddr *)&name, length) != 0) _exit(fail("connect"));
        pause();
    }
    int server = accept(listener, 0, 0), peer = -1, taken = 0;
    socklen_t size = sizeof peer;
    if (getsockopt(server, SOL_SOCKET, SO_PEERPIDFD, &peer, &size) != 0) fail("SO_PEERPIDFD");
    for (int number = 0; number < 64 && peer >= 0; number++) {
        char link[40], target[200] = "";
        int fd = (int)syscall(SYS_pidfd_getfd, peer, number, 0);
        if (fd < 0) continue;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, target, sizeof target - 1) < 0) target[0] = 0;
        printf("%d %s\n", number, target);
        taken++;
    }
    printf("taken %d\n", taken);
    fflush(stdout);
    syscall(SYS_kill, child, 9);
    waitpid(child, 0, 0);
    return 0;
}
