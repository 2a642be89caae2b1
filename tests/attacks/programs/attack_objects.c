/* One call each on System V objects and message queues: another process's of the same user, or the program's own.
 *
 *   attack_objects MODE NUMBER NAME SHM SEM MSG     another process's: key, queue's name and ids are given
 *   attack_objects MODE NUMBER NAME                 its own, made here with content
 *
 * Prints what it read. Exit 0: reached. The test looks at the objects from outside.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mqueue.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attack.h"

struct text {
    long type;
    char text[64];
};

static key_t key;
static const char *queue_name;
static int memory, semaphores, queue;

/* An id is all that a look-up gives. */
static int found(long id, const char *what) {
    if (id < 0) return refused(what);
    printf("reached %s\n", what);
    return 0;
}

MODE(shmget) { return found(syscall(SYS_shmget, key, 0, 0600), "shmget"); }
MODE(shmat) {
    const char *at = shmat(memory, NULL, SHM_RDONLY);
    if (at == (const char *)-1) return refused("shmat");
    printf("reached: %.60s\n", at);
    return 0;
}
MODE(shmctl) { return done(shmctl(memory, IPC_RMID, NULL), "shmctl"); }
MODE(semget) { return found(semget(key, 0, 0600), "semget"); }
MODE(semop) {
    struct sembuf down = {0, -1, IPC_NOWAIT};
    return done(syscall(SYS_semop, semaphores, &down, 1), "semop");
}
MODE(semtimedop) {
    struct sembuf down = {0, -1, 0};
    struct timespec none = {0, 0};
    return done(syscall(SYS_semtimedop, semaphores, &down, 1, &none), "semtimedop");
}
MODE(semctl) { return done(syscall(SYS_semctl, semaphores, 0, SETVAL, 7L), "semctl"); }
MODE(msgget) { return found(msgget(key, 0600), "msgget"); }
MODE(msgsnd) {
    struct text one = {1, "x"};
    return done(msgsnd(queue, &one, 1, IPC_NOWAIT), "msgsnd");
}
MODE(msgrcv) {
    struct text one;
    return done(msgrcv(queue, &one, sizeof one.text, 0, IPC_NOWAIT), "msgrcv");
}
MODE(msgctl) { return done(msgctl(queue, IPC_RMID, NULL), "msgctl"); }
MODE(mq_open) {
    char content[8192];
    const int opened = (int)syscall(SYS_mq_open, queue_name, O_RDONLY | O_NONBLOCK, 0, NULL);
    if (opened < 0) return refused("mq_open");
    return done(mq_receive(opened, content, sizeof content, NULL), "mq_receive");
}
MODE(mq_unlink) { return done(syscall(SYS_mq_unlink, queue_name), "mq_unlink"); }

static void fail(const char *what) {
    perror(what);
    exit(3);
}

static void make_own(void) {
    struct text one = {1, "content"};
    memory = shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0600);
    semaphores = semget(key, 1, IPC_CREAT | IPC_EXCL | 0600);
    queue = msgget(key, IPC_CREAT | IPC_EXCL | 0600);
    const int named = (int)syscall(SYS_mq_open, queue_name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
    if (memory < 0 || semaphores < 0 || queue < 0 || named < 0) fail("make");
    if (semctl(semaphores, 0, SETVAL, 42) != 0 || msgsnd(queue, &one, 7, 0) != 0 || mq_send(named, "content", 7, 0) != 0) fail("fill");
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    key = (key_t)strtol(argv[2], NULL, 0), queue_name = argv[3];
    if (argc < 7) make_own();
    else memory = atoi(argv[4]), semaphores = atoi(argv[5]), queue = atoi(argv[6]);
    const int result = run_mode(argv[1]);
    if (argc < 7) { /* run bare, nobody else would remove it */
        shmctl(memory, IPC_RMID, NULL), semctl(semaphores, 0, IPC_RMID), msgctl(queue, IPC_RMID, NULL);
        syscall(SYS_mq_unlink, queue_name);
    }
    return result;
}
