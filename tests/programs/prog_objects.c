/* System V shared memory, semaphores and queues, and POSIX message queues: one line per case.
 *
 *   prog_objects own KEY NAME         everything a program does with objects of its own
 *   prog_objects make KEY NAME        objects with content; prints their ids
 *   prog_objects foreign KEY NAME SHM SEM MSG   every call on somebody else's; prints no id
 *   prog_objects show KEY NAME SHM SEM MSG      what they hold now, as far as it may be seen
 *   prog_objects remove KEY NAME
 *   prog_objects leave KEY NAME       makes objects, says `ready`, and waits for the end of its input
 *   prog_objects together KEY NAME    threads that all want the same key at once
 *   prog_objects keep SHM             attaches, and waits
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <mqueue.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

union semun {
    int val;
    void *buf;
};

static key_t key;
static const char *queue_name;

static void row(const char *name, long result) {
    printf("%s %ld errno=%d\n", name, result, result < 0 ? errno : 0);
    fflush(stdout);
}
/* of a call that gives an id, a descriptor or an address: only whether it did */
static long given(const char *name, long result) {
    row(name, result < 0 ? result : 0);
    return result;
}
static void on_alarm(int number) { (void)number; }
static void alarm_soon(void) {
    struct sigaction action;
    struct itimerval soon = {{0, 0}, {0, 300000}};
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
}

static int shm_get(long k, size_t size, int flags) { return (int)syscall(SYS_shmget, k, size, flags); }
static long shm_at(int id, void *at, int flags) { return (long)shmat(id, at, flags); }
static int sem_ctl(int id, int number, int command, void *argument) { return (int)syscall(SYS_semctl, id, number, command, argument); }
static int sem_one(int id, int number, int by, int flags) {
    struct sembuf one = {(unsigned short)number, (short)by, (short)flags};
    return semop(id, &one, 1);
}

