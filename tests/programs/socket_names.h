/* Socket addresses from text, for programs that connect, send or are reached. */
#ifndef CALLGATE_SOCKET_NAMES_H
#define CALLGATE_SOCKET_NAMES_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static inline struct sockaddr_in v4(const char *address, int port) {
    struct sockaddr_in one;
    memset(&one, 0, sizeof one);
    one.sin_family = AF_INET;
    one.sin_port = htons((unsigned short)port);
    inet_pton(AF_INET, address, &one.sin_addr);
    return one;
}

static inline struct sockaddr_in6 v6(const char *address, int port) {
    struct sockaddr_in6 one;
    memset(&one, 0, sizeof one);
    one.sin6_family = AF_INET6;
    one.sin6_port = htons((unsigned short)port);
    inet_pton(AF_INET6, address, &one.sin6_addr);
    return one;
}

/* A pathname, or with a leading '@' an abstract name; cut where it is too long. Returns the address's length. */
static inline socklen_t named(struct sockaddr_un *one, const char *path) {
    memset(one, 0, sizeof *one);
    one->sun_family = AF_UNIX;
    size_t length = strlen(path);
    if (length >= sizeof one->sun_path) length = sizeof one->sun_path - 1;
    memcpy(one->sun_path, path, length);
    if (path[0] == '@') one->sun_path[0] = 0;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (path[0] != '@'));
}

/* The port that an IPv4 or IPv6 socket is bound to; -1: none. */
static inline int port_of(int fd) {
    struct sockaddr_in6 where;
    socklen_t length = sizeof where;
    if (getsockname(fd, (struct sockaddr *)&where, &length) != 0) return -1;
    return ntohs(where.sin6_port);
}

#endif
