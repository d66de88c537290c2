"""Frames that collectors put around each line of a program: partial lines of container runtimes, and named fields of
which one is the line or the message."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from fsm.logs.layouts import fields as structured
from fsm.logs.layouts import stamps
from fsm.logs.layouts.headers import Header, join_programs, name_program


class Peeled(NamedTuple):
    """A line with one frame removed."""

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
    """The next line of the stream continues this one."""
    program: str = ""
    """The process that printed the line, if the frame names it."""


_CRI = re.compile(
    rf"({stamps.without_names(stamps.BY_NAME['iso'].pattern)}) (stdout|stderr) ([FP])(?::\S*)? (.*)\Z", re.DOTALL
)


class Parts:
    """The log format of a Kubernetes node (CRI): `TIME stdout F line`; long lines are split into parts (`P`)."""

    name = "cri"
    framing = True

    def peel(self, line: str) -> Peeled | None:
        match = _CRI.match(line)
        if match is None:
            return None
        return Peeled(match[4], time=match[1], stream=match[2], partial=match[3] == "P")


@dataclass(frozen=True)
class Numbered:
    """The line number that `grep -n` puts before each line, possibly after the file name, that `cat -n`, `less -N` and
    editors put into a column, or that is glued to lines copied from a page."""

    pattern: re.Pattern[str]
    """One of `NUMBERS`."""
    name = "number"
    framing = True

    def peel(self, line: str) -> Peeled | None:
        match = self.pattern.match(line)
        return Peeled(line[match.end() :]) if match is not None else None


NUMBERS = (
    re.compile(
        r"(?:[^\s:]{1,200}(?<!\d):)?(\d{1,9})[:-](?=\D|\d\d)|[ \t]{0,8}(\d{1,7})(?:\t|[ ][│|][ ]?|[ ]|\Z)", re.ASCII
    ),
    re.compile(r"()(\d{1,7})(?=\D|\Z)", re.ASCII),  # glued
)


@dataclass(frozen=True, eq=False)
class Found:
    """The prefix that `grep` puts before matching and context lines: the file name, possibly with a line number."""

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
        return Peeled(line[match.end() :], stream=match[1], program=match[1]) if match is not None else None


@dataclass(frozen=True, eq=False)
class Named:
    """A line with named fields, one of which is the message or the line of another program."""

    name: str
    """`json`, `logfmt` or `csv`."""
    read: structured.Reader
    roles: structured.Roles
    before: Header | None
    """The header before the fields."""
    whole_lines: bool
    """The field contains a line with its line feed; without one, the next line continues it (Docker's json-file
    logs)."""
    framing: bool
    head: str = ""
    """The header row of a table."""
    programs: tuple[tuple[int, bool], ...] = ()
    """The slots of `before` that name the process, and whether that is certain."""

    def peel(self, line: str) -> Peeled | None:
        return _peel(self, line) if len(line) > _LONG else _peel_cached(self, line)

    def is_header(self, line: bytes) -> bool:
        """Whether a line is the header row of a table."""
        return self.head != "" and line.decode("utf-8", "replace").removeprefix("\ufeff").rstrip("\r") == self.head

    @cached_property
    def paths(self) -> tuple[tuple[str, str], ...]:
        """The roles that are copied unchanged, with their fields."""
        named = self.roles._asdict()
        kept = ("level", "thread", "logger", "error", "pid")
        return tuple((role, named[role]) for role in kept if named[role])


def _epoch_time(values: structured.Fields, path: str) -> object:
    """A field's value; seconds are combined with the nanoseconds field next to them. What writes a file's objects may
    change in its middle: where the field is missing, the time is that of another one by its name."""
    value = structured.value_at(values, path)
    if value is None:
        return structured.find_time(structured.flatten(values))
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
    text = structured.fill(text, values.get("arguments")) if "{}" in text else text
    text = clean(structured.text_of(text)).replace("\r\n", "\n")  # JSON escapes the codes of a terminal
    texts = {role: structured.text_of(structured.value_at(values, path)) for role, path in frame.paths}
    time: object = _epoch_time(values, roles.time) if roles.time else None
    stream = [structured.text_of(structured.value_at(values, path)) for path in roles.stream]
    named = " ".join(structured.text_of(structured.value_at(values, path)) for path in roles.program.places).strip()
    program = [name_program(named, roles.program.is_certain)]
    if before and frame.before is not None:
        match = frame.before.pattern.match(before)
        slots = list(zip(frame.before.roles, match.groups(), strict=True)) if match else []
        time = time if time is not None else dict(slots).get("time")
        stream += [word for role, word in slots if role != "time"]
        program += [name_program(slots[i][1].strip(), sure) for i, sure in frame.programs] if slots else []
    if "error" in texts:
        texts["error"] = texts["error"].strip("\n").partition("\n")[0]
    partial = frame.whole_lines and not text.endswith("\n")
    return Peeled(
        text.removesuffix("\n"),
        time,
        **texts,
        fields=values,
        stream="\0".join(stream),
        partial=partial,
        program=join_programs(program),
    )


_LONG, _MOST_CACHED = 2000, 2000
_peel_cached = lru_cache(_MOST_CACHED)(_peel)
"""Each line is unframed twice: when entries are assembled, and when they are parsed."""

Frame = Found | Numbered | Parts | Named
GAP = b"--"
"""The separator that `grep` prints between groups of lines."""


def peel_all(text: str, frames: Sequence[Frame]) -> tuple[str | None, list[Peeled]]:
    peeled: list[Peeled] = []
    for frame in frames:
        inner = frame.peel(text)
        if inner is None:
            return None, []
        peeled.append(inner)
        text = inner.text
    return text, peeled


_CODES = re.compile(
    "\x1b\\[[0-9;?]{0,20}[A-Za-z]|\x1b\\([AB0]|\x1b\\][^\x07\x1b]{0,500}(?:\x07|\x1b\\\\)"
    "|[\0\ufeff\u200b-\u200f\u202a-\u202e\u2066-\u2069]"
)
_TIMED = re.compile("\x1b_bk;t=(\\d{13})\x07")
"""The time of a line in a job of Buildkite."""


def clean(text: str) -> str:
    """The text without terminal escape codes, NULs, byte order marks and marks of the direction of writing, and with
    no-break spaces replaced by blanks."""
    if text.isascii() and "\x1b" not in text and "\0" not in text:
        return text
    if "\x1b_" in text:
        text = _TIMED.sub(r"\1 ", text)
    return _CODES.sub("", text.replace("\xa0", " "))
