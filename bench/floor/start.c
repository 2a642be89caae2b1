/* What the kernel takes for a start: what callgate's design asks of it for one run, and nothing else.
 *
 *   floor_start GRANTS DIRECTORY COMMAND [ARG...]
 *
 * The same steps in the same processes, by one plain program that knows everything beforehand: supervisor in its base
 * domain, guardian in a session of its own, agent that drops its capabilities, makes a Landlock domain, installs a filter
 * of the same length and waits until its listener was taken; a log that has a record before the command begins and one
 * when it has ended; a private directory for the run. No rules are read, nothing is planned, no path is looked at, no
 * signal is passed on, nothing is checked. What callgate takes beyond this is callgate's own.
 *
 * GRANTS has a line for each grant, "d PATH" or "f PATH" (a directory, a file); the log and the private directory are made
 * in DIRECTORY, the log is removed at the end.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "responder.h"

enum { filter_length = 209 };

struct event {
    pid_t pid;
    int value;
};

static char private_directory[4096], log_file[4096];

static void say(int pipe, int value) {
    struct event event = {getpid(), value};
    if (write(pipe, &event, sizeof event) != sizeof event) die("floor: write");
}

static struct event hear(int pipe) {
    struct event event;
    if (read(pipe, &event, sizeof event) != sizeof event) die("floor: read");
    return event;
}

static void drop_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}};
    for (int capability = 0; prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0; ++capability) {
    }
    if (syscall(SYS_capset, &header, none) != 0) die("floor: capset");
}

static int make_ruleset(uint64_t handled) {
    struct landlock_ruleset_attr attributes = {handled};
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0);
    if (ruleset < 0) die("floor: landlock_create_ruleset");
    return ruleset;
}

static void grant(int ruleset, const char *path, uint64_t access) {
    struct landlock_path_beneath_attr rule = {access, open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW)};
    if (rule.parent_fd < 0) die(path);
    if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) die(path);
    close(rule.parent_fd);
}

static void enter(int ruleset) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
        die("floor: landlock_restrict_self");
    close(ruleset);
}

static void enter_base_domain(void) {
    int ruleset = make_ruleset(LANDLOCK_ACCESS_FS_REFER);
    grant(ruleset, "/", LANDLOCK_ACCESS_FS_REFER);
    enter(ruleset);
}

static int granted(char *lines) {
    const uint64_t file = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;
    const uint64_t all = (1ULL << 13) - 1;
    int ruleset = make_ruleset(all);
    for (char *line = strtok(lines, "\n"); line != NULL; line = strtok(NULL, "\n"))
        grant(ruleset, line + 2, line[0] == 'd' ? all : file);
    grant(ruleset, private_directory, all);
    return ruleset;
}

/* Ends as the command. */
static void agent(char *grants, int status, int go, char **command) {
    struct rlimit core = {0};
    const struct mode *mode = find_mode("continue-open");
    struct event word;
    drop_capabilities();
    if (syscall(SYS_close_range, (unsigned)(status > go ? status : go) + 1, ~0U, 0) != 0) die("floor: close_range");
    if (setrlimit(RLIMIT_CORE, &core) != 0) die("floor: setrlimit");
    syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    int score = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    word = hear(go);
    int ruleset = granted(grants);
    if (write(score, "500", 3) != 3) die("floor: oom_score_adj");
    enter(ruleset);
    int listener = install(mode, filter_length);
    say(status, listener);
    word = hear(go);
    (void)word;
    close(listener);
    execvp(command[0], command);
    die("floor: exec");
}

static void guardian(char *grants, int status, int go, char **command) {
    int result = 0;
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    pid_t child = fork();
    if (child == 0) agent(grants, status, go, command);
    if (child < 0 || setsid() < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) die("floor: guardian");
    if (mkdir(private_directory, 0700) != 0) die(private_directory);
    drop_capabilities();
    close(go);
    say(status, 0);
    if (waitpid(child, &result, 0) != child) die("floor: waitpid");
    rmdir(private_directory);
    say(status, WIFEXITED(result) ? WEXITSTATUS(result) : 128 + WTERMSIG(result));
    _exit(0);
}

static void *respond(void *listener) {
    answer_all(*(int *)listener, find_mode("continue-open")->answer);
    return NULL;
}

static void record(int log) {
    char line[400];
    memset(line, '.', sizeof line);
    if (write(log, line, sizeof line) != (ssize_t)sizeof line) die("floor: write to the log");
}

static char *read_grants(const char *path) {
    static char text[65536];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, text, sizeof text - 1) < 0) die(path);
    close(file);
    return text;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fputs("usage: floor_start GRANTS DIRECTORY COMMAND [ARG...]\n", stderr);
        return 125;
    }
    char *grants = read_grants(argv[1]);
    snprintf(private_directory, sizeof private_directory, "%s/floor.%d", argv[2], getpid());
    snprintf(log_file, sizeof log_file, "%s/floor.%d.log", argv[2], getpid());
    int status[2], go[2];
    if (pipe2(status, O_CLOEXEC) != 0 || pipe2(go, O_CLOEXEC) != 0) die("floor: pipe2");
    enter_base_domain();
    pid_t child = fork();
    if (child == 0) guardian(grants, status[1], go[0], argv + 3);
    if (child < 0) die("floor: fork");
    close(status[1]);
    close(go[0]);
    hear(status[0]); /* the private directory is there */
    say(go[1], 0);
    int log = open(log_file, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0) die(log_file);
    drop_capabilities();
    struct event armed = hear(status[0]);
    int held = (int)syscall(SYS_pidfd_open, armed.pid, 0);
    int listener = (int)syscall(SYS_pidfd_getfd, held, armed.value, 0);
    if (listener < 0) die("floor: pidfd_getfd");
    pthread_t receiver;
    if (pthread_create(&receiver, NULL, respond, &listener) != 0) die("floor: pthread_create");
    record(log);
    say(go[1], 0);
    struct event ended = hear(status[0]);
    record(log);
    unlink(log_file);
    waitpid(child, NULL, 0);
    return ended.value;
}
