/* Makes files DIRECTORY/0, 1, 2, ... without pause until COUNT (0: until killed), each holding its own number. Says `ready`
 * after the first and `refused N: ERROR` at the first that cannot be made, then ends with 3.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    long count = atol(argv[2]);
    for (long i = 0; count == 0 || i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%ld", argv[1], i);
        int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
        if (fd < 0) {
            printf("refused %ld: %s\n", i, strerror(errno));
            return 3;
        }
        if (dprintf(fd, "%ld", i) < 0) return 4;
        close(fd);
        if (i == 0) {
            printf("ready\n");
            fflush(stdout);
        }
    }
    printf("done\n");
    return 0;
}
