"""A question is seen whatever the command has sent to the terminal before, or no key answers it.

A plain run takes twenty of the prefixes in each terminal, a long run (CALLGATE_SOAK=1) all. In windows, which take seconds, root
takes one half and the user the other. The Linux console is the kernel's own: guests of ./dev test kernels have one, and containers
have none.
"""
from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import struct
import subprocess
import termios
import time

import pytest

import harness
import prefixes
from approvers import runtime
from outer import Outer, Tmux
from test_approval import Room, room  # noqa: F401 (a fixture)
from test_ask_xterm import display, picture  # noqa: F401 (a fixture)

NAMES = [*prefixes.ALL]
TAKEN = NAMES if harness.SOAK else [*NAMES[::len(NAMES) // 18], "tektronix", "latin"]
PRESSED = 4.0  # seconds in which a key at a prompt that is not seen is given the chance to count
needs_tmux = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")


def run_line(room: Room, prefix: str, ask: str = "tty") -> tuple[list[str], object]:
    """A command that sends the prefix, and then reads the file that is asked about."""
    sent = room.box.file(room.free / "prefix", prefix.encode("utf-8", "surrogateescape"))
    return room.box.command(["/bin/bash", "--norc", "-c", f"cat {sent}; cat {room.file}; read -r end"], room.rules(),
                            ["-q", "--ask", ask, "--ask-timeout", "60s"])


def answers(log) -> list[str]:
    return [one["callgate"]["answer"] for one in harness.read_log(log) if one["event"]["action"] == "prompt.answered"]


def frame(cells: str) -> list[str]:
    """The lines of a prompt with its mark, without what differs from run to run; [] if there is none that is whole.

    The command's words come when the prompt is drawn again: after a query that the terminal leaves unanswered, for one.
    """
    lines = [line.rstrip() for line in cells.split("\n")]
    first = next((at for at, line in enumerate(lines) if "question 1 of 1" in line), None)
    if first is None or ">" not in lines[first:]:
        return []
    shown = [line for line in lines[first:lines.index(">", first) + 1] if not re.match(r"\W* as  ", line)]
    return [re.sub(r"run \w{6} ", "run NAME ", re.sub(r"denies in +\d+ s", "denies soon", re.sub(r"(pid|bash) +\d+", r"\1 N", line))) for line in shown]


class InTmux:
    def __init__(self, room: Room, prefix: str) -> None:
        line, self.log = run_line(room, prefix)
        self.tmux = Tmux(room.box, line, columns=150, rows=40, term="tmux-256color")

    def frame(self) -> list[str]:
        return frame(self.tmux.do("capture-pane", "-e", "-p"))

    def type(self) -> None:
        self.tmux.type("a", "Enter")

    def close(self) -> None:
        self.tmux.close()


class InScreen:
    """GNU screen, in a tmux that shows it: with its attributes."""

    def __init__(self, room: Room, prefix: str) -> None:
        line, self.log = run_line(room, prefix)
        directory = room.box.directory(room.box.root / "screens")
        os.chmod(directory, 0o700)
        settings = room.box.file(room.box.root / "screenrc", b"autodetach off\nstartup_message off\n")  # it ends with its terminal
        self.tmux = Tmux(room.box, ["env", f"SCREENDIR={directory}", "TERM=tmux-256color", "screen", "-c", str(settings), "-U", "-T", "screen-256color",
                                    "--", *line], columns=150, rows=40)

    frame, type, close = InTmux.frame, InTmux.type, InTmux.close


def unused_console() -> int:
    """The number of a console of the kernel that nobody uses; 0 where there are none."""
    with contextlib.suppress(OSError):
        with open("/dev/tty0", "wb", buffering=0) as any_of_them:
            (number,) = struct.unpack("i", fcntl.ioctl(any_of_them, 0x5600, b"\0\0\0\0"))  # VT_OPENQRY
            return max(number, 0)
    return 0


class InConsole:
    """A console of the kernel: its cells, with attributes, are in /dev/vcsaN. No call reads its palette."""

    def __init__(self, room: Room, prefix: str) -> None:
        line, self.log = run_line(room, prefix)
        self.number = unused_console()
        self.terminal = os.open(f"/dev/tty{self.number}", os.O_RDWR | os.O_NOCTTY)
        os.fchown(self.terminal, room.box.user.uid, -1)
        os.write(self.terminal, b"\x1bc")
        self.process = room.box.start(line, stdin=self.terminal, stdout=self.terminal, stderr=self.terminal, start_new_session=True,
                                      env={**room.box.environment(runtime(room.box)), "TERM": "linux"},
                                      preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.tmux = self  # for messages

    def screen(self) -> str:
        with open(f"/dev/vcsa{self.number}", "rb") as cells:
            rows, columns, _, _ = cells.read(4)
            content = cells.read(2 * rows * columns)
        lines = []
        for at in range(0, len(content), 2 * columns):
            text = content[at:at + 2 * columns:2].decode("latin-1").rstrip()
            attributes = content[at + 1:at + 2 * len(text):2]
            lines.append(text + (" " + attributes.hex() if set(attributes) - {7} else ""))
        return "\n".join(lines)

    def frame(self) -> list[str]:
        return frame(self.screen())

    def type(self) -> None:
        with contextlib.suppress(OSError):  # the command has ended, and the console is hung up
            for byte in b"a\r":
                fcntl.ioctl(self.terminal, termios.TIOCSTI, bytes([byte]))

    def close(self) -> None:
        self.process.kill()
        self.process.wait(harness.DEADLINE)
        os.fchown(self.terminal, 0, -1)
        os.close(self.terminal)


def usual(kind, room: Room) -> list[str]:
    plain = kind(room, "")
    try:
        return harness.until(plain.frame, "the prompt without a prefix")
    finally:
        plain.close()


def held(kind, room: Room, name: str, wanted: list[str]) -> str:
    """"seen" if the prompt is as without the prefix, "denied" if no key counted; anything else is a failure."""
    attacked = kind(room, prefixes.ALL[name])
    try:
        end = time.monotonic() + 10 * harness.PATIENCE
        while attacked.frame() != wanted and time.monotonic() < end and not answers(attacked.log):
            time.sleep(0.05)
        end = time.monotonic() + PRESSED
        while attacked.frame() != wanted and time.monotonic() < end:  # a busy machine may show it only now
            attacked.type()
            time.sleep(0.2)
        if attacked.frame() == wanted:
            attacked.type()
            harness.until(lambda: answers(attacked.log), f"the answer after {name}")
            return "seen" if answers(attacked.log) == ["allow"] else "the answer was not taken"
        return "denied" if "allow" not in answers(attacked.log) else f"a key counted at\n{attacked.tmux.screen()}"
    finally:
        attacked.close()


def all_held(kind, room: Room, measured: list[str]) -> None:
    wanted = usual(kind, room)
    results = {name: held(kind, room, name, wanted) for name in TAKEN}
    denied = [name for name, result in results.items() if result == "denied"]
    measured.append(f"{kind.__name__}: {len(results)} of {len(NAMES)} prefixes, {len(results) - len(denied)} seen, denied after {denied}")
    assert not {name: result for name, result in results.items() if result not in ("seen", "denied")}


@needs_tmux
def test_in_tmux_it_is_seen_or_no_key_counts(room, measured):
    all_held(InTmux, room, measured)


@needs_tmux
@pytest.mark.skipif(not shutil.which("screen"), reason="screen is not installed")
def test_in_screen_it_is_seen_or_no_key_counts(room, measured):
    all_held(InScreen, room, measured)


@pytest.mark.skipif(unused_console() == 0, reason="there is no console of the kernel, as in guests of ./dev test kernels")
def test_in_the_linux_console_it_is_seen_or_no_key_counts(room, measured):
    all_held(InConsole, room, measured)


def test_the_prefixes_are_of_every_class(measured):
    """Each control of ECMA-48 that is one byte, ESC with each byte, CSI with each final byte, and at least five of each other class."""
    sent = set(prefixes.ALL.values())
    assert len(prefixes.ALL) >= 200 and all(len(one()) >= 5 for one in prefixes.CLASSES)
    assert {chr(byte) for byte in range(0x80, 0xa0)} <= sent
    first = {text[1:2] for text in sent if text.startswith("\x1b")}
    assert {chr(byte) for byte in range(0x20, 0x7f)} <= first, {chr(byte) for byte in range(0x20, 0x7f)} - first
    finals = {text[-1] for text in sent if re.fullmatch("\x1b\\[[0-?]*[ -/]*[@-~]", text)}
    assert {chr(byte) for byte in range(0x40, 0x7f)} <= finals
    measured.append(f"{len(prefixes.ALL)} prefixes: " + ", ".join(f"{one.__name__.replace('_', ' ')} {len(one())}" for one in prefixes.CLASSES))


def pixel_rows(ppm: bytes) -> set[bytes]:
    """The rows of a picture that hold more than one colour."""
    width, height, most = map(int, re.match(rb"P6\s+(\d+)\s+(\d+)\s+(\d+)\s", ppm).groups())
    pixel = 3 if most < 256 else 6
    stride = width * pixel
    content = ppm[-stride * height:]
    rows = {content[at:at + stride] for at in range(0, len(content), stride)}
    return {row for row in rows if row != row[:pixel] * width}


def in_window(room: Room, display: str, window: str, prefix: str, wanted: frozenset[bytes] = frozenset(),
              shape: tuple[str, ...] = ()) -> set[bytes] | None:
    """The rows of pixels of a terminal of its own with a prompt, or None if it was denied without one.

    A busy machine draws late. What is shown at last is compared, so the rows that are wanted are waited for.
    """
    terminal, environment = WINDOWS[window]
    terminal = [*terminal[:-1], *shape, terminal[-1]]
    line, log = run_line(room, prefix, "auto")
    with open(room.box.root / "said", "wb") as said:
        process = room.box.start([*terminal, *line], env={**room.box.environment(runtime(room.box)), **environment, "DISPLAY": display},
                                 stderr=said, stdin=subprocess.DEVNULL)
    try:
        def asked_or_denied() -> bool:
            """A window that is slow to answer at the start is asked nothing."""
            assert process.poll() is None, f"{window} ended by {process.returncode}: {(room.box.root / 'said').read_text()}"
            said = [one["event"]["action"] == "prompt.shown" or one.get("callgate", {}).get("verdict", "allow") != "allow" for one in harness.read_log(log)]
            return any(said)

        harness.until(asked_or_denied, "a question or a denial")
        shown, since = b"", time.monotonic()
        end = since + 10 * harness.PATIENCE

        def complete() -> bool:
            """It has the rows that are wanted. Otherwise it stays for longer than the mark takes, which comes 0.6 s after the frame."""
            nonlocal shown, since
            time.sleep(0.1)  # a picture takes as much of a processor
            now = picture(display)
            if now != shown:
                shown, since = now, time.monotonic()
            rows = pixel_rows(shown)
            stayed = time.monotonic() > since + 1.5 and (len(rows) > 20 and not wanted or time.monotonic() > end)
            return stayed or bool(wanted) and wanted <= rows

        harness.until(complete, "a screen that stays", 60)
        asked = any(one["event"]["action"] == "prompt.shown" for one in harness.read_log(log))
        return pixel_rows(shown) if asked and not answers(log) else None
    finally:
        process.terminate()
        process.wait(harness.DEADLINE)


# kitty's cursor has the colour of its background: whether a window without a window manager has the focus is chance.
WINDOWS = {
    "xterm": (["xterm", "-fn", "fixed", "-geometry", "150x40+0+0", "-ti", "vt340", "-e"], {}),
    "kitty": (["kitty", "--config", "NONE", "-o", "font_size=9", "-o", "cursor_blink_interval=0", "-o", "cursor=#000000", "-o",
               "initial_window_width=1000", "-o", "initial_window_height=700", "-o", "remember_window_size=no", "--"], {"LIBGL_ALWAYS_SOFTWARE": "1"}),
}
# Prefixes that give xterm's window another shape, in which the prompt has other lines.
SHAPES = {"column mode": ("-geometry", "132x40+0+0"), "columns": ("-geometry", "132x40+0+0"),
          "vt52": ("-geometry", "80x40+0+0"), "private 2l": ("-geometry", "80x40+0+0")}
BESIDE = "private 30h"  # a scroll bar beside the prompt, whose pattern changes each row of pixels


@pytest.mark.skipif(not all(map(shutil.which, ("Xvfb", "import"))), reason="needs Xvfb and import")
@pytest.mark.parametrize("window", [pytest.param(one, marks=pytest.mark.skipif(not shutil.which(one), reason=f"{one} is not installed"))
                                    for one in WINDOWS])
def test_its_pixels_are_as_without_a_prefix_or_it_is_denied(room, display, window, measured):
    """Rows of pixels that every prompt has: operation, object, rule and keys. The names of run and process differ."""
    plain = [in_window(room, display, window, "") for _ in range(3)]
    common = frozenset(plain[0] & plain[1] & plain[2])
    assert len(common) > 20, "prompts without a prefix have nothing in common"
    denied, hidden = [], {}
    half = TAKEN[room.box.user.uid == 0::2]
    taken = half if window == "xterm" or harness.SOAK else [*half[::4], half[-1]]  # others take seconds to start
    for name in (one for one in taken if (window, one) != ("xterm", BESIDE)):
        seen = in_window(room, display, window, prefixes.ALL[name], common)
        if seen is None:
            denied.append(name)
            continue
        for _ in range(6):  # the names that differ may have had digits of one shape, or no letter with a tail, so far
            if common <= seen:
                break
            common &= in_window(room, display, window, "")
        if not common <= seen and window == "xterm" and name in SHAPES:
            shaped = [in_window(room, display, window, "", shape=SHAPES[name]) for _ in range(3)]
            alike = frozenset(shaped[0] & shaped[1] & shaped[2])
            seen = in_window(room, display, window, prefixes.ALL[name], alike)
            hidden |= {} if len(alike) > 20 and alike <= seen else {name: "not as in a window of that shape"}
        elif not common <= seen:
            hidden[name] = f"{len(common - seen)} of {len(common)} rows of pixels"
    assert len(common) > 20, "prompts without a prefix have nothing in common"
    measured.append(f"{window}: {len(taken)} of {len(NAMES)} prefixes, {len(taken) - len(denied) - len(hidden)} seen, denied after {denied}")
    assert not hidden


def test_a_terminal_that_never_answers_is_found_at_the_start(room):
    line, _ = run_line(room, "", "tty")
    outer = Outer(room.box, line, answers=False)
    outer.sees("does not answer")
    assert outer.end() == 125
    line, log = room.box.command(["/bin/cat", str(room.file)], room.rules(), ["-q", "--ask", "auto"])
    outer = Outer(room.box, line, answers=False)
    outer.end()
    assert answers(log) == [] and b"question" not in outer.all and b"Permission denied" in outer.all


def test_a_terminal_that_answers_elsewhere_gets_no_question_answered(room):
    """It lies about the cursor, as one does whose margins or whose string hide the prompt."""
    line, log = run_line(room, "")
    outer = Outer(room.box, line)
    outer.cursor.row = 7
    feed = outer.cursor.feed
    outer.cursor.feed = lambda text: re.sub("\x1b\\[[0-9]+;", "\x1b[7;", feed(text))
    said = ""
    while "did not show a question" not in said and "H> " not in said:  # where keys count
        said += outer.more()
    assert "did not show a question" in said
    for _ in range(3):
        outer.type("a\r")
    outer.end()
    assert "allow" not in answers(log)


def test_the_places_that_are_asked_for_cannot_be_foretold(room):
    """The second place differs among four frames, and so does the row of the frame."""
    line, _ = run_line(room, "")
    outer = Outer(room.box, line)
    outer.prompted()
    for columns in (140, 130, 120):
        outer.resize(40, columns)
        outer.sees("k kill")
        outer.sees("H\x1b[6n")
    asked = re.findall(rb"\x1b\[6n\x1b\[(\d+;\d+)H\x1b\[6n\x1b\[(\d+);1H", outer.all)
    assert len(asked) >= 4 and len({place for place, _ in asked}) > 1 and len({row for _, row in asked}) > 1, asked
    outer.close()


def test_plain_output_passes_text_and_colours_alone(room):
    text = "A\033[31mred\033[0m\033]0;title\007B\033[2JC\033P+q544e\033\\\\D\033[?25lE\x9b8mF\tG"
    for plain in (False, True):
        line, _ = room.box.command(["/bin/bash", "--norc", "-c", f"printf '{text}'"], room.rules(), ["-q", *(["--plain-output"] if plain else [])])
        outer = Outer(room.box, line)
        outer.end()
        assert (b"A\x1b[31mred\x1b[0mBCDE\x1b[8mF\tG" in outer.all) == plain, outer.all


def test_plain_output_that_would_filter_nothing_is_refused(room):
    """The command would write to the terminal itself."""
    line, _ = room.box.command(["/bin/echo", "ran"], room.rules(), ["-q", "--plain-output", "--mode", "audit"])
    outer = Outer(room.box, line)
    assert outer.end() == 125 and b"--plain-output would filter nothing" in outer.all and b"ran" not in outer.all
    piped = room.box.run(["/bin/echo", "ran"], room.rules(), options=["-q", "--plain-output", "--mode", "audit"])
    assert piped.code == 0 and piped.text == "ran\n", piped.describe()
