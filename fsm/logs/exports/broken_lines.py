"""Repairs lines that were broken by a terminal at its width, a GitLab runner at its buffer size, psql in multi-line
cells, or a mail between words, and lines in reverse order. The parts are joined before anything else is parsed, and
meaningless lines are dropped."""

from __future__ import annotations

import json
import quopri
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, auto
from functools import cached_property
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from fsm.logs.exports.box_tables import Boxed, find_boxed
from fsm.logs.layouts import stamps
from fsm.logs.reading.blocks import Numbers, line_bounds
from fsm.logs.reading.entries import CONTINUES


class Wrapped(NamedTuple):
    """Lines wrapped at the right edge of a screen, as in tmux panes and copies from terminals."""

    width: int
    """Of the screen, in characters."""

    def begins(self, row: Sequence[bytes], line: bytes) -> bool:
        """Whether a line is the first of a row, rather than a continuation of the line above."""
        left = self.width - len(_decode(row[-1]))
        return left < 0 or left > 1 or (left == 1 and line[:1] == b" ") or _has_stamp(line)

    def rows(self, text: bytes) -> list[bytes]:
        """The parts as one line; the blank at the right edge that terminals drop is restored."""
        *parts, last = map(_decode, text.split(b"\n"))
        return ["".join([*(part.ljust(self.width) for part in parts), last]).encode()]


class Folded(NamedTuple):
    """Lines wrapped between words at a maximum width, as in mails; possibly quoted, possibly with a blank at the end of
    wrapped lines (RFC 3676)."""

    width: int
    indent: str
    """The indentation of continuation lines."""
    blanks: bool
    """Wrapped lines end with a blank."""

    def begins(self, row: Sequence[bytes], line: bytes) -> bool:
        (quote, text), (above, before) = _split_quote(_decode(line)), _split_quote(_decode(row[-1]))
        return quote != above or not self.is_continuation(before, text) or _has_stamp(text.encode())

    def is_continuation(self, above: str, text: str) -> bool:
        """Whether the first word of a line did not fit on the line above."""
        words = text.split(None, 1)
        if len(above) > self.width and len(above.split(None, 1)) > 1:  # of a part of the file that was not wrapped
            return False
        if self.blanks or not words or not above.strip():
            return bool(words) and above.endswith(" ")
        if text[: len(text) - len(text.lstrip())] != self.indent:
            return False
        aligned = text.lstrip().startswith("[") and above.rstrip().endswith(":")  # lists, after dropped blanks
        return aligned or len(above.rstrip()) + 1 + len(words[0]) > self.width

    def rows(self, text: bytes) -> list[bytes]:
        """The parts as one line."""
        quotes, parts = zip(*(_split_quote(_decode(line)) for line in text.split(b"\n")), strict=True)
        first, *more = (part.rstrip() if len(parts) > 1 else part for part in parts)
        first = first.removeprefix(" ") if self.blanks else first  # RFC 3676 doubles a leading blank
        return [(quotes[0] + " ".join([first, *map(str.strip, more)])).encode()]


class Hanging(NamedTuple):
    """Messages wrapped in a column between the level and a place in a source file, as by Rich. Only the first entry of
    a second has a time: those below belong to its row."""

    level: int
    """The position of the level, up to which entries without a time are blank."""
    message: int
    """The position of the messages, up to which their other lines are blank."""

    def begins(self, _row: Sequence[bytes], line: bytes) -> bool:
        return bool(line[: self.level].strip())

    def rows(self, text: bytes) -> list[bytes]:
        """The entries of a second, each with its time."""
        first, *more = map(_decode, text.split(b"\n"))
        entries = [[first]]
        for line in more:
            if line[: self.message].strip():
                entries.append([first[: self.level] + line[self.level :]])
            else:
                entries[-1].append(line)
        return [self._join(entry).encode() for entry in entries]

    def _join(self, entry: Sequence[str]) -> str:
        """The parts as one line. A word that is longer than the column is cut."""
        first, *more = entry
        head, place = _split_place(first)
        if not place:
            return "\n".join(entry)
        parts = [head[self.message :].strip(), *map(str.strip, more)]
        width = len(head) - self.message
        text = "".join(part if len(part) == width and " " not in part else f"{part} " for part in parts)
        return head[: self.message] + text.rstrip()