static void shared_memory(void) {
    int id = (int)given("shmget private", shm_get(IPC_PRIVATE, 10000, 0600));
    char *at = (char *)given("shmat", shm_at(id, NULL, 0));
    strcpy(at, "written");
    struct shmid_ds state;
    row("IPC_STAT", shmctl(id, IPC_STAT, &state));
    printf("  size=%zu attached=%lu mode=%o uid=%u cuid=%u\n", state.shm_segsz, state.shm_nattch, state.shm_perm.mode, state.shm_perm.uid,
           state.shm_perm.cuid);
    if (fork() == 0) {
        char *again = (char *)shm_at(id, NULL, SHM_RDONLY);
        _exit(strcmp(again, "written") == 0 ? 7 : 1);
    }
    int status;
    wait(&status);
    row("a child reads", WEXITSTATUS(status));
    row("shmat misaligned", shm_at(id, (void *)9, 0));
    given("shmat rounded", shm_at(id, (void *)(((uintptr_t)at & ~0xfffffffUL) + 0x10000009), SHM_RND));
    row("shmat remap nowhere", shm_at(id, NULL, SHM_REMAP));
    given("shmat over itself", shm_at(id, at, SHM_REMAP));
    row("shmctl unknown", shmctl(id, 99, NULL));
    row("shmctl negative", shmctl(id, -1, NULL));
    row("IPC_STAT fault", shmctl(id, IPC_STAT, (void *)8));
    row("IPC_SET fault", shmctl(id, IPC_SET, (void *)8));
    state.shm_perm.mode = 0640;
    row("IPC_SET", shmctl(id, IPC_SET, &state));
    row("IPC_STAT", shmctl(id, IPC_STAT, &state));
    printf("  mode=%o\n", state.shm_perm.mode);
    row("SHM_STAT", shmctl(id, SHM_STAT, &state) == id);
    printf("  size=%zu mode=%o\n", state.shm_segsz, state.shm_perm.mode);
    row("SHM_STAT fault", shmctl(id, SHM_STAT, (void *)8));
    row("IPC_INFO fault", shmctl(0, IPC_INFO, (void *)8));
    struct shm_info all;
    row("SHM_INFO", shmctl(0, SHM_INFO, (void *)&all) >= 0);
    struct shminfo limits;
    row("IPC_INFO", shmctl(0, IPC_INFO, (void *)&limits) >= 0 && limits.shmmni > 0);
    row("SHM_LOCK", shmctl(id, SHM_LOCK, NULL));
    row("SHM_UNLOCK", shmctl(id, SHM_UNLOCK, NULL));
    row("IPC_RMID attached", shmctl(id, IPC_RMID, NULL));
    row("IPC_STAT after", shmctl(id, IPC_STAT, &state));
    printf("  mode=%o\n", state.shm_perm.mode);
    given("shmat after removal", shm_at(id, NULL, 0));
    if (fork() == 0) _exit(shm_at(id, NULL, 0) == -1 ? 1 : 7);
    wait(&status);
    row("a child attaches after removal", WEXITSTATUS(status));
    row("IPC_RMID again", shmctl(id, IPC_RMID, NULL));
    row("shmdt", shmdt(at));
    row("shmdt again", shmdt(at));
    row("shmget missing", shm_get(key, 100, 0600));
    int keyed = (int)given("shmget key", shm_get(key, 100, IPC_CREAT | IPC_EXCL | 0600));
    row("shmget exclusive", shm_get(key, 100, IPC_CREAT | IPC_EXCL | 0600));
    row("shmget the same", shm_get(key, 100, IPC_CREAT | 0600) == keyed);
    row("shmget found", shm_get(key, 0, 0) == keyed);
    row("shmget too large", shm_get(key, 100000, 0600));
    row("shmget key high bits", shm_get((long)key | (1L << 40), 0, 0) == keyed);
    row("IPC_RMID", shmctl(keyed, IPC_RMID, NULL));
    row("IPC_RMID again", shmctl(keyed, IPC_RMID, NULL));
    row("shmat removed", shm_at(keyed, NULL, 0));
    row("shmget of nothing", shm_get(IPC_PRIVATE, 0, 0600));
    row("shmget of everything", shm_get(IPC_PRIVATE, (size_t)-1, 0600));
    row("shmat -1", shm_at(-1, NULL, 0));
    row("shmctl -1", shmctl(-1, IPC_STAT, &state));
    int closed = shm_get(IPC_PRIVATE, 100, 0);
    row("shmat without a mode", shm_at(closed, NULL, 0));
    row("IPC_STAT without a mode", shmctl(closed, IPC_STAT, &state));
    row("SHM_STAT without a mode", shmctl(closed, SHM_STAT, &state));
    row("SHM_STAT_ANY without a mode", shmctl(closed, SHM_STAT_ANY, &state) == closed);
    row("IPC_RMID without a mode", shmctl(closed, IPC_RMID, NULL));
}

