"""Connects, sends and binds by unusual ways."""
from __future__ import annotations

import socket

from cases.case import Case
from cases.worlds.kernel import Call
from cases.worlds.listeners import Listening, ListeningAfterwards, PortShared, Reach, UnspecifiedBound, tcp, udp
from cases.worlds.own_servers import LeavesHost, ReachesOutside, SharesPort, SitsThere
from cases.worlds.wire import Routed

PARAGRAPH = "Network"
ABI = frozenset({"abi"})
MINIMAL = ("--record", "minimal")  # what the kernel holds is left to it

STREAM = ("connect", "connect6", "mapped", "zero", "zero6", "mapped_zero", "scope", "without_scope", "long", "high_bits", "unspec",
          "nonblocking", "passed", "number_again", "fastopen_connect", "bind_any_connect")
# Closed for every address.
CLOSED = ("fastopen_sendto", "fastopen_sendto_high", "fastopen_sendmsg", "fastopen_sendmmsg", "mptcp", "ring")
DATAGRAM = ("udp_connect", "udp_sendto", "udp_redirected", "udp_unspec", "udp_v4_on_v6", "udp_sendmsg", "udp_sendmmsg",
            "udp_sendmmsg_second")
WITH_ABI = {"connect", "mapped", "fastopen_connect", "udp_sendto", "listen_unbound", "bind"}
LISTENING = {"listen_unbound": socket.AF_INET, "listen_unbound6": socket.AF_INET6, "bind": socket.AF_INET, "bind_zero": socket.AF_INET,
             "bind_unspec": socket.AF_INET, "bind6": socket.AF_INET6, "bind_any": socket.AF_INET, "bind_any6": socket.AF_INET6}
SOCKETS = ("mptcp", "mptcp6", "sctp", "udplite", "udp", "udp6", "udp_high_bits", "udp_flags", "ping", "vsock", "alg", "tipc", "bluetooth",
           "uevent", "audit", "netfilter", "generic", "unix_datagram", "unix_raw")
PRIVILEGED_SOCKETS = ("raw", "packet", "xdp")


def abi(mode: str) -> frozenset[str]:
    return ABI if mode in WITH_ABI else frozenset()


def with_udp(good: int, bad: int) -> list[dict[str, object]]:
    return [tcp(good), udp(good)]


def ports_alone(good: int, bad: int) -> list[dict[str, object]]:
    """Landlock holds this from ABI 10: no datagram is decided by callgate."""
    return [{"id": "udp", "allow": "connect", "port": good, "protocol": "udp"}, {"id": "source", "allow": "bind", "port": 0, "protocol": "udp"}]


CASES = [
    # Landlock refuses every IPv4 address that is not mapped, on an IPv6 socket (docs/differences.md).
    *(Case(f"net.held_{mode}", Reach(mode, ports_alone, "udp_sendto" if mode == "udp_v4_on_v6" else "", MINIMAL)) for mode in DATAGRAM),
    *(Case(f"net.{mode}", Reach(mode), abi(mode)) for mode in STREAM),
    *(Case(f"net.{mode}", Reach(mode, twin_mode="connect")) for mode in CLOSED),
    *(Case(f"net.{mode}", Reach(mode, with_udp), abi(mode)) for mode in DATAGRAM),
    *(Case(f"net.routed_{way}", Routed(f"routed_{way}", with_udp, twin)) for way, twin in (("option", "udp_sendto"), ("message", "udp_sendmsg"))),
    Case("net.udp_without_rule", Reach("udp_sendto", twin_mode="connect")),
    *(Case(f"net.{mode}", Listening(mode, family), abi(mode)) for mode, family in LISTENING.items()),
    Case("net.listen_refused", ListeningAfterwards("listen_refused")),
    Case("net.bind_shared", PortShared("bind_shared")),
    Case("net.zero_bound", UnspecifiedBound()),
    *(Case(f"server.{way}", ReachesOutside(way)) for way in (
        "taken_over", "taken_over_zero", "taken_over_mapped", "never_given", "other_address", "other_family", "not_listening", "ended_child",
        "put_off")),
    Case("server.taken_over_everywhere", ReachesOutside("taken_over", "0.0.0.0")),
    Case("server.taken_over_zero6", ReachesOutside("taken_over_zero6", "::1")),
    Case("server.handed", ReachesOutside("handed", handed=True)),
    Case("server.unanswered", ReachesOutside("unanswered")),
    *(Case(f"server.{way}", ReachesOutside(way, early=True)) for way in ("shut_down", "unspecified")),
    *(Case(f"server.{way}", LeavesHost(way)) for way in ("device", "interface")),
    *(Case(f"server.{way}", SitsThere(way)) for way in ("fixed", "fixed_mapped", "any_address", "any_address6", "any_given", "unbound")),
    Case("server.fixed6", SitsThere("fixed6", "::1")),
    *(Case(f"server.{way}", SharesPort(way)) for way in ("shared", "shared_later", "shared_unbound")),
    Case("net.bind_udp", Listening("bind_udp", kind=socket.SOCK_DGRAM)),
    *(Case(f"socket.{kind}", Call(f"socket_{kind}", "socketpair" if kind.startswith("unix") else "socket_tcp")) for kind in SOCKETS),
    *(Case(f"socket.{kind}", Call(f"socket_{kind}", "socket_tcp", privileged=True)) for kind in PRIVILEGED_SOCKETS),
    Case("socket.usersock", Call("socket_usersock", "socket_route")),
]
