"""Lines that whoever showed them broke: a terminal at its width, a runner of GitLab's at its buffer, psql where a cell
has several lines, a mail between words; or turned over, one by one. Their parts are put together before anything is
looked for, and lines that say nothing are left out."""

from __future__ import annotations

import json
import quopri
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from fsm.logs.exports.box_tables import Boxed, find_boxed
from fsm.logs.layouts import stamps
from fsm.logs.reading.blocks import line_bounds
from fsm.logs.reading.entries import CONTINUES


class Wrapped(NamedTuple):
    """Lines that go on below where they reach the right edge, as panes of tmux and copies from terminals have them."""

    width: int
    """Of the screen, in characters."""

    def begins(self, row: Sequence[bytes], line: bytes) -> bool:
        """Whether a line is the first of a row, and not another part of the one above it."""
        left = self.width - len(_show(row[-1]))
        return left > 1 or (left == 1 and line[:1] == b" ") or _has_stamp(line)

    def rows(self, text: bytes) -> list[bytes]:
        """The parts as one line; a blank at the right edge, which terminals leave out, is put back."""
        *parts, last = map(_show, text.split(b"\n"))
        return ["".join([*(part.ljust(self.width) for part in parts), last]).encode()]


class Folded(NamedTuple):
    """Lines that go on below where the next word would have reached over an edge, as mails have them; perhaps quoted,
    perhaps with a blank where they go on (RFC 3676)."""

    width: int
    indent: str
    """Of what goes on."""
    blanks: bool
    """Lines that go on below end with a blank."""

    def begins(self, row: Sequence[bytes], line: bytes) -> bool:
        """As of `Wrapped`."""
        (quote, text), (above, before) = _split_quote(_show(line)), _split_quote(_show(row[-1]))
        return quote != above or not self.goes_on(before, text) or _has_stamp(text.encode())

    def goes_on(self, above: str, text: str) -> bool:
        """Whether the first word of a line had no place in the line above, whatever it says."""
        words = text.split(None, 1)
        if self.blanks or not words or not above.strip():
            return bool(words) and above.endswith(" ")
        if text[: len(text) - len(text.lstrip())] != self.indent:
            return False
        aligned = text.lstrip().startswith("[") and above.rstrip().endswith(":")  # lists, behind blanks left out
        return aligned or len(above.rstrip()) + 1 + len(words[0]) > self.width

    def rows(self, text: bytes) -> list[bytes]:
        """The parts as one line."""
        quotes, parts = zip(*(_split_quote(_show(line)) for line in text.split(b"\n")), strict=True)
        first, *more = (part.rstrip() if len(parts) > 1 else part for part in parts)
        first = first.removeprefix(" ") if self.blanks else first  # where it begins with one it has another before it
        return [(quotes[0] + " ".join([first, *map(str.strip, more)])).encode()]


class TurnedOver(NamedTuple):
    """Lines in the opposite order, not only entries, as `tac` prints them."""

    within: int
    """Characters of a first line in which its time stands."""

    def begins(self, row: Sequence[bytes], _line: bytes) -> bool:
        """As of `Wrapped`."""
        return _has_stamp(row[-1][: self.within])

    def rows(self, text: bytes) -> list[bytes]:
        """The lines of an entry, its first one first."""
        return text.split(b"\n")[::-1]


class JobLog(NamedTuple):
    """What GitLab's runner prints with `FF_TIMESTAMPS`: a time, a stream, and a plus sign where a line goes on."""

    part: re.Pattern[bytes]
    """What stands before a part that is not the first one of its line."""

    def begins(self, _row: Sequence[bytes], line: bytes) -> bool:
        """As of `Wrapped`."""
        return self.part.match(line) is None

    def rows(self, text: bytes) -> list[bytes]:
        """The parts as one line behind the first one's time and stream."""
        return [b"".join(self.part.sub(b"", line, count=1) for line in text.split(b"\n"))]


class Aligned(NamedTuple):
    """A table of psql: cells between bars, a plus sign behind those that go on in the next line."""

    names: tuple[str, ...]
    ends: tuple[int, ...]
    """Where the bar behind each column is, and where the last column ends."""

    def begins(self, row: Sequence[bytes], _line: bytes) -> bool:
        """As of `Wrapped`."""
        above = _show(row[-1])
        return not any(above[end - 1 : end] == "+" for end in self.ends)

    def rows(self, text: bytes) -> list[bytes]:
        """The cells by their columns, as a line of JSON; nothing for the table's head and foot."""
        lines = [_show(line) for line in text.split(b"\n")]
        if any(lines[0][end : end + 1] != "|" for end in self.ends[:-1]):
            return [] if _NO_ROW.fullmatch(lines[0]) else [text]
        if tuple(map(str.strip, self._cells(lines[0]))) == self.names:
            return []
        columns = zip(*map(self._cells, lines), strict=True)
        values = ("\n".join(cells).rstrip("\n") for cells in columns)
        return [json.dumps(dict(zip(self.names, values, strict=True))).encode()]

    def _cells(self, line: str) -> list[str]:
        starts = (0, *(end + 1 for end in self.ends))
        return [line[start : end - 1].removeprefix(" ").rstrip() for start, end in zip(starts, self.ends, strict=False)]