static void semaphores(void) {
    int id = (int)given("semget private", semget(IPC_PRIVATE, 3, 0600)), status;
    row("SETVAL", sem_ctl(id, 0, SETVAL, (void *)2));
    row("GETVAL", sem_ctl(id, 0, GETVAL, NULL));
    unsigned short values[3] = {5, 0, 7};
    row("SETALL", sem_ctl(id, 0, SETALL, values));
    memset(values, 0, sizeof values);
    row("GETALL", sem_ctl(id, 0, GETALL, values));
    printf("  %u %u %u\n", values[0], values[1], values[2]);
    row("SETVAL too large", sem_ctl(id, 0, SETVAL, (void *)40000));
    row("SETVAL of none", sem_ctl(id, 9, SETVAL, (void *)1));
    row("GETVAL of none", sem_ctl(id, 9, GETVAL, NULL));
    row("GETALL fault", sem_ctl(id, 0, GETALL, (void *)8));
    row("semop", sem_one(id, 0, -1, 0));
    row("GETPID is mine", sem_ctl(id, 0, GETPID, NULL) == getpid());
    row("semop would wait", sem_one(id, 1, -1, IPC_NOWAIT));
    row("semop none", sem_one(id, 9, 1, 0));
    row("semop fault", semop(id, (void *)8, 1));
    struct sembuf several[600];
    memset(several, 0, sizeof several);
    row("semop nothing", semop(id, several, 0));
    row("semop too many", semop(id, several, 600));
    row("semop -1", semop(-1, several, 1));
    struct sembuf wait_for = {1, -1, 0};
    struct timespec limit = {0, 50000000}, bad = {0, -1};
    row("semtimedop", semtimedop(id, &wait_for, 1, &limit));
    row("semtimedop bad time", semtimedop(id, &wait_for, 1, &bad));
    row("semtimedop time faults", semtimedop(id, &wait_for, 1, (void *)8));
    row("semtimedop without time", semtimedop(id, &(struct sembuf){0, 1, 0}, 1, NULL));
    if (fork() == 0) _exit(sem_one(id, 1, -1, 0) == 0 ? 7 : 1);
    while (sem_ctl(id, 1, GETNCNT, NULL) == 0) sched_yield();
    row("release a child", sem_one(id, 1, 1, 0));
    wait(&status);
    row("a child waited", WEXITSTATUS(status));
    if (fork() == 0) _exit(sem_one(id, 2, -3, SEM_UNDO) == 0 ? 7 : 1);
    wait(&status);
    row("a child's undo", sem_ctl(id, 2, GETVAL, NULL));
    alarm_soon();
    row("semop interrupted", sem_one(id, 1, -1, 0));
    if (fork() == 0) _exit(sem_one(id, 1, -1, 0) == -1 && errno == EIDRM ? 7 : 1);
    while (sem_ctl(id, 1, GETNCNT, NULL) == 0) sched_yield();
    struct semid_ds state;
    row("IPC_STAT", sem_ctl(id, 0, IPC_STAT, &state));
    printf("  count=%lu mode=%o\n", state.sem_nsems, state.sem_perm.mode);
    row("SEM_STAT", sem_ctl(id, 0, SEM_STAT, &state) == id);
    row("IPC_SET", sem_ctl(id, 0, IPC_SET, &state));
    row("unknown command", sem_ctl(id, 0, 99, NULL));
    struct seminfo limits;
    row("SEM_INFO", sem_ctl(0, 0, SEM_INFO, &limits) >= 0);
    row("IPC_RMID", sem_ctl(id, 0, IPC_RMID, NULL));
    wait(&status);
    row("a child's EIDRM", WEXITSTATUS(status));
    row("semop removed", sem_one(id, 0, 1, 0));
    row("GETVAL removed", sem_ctl(id, 0, GETVAL, NULL));
    int keyed = (int)given("semget key", semget(key, 2, IPC_CREAT | IPC_EXCL | 0600));
    row("semget exclusive", semget(key, 2, IPC_CREAT | IPC_EXCL | 0600));
    row("semget the same", semget(key, 2, IPC_CREAT | 0600) == keyed);
    row("semget fewer", semget(key, 0, 0) == keyed);
    row("semget more", semget(key, 3, 0600));
    row("semget too many", semget(key, 1 << 20, 0600));
    row("semget -1", semget(IPC_PRIVATE, -1, 0600));
    row("semget none", semget(IPC_PRIVATE, 0, 0600));
    row("IPC_RMID", sem_ctl(keyed, 0, IPC_RMID, NULL));
    row("semget missing", semget(key, 0, 0));
}

struct text {
    long type;
    char text[64];
};

