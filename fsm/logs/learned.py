"""Layouts learned from the lines of a file: what collectors and loggers put around a client's messages.

A client's messages are known by their own words (`Client.marks`, `Client.understand`). Of some lines in which they
stand the rest is compared: frames are peeled one after another (fields of JSON, logfmt or a table; the parts into which
a container's runtime cuts long lines), then the header is found. A learned layout becomes a `Format` for each client,
so that known and learned layouts are read by one mechanism.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from itertools import pairwise, takewhile
from typing import Any, NamedTuple, cast

import re2

from fsm.logs import LEARNED, Client, Format, Message, stamps
from fsm.logs import fields as structured
from fsm.logs.entries import CONTINUES, LINE_LIMIT
from fsm.logs.headers import HEADER_LIMIT, SLOTS, Header, Token, commonest, header_of, split
from fsm.logs.java_layouts import without_trace
from fsm.trace import TraceRecord

MOST_LAYOUTS = 4
"""Of one file."""
MOST_FRAMES = 4
MOST_GUESSES = 3
MOST_SAMPLES = 120
"""Lines with a message of a client from which a layout is learned."""
ENOUGH_SAMPLES = 50
QUARTER_MS = 900_000
"""Zones differ by multiples of a quarter of an hour."""


class Description(NamedTuple):
    """A learned layout as it is told."""

    pattern: str
    share: float
    """Of the lines that were looked at, those it explains."""
    example: str
    guessed: tuple[str, ...]
    """What it took from elsewhere: `zone`, `year`, `date`."""
    lost: tuple[str, ...]
    """What the file does not tell: `date`, `logger`, `milliseconds`, `thread`, `time`, `year`, `zone`."""
    reversed: bool = False
    """The newest entry stands first."""


UNTOLD = Description("", 0.0, "", (), ())


class Guess(NamedTuple):
    """A layout that does not do, and why."""

    pattern: str
    why: str


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


@dataclass(frozen=True, slots=True)
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
        found = self.read(line)
        if found is None:
            return None
        before, values = found
        scalars = structured.flatten(values)
        text = scalars.get(self.roles.text)
        if not isinstance(text, str):
            return None
        text = structured.text_of(text)
        said = {role: structured.text_of(scalars.get(path)) for role, path in self._paths() if path}
        time: object = _epoch_time(scalars, self.roles.time)
        stream = [structured.text_of(scalars.get(path)) for path in self.roles.stream]
        if before and self.before is not None:
            match = self.before.pattern.match(before)
            slots = dict(zip(self.before.roles, match.groups(), strict=True)) if match else {}
            time = time if time is not None else slots.get("time")
            words = zip(self.before.roles, match.groups(), strict=True) if match else ()
            stream += [word for role, word in words if role != "time"]
        said["error"] = said.get("error", "").strip("\n").partition("\n")[0]
        return Peeled(
            text.removesuffix("\n"),
            time,
            **said,
            fields=values,
            stream="\0".join(stream),
            partial=self.whole_lines and not text.endswith("\n"),
        )

    def heads(self, line: bytes) -> bool:
        """Whether a line is the first row of a table, which names the columns."""
        return self.head != "" and line.decode("utf-8", "replace").removeprefix("\ufeff").rstrip("\r") == self.head

    def _paths(self) -> tuple[tuple[str, str], ...]:
        roles = self.roles
        return (
            ("level", roles.level),
            ("thread", roles.thread),
            ("logger", roles.logger),
            ("error", roles.error),
            ("pid", roles.pid),
        )


def _epoch_time(scalars: Mapping[str, Any], path: str) -> object:
    """A field's value; seconds are completed by the field of nanoseconds beside them."""
    value = scalars.get(path)
    if type(value) is int and path.lower().endswith("second"):
        nanos = next((v for k, v in scalars.items() if "nano" in k.lower() and type(v) is int), 0)
        return value * 1_000_000_000 + nanos
    return value


