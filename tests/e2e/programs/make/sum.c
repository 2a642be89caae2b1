#include <stdio.h>

int f1(void);
int f20(void);

int main(void) {
    printf("%d\n", f1() + f20());
    return 0;
}