static void queues(void) {
    int id = (int)given("msgget private", msgget(IPC_PRIVATE, 0600)), status;
    struct text one = {3, "three"}, got;
    row("msgsnd", msgsnd(id, &one, 5, 0));
    one.type = 0;
    row("msgsnd type 0", msgsnd(id, &one, 5, 0));
    one.type = 2;
    row("msgsnd too long", msgsnd(id, &one, 1 << 20, 0));
    row("msgsnd fault", msgsnd(id, (void *)8, 5, 0));
    row("msgsnd second", msgsnd(id, &one, 6, IPC_NOWAIT));
    row("msgrcv by type", msgrcv(id, &got, 64, 2, 0));
    row("msgrcv too short", msgrcv(id, &got, 2, 0, 0));
    row("msgrcv cut", msgrcv(id, &got, 2, 0, MSG_NOERROR));
    row("msgrcv nothing", msgrcv(id, &got, 64, 0, IPC_NOWAIT));
    row("msgrcv -1 bytes", msgrcv(id, &got, (size_t)-1, 0, IPC_NOWAIT));
    row("msgrcv copy", msgrcv(id, &got, 64, 0, MSG_COPY));
    if (fork() == 0) _exit(msgrcv(id, &got, 64, 0, 0) == 5 && memcmp(got.text, "child", 5) == 0 ? 7 : 1);
    memcpy(one.text, "child", 5);
    row("msgsnd to a child", msgsnd(id, &one, 5, 0));
    wait(&status);
    row("a child received", WEXITSTATUS(status));
    alarm_soon();
    row("msgrcv interrupted", msgrcv(id, &got, 64, 0, 0));
    struct msqid_ds state;
    row("IPC_STAT", msgctl(id, IPC_STAT, &state));
    printf("  messages=%lu mode=%o sender=%d\n", state.msg_qnum, state.msg_perm.mode, state.msg_lspid == getpid());
    state.msg_qbytes = 100;
    row("IPC_SET", msgctl(id, IPC_SET, &state));
    row("msgsnd beyond the limit", (msgsnd(id, &one, 60, IPC_NOWAIT), msgsnd(id, &one, 60, IPC_NOWAIT)));
    row("MSG_STAT", msgctl(id, MSG_STAT, &state) == id);
    struct msginfo limits;
    row("MSG_INFO", msgctl(0, MSG_INFO, (void *)&limits) >= 0);
    row("unknown command", msgctl(id, 99, NULL));
    row("IPC_RMID", msgctl(id, IPC_RMID, NULL));
    row("msgsnd removed", msgsnd(id, &one, 5, 0));
    row("msgrcv removed", msgrcv(id, &got, 5, 0, 0));
    int keyed = (int)given("msgget key", msgget(key, IPC_CREAT | IPC_EXCL | 0600));
    row("msgget exclusive", msgget(key, IPC_CREAT | IPC_EXCL | 0600));
    row("msgget the same", msgget(key, IPC_CREAT | 0600) == keyed);
    row("msgget found", msgget(key, 0) == keyed);
    row("IPC_RMID", msgctl(keyed, IPC_RMID, NULL));
    row("msgget missing", msgget(key, 0));
}

static long mq(const char *name, int flags, int mode, void *attributes) { return syscall(SYS_mq_open, name, flags, mode, attributes); }

