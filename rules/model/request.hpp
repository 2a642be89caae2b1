// A request: a set of operations on one resolved object, and the program that asks.
//
// Everything here is a view: the decoder owns the bytes and keeps them alive while the request is evaluated
// and recorded. An attacker controls the bytes (names are arbitrary except NUL), never the lengths of the
// views.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "rules/model/operation.hpp"

namespace callgate::rules {

/// An IPv4 or IPv6 address in network byte order; an IPv4 address uses the first four bytes. Makers of an
/// address normalise IPv4-mapped IPv6 to IPv4.
struct IpAddress {
    std::array<std::uint8_t, 16> bytes{};
    bool v6 = false;
    bool operator==(const IpAddress&) const = default;
};

[[nodiscard]] constexpr bool is_loopback(const IpAddress& address) {
    if (!address.v6) return address.bytes.front() == 127;
    IpAddress loopback{.bytes = {}, .v6 = true};
    loopback.bytes.back() = 1;
    return address == loopback;
}

/// Whether it stands for every address of the machine, in a bind.
[[nodiscard]] constexpr bool is_any(const IpAddress& address) {
    return address == IpAddress{.bytes = {}, .v6 = address.v6};
}

enum class Protocol : std::uint8_t { tcp, udp };
enum class UnixType : std::uint8_t { stream, datagram, seqpacket };

/// A file, directory or special file by its absolute, resolved path: no symbolic links, no "..", no
/// trailing slash (except "/" itself).
struct FileObject {
    std::string_view path;
    /// True if the object has no name left (`st_nlink` 0): no rule allows it, only a default of allow does.
    bool unlinked = false;
};

/// An end of an internet connection. `port` is in host byte order.
struct Endpoint {
    IpAddress address;
    std::uint16_t port = 0;
    Protocol protocol = Protocol::tcp;
    /// The names whose look-ups gave this address to the run: lower case, without a final dot. Conditions on
    /// hosts are about them; an address that no look-up gave has none.
    std::span<const std::string> names{};
    /// Whether the address is this machine's now. Rules with "${own}" are about it; elsewhere it may be
    /// false.
    bool own = false;
    /// A server of the run's own (supervisor/calls/network/own_servers.hpp): the destination of a connect, or
    /// a port that the kernel chose for this run. False unless `RuleSet::needs_run_servers()`.
    bool of_run = false;
};

/// A host name that is about to be looked up, in the same form. A look-up is the first part of a connect: its
/// operation is `connect`, and the port is not known yet.
struct HostName {
    std::string_view name;
};

/// A unix socket: an absolute resolved path, or "@name" in the abstract namespace (name without its NUL).
struct UnixObject {
    std::string_view name;
    UnixType type = UnixType::stream;
};

using Object = std::variant<FileObject, Endpoint, UnixObject, HostName>;

/// The parties of a run: the agent itself, and everything else that runs, its tools
/// (supervisor/decide/parties.hpp).
enum class Party : std::uint8_t { tools, agent };
[[nodiscard]] constexpr std::string_view name(Party party) {
    return party == Party::agent ? "agent" : "tools";
}

[[nodiscard]] constexpr Party other_of(Party party) {
    return party == Party::agent ? Party::tools : Party::agent;
}

struct Request {
    OperationSet operations;
    Object object;
    /// The asking process's executable, absolute; may be empty unless `RuleSet::needs_program()`.
    std::string_view program;
    /// Arguments of an execute; empty otherwise.
    std::span<const std::string> arguments;
    Party party = Party::tools;
};

}  // namespace callgate::rules
