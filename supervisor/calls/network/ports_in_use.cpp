#include "supervisor/calls/network/ports_in_use.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>

namespace callgate::calls {

namespace {

constexpr unsigned listening = 10;  // TCP_LISTEN of net/tcp_states.h

/// An address as four words in network order; of IPv4 the last one, as it is mapped.
using Words = std::array<std::uint32_t, 4>;

Words mapped(std::uint32_t ipv4) { return {0, 0, htonl(0xffff), ipv4}; }
bool is_mapped(const Words& words) { return words[0] == 0 && words[1] == 0 && words[2] == htonl(0xffff); }
bool is_any(const Words& words) { return words == Words{} || words == mapped(0); }

Words words_of(const SocketAddress& address) {
    if (address.family() != AF_INET6) {
        sockaddr_in ipv4{};
        std::memcpy(&ipv4, address.bytes.data(), sizeof ipv4);
        return mapped(ipv4.sin_addr.s_addr);
    }
    sockaddr_in6 ipv6{};
    std::memcpy(&ipv6, address.bytes.data(), sizeof ipv6);
    Words words;
    std::memcpy(words.data(), &ipv6.sin6_addr, sizeof words);
    return words;
}

bool overlap(const Words& one, const Words& other) {
    if (one == other || one == Words{} || other == Words{}) return true;
    return (is_any(one) && is_mapped(other)) || (is_any(other) && is_mapped(one));
}

struct Socket {
    Words address{};
    unsigned port = 0, state = 0;
};

/// Reads "  sl: ADDRESS:PORT REMOTE:PORT STATE ...", with the words of the address in host byte order.
bool parse(const char* line, Socket& socket) {
    char address[33] = {};
    if (std::sscanf(line, "%*d: %32[0-9A-F]:%4X %*[0-9A-F]:%*4X %2X", address, &socket.port, &socket.state) !=
        3)
        return false;
    std::array<unsigned, 4> words{};
    if (std::sscanf(address, "%8X%8X%8X%8X", &words[0], &words[1], &words[2], &words[3]) == 4) {
        socket.address = words;
    } else {
        socket.address = mapped(words[0]);
    }
    return true;
}

bool taken_in(const char* table, bool only_listening, const Words& address, unsigned port) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> lines(std::fopen(table, "re"), &std::fclose);
    if (!lines) return false;
    char line[512];
    while (std::fgets(line, sizeof line, lines.get()) != nullptr) {
        Socket socket;
        if (!parse(line, socket) || socket.port != port) continue;
        if (only_listening && socket.state != listening) continue;
        if (overlap(socket.address, address)) return true;
    }
    return false;
}

}  // namespace

bool port_is_taken(const SocketKind& kind, const SocketAddress& address) {
    const unsigned port = address.port();
    if (port == 0) return false;
    const Words words = words_of(address);
    const bool datagrams = kind.type == SOCK_DGRAM;
    return taken_in(datagrams ? "/proc/net/udp" : "/proc/net/tcp", !datagrams, words, port) ||
           taken_in(datagrams ? "/proc/net/udp6" : "/proc/net/tcp6", !datagrams, words, port);
}

}  // namespace callgate::calls
