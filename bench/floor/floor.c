/* The physical limit: a responder that does nothing but answer.
 *
 *   floor MODE COMMAND [ARG...]
 *
 * Arms COMMAND with a filter that traps the mode's calls and answers each notification in the cheapest way that is still
 * correct: blocking receive, SYNC_WAKE_UP where the kernel has it, no rules, no record, no check that the caller still
 * lives, no umask. callgate is measured against it (bench/run.py), so that what is ours is seen apart from what the
 * kernel costs. Not for use: it allows everything, and trusts the command.
 *
 *   continue-open, continue-connect   the kernel performs the call itself
 *   files       opens: read the path, pin the object (for O_CREAT: the parent), reopen, add-fd, close, answer: in this
 *               order, because the answer must not overtake the close (a writer's exec would see ETXTBSY). Changes: read
 *               the paths, pin the parents, act there; changes by descriptor on a copy of it
 *   deny-open   read the path, refuse names that end in .qkey, continue others
 *   connect, sendto, sendmmsg         read what there is, take the socket with pidfd_getfd, act on it
 *   execve      continue, and stop the caller once more before the new program's first instruction
 *   landlock    nothing is trapped: COMMAND may do everything with files, by one grant for the root
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "responder.h"

/* Each open is looked up from its object to the root, where the one grant is. */
static void restrict_by_landlock(void) {
    const uint64_t all = (1ULL << 15) - 1; /* truncation, the last, is missing from the headers of Debian 12 */
    struct landlock_ruleset_attr handled = {all};
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
    struct landlock_path_beneath_attr root = {all, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (ruleset < 0 || syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &root, 0) != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
        die("floor: landlock");
    close(root.parent_fd);
    close(ruleset);
}

union control {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr header;
};

static void hand_over(int channel, int fd) {
    char byte = 0;
    union control control = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(channel, &message, MSG_NOSIGNAL) != 1) die("floor: sendmsg");
}

static int take_over(int channel) {
    char byte;
    union control control = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    if (recvmsg(channel, &message, MSG_CMSG_CLOEXEC) != 1) die("floor: recvmsg");
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == NULL) die("floor: no listener came");
    int fd;
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "landlock") == 0) {
        restrict_by_landlock();
        execvp(argv[2], argv + 2);
        die("floor: exec");
    }
    const struct mode *mode = argc < 3 ? NULL : find_mode(argv[1]);
    if (mode == NULL) {
        fputs("usage: floor MODE COMMAND [ARG...]; the modes are listed in the source\n", stderr);
        return 125;
    }
    int channel[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) != 0) die("floor: socketpair");
    pid_t child = fork();
    if (child < 0) die("floor: fork");
    if (child == 0) {
        int listener = install(mode, 0);
        hand_over(channel[1], listener);
        close(listener);
        execvp(argv[2], argv + 2);
        die("floor: exec");
    }
    close(channel[1]);
    int listener = take_over(channel[0]);
    answer_all(listener, mode->answer);
    int status;
    if (waitpid(child, &status, 0) != child) die("floor: waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
