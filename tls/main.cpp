// callgate-tls: ends TLS for `callgate exec --http --tls-cert FILE --tls-key FILE`, which starts it.
//
// A process of its own, and the only one that links OpenSSL. It stands between the listener and the front,
// and has the key. The front gets plain HTTP and never the key. This process never runs a job, and does not
// know the token until a client sends it.
//
// A client controls every byte that OpenSSL parses (client.hpp, context.hpp), and how many connections there
// are (terminator.hpp). If it takes the process over, it has the key and what all clients send and get. It
// can open, execute and connect nothing: the filter kills it for trying (relay/confine.hpp).
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "relay/confine.hpp"
#include "tls/context.hpp"
#include "tls/protocol.hpp"
#include "tls/terminator.hpp"

namespace {

/// The calls of OpenSSL on a socket and for random numbers, and those that hand connections over.
constexpr std::array<std::uint32_t, 6> further_calls = {SYS_read,   SYS_write,   SYS_getrandom,
                                                        SYS_getpid, SYS_sendmsg, SYS_socketpair};

bool report(const std::string& text) {
    using namespace callgate::tls;
    return ::send(control_descriptor, text.data(), std::min(text.size(), max_report), MSG_NOSIGNAL) >= 0;
}

/// Opaque from the beginning, so that nobody reads the key from its memory.
int serve() {
    using namespace callgate;
    std::signal(SIGPIPE, SIG_IGN);
    if (::prctl(PR_SET_DUMPABLE, 0UL, 0UL, 0UL, 0UL) != 0) return 125;
    auto context = tls::make_context(tls::certificate_descriptor, tls::key_descriptor);
    if (!context) {
        static_cast<void>(report(context.error().text));
        return 125;
    }
    ::close(tls::certificate_descriptor);
    ::close(tls::key_descriptor);
    tls::Terminator terminator(std::move(*context));
    if (!terminator.prepare() || !relay::confine_front(further_calls) || !report({tls::ready})) return 125;
    terminator.serve();
    return 0;
}

}  // namespace

int main() {
    int kind = 0;
    socklen_t size = sizeof kind;
    if (::getsockopt(callgate::tls::control_descriptor, SOL_SOCKET, SO_TYPE, &kind, &size) != 0 ||
        kind != SOCK_SEQPACKET) {
        std::fputs("callgate-tls is a part of callgate exec --http ADDRESS --tls-cert FILE --tls-key FILE\n",
                   stderr);
        return 125;
    }
    return serve();
}
