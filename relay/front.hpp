// The front: a process that lets a TLS connection through only if its client asks for an allowed name.
//
// The supervisor connects a target's socket to the front. It also passes the front a socket that it has
// connected to the judged address. The front reads the client's first message without taking it. It compares
// the server's name with the names that are bound to the address, and then copies bytes in both directions.
// It decrypts nothing.
//
// An attacker controls every byte of the target's side, its timing, and how many connections there are. With
// a server of its own it controls the other side too. The front can neither open a file nor make a socket nor
// execute: its filter kills it for trying. Its Landlock domain grants nothing. A front that is taken over
// reaches the open connections of its own run and nothing else.
//
// The front reads an accepted connection only once the supervisor has named its source address. It closes a
// stranger's connection after a second. Until the server has answered, it lets only those records through
// that cannot hold a second hello. If the server asks for a second hello, the front compares its name too
// (RFC 8446, 4.1.4). A hello may ask for one name only, and nothing may follow it in the same record.
#pragma once

namespace callgate::relay {

/// The whole process: takes the descriptors of protocol.hpp, confines itself, and serves until the
/// supervisor's end of the control socket is closed. Returns the exit status: 0 after that, 125 if it cannot
/// confine itself.
[[nodiscard]] int run_front();

}  // namespace callgate::relay