class Bulk(NamedTuple):
    """What Elasticsearch's `_bulk` takes: above each document a line that says what is done with it."""

    action: re.Pattern[bytes]

    def begins(self, _row: Sequence[bytes], _line: bytes) -> bool:
        """As of `Wrapped`."""
        return True

    def rows(self, text: bytes) -> list[bytes]:
        """The document."""
        return [] if self.action.match(text) else [text]


class Mail(NamedTuple):
    """Quoted-printable text (RFC 2045, section 6.7): a line goes on behind an equals sign at its end."""

    breaks: bytes = b"="

    def begins(self, row: Sequence[bytes], _line: bytes) -> bool:
        """As of `Wrapped`."""
        return not row[-1].rstrip(b"\r").endswith(self.breaks)

    def rows(self, text: bytes) -> list[bytes]:
        """The parts as one line, with characters for their codes."""
        return quopri.decodestring(text).split(b"\n")


Broken = Boxed | Wrapped | Folded | TurnedOver | JobLog | Aligned | Bulk | Mail


class _Text:
    """The lines at the beginning of a text, which are split only where all of them are asked for."""

    def __init__(self, head: bytes) -> None:
        bounds = line_bounds(head)[: _MOST_LINES + 1]
        self.data = head[: int(bounds[-1]) - 1]
        self.starts = bounds[:-1]
        self.longest = self.line(int(np.diff(bounds).argmax()))
        cells = np.frombuffer(self.data + b"\n", np.uint8)
        self.firsts = cells[self.starts]
        """The first byte of each line."""

    def __len__(self) -> int:
        return len(self.starts)

    def line(self, i: int) -> bytes:
        start = int(self.starts[i])
        end = self.data.find(b"\n", start)
        return self.data[start : end if end >= 0 else len(self.data)]

    @cached_property
    def lines(self) -> list[bytes]:
        return self.data.split(b"\n")


def find_broken(head: bytes) -> Broken | None:
    """Who broke the lines of a text, if somebody did."""
    if _QUOTED_PRINTABLE in head[:_MAIL_HEAD].lower() and _QUOTED.search(head, 0, _MAIL_HEAD):
        return Mail()
    text = _Text(head)
    if len(text) > 2 and _ACTION.match(text.line(0)) and _ACTION.match(text.line(2)):
        return Bulk(_ACTION)
    first = text.data.split(b"\n", _FIRST_LINES)[:_FIRST_LINES]
    return (
        _find_job(text, first)
        or _find_aligned(text)
        or find_boxed(first)
        or _find_turned(text)
        or _find_wrapped(text)
        or _find_folded(text)
    )


_MOST_LINES, _FIRST_LINES, _MAIL_HEAD = 4000, 401, 1 << 14
_QUOTED_PRINTABLE = b"quoted-printable"
_QUOTED = re.compile(rb"(?im)^Content-Transfer-Encoding: *" + _QUOTED_PRINTABLE)
_ACTION = re.compile(rb'\{\s*"(?:index|create)"\s*:\s*\{[^{}]*\}\s*\}\s*\Z')
_OF_JOB = rb"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z [0-9a-f]{2}[OE]"
_JOB_LINE, _JOB_PART = re.compile(_OF_JOB + rb"[ +]"), re.compile(_OF_JOB + rb"\+")
_DASHES, _NO_ROW = re.compile(r"-+(?:\+-+)+"), re.compile(r"[-+]+|\(\d+ rows?\)|")
_FEWEST, _DIFFERENT, _WIDTHS, _STAMPED_WITHIN = 4, 10, range(40, 501), 50


def _show(line: bytes) -> str:
    return line.decode("utf-8", "replace").removesuffix("\r")


def _has_stamp(line: bytes) -> bool:
    return stamps.ANY.search(_show(line[:_STAMPED_WITHIN])) is not None


