// Servers of the run's own on loopback: sockets that callgate bound for it, and connects to them.
//
// A rule may allow what the processes of a run do among themselves by TCP (`"server": "run"`). Nobody outside
// is reached by it, and nobody outside is led to a socket of the run by it.
//
// **Binding.** The kernel chooses the port, so nobody has it. Programs look for a free port, close it and
// bind that number, so a number that the kernel gave to this run stays allowed. Every other port is decided
// without this condition. With SO_REUSEPORT somebody else could listen at the same port. So it is cleared
// before such a bind, and `setsockopt` sets it on no bound socket (listeners.cpp).
//
// **Connecting.** An attacker controls the destination, and every socket of the run at every moment. callgate
// takes a copy of a socket that it bound. It knows the socket by its cookie, which the kernel gives to no
// other one. The copy comes from a process of the run: where none holds it any more, the connect is refused.
// It must listen at that very address, without SO_REUSEPORT. Then the kernel lets nobody else listen there,
// and gives the connection to this socket. That stays so until callgate has connected and dropped the copy:
//
// - close(2) and the end of its holder free nothing: the copy is open.
//
// - shutdown(2), and connect(2) to AF_UNSPEC, make a listener give up its port. Both are performed on behalf,
//   and wait for connects (`changes`). So do binds, which would find the port taken by a mere copy.
//
// - SO_REUSEPORT is set on behalf, and waits too. The filter refuses SO_BINDTODEVICE, by which packets would
//   leave this host.
//
// A packet that was dropped would be sent again later, when the port may be another's. An option of a socket
// drops packets, and TCP_FASTOPEN_CONNECT puts the first one off. So no socket is left waiting for an answer.
// callgate waits a while with the copy open, and then dissolves the connect (ETIMEDOUT). A full queue drops
// packets of honest programs too. So callgate lengthens the queue of a listener that is nearly full, as
// listen(2) would.
//
// A tool does not reach the agent's servers in this way, nor bind the ports that were given to the agent.
//
// The run may hand a listener to a process outside. That one may then answer, but only while a process of the
// run holds the listener as well. It was reached before, by the connection that carried the listener.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "base/unique_fd.hpp"
#include "rules/model/verdict.hpp"
#include "supervisor/calls/network/pinned_socket.hpp"

namespace callgate::calls {

/// Whether a rule about servers of the run's own allows the call.
[[nodiscard]] bool by_run_server(const rules::Verdict& verdict);

/// Whether the socket lets others listen at its port (SO_REUSEPORT). True if that cannot be found out.
[[nodiscard]] bool shares_port(int socket);

/// Shared by connects, held alone by changes of listeners. Connects may follow one another without end, so a
/// change that waits lets no further one in.
class ListenerLock {
public:
    void lock() {
        const std::lock_guard turn(turn_);
        shared_.lock();
    }
    void unlock() { shared_.unlock(); }
    void lock_shared();
    void unlock_shared() { shared_.unlock_shared(); }

private:
    std::mutex turn_;
    std::shared_mutex shared_;
};

/// Any thread.
class OwnServers {
public:
    explicit OwnServers(pid_t guardian) : changes(own_changes_), guardian_(guardian) {}
    /// For a nested run: a change of a listener waits for the connects of both. Its servers and ports are
    /// those of the run around it, too, and not the other way round.
    OwnServers(pid_t guardian, OwnServers& around)
        : changes(around.changes), around_(&around), guardian_(guardian) {}

    /// Whether the kernel chose this port for the run before, on loopback. Each is asked for a caller's
    /// party.
    [[nodiscard]] bool may_bind(const rules::Endpoint& endpoint, rules::Party party) const;
    /// Whether a connect to it is the run's own affair: it listens there, or the port was given to it.
    [[nodiscard]] bool reached_at(const rules::Endpoint& endpoint, rules::Party party);

    /// The process and the number by which it holds a socket. Both may be another's later. The party is that
    /// of the process that bound it.
    struct Holder {
        pid_t process = 0;
        int number = -1;
        rules::Party party = rules::Party::tools;
    };
    /// Binds an internet stream, and notes it. Returns 0 or an errno. `own`: it may because the port is its
    /// own.
    [[nodiscard]] int bind(const PinnedSocket& socket, const SocketAddress& address, Holder holder, bool own);
    /// Makes a stream listen that has no port yet, and notes it. Returns 0 or an errno.
    [[nodiscard]] int listen(const PinnedSocket& socket, int backlog, Holder holder, bool own);
    /// Notes a socket that callgate has bound, or made listen. Returns its port; 0: it cannot be told.
    std::uint16_t note(int socket, Holder holder);
    /// Connects to a server of the run's own. Returns 0 or an errno; ECONNREFUSED where it has none there.
    [[nodiscard]] int connect(NetworkCall& context, const PinnedSocket& socket, const SocketAddress& address,
                              const rules::Endpoint& endpoint);

    /// Shared by connects. What could make a listener give up its port, or share it, holds this alone.
    ListenerLock& changes;

private:
    struct Server {
        std::uint64_t cookie = 0, inode = 0;
        Holder holder;
    };
    /// The most sockets at one port: 127.0.0.1, ::1, and some that are closed.
    static constexpr std::size_t max_at_port = 8;

    [[nodiscard]] std::vector<Server> at(std::uint16_t port, rules::Party party) const;
    [[nodiscard]] bool is_given(std::uint16_t port, rules::Party party) const;
    void note(std::uint16_t port, const Server& server);
    void note_given(std::uint16_t port, rules::Party party);
    [[nodiscard]] UniqueFd take(const rules::Endpoint& endpoint, rules::Party party);

    ListenerLock own_changes_;
    OwnServers* const around_ = nullptr;
    const pid_t guardian_;
    mutable std::mutex mutex_;
    std::array<std::bitset<65536>, 2> given_;  // ports that the kernel chose for each party
    std::unordered_map<std::uint16_t, std::vector<Server>> servers_;
};

}  // namespace callgate::calls