Frame = Parts | Named


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """How the lines of a file, or of one of the programs in it, are taken apart."""

    frames: tuple[Frame, ...]
    headers: tuple[Header, ...]
    """Of what the frames hold; none where that is the message itself."""
    after: Header | None
    """What stands behind each message."""
    tail: bool
    """Whether fields follow the message as a JSON object."""
    first: tuple[re.Pattern[str], ...]
    """As much of the headers as tells the first line of an entry."""
    repeated: re.Pattern[str] | None
    """What begins continuation lines as well."""
    clock: stamps.Clock
    description: Description = UNTOLD
    speaking: frozenset[str] = frozenset()
    """The clients that were understood in the lines that were learned from."""

    @property
    def by_lines(self) -> bool:
        """Whether entries can be told only behind frames: continuation lines have them, too."""
        return self.repeated is not None or self.second is not None or any(frame.framing for frame in self.frames)

    def look(self, line: str) -> Peeled | None:
        """The line without its frames; None where it has others."""
        told = Peeled(line)
        for frame in self.frames:
            inner = frame.peel(told.text)
            if inner is None:
                return None
            told = inner._replace(stream=f"{told.stream}\0{inner.stream}", partial=told.partial or inner.partial)
        if self.repeated is not None:
            match = self.repeated.match(told.text)
            if match is None:
                return None
            words = [word for word in match.groups() if not stamps.ANY.fullmatch(word)]
            if not self.begins(told.text):
                told = told._replace(text=told.text[match.end() :])
            told = told._replace(stream="\0".join((told.stream, *words)))
        return told

    @property
    def second(self) -> re.Pattern[str] | None:
        """The second line of headers that have one."""
        lines = self.headers[0].lines if self.headers else ()
        return header_of(lines[1], ()).pattern if len(lines) > 1 else None

    def begins(self, text: str) -> bool:
        """Whether a line without frames is the first of an entry."""
        if not self.headers:
            return not self.by_lines or _GOES_ON.match(text) is None
        return any(pattern.match(text) for pattern in self.first)

    def goes_on(self, text: str, above: int) -> bool:
        """Whether a line without frames, with so many above it, belongs to their entry."""
        if CONTINUES(text.encode("utf-8", "replace")):
            return True
        return above == 1 and self.second is not None and self.second.match(text) is not None

    def message(self, entry: str, zone: tzinfo) -> tuple[Message, frozenset[str]] | None:
        """What an entry says, and what its stamps leave out; None where it has not this layout."""
        clock = self.clock._replace(zone=zone)
        told, peeled = self._peel(clean(entry))
        if told is None:
            return None
        times = [one.time for one in peeled]
        values = {"level": "", "thread": "", "logger": ""}
        text, words = told, dict[str, str]()
        if self.headers:
            found = self._headed(told)
            if found is None:
                return None
            text, slots = found
            for role, word in slots:
                if role == "time":
                    times.append(word)
                elif role in values:
                    values[role] = values[role] or word.strip()
                else:
                    words[str(len(words) + 1)] = word
        text, error = without_trace(text)
        attributes: Mapping[str, Any] = {}
        if self.tail and (ended := structured.json_tail(text)) is not None:
            text, attributes = ended
        if self.after is not None and (match := _at_end(self.after, text)):
            text = text[: match.start()]
            for role, word in zip(self.after.roles, match.groups(), strict=True):
                values[role] = word.strip() if role in values else values.get(role, "")
        for one in reversed(peeled):
            values = {role: value or getattr(one, role) for role, value in values.items()}
            error = error or one.error
        time = _resolve(times, clock)
        inner = peeled[-1].fields if peeled and peeled[-1].fields else {}
        pid = next((one.pid for one in reversed(peeled) if one.pid), "")
        message = Message(
            time.ms,
            text,
            values["level"],
            values["logger"],
            values["thread"],
            error,
            pid,
            {**words, **inner, **attributes},
        )
        return message, time.lost

    def _headed(self, told: str) -> tuple[str, list[tuple[str, str]]] | None:
        """The message behind the header, and the header's slots."""
        for header in self.headers:
            match = header.pattern.match(told)
            if match is not None:
                return told[match.end() :], list(zip(header.roles, match.groups(), strict=True))
        return None

    def _peel(self, entry: str) -> tuple[str | None, list[Peeled]]:
        """The text of an entry behind all frames, and the frames of its first line."""
        if not self.frames and self.repeated is None:
            return entry, []
        if not self.by_lines:
            return _peel_all(entry, self.frames)
        first: list[Peeled] = []
        out: list[str] = []
        joined = False
        for line in entry.split("\n"):
            text, peeled = _peel_all(line, self.frames)
            if text is None:
                if not first:
                    return None, []
                text = line
            if not first and not out:
                first = peeled
            elif self.repeated is not None and (match := self.repeated.match(text)):
                text = text[match.end() :]
            if joined and out:
                out[-1] += text
            else:
                out.append(text)
            joined = any(one.partial for one in peeled)
        return "\n".join(out), first

    def records(self, client: Client, entry: str, zone: tzinfo) -> Sequence[TraceRecord] | None:
        """`Format.parse` of a client."""
        found = self.message(entry, zone)
        return client.understand(found[0]) if found is not None else None


