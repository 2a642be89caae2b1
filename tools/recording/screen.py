"""A terminal's screen, by pyte, with the alternate screen that pyte lacks."""
from __future__ import annotations

import copy
from typing import Callable

import pyte

ALTERNATE = {1049, 1047, 47}


class Alternate(pyte.Screen):
    def __init__(self, columns: int, rows: int, answer: Callable[[str], object]) -> None:
        self.answer = answer
        self.kept: tuple[object, object] | None = None
        super().__init__(columns, rows)

    def write_process_input(self, data: str) -> None:
        self.answer(data)

    def select_graphic_rendition(self, *attributes: int, private: bool = False) -> None:
        if not private:  # that asks for a way of sending keys
            super().select_graphic_rendition(*attributes)

    def set_mode(self, *modes: int, **keywords: bool) -> None:
        if keywords.get("private") and ALTERNATE & {*modes} and self.kept is None:
            self.kept = copy.deepcopy(self.buffer), copy.copy(self.cursor)
            self.erase_in_display(2)
        super().set_mode(*(one for one in modes if one not in ALTERNATE), **keywords)

    def reset_mode(self, *modes: int, **keywords: bool) -> None:
        if keywords.get("private") and ALTERNATE & {*modes} and self.kept is not None:
            self.buffer, self.cursor = self.kept  # type: ignore[assignment]
            self.kept = None
            self.dirty.update(range(self.lines))
        super().reset_mode(*(one for one in modes if one not in ALTERNATE), **keywords)


class Screen:
    def __init__(self, columns: int, rows: int, answer: Callable[[str], object] = lambda _: None) -> None:
        self.screen = Alternate(columns, rows, answer)
        self.stream = pyte.Stream(self.screen)

    def feed(self, text: str) -> None:
        self.stream.feed(text)

    def lines(self) -> list[str]:
        return list(self.screen.display)

    def cells(self) -> list[tuple[tuple[str, str, str, bool], ...]]:
        """Each row as runs of equal style: text, foreground, background, bold."""
        rows = []
        for row in range(self.screen.lines):
            runs: list[tuple[str, str, str, bool]] = []
            for column in range(self.screen.columns):
                one = self.screen.buffer[row][column]
                fore, back = (one.bg, one.fg) if one.reverse else (one.fg, one.bg)
                if one.reverse:
                    fore, back = ("background" if fore == "default" else fore), ("foreground" if back == "default" else back)
                at = not self.screen.cursor.hidden and (row, column) == (self.screen.cursor.y, self.screen.cursor.x)
                style = ("background", "foreground", one.bold) if at else (fore, back, one.bold)
                if runs and runs[-1][1:] == style:
                    runs[-1] = (runs[-1][0] + one.data, *style)
                else:
                    runs.append((one.data, *style))
            while runs and not runs[-1][0].strip() and runs[-1][2] == "default":
                runs.pop()
            rows.append(tuple(runs))
        return rows
