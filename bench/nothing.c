/* What is started where only starting is measured. */
int main(void) { return 0; }