static void named_queues(void) {
    struct mq_attr small = {.mq_maxmsg = 2, .mq_msgsize = 16}, seen, bad = {.mq_maxmsg = -1, .mq_msgsize = 16};
    struct stat st;
    char text[64], longest[300];
    memset(longest, 'a', sizeof longest - 1);
    longest[299] = 0;
    row("mq_open missing", mq(queue_name, O_RDWR, 0, NULL));
    umask(027);
    int fd = (int)given("mq_open new", mq(queue_name, O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK, 0666, &small)), status;
    fstat(fd, &st);
    printf("  mode=%o uid=%u flags=%#x descriptor=%d\n", st.st_mode, st.st_uid, (unsigned)fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
    row("mq_open exclusive", mq(queue_name, O_RDWR | O_CREAT | O_EXCL, 0666, NULL));
    int again = (int)given("mq_open again", mq(queue_name, O_RDWR | O_CREAT, 0, NULL));
    given("mq_open with bad attributes", mq(queue_name, O_RDWR | O_CREAT, 0, &bad));
    given("mq_open for writing", mq(queue_name, O_WRONLY, 0, NULL));
    row("mq_open bad access", mq(queue_name, 3, 0, NULL));
    row("mq_getattr", mq_getattr(fd, &seen));
    printf("  %ld %ld %ld %ld\n", seen.mq_flags, seen.mq_maxmsg, seen.mq_msgsize, seen.mq_curmsgs);
    row("mq_send", mq_send(fd, "one", 3, 1));
    row("mq_send", mq_send(fd, "second", 6, 5));
    row("mq_send full", mq_send(fd, "third", 5, 1));
    row("mq_receive", mq_receive(fd, text, 64, NULL));
    if (fork() == 0) _exit(mq_receive((int)mq(queue_name, O_RDONLY, 0, NULL), text, 64, NULL) == 3 ? 7 : 1);
    wait(&status);
    row("a child receives", WEXITSTATUS(status));
    row("mq_receive empty", mq_receive(fd, text, 64, NULL));
    alarm_soon();
    row("mq_receive interrupted", mq_receive(again, text, 64, NULL));
    const char *names[] = {"", ".", "..", "a/b", "/x", longest};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        row("mq_open odd name", mq(names[i], O_RDWR, 0, NULL));
        row("mq_open odd new name", mq(names[i], O_RDWR | O_CREAT, 0600, NULL));
        row("mq_unlink odd name", syscall(SYS_mq_unlink, names[i]));
    }
    row("mq_open name faults", mq((void *)8, O_RDWR, 0, NULL));
    row("mq_open attributes fault", mq(queue_name, O_RDWR, 0, (void *)8));
    row("mq_unlink faults", syscall(SYS_mq_unlink, (void *)8));
    struct rlimit few, before;
    getrlimit(RLIMIT_NOFILE, &before);
    few = before, few.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &few);
    row("mq_open without a descriptor left", mq(queue_name, O_RDWR, 0, NULL));
    row("mq_open odd name without a descriptor left", mq("", O_RDWR, 0, NULL));
    setrlimit(RLIMIT_NOFILE, &before);
    row("mq_unlink", syscall(SYS_mq_unlink, queue_name));
    row("mq_unlink again", syscall(SYS_mq_unlink, queue_name));
    row("mq_open unlinked", mq(queue_name, O_RDWR, 0, NULL));
    row("mq_send unlinked", mq_send(fd, "still", 5, 1));
    row("mq_open bad attributes", mq(queue_name, O_RDWR | O_CREAT, 0600, &bad));
    fd = (int)given("mq_open new without attributes", mq(queue_name, O_RDWR | O_CREAT, 0, NULL));
    row("mq_open without a mode", mq(queue_name, O_RDWR, 0, NULL));
    row("mq_unlink without a mode", syscall(SYS_mq_unlink, queue_name));
}