def _peel_all(text: str, frames: Sequence[Frame]) -> tuple[str | None, list[Peeled]]:
    peeled: list[Peeled] = []
    for frame in frames:
        inner = frame.peel(text)
        if inner is None:
            return None, []
        peeled.append(inner)
        text = inner.text
    return text, peeled


_GOES_ON = re.compile(
    r"[\s}\])*]|\Z|(?:Caused by|Suppressed|Wrapped by): |[\w$]{1,100}\.[\w$.]{0,200}?(?:Exception|Error)(?::|\s*\Z)"
)
"""What the line of a message without a header does not begin with."""
_CODES = re.compile("\x1b\\[[0-9;?]{0,20}[A-Za-z]|\x1b\\([AB0]|\0")


def clean(text: str) -> str:
    """The text without what colours it on terminals, and without NUL characters."""
    return _CODES.sub("", text) if "\x1b" in text or "\0" in text else text


def _resolve(times: Sequence[object], clock: stamps.Clock) -> stamps.Time:
    """The time that an entry's stamps tell, from the outermost to the innermost: the innermost counts, and others
    complete what it leaves out."""
    read = [one for one in (structured.time_of(value, clock) for value in times) if one is not None]
    if not read:
        return stamps.Time(0, frozenset({"time"}))
    best = read[-1]
    for other in reversed(read[:-1]):
        missing = best.lost - other.lost
        if not missing:
            continue
        differ = best.ms - other.ms
        rest = differ - round(differ / QUARTER_MS) * QUARTER_MS
        if missing & {"zone", "date", "year"} and not other.lost & {"zone", "date", "year"}:
            best = stamps.Time(other.ms + rest, best.lost - {"zone", "date", "year"})
        if "milliseconds" in missing and abs(rest) <= 2000 and not other.lost & {"zone", "date", "year"}:
            best = stamps.Time(other.ms, other.lost)
    return best


def _at_end(after: Header, text: str) -> re.Match[str] | None:
    return re.compile(after.pattern.pattern + r"[ \t]*\Z", re.ASCII).search(
        text.rstrip("\n"), max(0, len(text) - HEADER_LIMIT)
    )


# -- learning ---------------------------------------------------------------------------------------------


class Sample(NamedTuple):
    """Lines of a file, in its order, and what is known of the file."""

    lines: tuple[str, ...]
    clock: stamps.Clock
    table: structured.Table | None = None
    """Entries are rows of it, not lines."""