def _split_place(line: str) -> tuple[str, str]:
    """A line without the place in a source file at its end, and that; empty if it has none."""
    head, _, last = line.rstrip().rpartition(" ")
    return (head, last) if _PLACE.fullmatch(last) else (line, "")


_PLACE = re.compile(r"[\w./<>-]{1,200}\.\w{1,5}:\d{1,6}", re.ASCII)


class Reversed:
    """All lines in reverse order, not only entries, as printed by `tac`."""

    def begins(self, row: Sequence[bytes], _line: bytes) -> bool:
        return _has_stamp(row[-1])

    def rows(self, text: bytes) -> list[bytes]:
        """The lines of an entry, in their original order."""
        return text.split(b"\n")[::-1]


class JobLog:
    """The log of a GitLab runner with `FF_TIMESTAMPS`: a time, a stream, and a plus sign on continuation lines."""

    def begins(self, _row: Sequence[bytes], line: bytes) -> bool:
        return _JOB_PART.match(line) is None

    def rows(self, text: bytes) -> list[bytes]:
        """The parts as one line, with the time and stream of the first one."""
        return [b"".join(_JOB_PART.sub(b"", line, count=1) for line in text.split(b"\n"))]


class Aligned(NamedTuple):
    """A psql table: cells between bars, with a plus sign after those that continue on the next line."""

    names: tuple[str, ...]
    ends: tuple[int, ...]
    """The position of the bar after each column, and the end of the last column."""

    def begins(self, row: Sequence[bytes], _line: bytes) -> bool:
        above = _decode(row[-1])
        return not any(above[end - 1 : end] == "+" for end in self.ends)

    def rows(self, text: bytes) -> list[bytes]:
        """The cells by column, as a line of JSON; empty for the table's header and footer."""
        lines = [_decode(line) for line in text.split(b"\n")]
        if any(lines[0][end : end + 1] != "|" for end in self.ends[:-1]):
            return [] if _NO_ROW.fullmatch(lines[0]) else [text]
        if tuple(map(str.strip, self._split_cells(lines[0]))) == self.names:
            return []
        columns = zip(*map(self._split_cells, lines), strict=True)
        values = ("\n".join(cells).rstrip("\n") for cells in columns)
        return [json.dumps(dict(zip(self.names, values, strict=True))).encode()]

    def _split_cells(self, line: str) -> list[str]:
        starts = (0, *(end + 1 for end in self.ends))
        return [line[start : end - 1].removeprefix(" ").rstrip() for start, end in zip(starts, self.ends, strict=False)]


class Bulk:
    """Input of Elasticsearch's `_bulk`: an action line before each document."""

    def begins(self, _row: Sequence[bytes], _line: bytes) -> bool:
        return True

    def rows(self, text: bytes) -> list[bytes]:
        """The document."""
        return [] if _ACTION.match(text) else [text]


class Mail:
    """Quoted-printable text (RFC 2045, section 6.7): a line that ends with an equals sign continues on the next one."""

    def begins(self, row: Sequence[bytes], _line: bytes) -> bool:
        return not row[-1].rstrip(b"\r").endswith(b"=")

    def rows(self, text: bytes) -> list[bytes]:
        """The parts as one line, decoded."""
        return quopri.decodestring(text).split(b"\n")


class Stamped:
    """Lines that a web console shows below their times, each time on a line of its own."""

    def begins(self, _row: Sequence[bytes], line: bytes) -> bool:
        return len(line) <= stamps.WITHIN and stamps.ANY.fullmatch(_decode(line).strip(" \t[]")) is not None

    def rows(self, text: bytes) -> list[bytes]:
        """The lines, the first one behind its time."""
        first, *more = text.split(b"\n")
        return [first.rstrip() + b" " + more[0], *more[1:]] if more and self.begins((), first) else [first, *more]


