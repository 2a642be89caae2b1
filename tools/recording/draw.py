#!/usr/bin/python3
"""Draws a recorded session as an SVG that plays by itself, without a script.

usage: draw.py CAST SVG                  the animation
       draw.py --frame SECONDS CAST SVG  one picture of it
       draw.py --text CAST               the screen of each scene, as text

Equal rows are drawn once. The frames stand side by side, and a style sheet moves them past a window.
"""
from __future__ import annotations

import html
import json
import pathlib
import sys

import screen

WIDTH, HEIGHT, TOP = 8.4, 17, 14  # of a cell, and the space around
COLOURS = {"default": "#d8dee9", "foreground": "#d8dee9", "background": "#1b2129", "black": "#3b4252", "red": "#e06c75", "green": "#98c379",
           "brown": "#e5c07b", "blue": "#61afef", "magenta": "#c678dd", "cyan": "#56b6c2", "white": "#d8dee9"}
SHORTEST = 0.04  # seconds of a frame

Frame = tuple[float, tuple[tuple[tuple[str, str, str, bool], ...], ...]]


def colour(name: str) -> str:
    return COLOURS.get(name.removeprefix("bright"), "#" + name if len(name) == 6 else COLOURS["default"])


def frames(cast: pathlib.Path) -> tuple[dict[str, int], list[Frame], float]:
    header, *events = [json.loads(line) for line in cast.read_text().splitlines()]
    shown, found = screen.Screen(header["width"], header["height"]), []
    for when, kind, text in events:
        if kind != "o":
            continue
        shown.feed(text)
        rows = tuple(shown.cells())
        if found and when - found[-1][0] < SHORTEST:
            found[-1] = (found[-1][0], rows)
        elif not found or found[-1][1] != rows:
            found.append((when, rows))
    return header, found, events[-1][0]


def scenes(cast: pathlib.Path) -> str:
    header, *events = [json.loads(line) for line in cast.read_text().splitlines()]
    shown, found = screen.Screen(header["width"], header["height"]), []
    for _, kind, text in events:
        if kind == "o":
            shown.feed(text)
        elif kind == "m":
            found += [f"== {text}", *(line for line in shown.lines() if line.strip())]
    return "".join(line.rstrip() + "\n" for line in found)


def drawn_row(row: tuple[tuple[str, str, str, bool], ...]) -> str:
    out, column = [], 0
    for text, fore, back, bold in row:
        x, width = column * WIDTH, len(text) * WIDTH
        if back != "default":
            out.append(f'<rect x="{x:.1f}" y="0" width="{width:.1f}" height="{HEIGHT}" fill="{colour(back)}"/>')
        if text.strip():
            fill = f' fill="{colour(fore)}"' if fore not in ("default", "foreground") else ""
            weight = ' font-weight="bold"' if bold else ""
            length = f' textLength="{len(text.rstrip()) * WIDTH:.1f}"' if len(text.rstrip()) > 1 else ""
            out.append(f'<text x="{x:.1f}" y="13"{fill}{weight}{length}>{html.escape(text.rstrip(), quote=False)}</text>')
        column += len(text)
    return "".join(out)


def drawing(header: dict[str, int], shown: list[Frame], length: float) -> str:
    width, height = header["width"] * WIDTH, header["height"] * HEIGHT
    rows: dict[object, int] = {}
    for _, frame in shown:
        for row in frame:
            if row:
                rows.setdefault(row, len(rows))
    defined = "".join(f'<g id="r{number}">{drawn_row(row)}</g>' for row, number in rows.items())
    strip = "".join(f'<g transform="translate({place * width:.1f})">' + "".join(
        f'<use href="#r{rows[row]}" y="{line * HEIGHT}"/>' for line, row in enumerate(frame) if row) + "</g>" for place, (_, frame) in enumerate(shown))
    steps = "".join(f"{100 * when / length:.3f}%{{transform:translateX({-place * width:.1f}px)}}" for place, (when, _) in enumerate(shown))
    style = f"@keyframes play{{{steps}}}#strip{{animation:play {length:.2f}s steps(1,end) infinite}}" if len(shown) > 1 else ""
    full, tall = width + 2 * TOP, height + 2 * TOP
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full:.0f} {tall:.0f}" width="{full:.0f}" height="{tall:.0f}">'
            f"<style>text{{font:14px ui-monospace,Menlo,'DejaVu Sans Mono',monospace;white-space:pre}}{style}</style>"
            f'<defs>{defined}</defs><rect width="100%" height="100%" rx="8" fill="{COLOURS["background"]}"/>'
            f'<svg x="{TOP}" y="{TOP}" width="{width:.1f}" height="{height}"><g id="strip" fill="{COLOURS["default"]}">{strip}</g></svg></svg>\n')


def main() -> int:
    if sys.argv[1:2] == ["--text"] and len(sys.argv) == 3:
        print(scenes(pathlib.Path(sys.argv[2])), end="")
        return 0
    one = sys.argv[1:2] == ["--frame"]
    if len(sys.argv) != 3 + 2 * one:
        sys.exit(__doc__)
    header, shown, length = frames(pathlib.Path(sys.argv[-2]))
    if one:
        shown = [[frame for frame in shown if frame[0] <= float(sys.argv[2])][-1]]
    pathlib.Path(sys.argv[-1]).write_text(drawing(header, shown, length))
    return 0


if __name__ == "__main__":
    sys.exit(main())