static void foreign(int shm, int sem, int msg) {
    struct shmid_ds memory;
    struct sembuf up = {0, 1, 0}, beyond = {9, 1, 0}, many[600];
    struct text one = {1, "x"}, none = {0, "x"};
    struct timespec bad = {0, -1};
    memset(many, 0, sizeof many);
    memset(&memory, 0, sizeof memory);
    given("shmget", shm_get(key, 0, 0600));
    given("shmget without access", shm_get(key, 0, 0));
    given("shmget read", shm_get(key, 0, 0400));
    given("shmget create", shm_get(key, 100, IPC_CREAT | 0600));
    given("shmget create without access", shm_get(key, 100, IPC_CREAT));
    row("shmget exclusive", shm_get(key, 100, IPC_CREAT | IPC_EXCL | 0600));
    row("shmget too large", shm_get(key, 100000, 0600));
    given("shmat", shm_at(shm, NULL, 0));
    given("shmat read-only", shm_at(shm, NULL, SHM_RDONLY));
    row("shmat misaligned", shm_at(shm, (void *)9, 0));
    row("shmat remap nowhere", shm_at(shm, NULL, SHM_REMAP));
    row("shm IPC_STAT", shmctl(shm, IPC_STAT, &memory));
    row("shm IPC_STAT fault", shmctl(shm, IPC_STAT, (void *)8));
    given("SHM_STAT", shmctl(shm, SHM_STAT, &memory));
    row("shm IPC_SET", shmctl(shm, IPC_SET, &memory));
    row("shm IPC_SET fault", shmctl(shm, IPC_SET, (void *)8));
    row("SHM_LOCK", shmctl(shm, SHM_LOCK, NULL));
    row("SHM_UNLOCK", shmctl(shm, SHM_UNLOCK, NULL));
    row("shm unknown", shmctl(shm, 99, NULL));
    given("semget", semget(key, 0, 0600));
    given("semget without access", semget(key, 0, 0));
    row("semget more", semget(key, 9, 0600));
    row("semget exclusive", semget(key, 1, IPC_CREAT | IPC_EXCL | 0600));
    row("semop", semop(sem, &up, 1));
    row("semop beyond", semop(sem, &beyond, 1));
    row("semop fault", semop(sem, (void *)8, 1));
    row("semop nothing", semop(sem, &up, 0));
    row("semop too many", semop(sem, many, 600));
    row("semtimedop time faults", semtimedop(sem, &up, 1, (void *)8));
    row("semtimedop bad time", semtimedop(sem, &up, 1, &bad));
    const int commands[] = {GETVAL, GETPID, GETNCNT, GETZCNT};
    for (size_t i = 0; i < 4; i++) {
        row("sem value", sem_ctl(sem, 0, commands[i], NULL));
        row("sem value beyond", sem_ctl(sem, 9, commands[i], NULL));
    }
    row("SETVAL", sem_ctl(sem, 0, SETVAL, (void *)1));
    row("SETVAL too large", sem_ctl(sem, 0, SETVAL, (void *)40000));
    row("SETVAL beyond", sem_ctl(sem, 9, SETVAL, (void *)1));
    row("GETALL fault", sem_ctl(sem, 0, GETALL, (void *)8));
    row("SETALL fault", sem_ctl(sem, 0, SETALL, (void *)8));
    row("sem IPC_STAT", sem_ctl(sem, 0, IPC_STAT, (void *)8));
    given("SEM_STAT", sem_ctl(sem, 0, SEM_STAT, (void *)8));
    row("sem IPC_SET", sem_ctl(sem, 0, IPC_SET, (void *)8));
    row("sem unknown", sem_ctl(sem, 0, 99, NULL));
    given("msgget", msgget(key, 0600));
    given("msgget without access", msgget(key, 0));
    row("msgget exclusive", msgget(key, IPC_CREAT | IPC_EXCL | 0600));
    row("msgsnd", msgsnd(msg, &one, 1, IPC_NOWAIT));
    row("msgsnd type 0", msgsnd(msg, &none, 1, 0));
    row("msgsnd fault", msgsnd(msg, (void *)8, 1, 0));
    row("msgsnd too long", msgsnd(msg, &one, 1 << 20, 0));
    row("msgrcv", msgrcv(msg, &one, 64, 0, IPC_NOWAIT));
    row("msgrcv copy", msgrcv(msg, &one, 64, 0, MSG_COPY));
    row("msgrcv copy at once", msgrcv(msg, &one, 64, 0, MSG_COPY | IPC_NOWAIT));
    row("msgrcv -1 bytes", msgrcv(msg, &one, (size_t)-1, 0, 0));
    row("msg IPC_STAT", msgctl(msg, IPC_STAT, (void *)8));
    given("MSG_STAT", msgctl(msg, MSG_STAT, (void *)8));
    row("msg IPC_SET", msgctl(msg, IPC_SET, (void *)8));
    row("msg unknown", msgctl(msg, 99, NULL));
    given("mq_open", mq(queue_name, O_RDONLY | O_NONBLOCK, 0, NULL));
    given("mq_open create", mq(queue_name, O_RDWR | O_CREAT, 0600, NULL));
    row("mq_open exclusive", mq(queue_name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL));
    row("mq_unlink", syscall(SYS_mq_unlink, queue_name));
    row("mq_unlink missing", syscall(SYS_mq_unlink, "cg-none-of-this-name"));
    row("shm IPC_RMID", shmctl(shm, IPC_RMID, NULL));
    row("sem IPC_RMID", sem_ctl(sem, 0, IPC_RMID, NULL));
    row("msg IPC_RMID", msgctl(msg, IPC_RMID, NULL));
}

