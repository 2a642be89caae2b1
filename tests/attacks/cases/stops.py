"""A command that stops, so that callgate or its caller waits for ever; one in the background that reaches for the terminal."""
from __future__ import annotations

from cases.case import Case
from cases.worlds.stops import HOWS, REACHES, InTheBackground, LimitWhileStopped, StopFollowed, StopsItself

PARAGRAPH = "Stops and the terminal"

CASES = [
    *(Case(f"stop.terminal_{how}", StopsItself(how, "terminal")) for how in HOWS if how != "group"),
    *(Case(f"stop.pipes_{how}", StopsItself(how, "pipes")) for how in HOWS),
    *(Case(f"stop.job_{how}", StopsItself(how, "job")) for how in ("stop", "tstp", "child", "traceme", "tracer", "ignored")),
    Case("stop.follows_tracer", StopFollowed("tracer", background=False)),
    Case("stop.follows_traceme", StopFollowed("traceme_stop", background=False)),
    *(Case(f"stop.follows_background{name}", StopFollowed(how, background=True)) for name, how in (("", "stop"), ("_ttin", "ttin"), ("_tstp", "tstp"))),
    *(Case(f"stop.limit_{limit}", LimitWhileStopped(limit)) for limit in LimitWhileStopped.uses),
    *(Case(f"background.{how}", InTheBackground(how)) for how in REACHES),
    Case("background.redirected_takes_devtty", InTheBackground("takes_devtty", redirected=True)),
]
