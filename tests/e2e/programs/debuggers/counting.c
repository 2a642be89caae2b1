#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int total;

static void add(int number) { total += number; }

int main(int argc, char** argv) {
    for (int n = 1; n < argc; ++n) add(atoi(argv[n]));
    printf("total %d\n", total);
    fflush(stdout);
    if (argc == 1) {
        /* What is attached to: it waits for its input to end. */
        char byte;
        printf("waits\n");
        fflush(stdout);
        while (read(0, &byte, 1) > 0) total += byte;
    }
    return total % 100;
}