Broken = Boxed | Stamped | Hanging | Wrapped | Folded | Reversed | JobLog | Aligned | Bulk | Mail
"""Each tells by `begins` whether a line is the first of a row, and makes the lines of a row by `rows`."""


class _Text:
    """The lines at the beginning of a text; split only when all of them are needed."""

    def __init__(self, head: bytes, bounds: Numbers) -> None:
        bounds = bounds[: _MOST_LINES + 1]
        self.data = head[: int(bounds[-1]) - 1]
        self.starts = bounds[:-1]
        self.lengths = np.diff(bounds) - 1
        """In bytes, without line feeds."""
        self.longest = self.line(int(self.lengths.argmax()))
        cells = np.frombuffer(self.data + b"\n", np.uint8)
        self.firsts = cells[self.starts]
        """The first byte of each line."""

    def __len__(self) -> int:
        return len(self.starts)

    def line(self, i: int) -> bytes:
        start = int(self.starts[i])
        return self.data[start : start + int(self.lengths[i])]

    @cached_property
    def lines(self) -> list[bytes]:
        return self.data.split(b"\n")

    def has_entries(self) -> bool:
        """Whether at least a tenth of the lines have a time."""
        enough = max(_FEWEST, -(-len(self) // 10))
        return sum(1 for _ in islice(filter(_has_stamp, self.lines), enough)) == enough

    def parts(self) -> Iterator[_Text]:
        """Those parts from the beginning of the text or to its end whose lines are shorter than all others."""
        count = len(self)
        for backwards in (False, True):
            longest = np.maximum.accumulate(self.lengths[::-1] if backwards else self.lengths)
            steps = [0, *(np.flatnonzero(np.diff(longest)) + 1).tolist()]
            for end, start in pairwise(reversed(steps)):
                if end - start >= max(_FEWEST_ALIKE, count / 5) and longest[start] < _WIDTHS[-1]:
                    first, last = (count - end, count) if backwards else (0, end)
                    begin = int(self.starts[first])
                    bounds = np.append(self.starts[first:last], self.starts[last - 1] + self.lengths[last - 1] + 1)
                    yield _Text(self.data[begin : int(bounds[-1])], bounds - begin)


def find_broken(head: bytes, bounds: Numbers | None = None) -> Broken | None:
    """How the lines of a text with these bounds were broken; None if they were not."""
    if _QUOTED_PRINTABLE in head[:_MAIL_HEAD].lower() and _QUOTED.search(head, 0, _MAIL_HEAD):
        return Mail()
    text = _Text(head, line_bounds(head) if bounds is None else bounds)
    if len(text) > 2 and _ACTION.match(text.line(0)) and _ACTION.match(text.line(2)):
        return Bulk()
    first = text.data.split(b"\n", _FIRST_LINES)[:_FIRST_LINES]
    return (
        _find_job(text, first)
        or _find_aligned(text)
        or find_boxed(first)
        or _find_stamped(text)
        or _find_hanging(text, first)
        or _find_reversed(text)
        or _find_cut(text)
        # Entries begin in such a part: settings at the end of a log that was cut are none.
        or next((found for part in text.parts() if (found := _find_cut(part)) and part.has_entries()), None)
    )


def _find_cut(text: _Text) -> Wrapped | Folded | None:
    return _find_wrapped(text) or _find_folded(text)


_MOST_LINES, _FIRST_LINES, _MAIL_HEAD = 4000, 401, 1 << 14
_QUOTED_PRINTABLE = b"quoted-printable"
_QUOTED = re.compile(rb"(?im)^Content-Transfer-Encoding: *" + _QUOTED_PRINTABLE)
_ACTION = re.compile(rb'\{\s*"(?:index|create)"\s*:\s*\{[^{}]*\}\s*\}\s*\Z')
_OF_JOB = rb"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z [0-9a-f]{2}[OE]"
_JOB_LINE, _JOB_PART = re.compile(_OF_JOB + rb"[ +]"), re.compile(_OF_JOB + rb"\+")
_DASHES, _NO_ROW = re.compile(r"-+(?:\+-+)+"), re.compile(r"[-+]+|\(\d+ rows?\)|")
_FEWEST, _DIFFERENT, _WIDTHS, _FEWEST_ALIKE = 4, 10, range(40, 501), 40


def _decode(line: bytes) -> str:
    return line.decode("utf-8", "replace").removesuffix("\r")


def _has_stamp(line: bytes) -> bool:
    return stamps.ANY.search(_decode(line[: stamps.WITHIN])) is not None


def _find_job(text: _Text, first: Sequence[bytes]) -> JobLog | None:
    too_many = -(-len(text) // 10) + 1
    if not any(map(_JOB_LINE.match, first[:too_many])):
        return None
    others = islice((line for line in text.lines if not _JOB_LINE.match(line)), too_many)
    return JobLog() if sum(1 for _ in others) < too_many and any(map(_JOB_PART.match, text.lines)) else None


def _find_aligned(text: _Text) -> Aligned | None:
    dashes = np.flatnonzero(text.firsts == ord("-")).tolist()
    at = next((i for i in dashes if _DASHES.fullmatch(_decode(text.line(i)))), 0)
    if not at:
        return None
    ends = [match.start() for match in re.finditer(r"\+|\Z", _decode(text.line(at)))]
    head = _decode(text.line(at - 1))
    if any(head[end : end + 1] != "|" for end in ends[:-1]):
        return None
    return Aligned(tuple(name.strip() for name in head.split("|")), tuple(ends))


def _find_stamped(text: _Text) -> Stamped | None:
    """At least a third of the first lines are times, never two of them in a row."""
    found = Stamped()
    short = np.flatnonzero(text.lengths[:_FIRST_LINES] <= stamps.WITHIN).tolist()
    most = max(_FEWEST, min(len(text), _FIRST_LINES) / 3)
    alone = [i for i in short if found.begins((), text.line(i))] if len(short) > most else []
    return found if len(alone) > most and all(below > above + 1 for above, below in pairwise(alone)) else None


def _find_hanging(text: _Text, first: Sequence[bytes]) -> Hanging | None:
    """Nearly all lines end with a place in a source file, or are indented far below one that does."""
    indented = np.flatnonzero(text.firsts[: len(first)] == ord(" ")).tolist()
    if not any(first[i].startswith(b" " * _LEAST_HANGING) for i in indented):
        return None
    lines = [line for line in map(_decode, first) if line.strip()]
    ends = [bool(_split_place(line)[1]) for line in lines]
    indents = [len(line) - len(line.lstrip(" ")) for line in lines]
    messages = Counter(indent for indent, ended in zip(indents, ends, strict=True) if not ended)
    message = messages.most_common(1)[0][0] if messages else 0
    if message < _LEAST_HANGING or sum(ends) < _FEWEST or sum(ends) + messages[message] < 0.8 * len(lines):
        return None
    levels = Counter(indent for indent, ended in zip(indents, ends, strict=True) if ended and 0 < indent < message)
    return Hanging(levels.most_common(1)[0][0] if levels else message, message)


_LEAST_HANGING = 10


def _find_wrapped(text: _Text) -> Wrapped | None:
    """Full-width lines have different ends, and lines that begin no entry follow them."""
    if len(_decode(text.longest)) > _WIDTHS[-1]:
        return None
    plain = text.data.isascii() and b"\r" not in text.data
    lengths = text.lengths if plain else np.array([len(_decode(line)) for line in text.lines])
    width = int(lengths.max())
    full = np.flatnonzero(lengths[:-1] == width).tolist()
    if width not in _WIDTHS or len({text.line(i)[-_DIFFERENT:] for i in full}) < _FEWEST:
        return None
    lines = text.lines
    below = [lines[i + 1] for i in full]
    stamped = sum(_has_stamp(line) or line[:_ALIKE] == lines[i][:_ALIKE] for i, line in zip(full, below, strict=True))
    unexpected = sum(map(_is_unexpected, below))
    nearly = sum(
        width - _LONGEST_WORD < n < width - 1 and _is_unexpected(line)
        for n, line in zip(lengths.tolist(), lines[1:], strict=False)
    )
    cut = stamped <= len(full) / 5 and unexpected >= max(len(full) / 2, nearly)
    return Wrapped(width) if cut else None


_ALIKE = 8
"""Characters at the beginning of a line by which it begins as the line above it does: a collector wrote both."""


def _is_unexpected(line: bytes) -> bool:
    """Whether a line neither begins an entry, as a JSON object does, nor looks like a continuation line."""
    return line[:1] != b"{" and not _has_stamp(line) and CONTINUES(line) is None


_QUOTES = re.compile(r"(?:> ?)*")


def _split_quote(line: str) -> tuple[str, str]:
    """The quote prefix of a line in a mail, and the rest of the line."""
    match = _QUOTES.match(line)
    end = match.end() if match is not None else 0
    return line[:end], line[end:]


def _measure_width(lines: Iterable[bytes]) -> int:
    """The width of the longest line that has two words."""
    texts = (_split_quote(_decode(line))[1].rstrip() for line in lines)
    return max((len(text) for text in texts if len(text.split(None, 1)) > 1), default=0)


def _find_folded(text: _Text) -> Folded | None:
    """No line with two words exceeds a maximum width, and most lines that begin no entry did not fit on the line
    above."""
    if _measure_width([text.longest]) > _FOLDS[-1] or (width := _measure_width(text.lines)) not in _FOLDS:
        return None
    texts = [_split_quote(_decode(line))[1] for line in text.lines]
    pairs = [(above, below) for above, below in pairwise(texts) if above.strip() and below.strip()]
    pairs = [(above, below) for above, below in pairs if not _has_stamp(below.encode())]
    indented: dict[str, list[tuple[str, str]]] = {}
    for above, below in pairs:
        indented.setdefault(below[: len(below) - len(below.lstrip())], []).append((above, below))
    for indent, own in sorted(indented.items(), key=lambda item: -len(item[1]))[:_MOST_INDENTS]:
        folded = Folded(width, indent, blanks=False)
        unexpected = [one for one in own if indent or _is_unexpected(one[1].encode())]
        broken = [above for above, below in unexpected if folded.is_continuation(above, below)]
        if len(broken) >= _FEWEST and len(broken) > 0.6 * len(unexpected):
            return folded._replace(blanks=sum(above.endswith(" ") for above in broken) > 0.8 * len(broken))
    return None


def _find_reversed(text: _Text) -> Reversed | None:
    blank = (text.firsts == ord("\t")) | (text.firsts == ord(" "))
    above, below = np.append(False, blank[:-1]), np.append(blank[1:], False)
    beside = np.flatnonzero(~blank & (above | below)).tolist()
    return Reversed() if find_blocks(text.line, beside, len(text)) is Side.ABOVE else None


class Side(Enum):
    ABOVE = auto()
    BELOW = auto()


def find_blocks(line: Callable[[int], bytes], places: Iterable[int], count: int) -> Side | None:
    """On which side of the lines that open them most blocks of settings and stack traces are: above, if a text is
    upside down; None if there are as many on both sides. Of `count` lines those at `places` may open one."""
    opens = [(i, _FRAME if found[1] else _INDENTED) for i in places if (found := _OPENS_BLOCK.search(line(i)))]
    above = sum(inside.match(line(i - 1)) is not None for i, inside in opens if i)
    below = sum(inside.match(line(i + 1)) is not None for i, inside in opens if i + 1 < count)
    return None if above == below else Side.ABOVE if above > below else Side.BELOW


_FOLDS, _LONGEST_WORD, _MOST_INDENTS = range(60, 133), 12, 3
_INDENTED, _FRAME = re.compile(rb" ?\t|    +"), re.compile(rb"\s+(?:at|\.\.\.) ")
"""A line of a block, and one of a stack trace; Python puts the error below its frames, whose lines are others."""
_OPENS_BLOCK = re.compile(rb" values:| Updating assignment with\s*\Z|^([\w$.]{1,200}(?:Exception|Error))(?::|\s*\Z)")
