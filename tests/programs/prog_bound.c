/* Binds a unix socket by the name NAME, and then prints FILE: what a server that reads its settings does.
 *
 *   prog_bound NAME FILE
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "socket_names.h"

int main(int count, char **words) {
    if (count != 3) return 2;
    struct sockaddr_un name;
    socklen_t length = named(&name, words[1]);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, length) != 0 || listen(fd, 1) != 0) {
        printf("bind %s: %s\n", words[1], strerror(errno));
        return 1;
    }
    printf("bound %s\n", words[1]);
    FILE *file = fopen(words[2], "re");
    char line[100];
    if (!file) printf("%s: %s\n", words[2], strerror(errno));
    while (file && fgets(line, sizeof line, file)) fputs(line, stdout);
    return file ? 0 : 1;
}
