"""Tables drawn with plus signs and hyphens or with box characters, as by the clients of AWS, MySQL, ClickHouse and many
libraries. A cell continues on lines whose other cells are empty, or on raw lines without bars."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from fsm.logs.layouts import stamps


class Boxed(NamedTuple):
    """A table with bars between its columns."""

    names: tuple[str, ...]
    joints: tuple[int, ...]
    """The positions of the bars, in characters."""

    def begins(self, row: Sequence[bytes], line: bytes) -> bool:
        """Whether a line is the first of a row."""
        above, text = _strip_codes(row[-1]), _strip_codes(line)
        if not text.startswith(_BARS) or _BORDER.fullmatch(text) or _BORDER.fullmatch(above):
            return not _strip_codes(row[0]).startswith(_BARS) or above.rstrip().endswith(_BARS)
        cells = self.cells(text)
        if not above.rstrip().endswith(_BARS):  # the end of a row that continues on raw lines
            return bool(cells)
        return not cells or bool(cells[0]) or sum(map(bool, cells)) > 1

    def rows(self, text: bytes) -> list[bytes]:
        """The cells by column, as a line of JSON; empty for borders and headers, the text itself if it is not a row of
        the table."""
        lines = [_strip_codes(line) for line in text.split(b"\n")]
        if len(lines) == 1 and (_BORDER.fullmatch(lines[0]) or _TITLE.fullmatch(lines[0])):
            return []
        parts = [self.cells(line) for line in lines]
        if not all(parts):  # on raw lines each line feed counts as one character of the cell's width
            parts = [self.cells("\n".join(lines))]
        if not parts[0]:
            return [text]
        cells = tuple("\n".join(column).rstrip("\n") for column in zip(*parts, strict=True))
        if cells == self.names:
            return []
        return [json.dumps(dict(zip(self.names, cells, strict=True))).encode()]

    def cells(self, line: str) -> list[str]:
        """The cells of a line, empty if its bars are at other positions."""
        if len(line) <= self.joints[-1] or any(line[at] not in _BARS for at in self.joints):
            return []
        edges = zip(self.joints, self.joints[1:], strict=False)
        return [line[start + 1 : end].removeprefix(" ").removeprefix(" ").rstrip() for start, end in edges]


_BARS = ("|", "│", "┃", "║")
_JOINTS = "+┌┬┐├┼┤└┴┘╒╤╕╞╪╡╘╧╛╔╦╗╠╬╣╚╩╝╟╫╢╭╮╰╯┏┳┓┣╋┫┗┻┛┡╇┩┠┨"
_BORDER = re.compile(rf"[|│┃║]*[{_JOINTS}](?:[-=─━═]+[{_JOINTS}])+[|│┃║]*|-{{3,}}")
_BEGIN_BORDERS = {character.encode()[:1] for character in (*_BARS, *_JOINTS, "-")}
_TITLE = re.compile(r"\|+ {2,}\w+ {2,}\|+")
_MOST_LOOKS, _FEWEST_ROWS = 400, 2


def _strip_codes(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")


def find_boxed(lines: Sequence[bytes]) -> Boxed | None:
    """The table with the most columns among the lines; None if there is none."""
    drawn = [_strip_codes(line) for line in lines[:_MOST_LOOKS] if line[:1] in _BEGIN_BORDERS]
    borders = [text for text in drawn if _BORDER.fullmatch(text) and text.strip("-")]
    if not borders:
        return None
    texts = [_strip_codes(line) for line in lines[:_MOST_LOOKS]]
    widest = max(borders, key=lambda text: sum(map(text.count, _JOINTS)))
    joints = tuple(i for i, character in enumerate(widest) if character in _JOINTS)
    table = Boxed(tuple(map(str, range(len(joints) - 1))), joints)
    rows = [cells for text in texts if (cells := table.cells(text))]
    if len(rows) < _FEWEST_ROWS:
        return None
    named = all(rows[0]) and len(set(rows[0])) == len(rows[0]) and not any(map(stamps.ANY.search, rows[0]))
    return table._replace(names=tuple(rows[0])) if named else table
