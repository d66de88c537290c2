"""What collectors put around each line that a program prints: the parts into which a container's runtime cuts long
lines, and named fields of which one holds the line or the message."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from fsm.logs.layouts import fields as structured
from fsm.logs.layouts import stamps
from fsm.logs.layouts.headers import Header


class Peeled(NamedTuple):
    """A line without one frame."""

    text: str
    time: object = None
    level: str = ""
    thread: str = ""
    logger: str = ""
    error: str = ""
    pid: str = ""
    fields: Mapping[str, Any] = {}
    stream: str = ""
    partial: bool = False
    """What follows in the next line of the stream belongs to this one."""


_CRI = re.compile(
    rf"({stamps.without_names(stamps.BY_NAME['iso'].pattern)}) (stdout|stderr) ([FP])(?::\S*)? (.*)\Z", re.DOTALL
)


class Parts:
    """What the runtime of a Kubernetes node writes: `TIME stdout F line`, long lines in parts (`P`)."""

    name = "cri"
    framing = True

    def peel(self, line: str) -> Peeled | None:
        match = _CRI.match(line)
        if match is None:
            return None
        return Peeled(match[4], time=match[1], stream=match[2], partial=match[3] == "P")


class Numbered:
    """What `grep -n` puts before each line: its number, perhaps behind the name of the file; `cat -n`, `less -N` and
    editors put it into a column."""

    name = "number"
    framing = True
    pattern = re.compile(
        r"(?:[^\s:]{1,200}(?<!\d):)?(\d{1,9})[:-](?=\D|\d\d)|[ \t]{0,8}(\d{1,7})(?:\t|[ ][│|][ ]?|[ ]|\Z)", re.ASCII
    )

    def peel(self, line: str) -> Peeled | None:
        match = self.pattern.match(line)
        return Peeled(line[match.end() :]) if match is not None else None


@dataclass(frozen=True, eq=False)
class Found:
    """What `grep` puts before each line that it found, and before those around it: the file, perhaps a number."""

    files: tuple[str, ...]
    numbered: bool
    name: str = "grep"
    framing: bool = True

    @cached_property
    def _before(self) -> re.Pattern[str]:
        files = "|".join(map(re.escape, self.files))
        return re.compile(rf"({files})" + (r"([:-])\d{1,9}\2" if self.numbered else "[:-]"), re.ASCII)

    def peel(self, line: str) -> Peeled | None:
        match = self._before.match(line)
        return Peeled(line[match.end() :], stream=match[1]) if match is not None else None


@dataclass(frozen=True, eq=False)
class Named:
    """A line with named fields, of which one is the message or the line of another program."""

    name: str
    """`json`, `logfmt` or `csv`."""
    read: structured.Reader
    roles: structured.Roles
    before: Header | None
    """What stands before the fields."""
    whole_lines: bool
    """The field holds a line with its line feed, and one without goes on in the next (Docker's own files)."""
    framing: bool
    head: str = ""
    """The first row of a table that names its columns."""

    def peel(self, line: str) -> Peeled | None:
        return _peel(self, line) if len(line) > _LONG else _peel_again(self, line)

    def heads(self, line: bytes) -> bool:
        """Whether a line is the first row of a table, which names the columns."""
        return self.head != "" and line.decode("utf-8", "replace").removeprefix("\ufeff").rstrip("\r") == self.head

    @cached_property
    def paths(self) -> tuple[tuple[str, str], ...]:
        """The fields that are kept as they are, by their roles."""
        named = self.roles._asdict()
        kept = ("level", "thread", "logger", "error", "pid")
        return tuple((role, named[role]) for role in kept if named[role])


def _epoch_time(values: structured.Fields, path: str) -> object:
    """A field's value; seconds are completed by the field of nanoseconds beside them."""
    value = structured.value_at(values, path)
    if type(value) is int and path.lower().endswith(("second", "seconds")):
        scalars = structured.flatten(values)
        nanos = next((v for k, v in scalars.items() if "nano" in k.lower() and type(v) is int), 0)
        return value * 1_000_000_000 + nanos
    return value


def _peel(frame: Named, line: str) -> Peeled | None:
    found = frame.read(line)
    if found is None:
        return None
    before, values = found
    roles = frame.roles
    text = structured.value_at(values, roles.text)
    if not isinstance(text, str):
        return None
    text = structured.text_of(text).replace("\r\n", "\n")
    texts = {role: structured.text_of(structured.value_at(values, path)) for role, path in frame.paths}
    time: object = _epoch_time(values, roles.time) if roles.time else None
    stream = [structured.text_of(structured.value_at(values, path)) for path in roles.stream]
    if before and frame.before is not None:
        match = frame.before.pattern.match(before)
        slots = list(zip(frame.before.roles, match.groups(), strict=True)) if match else []
        time = time if time is not None else dict(slots).get("time")
        stream += [word for role, word in slots if role != "time"]
    if "error" in texts:
        texts["error"] = texts["error"].strip("\n").partition("\n")[0]
    partial = frame.whole_lines and not text.endswith("\n")
    return Peeled(text.removesuffix("\n"), time, **texts, fields=values, stream="\0".join(stream), partial=partial)


_LONG, _MOST_AGAIN = 2000, 2000
_peel_again = lru_cache(_MOST_AGAIN)(_peel)
"""A line is looked at twice: when entries are put together, and when they are read."""

Frame = Found | Numbered | Parts | Named
GAP = b"--"
"""What `grep` prints where it left lines out."""


def peel_all(text: str, frames: Sequence[Frame]) -> tuple[str | None, list[Peeled]]:
    peeled: list[Peeled] = []
    for frame in frames:
        inner = frame.peel(text)
        if inner is None:
            return None, []
        peeled.append(inner)
        text = inner.text
    return text, peeled


_CODES = re.compile("\x1b\\[[0-9;?]{0,20}[A-Za-z]|\x1b\\([AB0]|\x1b\\][^\x07\x1b]{0,500}(?:\x07|\x1b\\\\)|\0|\ufeff")


def clean(text: str) -> str:
    """The text without what colours it on terminals, without NUL characters and byte order marks, and with blanks for
    those that pages and chats keep from breaking."""
    if text.isascii() and "\x1b" not in text and "\0" not in text:
        return text
    return _CODES.sub("", text.replace("\xa0", " "))
