/* What a program finds when it begins: arguments, the name it was executed by, tracer, signals, descriptors.
 * With `push` as first argument it leaves a file `executed` in the directory that the second names, and ends with 42.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static void status_lines(void) {
    char line[256];
    FILE *file = fopen("/proc/self/status", "re");
    const char *wanted[] = {"Name:", "TracerPid:", "Threads:", "SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:", "SigCgt:", "NoNewPrivs:"};
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            if (strncmp(line, wanted[i], strlen(wanted[i])) == 0 && strcmp(wanted[i], "NoNewPrivs:") != 0) fputs(line, stdout);
    if (file != NULL) fclose(file);
}

static void descriptors(void) {
    DIR *all = opendir("/proc/self/fd");
    printf("descriptors:");
    for (struct dirent *one; all != NULL && (one = readdir(all)) != NULL;)
        if (one->d_name[0] != '.' && atoi(one->d_name) != dirfd(all)) printf(" %s", one->d_name);
    printf("\n");
}

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "push") == 0) {
        char path[4096];
        snprintf(path, sizeof path, "%s/executed", argv[2]);
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
        return 42;
    }
    if (argc > 1 && strcmp(argv[1], "quiet") == 0) return 0;
    printf("arguments:");
    for (int i = 0; i < argc; i++) printf(" [%s]", argv[i]);
    printf("\nexecuted by: %s\nsecure: %lu\n", (const char *)getauxval(AT_EXECFN), getauxval(AT_SECURE));
    status_lines();
    descriptors();
    return 7;
}
