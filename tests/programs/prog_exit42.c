/* Leaves the file `executed` in the directory that its last argument names and ends with 42, so that whether it ran is seen from outside. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char path[4096];
    if (argc > 1 && snprintf(path, sizeof path, "%s/executed", argv[argc - 1]) > 0) close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    return 42;
}
