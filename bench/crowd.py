"""Many runs that start at once: whether they cost each other anything but processor time."""
from __future__ import annotations

from place import Place
from rows import Row

AT_ONCE = (1, 8, 50, 200)
STARTS = 200  # of each number at once, in rounds of that many


class Crowd:
    """Runs of /bin/true under the default profile, so many at once."""

    def __init__(self, place: Place, scale: float) -> None:
        self.place, self.starts = place, max(AT_ONCE[-1], int(STARTS * scale))
        self.used: dict[int, float] = {}  # of the last measurement

    def passed(self, at_once: int) -> float:
        """Runs one start and gives the nanoseconds that pass; the processor time is kept."""
        rounds = max(1, self.starts // at_once)
        text = self.place.output([self.place.crowd, at_once, rounds, *self.place.supervised(), "/bin/true"])
        passed, self.used[at_once] = (float(one) for one in text.split())
        return passed

    def rows(self) -> list[Row]:
        """The second says what the first has measured."""
        return [Row("starts at once", {str(n): lambda n=n: self.passed(n) for n in AT_ONCE}, every=2),
                Row("starts at once, processor", {str(n): lambda n=n: self.used[n] for n in AT_ONCE}, every=2)]
