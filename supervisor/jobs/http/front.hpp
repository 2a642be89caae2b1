// The front of `callgate exec --http`: a process that reads HTTP from strangers and passes jobs to the
// server.
//
// The server is a `callgate exec --serve` in all but its input: the front's end of a socket pair. The front
// opens nothing, executes nothing and connects nowhere. A filter kills it for trying, and its Landlock domain
// grants nothing (relay/confine.hpp). A front that is taken over can run jobs, which is what its clients may
// do anyway. It can read the bodies of other clients' jobs and the token.
//
// A client controls every byte, its timing, and how many connections there are. So heads, bodies, connections
// and the time for each are bounded. A body is read only after the head showed the token. At most so many
// connections are held; then the one that has waited longest for its request gives way. Every job that the
// server took is answered once. Where its client has gone, the job is cancelled and its answer is dropped.
#pragma once

#include <cstddef>
#include <string>

namespace callgate::jobs::http {

/// Descriptors that the front is started with. With TLS the listener is the socket over which callgate-tls
/// hands over connections, of which it reads plain HTTP (tls/protocol.hpp).
inline constexpr int jobs_descriptor = 3, listener_descriptor = 4, settings_descriptor = 5;

/// The word that starts the front: `callgate http-front`.
inline constexpr const char* front_word = "http-front";

/// The front reads them as JSON.
struct FrontSettings {
    std::string token;         // "": none is asked for
    bool no_browsers = false;  // refuse what a page in a browser could send without being asked
    std::size_t jobs = 1;      // that run at a time
    bool tls = false;
};
[[nodiscard]] std::string text_of(const FrontSettings& settings);

/// The whole process: takes the descriptors, confines itself, and serves until the server's end. Returns the
/// exit status: 0 after that, 125 if it cannot confine itself, or callgate-tls has ended.
[[nodiscard]] int run_front();

}  // namespace callgate::jobs::http
