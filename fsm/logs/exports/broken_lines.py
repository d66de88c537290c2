"""Lines that whoever showed them broke: a terminal at its width, a runner of GitLab's at its buffer, psql where a cell
has several lines, a mail between words; or turned over, one by one. Their parts are put together before anything is
looked for, and lines that say nothing are left out."""

from __future__ import annotations

import json
import quopri
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from fsm.logs.exports.box_tables import Boxed, find_boxed
from fsm.logs.layouts import stamps
from fsm.logs.reading.blocks import line_bounds, words
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


def find_broken(head: bytes) -> Broken | None:
    """Who broke the lines of a text, if somebody did."""
    bounds = line_bounds(head)[: _MOST_LINES + 1]
    text = head[: int(bounds[-1]) - 1]
    lines = text.split(b"\n")
    if _QUOTED_PRINTABLE in head[:_MAIL_HEAD].lower() and _QUOTED.search(head, 0, _MAIL_HEAD):
        return Mail()
    if len(lines) > 2 and _ACTION.match(lines[0]) and _ACTION.match(lines[2]):
        return Bulk(_ACTION)
    told = words(_JOINT, *_OPENED_BY).lines(text, bounds).tolist()
    longest = lines[int(np.diff(bounds).argmax())]
    return (
        _find_job(lines)
        or _find_aligned(lines, told)
        or find_boxed(lines)
        or _find_turned(lines, told)
        or _find_wrapped(text, lines, longest)
        or _find_folded(lines, longest)
    )


_MOST_LINES, _MAIL_HEAD = 4000, 1 << 14
_QUOTED_PRINTABLE = b"quoted-printable"
_QUOTED = re.compile(rb"(?im)^Content-Transfer-Encoding: *" + _QUOTED_PRINTABLE)
_ACTION = re.compile(rb'\{\s*"(?:index|create)"\s*:\s*\{[^{}]*\}\s*\}\s*\Z')
_OF_JOB = rb"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z [0-9a-f]{2}[OE]"
_JOB_LINE, _JOB_PART = re.compile(_OF_JOB + rb"[ +]"), re.compile(_OF_JOB + rb"\+")
_JOINT = b"-+-"
_DASHES, _NO_ROW = re.compile(r"-+(?:\+-+)+"), re.compile(r"[-+]+|\(\d+ rows?\)|")
_FEWEST, _DIFFERENT, _WIDTHS, _STAMPED_WITHIN = 4, 10, range(40, 501), 50


def _show(line: bytes) -> str:
    return line.decode("utf-8", "replace").removesuffix("\r")


def _has_stamp(line: bytes) -> bool:
    return stamps.ANY.search(_show(line[:_STAMPED_WITHIN])) is not None


def _find_job(lines: Sequence[bytes]) -> JobLog | None:
    too_many = -(-len(lines) // 10) + 1
    others = islice((line for line in lines if not _JOB_LINE.match(line)), too_many)
    return JobLog(_JOB_PART) if sum(1 for _ in others) < too_many and any(map(_JOB_PART.match, lines)) else None


def _find_aligned(lines: Sequence[bytes], told: Iterable[int]) -> Aligned | None:
    at = next((i for i in told if lines[i][:1] == b"-" and _DASHES.fullmatch(_show(lines[i]))), 0)
    ends = [match.start() for match in re.finditer(r"\+|\Z", _show(lines[at]))]
    head = _show(lines[at - 1])
    if not at or any(head[end : end + 1] != "|" for end in ends[:-1]):
        return None
    return Aligned(tuple(name.strip() for name in head.split("|")), tuple(ends))


def _find_wrapped(text: bytes, lines: Sequence[bytes], longest: bytes) -> Wrapped | None:
    """Lines that reach the right edge end in different ways, and other lines than usual stand below them."""
    if len(_show(longest)) > _WIDTHS[-1]:
        return None
    plain = text.isascii() and b"\r" not in text
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


def _find_folded(lines: Sequence[bytes], longest: bytes) -> Folded | None:
    """No line with two words is longer than others, and most lines that begin nothing had no place above."""
    if _width([longest]) > _FOLDS[-1] or (width := _width(lines)) not in _FOLDS:
        return None
    texts = [_split_quote(_show(line))[1] for line in lines]
    pairs = [(above, text) for above, text in pairwise(texts) if above.strip() and text.strip()]
    pairs = [(above, text) for above, text in pairs if not _has_stamp(text.encode())]
    for indent, _ in Counter(text[: len(text) - len(text.lstrip())] for _, text in pairs).most_common(_MOST_INDENTS):
        folded = Folded(width, indent, blanks=False)
        strange = [one for one in pairs if one[1].startswith(indent) and (indent or _is_strange(one[1].encode()))]
        broken = [above for above, text in strange if folded.goes_on(above, text)]
        if len(broken) >= _FEWEST and len(broken) > 0.6 * len(strange):
            return folded._replace(blanks=sum(above.endswith(" ") for above in broken) > 0.8 * len(broken))
    return None


def _find_turned(lines: Sequence[bytes], told: Iterable[int]) -> TurnedOver | None:
    """What opens a block of settings, or names what was thrown, stands below it in most cases."""
    opens = [i for i in told if _OPENS_BLOCK.search(lines[i])]
    below = sum(_INDENTED.match(lines[i - 1]) is not None for i in opens if i)
    above = sum(_INDENTED.match(line) is not None for i in opens for line in lines[i + 1 : i + 2])
    return TurnedOver(_STAMPED_WITHIN) if below > above else None


_FOLDS, _LONGEST_WORD, _MOST_INDENTS = range(60, 133), 12, 3
_INDENTED = re.compile(rb"\t|    +")
_OPENS_BLOCK = re.compile(rb" values:|^[\w$.]{1,200}(?:Exception|Error)(?::|\s*\Z)")
_OPENED_BY = (b" values:", b"Exception", b"Error")
"""Such a line holds one of these."""
