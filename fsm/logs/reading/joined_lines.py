"""Lines that were joined to one: the last line of a file and the first one of another that was pasted behind it, and
the lines of one message, between which a collector wrote something else than line feeds."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

from fsm.logs import Format
from fsm.logs.reading.blocks import DIGITS, words

_DATED = re.compile(rb"[^0\n]{0,40}?0+(?:[-:/.|]0+){1,2}")
"""The beginning of a line up to some of its time, with masked digits."""
_MAY_END = frozenset(b")]}>\"'.;!?0" + string.ascii_letters.encode())
"""What may end a line: a time that is quoted in a message has a blank or an opening bracket before it."""


MOST_GLUED = 200
"""Entries behind the first one that are found in a line."""
_MOST_LOOKED_AT = 1000
_LONGEST_HEADER = 2000


def find_glued(data: bytes, formats: Sequence[Format]) -> Sequence[int]:
    """Where in the first line of an entry others begin, without a line feed before them: the first `MOST_GLUED`."""
    end = data.find(b"\n")
    masked = (data if end < 0 else data[:end]).translate(DIGITS)
    begins = _DATED.match(masked)
    found: list[int] = []
    at = masked.find(begins[0], begins.end()) if begins is not None else -1
    for _ in range(_MOST_LOOKED_AT):
        if begins is None or at < 0 or len(found) >= MOST_GLUED:
            break
        before = masked[at - 1]
        is_quoted = before in b"\"'" and masked.count(before, 0, at) % 2
        may_end = before in _MAY_END and before != masked[at] and not is_quoted
        if may_end and any(one.header.match(data[at : at + _LONGEST_HEADER]) for one in formats):
            found.append(at)
        at = masked.find(begins[0], at + 1)
    return found


_FEED = (
    rb"(?:(?:\\r)?\\n|(?:#015)?#012|(?:\^M)?\^J|&#10;|<br ?/?>|[|\x0b\0]|"
    + "\u2028".encode()
    + b"|"
    + "\u21b5".encode()
    + rb")"
)
"""What collectors write for a line feed."""
_BLANKS = rb"(?<![ \t])[ \t]*+"
_GAP = rb"(?:[ \t]|\\t|#011|\^I)"
_FIRST_GAP = rb"(?<![ \t])(?<!\\t)(?<!#011)(?<!\^I)" + _GAP
_INDENTED = (
    rb"(?=[a-z][a-z0-9.]{1,80} = |(?:Assigned|Current owned|Added|Revoked|Lost) partitions|Member: "
    rb"|at [\w$.<>/@-]{1,300}\(|\.\.\. \d+ (?:more|common))"
)
"""An indented line of a Java program: a setting, a list of partitions, a frame of a stack trace."""
_THROWN = rb"(?=(?:Caused by: |Suppressed: )?[\w$]{1,100}\.[\w$.]{0,200}(?:Exception|Error)\b)"
_BEFORE_INDENTED = re.compile(_BLANKS + _FEED + _GAP + rb"*+" + _INDENTED + rb"|" + _FIRST_GAP + rb"++" + _INDENTED)
_BEFORE_THROWN = re.compile(rb"(?:" + _BLANKS + _FEED + _GAP + rb"*|(?<=[)\]])" + _GAP + rb"*+)" + _THROWN)
_BEFORE_LOGGER = re.compile(_BLANKS + _FEED + _GAP + rb"*+(?=\(org\.apache\.kafka\.)")
_AT_END = re.compile(_BLANKS + _FEED + _GAP + rb"*+\Z")
_SIGNS = words(b" values:", b"ssignment with", b".java:")


def unfold(data: bytes) -> bytes:
    """The lines of an entry whose lines were joined to one; else the data itself."""
    if b"\n" in data or not _SIGNS.search(data) or not _BEFORE_INDENTED.search(data):
        return data
    text = _BEFORE_INDENTED.sub(b"\n\t", _AT_END.sub(b"", data))
    return _BEFORE_LOGGER.sub(b"\n ", _BEFORE_THROWN.sub(b"\n", text))