def learn(sample: Sample, clients: Sequence[Client]) -> tuple[Layout, ...]:
    """The layouts in which messages of these clients stand."""
    lines = [clean(line) for line in sample.lines]
    marked = [i for i, line in enumerate(lines) if _marks(line, clients)]
    objects = {i for i in marked if structured.json_object(lines[i]) is not None}
    found: list[Layout] = []
    for left in ([i for i in marked if i in objects], [i for i in marked if i not in objects]):
        while left and len(found) < MOST_LAYOUTS:
            layout = _learn(_Lines(lines, left, clients, sample))
            rest = [i for i in left if layout is not None and not _explains(layout, lines[i])]
            if layout is None or len(rest) == len(left):
                break
            found.append(_described(layout, lines, clients))
            left = rest if len(rest) > 0.02 * len(marked) else []  # noqa: PLW2901
    return tuple(found)


def _marks(line: str, clients: Sequence[Client]) -> list[tuple[Client, int]]:
    """The clients of which a line has a mark, and where its first one stands."""
    out = []
    for client in clients:
        places = [place for mark in client.marks if (place := line.find(mark.decode())) >= 0]
        if places:
            out.append((client, min(places)))
    return out


class _Lines(NamedTuple):
    """Lines behind some frames, and which of them speak of clients."""

    lines: Sequence[str]
    marked: Sequence[int]
    clients: Sequence[Client]
    sample: Sample
    frames: tuple[Frame, ...] = ()

    @property
    def some(self) -> Sequence[int]:
        return self.marked[:: max(1, len(self.marked) // MOST_SAMPLES)]


def _learn(seen: _Lines) -> Layout | None:
    """The layout of these lines, or None."""
    if len(seen.frames) < MOST_FRAMES:
        for find_frame in (_parts, _table, _json, _logfmt):
            frame = find_frame(seen)
            if frame is None:
                continue
            inner = _joined(frame, seen.lines)
            still = [i for i, line in enumerate(inner) if _marks(line, seen.clients)]
            layout = _learn(seen._replace(lines=inner, marked=still, frames=(*seen.frames, frame)))
            if layout is not None:
                return layout
    hits = _hits(seen)
    if not hits:
        return None
    befores = [before for _, before in hits]
    bare = sum(not before for before in befores)
    headers = [] if bare > len(hits) // 2 else commonest(map(split, filter(None, befores)))
    timed = any(isinstance(frame, Named) and frame.roles.time for frame in seen.frames)
    if not timed and not any("time" in header.roles for header in headers):
        headers = _of_two_lines(seen.lines, hits) or headers
    repeated, length = _repeated(seen.lines, headers)
    return Layout(
        _with_framing(seen.frames, seen.lines, bool(headers)),
        tuple(headers),
        _behind(seen.lines, headers),
        _tailed(seen.lines, headers),
        tuple(header.begins(length) for header in headers),
        repeated,
        seen.sample.clock,
    )


def _joined(frame: Frame, lines: Sequence[str]) -> list[str]:
    """What the frames hold, lines that came in parts put together."""
    out: list[str] = []
    goes_on: dict[str, int] = {}
    for line in lines:
        told = frame.peel(line)
        if told is None:
            out.append("")
            continue
        first = goes_on.pop(told.stream, None)
        if first is None:
            first = len(out)
            out.append(told.text)
        else:
            out[first] += told.text
        if told.partial and len(out[first]) < LINE_LIMIT:
            goes_on[told.stream] = first
    return out


def _with_framing(frames: tuple[Frame, ...], lines: Sequence[str], headed: bool) -> tuple[Frame, ...]:
    """Frames hold lines of a program, not messages, where these have headers or go on in the next line."""
    goes_on = sum(line[:1] in (" ", "\t") and bool(line.strip()) for line in lines) > 0
    return tuple(
        replace(frame, framing=frame.name != "csv" and (frame.whole_lines or headed or goes_on))
        if isinstance(frame, Named)
        else frame
        for frame in frames
    )


def _of_two_lines(lines: Sequence[str], hits: Sequence[tuple[int, str]]) -> list[Header]:
    """The header, where its first part stands on a line of its own above the message."""
    both = [f"{lines[i - 1]}\n{before}" for i, before in hits if i]
    found = commonest(map(split, both), most=1) if both else []
    fits = sum(found[0].pattern.match(text) is not None for text in both) if found else 0
    return found if fits > 0.6 * len(hits) and {"time", "logger"} & set(found[0].roles) else []


def _hits(seen: _Lines) -> list[tuple[int, str]]:
    """Lines with messages, which begin behind the last boundary from which a client understands the rest, and what
    stands before those."""
    out: list[tuple[int, str]] = []
    for i in seen.some:
        if len(out) == ENOUGH_SAMPLES:
            break
        line = seen.lines[i]
        begins = [_begin(line, mark, client) for client, mark in _marks(line, seen.clients)]
        places = [place for place in begins if place is not None and place <= HEADER_LIMIT]
        if places:  # of two clients the one that understands more: its message may hold words of the other
            out.append((i, line[: min(places)]))
    return out


_TAIL = re.compile(r"(?:\s*(?:\([^()\s]*\)|\[[^\[\]]*\]|[\"'}]|,))\Z")


_BEFORE_MESSAGES = frozenset(" \t\n\"':|,;>)]}[({=")


def _begin(line: str, mark: int, client: Client) -> int | None:
    tail = structured.json_tail(line)
    ends = [line if tail is None or len(tail[0]) <= mark else tail[0]]
    for _ in range(2):
        end = _TAIL.search(ends[-1], max(0, len(ends[-1]) - HEADER_LIMIT))
        if end is None or end.start() <= mark:
            break
        ends.append(line[: end.start()])
    for text in ends:
        for place in range(mark, max(-1, mark - HEADER_LIMIT), -1):
            if place and text[place - 1] not in _BEFORE_MESSAGES:
                continue
            if client.understand(Message(1, text[place:])):
                return place
    return None


def _behind(lines: Sequence[str], headers: Sequence[Header]) -> Header | None:
    """What stands at the end of the lines: a logger or a thread in brackets."""
    whole = [line for line in lines if any(header.pattern.match(line) for header in headers)]
    tails = [match[0] for line in whole if (match := _LAST.search(line.rstrip(), max(0, len(line) - HEADER_LIMIT)))]
    if len(tails) >= max(3, 0.4 * len(whole)):
        best = commonest(map(split, tails), most=1)[0]
        if {"logger", "thread"} & set(best.roles):
            return best
    text = _closing(headers, whole)
    return header_of((Token("text", text),), ()) if text else None


def _closing(headers: Sequence[Header], whole: Sequence[str]) -> str:
    """What closes the quotes or brackets around messages, the same in every line; empty where they have none."""
    if len(whole) < _FEWEST_CLOSED or not headers:
        return ""
    opened = "".join(token.what for token in headers[0].tokens if token.kind == "text")
    closers = "".join(
        close
        for begin, close in (("[", "]"), ("(", ")"), ("{", "}"), ("<", ">"), ('"', '"'), ("'", "'"))
        if (opened.count(begin) % 2 if begin == close else opened.count(begin) > opened.count(close))
    )
    ends = [line.rstrip()[-_CLOSING_LENGTH:] for line in whole if line.rstrip()[-1:] in closers]
    if not closers or len(ends) < 0.6 * len(whole):  # the first lines of long messages end otherwise
        return ""
    same = takewhile(lambda chars: len(set(chars)) == 1, zip(*(end[::-1] for end in ends), strict=False))
    common = "".join(chars[0] for chars in same)[::-1]
    place = next((i for i, c in enumerate(common) if c in closers), -1)
    return common[place:] if place >= 0 else ""


_FEWEST_CLOSED, _CLOSING_LENGTH = 5, 120


def _tailed(lines: Sequence[str], headers: Sequence[Header]) -> bool:
    """Whether lines end with an object of their fields."""
    whole = [line for line in lines if any(header.pattern.match(line) for header in headers)]
    return sum(structured.json_tail(line) is not None for line in whole) > 0.3 * len(whole)


_LAST = re.compile(r"(?:[ \t]+(?:\([^()\s]{1,200}\)|\[[^\[\]\n]{1,120}\])){1,2}\Z")


_INDENTED = re.compile(r"[ \t]+\S|Caused by: |Suppressed: |[\w$]{1,100}\.[\w$.]{1,200}(?:Exception|Error)(?::|\s*\Z)")


def _repeated(lines: Sequence[str], headers: Sequence[Header]) -> tuple[re.Pattern[str] | None, int]:
    """The part of the header that continuation lines have, too, and how many of its tokens that is."""
    others = [line for line in lines if line.strip() and not any(h.pattern.match(line) for h in headers)]
    tokens = headers[0].tokens if headers and len(others) > 1 else ()
    fits: list[tuple[int, re.Pattern[str], int]] = []
    for end in range(1, len(tokens)):
        if tokens[end - 1].kind == "blank" or not any(token.kind in SLOTS for token in tokens[:end]):
            continue
        pattern = header_of(tokens[:end], ()).pattern.pattern + (" ?" if tokens[end].kind == "blank" else "")
        part = re.compile(pattern, re.ASCII)
        rests = [line[match.end() :] for line in others if (match := part.match(line))]
        goes_on = sum(_INDENTED.match(rest) is not None for rest in rests)
        telling = any(token.kind in ("time", "text") for token in tokens[:end]) or end > 2
        if goes_on > 1 and telling and len(rests) > 0.6 * len(others):
            fits.append((goes_on, part, end))
    most = max((goes_on for goes_on, _, _ in fits), default=0)
    longest = [(part, end) for goes_on, part, end in fits if goes_on >= most / 5]
    return longest[-1] if longest else (None, 0)


def _parts(seen: _Lines) -> Frame | None:
    frame = Parts()
    some = seen.some
    return frame if sum(frame.peel(seen.lines[i]) is not None for i in some) > 0.6 * len(some) else None


def _table(seen: _Lines) -> Frame | None:
    table = seen.sample.table
    if not isinstance(table, structured.Csv) or seen.frames:
        return None
    found = _named("csv", table.read, seen)
    return None if found is None else replace(found, head=seen.lines[0] if table.named else "")


def _json(seen: _Lines) -> Frame | None:
    return _named("json", structured.json_object, seen)


def _logfmt(seen: _Lines) -> Frame | None:
    return _named("logfmt", structured.logfmt, seen)


def _quotes(seen: _Lines) -> bool:
    """Whether some of the values stand in quotes, as texts of several words do."""
    first = seen.some[:20]
    return sum('="' in seen.lines[i] for i in first) > len(first) // 5


def _named(name: str, read: structured.Reader, seen: _Lines) -> Named | None:
    """The frame of fields of which one holds the clients' messages, if most lines have it."""
    some = seen.some
    rows = [found for i in some if (found := read(seen.lines[i])) is not None]
    if len(rows) <= 0.5 * len(some) or (name == "logfmt" and not _quotes(seen)):
        return None
    flat = [structured.flatten(values) for _, values in rows]
    text = _text_path(flat, seen.clients)
    if not text:
        return None
    befores = [before for before, _ in rows if before]
    return Named(
        name,
        read,
        structured.roles_of(flat, text, seen.sample.clock),
        commonest(map(split, befores), most=1)[0] if len(befores) > len(rows) // 2 else None,
        whole_lines=_hold_line_feeds(read, text, seen.lines),
        framing=False,
    )


def _text_path(rows: Sequence[Mapping[str, Any]], clients: Sequence[Client]) -> str:
    """The field in which clients speak, the fullest if there are several; empty where there is none."""
    scores: Counter[str] = Counter()
    probed: Counter[str] = Counter()
    for row in rows:
        for path, value in row.items():
            marks = _marks(value, clients) if isinstance(value, str) else []
            if not marks:
                continue
            first = value.partition("\n")[0]
            probed[path] += 1
            known = probed[path] <= _PROBES and any(
                _begin(first, min(mark, len(first)), client) is not None for client, mark in marks
            )
            scores[path] += 1 + 10 * known + 5 * (path.lower() in _TEXT_NAMES) + 5 * ("full" in path)
    return scores.most_common(1)[0][0] if scores else ""


_TEXT_NAMES = ("message", "msg", "log")
_PROBES = 12


def _hold_line_feeds(read: structured.Reader, path: str, lines: Sequence[str]) -> bool:
    """Whether a field holds lines with their line feeds, as those of Docker's own files do."""
    rows = [found for line in lines[:400] if (found := read(line)) is not None]
    texts = [text for _, values in rows if isinstance(text := structured.flatten(values).get(path), str)]
    return sum(text.endswith("\n") for text in texts) > 0.2 * len(texts)


def _explains(layout: Layout, line: str) -> bool:
    told = layout.look(line)
    if layout.second is not None:
        return told is not None and layout.second.match(told.text) is not None
    return told is not None and (not layout.headers or layout._headed(told.text) is not None)


def _described(layout: Layout, lines: Sequence[str], clients: Sequence[Client]) -> Layout:
    """The layout with what is told of it."""
    some = [line for line in lines if line.strip()]
    if layout.second is not None:
        some = [f"{above}\n{line}" for above, line in pairwise(some) if layout.second.match(line)] or some
    looks = [layout.look(line) for line in some]
    good = [
        told is not None and (layout.begins(told.text) or bool(CONTINUES(told.text.encode("utf-8", "replace"))))
        for told in looks
    ]
    example, lost, speaking = "", set[str](), set[str]()
    order: list[int] = []
    thread = logger = False
    for line in some:
        if not _marks(line, clients):
            continue
        found = layout.message(line, layout.clock.zone)
        if found is None:
            continue
        message, missing = found
        speaking |= {one.name for one in clients if one.name not in speaking and one.understand(message)}
        example = example or line
        lost |= missing
        thread, logger = thread or bool(message.thread), logger or bool(message.logger)
        order.append(message.ts_ms)
    lost |= {name for name, has in (("thread", thread), ("logger", logger)) if not has}
    if lost >= {"milliseconds"} and any(ms % 1000 for ms in order):
        lost -= {"milliseconds"}
    backwards = sum(b < a for a, b in pairwise(order))
    forwards = sum(b > a for a, b in pairwise(order))
    pattern = " > ".join([frame.name for frame in layout.frames] + [_pattern(layout)])
    return replace(
        layout,
        description=Description(
            pattern,
            sum(good) / max(1, len(good)),
            example[:400],
            tuple(sorted(lost & {"zone", "year", "date"})),
            tuple(sorted(lost)),
            backwards > 2 * forwards + 2,
        ),
        speaking=frozenset(speaking),
    )


def _pattern(layout: Layout) -> str:
    before = layout.headers[0].describe() if layout.headers else ""
    return f"{before}%{{message}}{layout.after.describe() if layout.after else ''}"


def with_hours(layouts: Sequence[Layout], head: Sequence[str], tail: Sequence[str]) -> tuple[Layout, ...]:
    """The layouts, told at which hours the file begins and ends where stamps have no date."""
    return tuple(_with_hours(layout, head, tail) if "date" in layout.description.lost else layout for layout in layouts)


def _with_hours(layout: Layout, head: Sequence[str], tail: Sequence[str]) -> Layout:
    first, last = (next(_hours(layout, lines), None) for lines in (head, reversed(tail)))
    return replace(layout, clock=layout.clock._replace(first_ms=first, last_ms=last))


def _hours(layout: Layout, lines: Iterable[str]) -> Iterator[int]:
    for line in lines:
        found = layout.message(line, UTC)
        if found is not None and found[0].ts_ms:
            yield found[0].ts_ms % stamps.DAY_MS


def formats_of(layouts: Sequence[Layout], clients: Sequence[Client]) -> tuple[Format, ...]:
    """A format for each client in each layout."""
    return tuple(
        _format(layout, begins, client) for layout in layouts for begins in (Begins(layout),) for client in clients
    )


@dataclass(frozen=True, slots=True, eq=False)
class Begins:
    """What `Format.header` is where no pattern over bytes tells."""

    layout: Layout

    def match(self, line: bytes) -> bool:
        told = self.layout.look(clean(line.decode("utf-8", "replace")))
        return told is not None and self.layout.begins(told.text)


def _format(layout: Layout, begins: Begins, client: Client) -> Format:
    def parse(entry: str, zone: tzinfo) -> Sequence[TraceRecord] | None:
        return layout.records(client, entry, zone)

    return Format(client.name, LEARNED, _ANY_BYTE, begins, marks_of((client,)), parse, client.marks, client)


_ANY_BYTE = bytes(range(256))


def marks_of(clients: Sequence[Client]) -> re.Pattern[bytes]:
    """Any mark of some clients."""
    return _any_of({mark for client in clients for mark in client.marks})


def signs_of(clients: Sequence[Client]) -> re.Pattern[bytes]:
    """Any mark of some clients that no other program's lines hold."""
    return _any_of({mark for client in clients for mark in client.marks if mark not in client.everyday})


def _any_of(marks: Iterable[bytes]) -> re.Pattern[bytes]:
    """A pattern of RE2, whose time does not grow with the number of marks, used like one of `re`."""
    return cast("re.Pattern[bytes]", re2.compile(b"|".join(sorted(map(re.escape, marks)))))


def state(sample: Sample, clients: Sequence[Client], stated: tuple[Header, Header | None]) -> tuple[Layout, ...]:
    """The layout that somebody stated, behind the frames that lines have."""
    before, after = stated
    lines = [clean(line) for line in sample.lines]
    marked = [i for i, line in enumerate(lines) if _marks(line, clients)]
    seen = _Lines(lines, marked, clients, sample)
    while seen.marked:
        if any(before.pattern.match(seen.lines[i]) for i in seen.marked):
            headers = (before,) if before.tokens else ()
            repeated, length = _repeated(seen.lines, headers)
            first = tuple(header.begins(length) for header in headers)
            frames = _with_framing(seen.frames, seen.lines, bool(headers))
            layout = Layout(frames, headers, after, _tailed(seen.lines, headers), first, repeated, sample.clock)
            return (_described(layout, lines, clients),)
        frame = next((found for find in (_parts, _json, _logfmt) if (found := find(seen)) is not None), None)
        if frame is None or len(seen.frames) == MOST_FRAMES:
            break
        inner = _joined(frame, seen.lines)
        still = [i for i, line in enumerate(inner) if _marks(line, clients)]
        seen = seen._replace(lines=inner, marked=still, frames=(*seen.frames, frame))
    return ()


def explain_failure(sample: Sample, clients: Sequence[Client]) -> tuple[Guess, ...]:
    """The likeliest layouts of lines from which none could be learned, at most three, and why they do not do."""
    lines, signs = [clean(line) for line in sample.lines], signs_of(clients)
    befores: dict[str, list[str]] = {}
    for line in lines:
        for client, mark in _marks(line, clients)[:1] if signs.search(line.encode("utf-8", "replace")) else ():
            befores.setdefault(client.name, []).append(line[max(0, mark - HEADER_LIMIT) : mark])
    out: list[Guess] = []
    for name, texts in befores.items():
        for header in commonest(map(split, texts), most=MOST_GUESSES):
            why = f"the words behind it are not understood as those of {name}"
            if "time" not in header.roles:
                why += ", and no time stamp was found"
            out.append(Guess(header.describe() + "%{message}", why))
    return tuple(out[:MOST_GUESSES])
