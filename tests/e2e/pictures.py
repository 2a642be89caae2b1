"""Reads the pixels of a PNG as browsers write it: 8 bits a channel, not interlaced."""
from __future__ import annotations

import struct
import zlib

Pixel = tuple[int, ...]
CHANNELS = {2: 3, 6: 4}  # colour type: bytes a pixel


def pixels(png: bytes) -> tuple[int, int, list[list[Pixel]]]:
    """Width, height, and (red, green, blue) by row and column."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n"), png[:16]
    header, packed, offset = b"", b"", 8
    while offset < len(png):
        length, kind = struct.unpack_from(">I4s", png, offset)
        content = png[offset + 8:offset + 8 + length]
        if kind == b"IHDR":
            header = content
        elif kind == b"IDAT":
            packed += content
        offset += 12 + length
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    assert depth == 8 and not interlaced and colour in CHANNELS, (depth, colour, interlaced)
    size, raw = CHANNELS[colour], zlib.decompress(packed)
    rows, above = [], bytes(width * size)
    for row in range(height):
        start = row * (1 + width * size)
        above = restored(raw[start], raw[start + 1:start + 1 + width * size], above, size)
        rows.append([tuple(above[at:at + 3]) for at in range(0, len(above), size)])
    return width, height, rows


def restored(kind: int, line: bytes, above: bytes, size: int) -> bytes:
    """Takes the filter from a row (PNG specification, 9.2)."""
    out = bytearray(line)
    for index in range(len(out)):
        left = out[index - size] if index >= size else 0
        up = above[index]
        corner = above[index - size] if index >= size else 0
        out[index] = (out[index] + (0, left, up, (left + up) // 2, nearest(left, up, corner))[kind]) & 255
    return bytes(out)


def nearest(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
