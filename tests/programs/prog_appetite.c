// Programs that want more than they are given, each in one shape: memory, processes, processor time, disk
// space, or nothing at all. What it prints is what it got before it was ended.
//
// usage: prog_appetite SHAPE [NUMBER [NUMBER]]
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

enum { MB = 1 << 20 };

static void fail(const char* what) {
    perror(what);
    exit(1);
}

static void wait_for_ever(void) {
    for (;;) pause();
}

// Each of `children` takes its part of what grows by `rate` MB a second altogether, for ever.
static void memory(int children, int rate) {
    for (int child = 0; child < children; ++child) {
        const pid_t pid = fork();
        if (pid < 0) fail("fork");
        if (pid != 0) continue;
        const double began = now();
        for (long taken = 0;; ++taken) {
            const double due = began + (double)taken * children / rate;
            while (now() < due) usleep(1000);  // the pace is what is asked for
            char* const block = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (block == MAP_FAILED) fail("mmap");
            memset(block, 1, MB);
        }
    }
    while (wait(NULL) > 0) {
    }
}

// `megabytes` that no process maps.
static void memory_file(int megabytes) {
    const int fd = memfd_create("hidden", 0);
    static char block[MB];
    memset(block, 1, sizeof block);
    for (int done = 0; done < megabytes; ++done)
        if (write(fd, block, sizeof block) != sizeof block) fail("write");
    puts("hidden");
    fflush(stdout);
    wait_for_ever();
}

static char block_of_ones[MB];

// A memory file of 16 MB.
static int filled_file(void) {
    const int fd = memfd_create("hidden", 0);
    memset(block_of_ones, 1, sizeof block_of_ones);
    for (int done = 0; done < 16; ++done)
        if (write(fd, block_of_ones, MB) != MB) fail("write");
    return fd;
}

static void hidden(void) {
    puts("hidden");
    fflush(stdout);
    wait_for_ever();
}

// Sends the descriptor and closes it.
static void send_away(int socket, int fd) {
    char byte = 1, control[CMSG_SPACE(sizeof fd)];
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(socket, &message, 0) != 1) fail("sendmsg");
    close(fd);
}

// `megabytes` in memory files that are in flight: no process has a descriptor of them.
static void flight(int megabytes) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) fail("socketpair");
    for (int done = 0; done < megabytes; done += 16) send_away(ends[0], filled_file());
    hidden();
}

// The same in connections that nobody has accepted.
static void backlog(int megabytes) {
    const struct sockaddr_un any = {.sun_family = AF_UNIX};
    struct sockaddr_un name;
    socklen_t length = sizeof name;
    const int server = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(server, (const struct sockaddr*)&any, sizeof(sa_family_t)) != 0 || listen(server, 64) != 0)
        fail("listen");
    if (getsockname(server, (struct sockaddr*)&name, &length) != 0) fail("getsockname");
    for (int done = 0; done < megabytes; done += 16) {
        const int client = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(client, (const struct sockaddr*)&name, length) != 0) fail("connect");
        send_away(client, filled_file());
        close(client);
    }
    hidden();
}

// `megabytes` in memory files of which a page is mapped, and no descriptor is left.
static void mapped(int megabytes) {
    for (int done = 0; done < megabytes; done += 16) {
        const int fd = filled_file();
        if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED) fail("mmap");
        close(fd);
    }
    hidden();
}

// `megabytes` of shared memory without a file, mapped as a whole, and later a page of it.
static void unmapped(int megabytes) {
    for (int done = 0; done < megabytes; done += 16) {
        char* const memory = mmap(NULL, 16 * MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) fail("mmap");
        memset(memory, 1, 16 * MB);
        munmap(memory + 4096, 16 * MB - 4096);
    }
    hidden();
}

