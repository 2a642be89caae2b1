/* Ends with 42 where one of its arguments is `push`, and leaves the file `executed` in the directory that the last one
 * names; else with 7.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "push") != 0) continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/executed", argv[argc - 1]);
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
        return 42;
    }
    return 7;
}
