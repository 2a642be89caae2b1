"""Packets on the wire of the loopback: where one really went, whatever its address said."""
from __future__ import annotations

import dataclasses
import socket

import harness
from cases.case import Impossible, Scene
from cases.worlds.listeners import Reach, Servers, rules


@dataclasses.dataclass(frozen=True)
class Routed(Reach):
    """A datagram to the good port with a route whose first stop is elsewhere: seen on the wire of the loopback, or not."""

    def play(self, scene: Scene, supervised: bool, twin: bool = False) -> tuple[harness.Result, int, int]:
        servers = Servers()
        number = servers.bad_port
        stop = bytes((127, 77, number >> 8, number & 255))  # nobody else's, on this machine and in this moment
        line = [scene.box.program("attack_net"), self.twin_mode if twin else self.mode, str(servers.good_port), str(servers.good_port if twin else number)]
        try:
            wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
        except PermissionError as error:
            servers.close()
            raise Impossible("packets may not be looked at here") from error
        with wire:
            wire.bind(("lo", 0))
            allowed = rules(scene.box, *self.allowed(servers.good_port, servers.bad_port))
            # Such a route needs a capability, with which the filter alone holds it.
            result = scene.supervised(line, allowed, ["--keep-capabilities"]) if supervised else scene.bare(line)
            good, _ = servers.close()
            if not supervised and result.code != 0 and b"not permitted" in result.err:
                raise Impossible("not allowed bare either")
            wire.setblocking(False)
            seen = 0
            try:
                while packet := wire.recv(65536):
                    seen += packet[16:20] == stop
            except BlockingIOError:
                pass
        return result, good, seen
