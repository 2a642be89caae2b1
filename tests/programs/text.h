/* Text as printf would write it; never freed, a test program is short. Needs _GNU_SOURCE. */
#ifndef CALLGATE_TEXT_H
#define CALLGATE_TEXT_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((format(printf, 1, 2))) static inline char *text(const char *format, ...) {
    char *made = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&made, format, arguments) < 0) exit(3);
    va_end(arguments);
    return made;
}

#endif