static void make(void) {
    int shm = shm_get(key, 100, IPC_CREAT | IPC_EXCL | 0600), sem = semget(key, 2, IPC_CREAT | IPC_EXCL | 0600),
        msg = msgget(key, IPC_CREAT | IPC_EXCL | 0600), fd = (int)mq(queue_name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
    struct text one = {1, "secret"};
    if (shm < 0 || sem < 0 || msg < 0 || fd < 0) exit(2);
    strcpy((char *)shm_at(shm, NULL, 0), "secret");
    if (sem_ctl(sem, 0, SETVAL, (void *)42) != 0 || msgsnd(msg, &one, 6, 0) != 0 || mq_send(fd, "secret", 6, 0) != 0) exit(2);
    printf("%d %d %d\n", shm, sem, msg);
}

static void show(int shm, int sem, int msg) {
    struct text got = {0, ""};
    struct mq_attr state = {.mq_curmsgs = -1};
    char *at = (char *)shm_at(shm, NULL, SHM_RDONLY);
    struct shmid_ds memory;
    memset(&memory, 0, sizeof memory);
    shmctl(shm, IPC_STAT, &memory);
    mq_getattr((int)mq(queue_name, O_RDONLY, 0, NULL), &state);
    printf("memory %s mode %o semaphore %d message %ld queue %ld\n", at == (char *)-1 ? "?" : at, memory.shm_perm.mode,
           sem_ctl(sem, 0, GETVAL, NULL), (long)msgrcv(msg, &got, 64, 0, MSG_COPY | IPC_NOWAIT), state.mq_curmsgs);
}

static void drop(void) {
    shmctl(shm_get(key, 0, 0), IPC_RMID, NULL);
    sem_ctl(semget(key, 0, 0), 0, IPC_RMID, NULL);
    msgctl(msgget(key, 0), IPC_RMID, NULL);
    syscall(SYS_mq_unlink, queue_name);
}

static void *get_them(void *unused) {
    long wrong = 0;
    (void)unused;
    for (int i = 0; i < 300; i++) {
        int id = shm_get(key, 100, IPC_CREAT | 0600);
        if (id < 0 || (shm_at(id, NULL, 0) == -1 && errno != EINVAL && errno != EIDRM)) wrong++;
        if (i % 7 == 0) shmctl(id, IPC_RMID, NULL);
        int fd = (int)mq(queue_name, O_RDWR | O_CREAT, 0600, NULL);
        if (fd < 0) wrong++;
        if (i % 5 == 0) syscall(SYS_mq_unlink, queue_name);
        close(fd);
    }
    return (void *)wrong;
}

static void together(void) {
    pthread_t threads[8];
    long wrong = 0;
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, get_them, NULL);
    for (int i = 0; i < 8; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong += (long)result;
    }
    printf("wrong %ld\n", wrong);
}

int main(int argc, char **argv) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2];
    memset(none, 0, sizeof none);
    if (syscall(SYS_capset, &header, none) != 0) perror("capset");
    if (argc < 3) return 2;
    const char *mode = argv[1];
    char byte;
    if (strcmp(mode, "keep") == 0) {
        if (shm_at(atoi(argv[2]), NULL, 0) == -1) return 1;
        printf("ready\n");
        fflush(stdout);
        return read(0, &byte, 1) < 0;
    }
    key = (key_t)strtol(argv[2], NULL, 0);
    queue_name = argv[3];
    int ids[3] = {0, 0, 0};
    for (int i = 4; i < argc && i < 7; i++) ids[i - 4] = atoi(argv[i]);
    if (strcmp(mode, "own") == 0) shared_memory(), semaphores(), queues(), named_queues();
    if (strcmp(mode, "make") == 0) make();
    if (strcmp(mode, "foreign") == 0) foreign(ids[0], ids[1], ids[2]);
    if (strcmp(mode, "show") == 0) show(ids[0], ids[1], ids[2]);
    if (strcmp(mode, "remove") == 0) drop();
    if (strcmp(mode, "together") == 0) together();
    if (strcmp(mode, "leave") == 0) {
        make();
        printf("ready\n");
        fflush(stdout);
        return read(0, &byte, 1) < 0;
    }
    return 0;
}