// `megabytes` that no other process, and not the kernel, can read (memfd_secret). A page of each file stays
// mapped.
static void secret(int megabytes) {
    for (int done = 0; done < megabytes; done += 4) {
        const int fd = (int)syscall(SYS_memfd_secret, 0);
        if (fd < 0 || ftruncate(fd, 4 * MB) != 0) fail("memfd_secret");
        char* const memory = mmap(NULL, 4 * MB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory == MAP_FAILED) fail("mmap");
        memset(memory, 1, 4 * MB);
        munmap(memory, 4 * MB);
    }
    hidden();
}

// `megabytes` in memory files of a process that nobody may look into, as its program cannot be read.
static void undumpable(int megabytes) {
    for (int done = 0; done < megabytes; done += 16) filled_file();
    hidden();
}

static int wanted_megabytes;

static void* holding_thread(void* nothing) {
    if (unshare(CLONE_FILES) != 0) fail("unshare");
    for (int done = 0; done < wanted_megabytes; done += 16) filled_file();
    hidden();
    return nothing;
}

static void* only_thread(void* leader) {
    pthread_join(*(pthread_t*)leader, NULL);
    char* const memory =
        mmap(NULL, (size_t)wanted_megabytes * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    for (int done = 0; done < wanted_megabytes; ++done) memset(memory + (size_t)done * MB, 1, MB);
    hidden();
    return NULL;
}

// `megabytes` in memory files of a thread that has descriptors of its own.
static void unshared(int megabytes) {
    pthread_t thread;
    wanted_megabytes = megabytes;
    if (pthread_create(&thread, NULL, holding_thread, NULL) != 0) fail("pthread_create");
    wait_for_ever();
}

// `megabytes` of a process whose first thread has ended.
static void leaderless(int megabytes) {
    static pthread_t leader, thread;
    leader = pthread_self(), wanted_megabytes = megabytes;
    if (pthread_create(&thread, NULL, only_thread, &leader) != 0) fail("pthread_create");
    pthread_exit(NULL);
}

// `megabytes` of POSIX shared memory that no process has open.
static void named(int megabytes) {
    memset(block_of_ones, 1, sizeof block_of_ones);
    for (int done = 0; done < megabytes; done += 16) {
        char name[64];
        snprintf(name, sizeof name, "/psm_appetite-%d-%d", (int)getpid(), done);
        const int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        for (int part = 0; part < 16; ++part)
            if (write(fd, block_of_ones, MB) != MB) fail("shm_open");
        close(fd);
    }
    hidden();
}

// `megabytes` in /dev/shm: beneath many directories (`deep`), or in one that cannot be listed.
static void apart(int megabytes, int deep) {
    char name[64];
    snprintf(name, sizeof name, "/dev/shm/psm_appetite-%d", (int)getpid());
    if (mkdir(name, 0700) != 0 || chdir(name) != 0) fail(name);
    for (int level = 0; level < deep; ++level)
        if (mkdir("d", 0700) != 0 || chdir("d") != 0) fail("d");
    if (deep == 0 && chmod(name, 0300) != 0) fail("chmod");
    memset(block_of_ones, 1, sizeof block_of_ones);
    const int fd = open("file", O_WRONLY | O_CREAT | O_EXCL, 0600);
    for (int done = 0; done < megabytes; ++done)
        if (write(fd, block_of_ones, MB) != MB) fail("file");
    close(fd);
    hidden();
}

// `megabytes` in the targets of symbolic links beneath a directory in /dev/shm. Each has a page. They stay.
static void links(int megabytes) {
    static char target[4000];
    char name[64];
    memset(target, 'x', sizeof target - 1);
    snprintf(name, sizeof name, "/dev/shm/psm_appetite-%d", (int)getpid());
    if (mkdir(name, 0700) != 0 || chdir(name) != 0) fail(name);
    for (int done = 0; done < megabytes * (MB / 4096); ++done) {
        snprintf(name, sizeof name, "%d", done);
        if (symlink(target, name) != 0) fail("symlink");
    }
    puts("made");
    exit(0);
}

// `megabytes` of a System V segment that is touched and left.
static void segment(int megabytes) {
    for (int done = 0; done < megabytes; done += 16) {
        const int id = shmget(IPC_PRIVATE, 16 * MB, 0600 | IPC_CREAT);
        char* const memory = id < 0 ? (void*)-1 : shmat(id, NULL, 0);
        if (memory == (void*)-1) fail("shm");
        memset(memory, 1, 16 * MB);
        shmdt(memory);
    }
    puts("hidden");
    fflush(stdout);
    wait_for_ever();
}

// `megabytes`, lent for a while to a process that is about to execute something. Ends well.
static void lent(int megabytes) {
    char* const memory =
        mmap(NULL, (size_t)megabytes * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    memset(memory, 1, (size_t)megabytes * MB);
    const pid_t child = vfork();
    if (child == 0) {
        poll(NULL, 0, 300);  // the sampler has this time
        _exit(0);
    }
    if (waitpid(child, NULL, 0) != child) fail("waitpid");
    puts("lent");
}

// `children` that share `megabytes`: much resident memory, little used. Ends well.
static void shared(int children, int megabytes) {
    const size_t size = (size_t)megabytes * MB;
    char* const memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ready[2], go[2];
    if (memory == MAP_FAILED || pipe(ready) != 0 || pipe(go) != 0) fail("shared");
    memset(memory, 1, size);
    for (int child = 0; child < children; ++child) {
        if (fork() != 0) continue;
        long sum = 0;
        for (size_t at = 0; at < size; at += 4096) sum += memory[at];
        char byte = sum != 0;
        if (write(ready[1], &byte, 1) != 1 || (close(go[1]), read(go[0], &byte, 1)) != 0) _exit(1);
        _exit(0);
    }
    char byte;
    for (int child = 0; child < children; ++child)
        if (read(ready[0], &byte, 1) != 1) fail("read");
    // All hold it now. The sampler has as much time as this sum takes.
    const double until = now() + 1.5;
    volatile long sum = 0;
    while (now() < until) sum += memory[(size_t)sum % size];
    close(go[1]);
    while (wait(NULL) > 0) {
    }
    puts("shared");
}

static void* sleeping_thread(void* nothing) {
    wait_for_ever();
    return nothing;
}

static void take_and_give_back(int megabytes) {
    const size_t size = (size_t)megabytes * MB;
    char* const taken = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (taken == MAP_FAILED) fail("mmap");
    memset(taken, 1, size);
    munmap(taken, size);
    hidden();
}

static int to_threads[2];

static void* keeping_thread(void* nothing) {
    char byte = 0;
    if (unshare(CLONE_FILES) != 0) fail("unshare");
    if (write(to_threads[1], &byte, 1) != 1) fail("write");
    wait_for_ever();
    return nothing;
}

// `megabytes`, taken and given back while a look at the tree takes long. Each of many threads has thousands
// of sockets, and processes share so much that a look is due.
static void among_descriptors(int megabytes) {
    enum { THREADS = 100, SOCKETS = 3000, SHARED = 64 * MB, SHARING = 8 };
    struct rlimit open_files;
    pthread_attr_t small;
    pthread_t thread;
    char byte;
    getrlimit(RLIMIT_NOFILE, &open_files);
    open_files.rlim_cur = open_files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &open_files);
    if (pipe(to_threads) != 0) fail("pipe");
    const int one = socket(AF_UNIX, SOCK_STREAM, 0);
    for (int made = 0; made < SOCKETS && dup(one) >= 0; ++made) {
    }
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    for (int made = 0; made < THREADS; ++made)
        if (pthread_create(&thread, &small, keeping_thread, NULL) != 0) fail("pthread_create");
    for (int ready = 0; ready < THREADS; ++ready)
        if (read(to_threads[0], &byte, 1) != 1) fail("read");
    char* const memory = mmap(NULL, SHARED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    for (int made = 0; made < SHARING; ++made) {
        if (fork() != 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        memset(memory, 1, SHARED);
        if (write(to_threads[1], &byte, 1) != 1) fail("write");
        wait_for_ever();
    }
    for (int ready = 0; ready < SHARING; ++ready)
        if (read(to_threads[0], &byte, 1) != 1) fail("read");
    take_and_give_back(megabytes);
}

static int full_socket;

// Waits in a send of so many descriptors that nobody receives.
static void* passing_thread(void* count) {
    const size_t size = (size_t)count * sizeof(int);
    char byte = 1, control[CMSG_SPACE(253 * sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(size)};
    struct cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(size);
    while (sendmsg(full_socket, &message, 0) != 0) {
    }
    return NULL;
}

// `megabytes`, taken and given back while datagrams that wait to be sent hold very many descriptors.
static void among_passed(int megabytes) {
    static const size_t sizes[] = {253, 64, 16, 4, 1};
    enum { THREADS = 64 };
    pthread_attr_t small;
    pthread_t thread;
    int ends[2];
    char byte = 1;
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0) fail("socketpair");
    full_socket = ends[0];
    while (send(full_socket, &byte, 1, MSG_DONTWAIT) == 1) {
    }
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    for (size_t at = 0; at < sizeof sizes / sizeof *sizes; ++at)
        for (int made = 0; made < THREADS; ++made)
            if (pthread_create(&thread, &small, passing_thread, (void*)sizes[at]) != 0)
                fail("pthread_create");
    // Calls that take a descriptor of callgate's fail when it has none left.
    for (int refused = 0, looks = 0; refused < 100 && looks < 3000; ++looks) {
        const int fd = open("/dev/null", O_RDONLY);
        refused = fd < 0 ? refused + 1 : 0;
        if (fd >= 0) close(fd);
    }
    take_and_give_back(megabytes);
}

// Many for a bomb, few for a machine: where too many run already, for whatever reason, what else is running
// there must still be able to fork.
static int machine_is_full(void) {
    struct sysinfo now;
    return sysinfo(&now) == 0 && now.procs > 4000;
}

// A bomb: every process goes on making more of its kind, whatever fails.
static void bomb(const char* kind) {
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        if (machine_is_full()) {
            poll(NULL, 0, 10);  // and lets the process run that is to end it
        } else if (strcmp(kind, "fork") == 0) {
            fork();
        } else if (strcmp(kind, "vfork") == 0) {
            if (vfork() == 0) {
                execl("/proc/self/exe", "prog_appetite", "bomb", "vfork", NULL);
                _exit(1);
            }
        } else if (strcmp(kind, "threads") == 0) {
            pthread_attr_t small;
            pthread_attr_init(&small);
            pthread_attr_setstacksize(&small, 64 * 1024);
            pthread_t thread;
            pthread_create(&thread, &small, sleeping_thread, NULL);
        } else if (strcmp(kind, "double") == 0) {
            if (fork() == 0 && fork() != 0) _exit(0);
        } else if (strcmp(kind, "setsid") == 0) {
            if (fork() == 0) setsid();
        } else {
            exit(2);
        }
    }
}

static void burn(void) {
    for (volatile unsigned long n = 0;; ++n) {
    }
}

// `children` burn; with `unseen` they are short and nobody waits for them.
static void processor(int children, int unseen) {
    if (unseen) signal(SIGCHLD, SIG_IGN);
    for (int child = 0; child < children; ++child) {
        if (fork() != 0) continue;
        if (!unseen) burn();
        for (;;) {
            if (fork() == 0) {
                const double until = now() + 0.5;
                while (now() < until) {
                }
                _exit(0);
            }
            while (wait(NULL) > 0) {
            }
        }
    }
    wait_for_ever();
}

// `seconds` of processor time among `ended` processes that nobody has waited for. Ends well.
static void among_ended(int ended, int seconds) {
    for (int made = 0; made < ended && !machine_is_full(); ++made)
        if (fork() == 0) _exit(0);
    for (int used = 0; used < seconds; used += 2) {
        pid_t burning[2];
        for (int child = 0; child < 2; ++child) {
            if ((burning[child] = fork()) != 0) continue;
            while (clock() < CLOCKS_PER_SEC) {
            }
            _exit(0);
        }
        for (int child = 0; child < 2; ++child) waitpid(burning[child], NULL, 0);
    }
    puts("used");
}

// So many megabytes in the work directory, or bytes for ever: in files that are open and have no name
// (`unnamed`), that are in flight besides, that are mapped and closed, or that lie in a directory which
// cannot be listed; else in files of a megabyte.
enum { left_open = 9 };

// `megabytes` in a file that the program before has left open.
static void filling(int megabytes) {
    static char block[MB];
    memset(block, 1, sizeof block);
    for (int part = 0; part < megabytes; ++part)
        if (write(left_open, block, sizeof block) != sizeof block) fail("write");
    hidden();
}

static void disk(const char* kind, int megabytes) {
    static char block[MB];
    int ends[2];
    memset(block, 1, sizeof block);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) fail("socketpair");
    if (strcmp(kind, "unlisted") == 0 && (mkdir("folder", 0700) != 0 || chmod("folder", 0300) != 0))
        fail("folder");
    const char* const place = strcmp(kind, "unlisted") == 0 ? "folder/" : "";
    const int one = strcmp(kind, "unnamed") == 0;  // file
    const int most = megabytes > 0 ? megabytes : 1000000, several = one ? most : 1;
    for (int number = 0; number < most / several; ++number) {
        char name[32];
        snprintf(name, sizeof name, "%sfile-%d", place, number);
        const int file = open(name, O_RDWR | O_CREAT, 0600);
        if (strcmp(kind, "named") != 0 && strcmp(kind, "unlisted") != 0) unlink(name);
        if (strcmp(kind, "undumpable") == 0) {  // nobody may look into a program that cannot be read
            snprintf(name, sizeof name, "%d", most);
            if (dup2(file, left_open) == left_open)
                execl("./unreadable", "unreadable", "filling", name, NULL);
            fail("unreadable");
        }
        for (int part = 0; part < several; ++part)
            if (file < 0 || write(file, block, sizeof block) != sizeof block) fail("write");
        if (strcmp(kind, "mapped") == 0 && mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED)
            fail("mmap");
        if (strcmp(kind, "flight") == 0)
            send_away(ends[0], file);
        else if (!one)
            close(file);
    }
    hidden();
}

int main(int count, char** words) {
    const char* const shape = count > 1 ? words[1] : "";
    const int first = count > 2 ? atoi(words[2]) : 0, second = count > 3 ? atoi(words[3]) : 0;
    static const struct {
        const char* name;
        void (*take)(int megabytes);
    } shapes[] = {{"memfd", memory_file},  {"segment", segment},
                  {"flight", flight},      {"backlog", backlog},
                  {"mapped", mapped},      {"unmapped", unmapped},
                  {"secret", secret},      {"undumpable", undumpable},
                  {"unshared", unshared},  {"leaderless", leaderless},
                  {"named", named},        {"filling", filling},
                  {"links", links},        {"descriptors", among_descriptors},
                  {"passed", among_passed}};
    for (size_t at = 0; at < sizeof shapes / sizeof *shapes; ++at)
        if (strcmp(shape, shapes[at].name) == 0) shapes[at].take(first);
    if (strcmp(shape, "memory") == 0)
        memory(first, second);
    else if (strcmp(shape, "deep") == 0 || strcmp(shape, "unlisted") == 0)
        apart(first, strcmp(shape, "deep") == 0 ? 300 : 0);
    else if (strcmp(shape, "lent") == 0)
        lent(first);
    else if (strcmp(shape, "shared") == 0)
        shared(first, second);
    else if (strcmp(shape, "bomb") == 0 && count > 2)
        bomb(words[2]);
    else if (strcmp(shape, "cpu") == 0)
        processor(first, second);
    else if (strcmp(shape, "ended") == 0)
        among_ended(first, second);
    else if (strcmp(shape, "disk") == 0 && count > 2)
        disk(words[2], second);
    else if (strcmp(shape, "idle") == 0)
        wait_for_ever();
    else if (strcmp(shape, "ticking") == 0)
        for (;;) {
            if (write(1, ".", 1) != 1) return 1;
            usleep(50000);
        }
    else
        return 2;
    return 0;
}
