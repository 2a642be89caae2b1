// `callgate exec --http`: the job server of --serve, with a front that speaks HTTP for it.
//
// Opens the listener and starts the front (front.hpp) before any job runs. This process reads nothing that a
// client wrote but what the front passes on: lines of the job protocol. The server reads them as from anyone.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "base/expected.hpp"
#include "base/unique_fd.hpp"
#include "supervisor/jobs/http/front.hpp"
#include "supervisor/jobs/http/tls.hpp"
#include "supervisor/jobs/server.hpp"

namespace callgate::jobs::http {

struct Listener {
    UniqueFd socket;
    std::string shown;      // "https://127.0.0.1:8080", "unix:/run/callgate.sock"
    std::string path;       // of a unix socket; "" for TCP
    std::string address;    // of TCP: "127.0.0.1:8080"
    bool loopback = false;  // of TCP: only this machine reaches it
    ino_t inode = 0;        // of `path`
};

/// `address` is ADDRESS:PORT, localhost:PORT or unix:PATH. A port 0 is any free one. A unix socket is the
/// caller's alone. One that nobody serves is replaced. `scheme` is that of the URL of a TCP address.
[[nodiscard]] Expected<Listener> listen(std::string_view address, std::string_view scheme);

/// Reads what a token is made of; `text` is the file's. Fails where it is short, or a path could not hold it.
[[nodiscard]] Expected<std::string> read_token(std::string text);

/// Serves until a signal, then takes no more jobs, lets those that run end within `drain`, and returns. Calls
/// `ready` when signals do so. Fails where the front could not start, or where it or callgate-tls has ended
/// by itself. `tls` is null where the front itself accepts connections.
[[nodiscard]] Expected<End> serve(const Settings& settings, const Listener& listener,
                                  const FrontSettings& front, Tls* tls, std::chrono::milliseconds drain,
                                  const std::function<void()>& ready);

}  // namespace callgate::jobs::http
