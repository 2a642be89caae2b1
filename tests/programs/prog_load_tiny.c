/* Ends with the status that its argument names. The load test links it statically: starting it is nearly all it does. */
int main(int argc, char **argv) {
    int status = 0;
    for (const char *digit = argc > 1 ? argv[1] : ""; *digit >= '0' && *digit <= '9'; digit++) status = status * 10 + (*digit - '0');
    return status;
}