def _find_job(text: _Text, first: Sequence[bytes]) -> JobLog | None:
    too_many = -(-len(text) // 10) + 1
    if not any(map(_JOB_LINE.match, first[:too_many])):
        return None
    others = islice((line for line in text.lines if not _JOB_LINE.match(line)), too_many)
    return JobLog(_JOB_PART) if sum(1 for _ in others) < too_many and any(map(_JOB_PART.match, text.lines)) else None


def _find_aligned(text: _Text) -> Aligned | None:
    dashes = np.flatnonzero(text.firsts == ord("-")).tolist()
    at = next((i for i in dashes if _DASHES.fullmatch(_show(text.line(i)))), 0)
    if not at:
        return None
    ends = [match.start() for match in re.finditer(r"\+|\Z", _show(text.line(at)))]
    head = _show(text.line(at - 1))
    if any(head[end : end + 1] != "|" for end in ends[:-1]):
        return None
    return Aligned(tuple(name.strip() for name in head.split("|")), tuple(ends))


def _find_wrapped(text: _Text) -> Wrapped | None:
    """Lines that reach the right edge end in different ways, and other lines than usual stand below them."""
    if len(_show(text.longest)) > _WIDTHS[-1]:
        return None
    lines, plain = text.lines, text.data.isascii() and b"\r" not in text.data
    lengths = list(map(len, lines if plain else map(_show, lines)))
    width = max(lengths)
    full = np.flatnonzero(np.array(lengths[:-1]) == width).tolist()
    if width not in _WIDTHS or len({lines[i][-_DIFFERENT:] for i in full}) < _FEWEST:
        return None
    below = [lines[i + 1] for i in full]
    stamped = sum(map(_has_stamp, below))
    strange = sum(map(_is_strange, below))
    nearly = sum(
        width - _LONGEST_WORD < n < width - 1 and _is_strange(line) for n, line in zip(lengths, lines[1:], strict=False)
    )
    cut = stamped <= len(full) / 10 and strange >= max(len(full) / 2, nearly)
    return Wrapped(width) if cut else None


def _is_strange(line: bytes) -> bool:
    """Whether a line neither begins an entry nor looks like one that continues one."""
    return not _has_stamp(line) and CONTINUES(line) is None


_QUOTES = re.compile(r"(?:> ?)*")


def _split_quote(line: str) -> tuple[str, str]:
    """What quotes a line in a mail, and the line."""
    match = _QUOTES.match(line)
    end = match.end() if match is not None else 0
    return line[:end], line[end:]


def _width(lines: Iterable[bytes]) -> int:
    """Of the longest line with two words."""
    texts = (_split_quote(_show(line))[1].rstrip() for line in lines)
    return max((len(text) for text in texts if len(text.split(None, 1)) > 1), default=0)


def _find_folded(text: _Text) -> Folded | None:
    """No line with two words is longer than others, and most lines that begin nothing had no place above."""
    if _width([text.longest]) > _FOLDS[-1] or (width := _width(text.lines)) not in _FOLDS:
        return None
    texts = [_split_quote(_show(line))[1] for line in text.lines]
    pairs = [(above, below) for above, below in pairwise(texts) if above.strip() and below.strip()]
    pairs = [(above, below) for above, below in pairs if not _has_stamp(below.encode())]
    indents = Counter(below[: len(below) - len(below.lstrip())] for _, below in pairs)
    for indent, _ in indents.most_common(_MOST_INDENTS):
        folded = Folded(width, indent, blanks=False)
        strange = [one for one in pairs if one[1].startswith(indent) and (indent or _is_strange(one[1].encode()))]
        broken = [above for above, below in strange if folded.goes_on(above, below)]
        if len(broken) >= _FEWEST and len(broken) > 0.6 * len(strange):
            return folded._replace(blanks=sum(above.endswith(" ") for above in broken) > 0.8 * len(broken))
    return None


def _find_turned(text: _Text) -> TurnedOver | None:
    """What opens a block of settings, or names what was thrown, stands below it in most cases."""
    blank = (text.firsts == ord("\t")) | (text.firsts == ord(" "))
    above, below = np.append(False, blank[:-1]), np.append(blank[1:], False)
    opens = [i for i in np.flatnonzero(~blank & (above | below)).tolist() if _OPENS_BLOCK.search(text.line(i))]
    stand_below = sum(_INDENTED.match(text.line(i - 1)) is not None for i in opens if i)
    stand_above = sum(_INDENTED.match(text.line(i + 1)) is not None for i in opens if i + 1 < len(text))
    return TurnedOver(_STAMPED_WITHIN) if stand_below > stand_above else None


_FOLDS, _LONGEST_WORD, _MOST_INDENTS = range(60, 133), 12, 3
_INDENTED = re.compile(rb"\t|    +")
_OPENS_BLOCK = re.compile(rb" values:|^[\w$.]{1,200}(?:Exception|Error)(?::|\s*\Z)")
