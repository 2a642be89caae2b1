// callgate-tls for `callgate exec --http --tls-cert FILE --tls-key FILE`: a process between the clients and
// the front, which has the key and ends TLS (tls/main.cpp).
//
// It is a program of its own, so that callgate links no TLS library. It is looked for beside callgate alone.
// A built-in rule keeps every run from writing there, as it does for callgate itself.
#pragma once

#include "base/expected.hpp"
#include "base/process/spawn.hpp"
#include "base/unique_fd.hpp"

namespace callgate::jobs::http {

struct Tls {
    Child process;
    UniqueFd control;  // this end of the socket of tls/protocol.hpp
};

/// A file that was opened, and how messages name it, such as "--tls-key key.pem".
struct NamedFile {
    UniqueFd file;
    std::string name;
};

/// Starts callgate-tls, and waits until it has taken both files and confined itself. The problem names the
/// file that it could not take.
[[nodiscard]] Expected<Tls> start_tls(const NamedFile& certificate, const NamedFile& key);
/// Gives it the listener, from which it accepts from now on.
[[nodiscard]] Expected<void> give_listener(const Tls& tls, const UniqueFd& listener);

}  // namespace callgate::jobs::http
