"""Layouts: how the lines of a file are taken apart into messages. Frames are removed one after another, then the
header. A layout becomes a `Format` for each client, so that known and learned layouts share one reader."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple

from fsm.logs import LEARNED, Client, Format, Message, clients
from fsm.logs.layouts import fields as structured
from fsm.logs.layouts import stamps
from fsm.logs.layouts.ends import closes_before_fields, compile_end, strip_context, understand, words_of
from fsm.logs.layouts.frames import Found, Frame, Named, Parts, Peeled, clean, peel_all
from fsm.logs.layouts.headers import HEADER_LIMIT, Header, join_programs, name_program
from fsm.logs.layouts.java_layouts import without_trace
from fsm.logs.reading.blocks import Numbers, Words, join, words
from fsm.logs.reading.entries import CONTINUES, PART_SIZES, SMALLEST_PART
from fsm.trace import TraceRecord

QUARTER_MS = 900_000
"""Zone offsets are multiples of a quarter of an hour."""
_FARTHEST_ZONE_MS = 14 * 4 * QUARTER_MS
"""The largest zone offset is UTC+14."""


ENDS = "ends of long lines"
GAPS = "lines between those that were found"
TIMES = "times of some lines"
ORDER = "order of lines of one time"
LOSSES = (ENDS, GAPS, TIMES, ORDER)
"""Lines of which a part is missing, missing lines, and lines in another order."""


class Description(NamedTuple):
    """A learned layout as it is reported."""

    pattern: str
    share: float
    """The fraction of the sampled lines that it explains."""
    example: str
    guessed: tuple[str, ...]
    """The parts of a time that were inferred: `zone`, `year`, `date`."""
    lost: tuple[str, ...]
    """The information that the file lacks: `date`, `logger`, `milliseconds`, `thread`, `time`, `year`, `zone`, any of
    `LOSSES`."""
    reversed: bool = False
    """The newest entry comes first."""


NO_DESCRIPTION = Description("", 0.0, "", (), ())


@dataclass(frozen=True, eq=False)
class Layout:
    """How the lines of a file, or of one of the programs in it, are taken apart."""

    frames: tuple[Frame, ...]
    headers: tuple[Header, ...]
    """The headers of the unframed lines; empty if those are the messages themselves."""
    after: Header | None
    """The common end of messages."""
    tail: bool
    """Whether fields follow the message, as a JSON object or as pairs."""
    first: tuple[re.Pattern[str], ...]
    """The parts of the headers that identify the first line of an entry."""
    repeated: re.Pattern[str] | None
    """The part of the header that continuation lines have, too."""
    stream_groups: tuple[int, ...]
    """The groups of `repeated` that distinguish the programs that share a file."""
    clock: stamps.Clock
    indent: str = ""
    """The blanks before each line."""
    line_end: re.Pattern[str] | None = None
    """The common end of all lines, not only of messages."""
    description: Description = NO_DESCRIPTION
    understood: frozenset[str] = frozenset()
    """The clients whose messages were understood in the sampled lines."""
    programs: tuple[tuple[tuple[int, bool], ...], ...] = ()
    """The slots of each header that name the process, and whether that is certain."""
    ends: tuple[Header | None, ...] = ()
    """The end of messages behind each header, if they have no common one: several programs print in this layout."""
    upside_down: bool = False
    """All lines are in reverse order: those of an entry stand above its first one."""

    @cached_property
    def by_lines(self) -> bool:
        """Whether entries can only be recognised after unframing, because continuation lines have frames, too."""
        return self.repeated is not None or self.second is not None or any(frame.framing for frame in self.frames)

    def look(self, line: str) -> Peeled | None:
        """The line without its frames; None if it has other frames."""
        outer = Peeled(line)
        for frame in self.frames:
            inner = frame.peel(outer.text)
            if inner is None:
                return None
            if outer.stream or outer.partial:
                inner = inner._replace(stream=f"{outer.stream}\0{inner.stream}", partial=outer.partial or inner.partial)
            outer = inner
        if self.repeated is not None:
            match = self.repeated.match(outer.text)
            if match is None:
                return None
            words = [match.groups()[i] for i in self.stream_groups]
            if not self.begins(outer.text):
                outer = outer._replace(text=outer.text[match.end() :])
            outer = outer._replace(stream="\0".join((outer.stream, *words)))
        return outer

    @property
    def has_time(self) -> bool:
        """Whether a field, or the text before the fields or the message, is a time."""
        named = [frame for frame in self.frames if isinstance(frame, Named)]
        headers = [*self.headers, *(frame.before for frame in named if frame.before is not None)]
        headers += [end for end in (self.after, *self.ends) if end is not None]
        parts = any(isinstance(frame, Parts) for frame in self.frames)
        return parts or any(frame.roles.time for frame in named) or any("time" in one.roles for one in headers)

    @property
    def is_partly_timed(self) -> bool:
        """Whether only some lines have a time, or none: it is that of a line above."""
        times = ["time" in one.roles for one in self.headers]
        return not self.has_time or (any(times) and not all(times))

    @property
    def hidden(self) -> tuple[bytes, ...]:
        """What is in every line whose message may have marks that a search in the line does not find."""
        frames = (frame for frame in self.frames if isinstance(frame, Named))
        return _LISTS if any(frame.roles.text == _JOURNALD for frame in frames) else ()

    @cached_property
    def second(self) -> re.Pattern[str] | None:
        """The pattern of the header's second line, if it has one."""
        lines = self.headers[0].lines if self.headers else ()
        return Header(lines[1], ()).pattern if len(lines) > 1 else None

    def begins(self, text: str) -> bool:
        """Whether an unframed line is the first of an entry."""
        if not self.headers:
            return not self.by_lines or _CONTINUATION.match(text) is None
        for pattern in self.first:
            match = pattern.match(text)
            if match is not None:
                return not (self.headers[0].repeated and _CONTINUATION.match(text, match.end()))
        return False

    def continues_entry(self, text: str, above: int) -> bool:
        """Whether an unframed line continues the entry that has `above` lines so far."""
        if CONTINUES(text[:_BEGINNING].encode("utf-8", "replace")):
            return True
        return above == 1 and self.second is not None and self.second.match(text) is not None

    def is_part(self, line: bytes, text: str) -> bool:
        """Whether a line, or the text in its frames, has the length after which collectors cut."""
        head = self.repeated.match(text) if self.repeated is not None else None
        texts = (text, text[head.end() :] if head is not None else text)
        sizes = {len(line), *(len(one.encode("utf-8", "replace")) for one in texts)}
        return not PART_SIZES.isdisjoint(sizes)

    def message(self, entry: str, zone: tzinfo) -> tuple[Message, frozenset[str]] | None:
        """The message of an entry and the parts that its timestamps lack; None if it does not have this layout."""
        clock = self.clock if zone is self.clock.zone else self.clock._replace(zone=zone)
        unframed, peeled = self._peel(clean(entry))
        if unframed is None:
            return None
        times: list[tuple[object, str]] = [
            (one.time, frame.roles.time_row if isinstance(frame, Named) else "")
            for one, frame in zip(peeled, self.frames, strict=False)
        ]
        values = {"level": "", "thread": "", "logger": ""}
        text, words, after = unframed, dict[str, str](), self.after
        if self.headers:
            found = self.split_header(unframed)
            if found is None:
                return None
            number, text, slots = found
            after = self.ends[number] if self.ends else after
            if self.second is not None and (indent := _INDENT.match(unframed)):  # all lines are aligned
                text = text.replace(indent[1], "\n")
            for role, word, row in slots:
                if role == "time":
                    times.append((word, row))
                elif role in values:
                    values[role] = values[role] or _LINE_NUMBER.sub("", word.strip())
                else:
                    words[f"word {len(words) + 1}"] = word
        text, error = without_trace(self._strip_lines(text))
        text, behind, attributes = self._take_fields(text, after)
        if attributes:
            times = times or [(structured.find_time(attributes), "")]
        if behind:
            values |= {role: _LINE_NUMBER.sub("", word.strip()) for role, word in behind if role in values}
            at = len(times) - 1 if len(times) > 1 else len(times)  # the innermost timestamp stays last
            rows = after.rows if after is not None else ()
            times[at:at] = [(word, row) for (role, word), row in zip(behind, rows, strict=True) if role == "time"]
        text = self._unescape(text)
        for one in reversed(peeled):
            values = {role: value or getattr(one, role) for role, value in values.items()}
            error = error or one.error
        time = _resolve(times, clock)
        frame = self.frames[len(peeled) - 1] if peeled else None
        inner = structured.beside(peeled[-1].fields, frame.roles.text) if isinstance(frame, Named) else {}
        pid = next((one.pid for one in reversed(peeled) if one.pid), "")
        message = Message(
            time.ms,
            text,
            values["level"],
            values["logger"],
            values["thread"],
            error,
            pid,
            {**words, **inner, **structured.beside(attributes, "")},
        )
        return message, time.lost

    def _strip_lines(self, text: str) -> str:
        """The text without the indentation and the end of each line that a collector adds."""
        if "\n" not in text or not (self.indent or self.line_end):
            return text
        *lines, last = text.replace(f"\n{self.indent}", "\n").split("\n")
        if self.line_end is not None:
            lines = [self.line_end.sub("", line) for line in lines]
        return "\n".join([*lines, last])

    def _take_fields(self, text: str, after: Header | None) -> tuple[str, list[tuple[str, str]], structured.Fields]:
        """The text, the slots of its end, and the fields before or behind that end, or below the text."""
        text, below = structured.lines_tail(text) or (text, {})
        fields: structured.Fields = {}
        if self.tail and closes_before_fields(after):
            text, fields = structured.end_fields(text) or (text, {})
        whole, (text, behind) = text, _strip_end(text, after)
        if self.tail and not fields and (ended := structured.end_fields(text)):
            fields = ended[1]
            text, behind = _strip_end(ended[0], after) if text == whole else (ended[0], behind)
        return text, behind, {**below, **fields} if below else fields

    def _unescape(self, text: str) -> str:
        """Undoes the escaping of a collector that writes one line per message, of a logger that quotes messages, or of
        an HTML page."""
        if "&" in text:
            text = _CODE.sub(lambda found: html.unescape(found[0]), text)
        if "#012" in text:
            text = text.replace("#012", "\n").replace("#011", "\t")
        if "\\n" in text or (self.quoted and "\\" in text):
            return unescape(text)
        return text

    @cached_property
    def names_programs(self) -> bool:
        """Whether a collector names the process that printed a line."""
        return any(self.programs) or any(
            isinstance(frame, Found) or (isinstance(frame, Named) and (frame.roles.program.places or frame.programs))
            for frame in self.frames
        )

    def find_program(self, entry: str) -> str:
        """The process that printed an entry, as its collector names it; empty if it does not."""
        unframed, peeled = self._peel(clean(entry))
        named = [one.program for one in peeled]
        found = self.split_header(unframed) if unframed is not None and any(self.programs) else None
        if found is not None:
            number, _, slots = found
            named += [name_program(slots[i][1].strip(), is_certain) for i, is_certain in self.programs[number]]
        return join_programs(named)

    @cached_property
    def quoted(self) -> bool:
        """Whether the messages in a text log are quoted."""
        return self.after is not None and self.after.describe().startswith('"')

    def split_header(self, text: str) -> tuple[int, str, list[tuple[str, str, str]]] | None:
        """The number of the header, the message after it, and its slots as role, value and timestamp format."""
        for number, header in enumerate(self.headers):
            match = header.pattern.match(text)
            if match is not None and not (len(self.headers) > 1 and self._has_mark(match[0])):
                return number, text[match.end() :], list(zip(header.roles, match.groups(), header.rows, strict=True))
        return None

    def _has_mark(self, header: str) -> bool:
        """Whether the supposed header contains the beginning of a message that follows a shorter header."""
        return any(mark in header for mark in self._marks)

    @cached_property
    def _marks(self) -> tuple[str, ...]:
        return tuple(word for one in clients() if one.name in self.understood for word in words_of(one))

    def _peel(self, entry: str) -> tuple[str | None, list[Peeled]]:
        """The unframed text of an entry, and the frames of its first line."""
        if not self.frames and self.repeated is None:
            return entry, []
        if not self.by_lines:
            return peel_all(entry, self.frames)
        if _OPENS.match(entry) and (whole := peel_all(entry, self.frames))[0] is not None:
            return whole
        first: list[Peeled] = []
        out: list[str] = []
        joined = False
        for line in entry.split("\n"):
            text, peeled = peel_all(line, self.frames)
            if text is None:
                if not first:
                    return None, []
                text = line
            is_part = len(line) >= SMALLEST_PART // 4 and self.is_part(line.encode("utf-8", "replace"), text)
            if not first and not out:
                first = peeled
            elif self.repeated is not None and (match := self.repeated.match(text)):
                text = text[match.end() :]
            if joined and out:
                out[-1] += text
            else:
                out.append(text)
            joined = is_part or any(one.partial for one in peeled)
        return "\n".join(out), first

    def records(self, client: Client, entry: str, zone: tzinfo) -> Sequence[TraceRecord] | None:
        """The `Format.parse` of a client."""
        found = self.message(entry, zone)
        return understand(client, found[0]) if found is not None else None


_CONTINUATION = re.compile(
    r"[\s}\])*]|\Z|(?:Caused by|Suppressed|Wrapped by): |[\w$]{1,100}\.[\w$.]{0,200}?(?:Exception|Error)(?::|\s*\Z)"
)
"""A line that begins a message without a header does not begin with this."""
_BEGINNING = 400
_OPENS = re.compile(r"\s*\{\s*\n")
_INDENT = re.compile(r"[^\n]*(\n[ \t]+)")


_JOURNALD = "MESSAGE"
_LISTS = tuple(f'"{_JOURNALD}"{colon}['.encode() for colon in (":", ": ", " : "))
"""How journald exports a message with unprintable characters, such as colours: as a list of its bytes."""


def unescape(text: str) -> str:
    """Undoes the escaping inside quotes."""
    return _ESCAPED.sub(lambda found: _ESCAPES[found[1]], text)


_ESCAPED = re.compile(r'\\([nrt"\\])')
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
_CODE = re.compile(r"&(?:[lg]t|quot|apos|amp|#\d{1,5}|#[xX][0-9a-fA-F]{1,4});", re.ASCII)
"""An HTML entity."""
_LINE_NUMBER = re.compile(r":\d{1,6}\Z", re.ASCII)


_DAYS = frozenset({"zone", "date", "year"})


def _find_omitted(time: stamps.Time) -> frozenset[str]:
    """The missing parts of a date: without a date there is no year, either."""
    return (time.lost & _DAYS) | (frozenset({"year"}) if "date" in time.lost else frozenset())


def _resolve(times: Sequence[tuple[object, str]], clock: stamps.Clock) -> stamps.Time:
    """The time of an entry from its timestamps, outermost to innermost: the innermost counts, and others fill in its
    missing parts."""
    read = [one for one in (structured.time_of(value, clock, row) for value, row in times) if one is not None]
    if not read:
        return stamps.Time(0, frozenset({"time"}))
    best = read[-1]
    for other in reversed(read[:-1]):
        if best.lost <= other.lost:
            continue
        differ = best.ms - other.ms
        rest = differ - round(differ / QUARTER_MS) * QUARTER_MS
        mine, others = _find_omitted(best), _find_omitted(other)
        if mine == {"zone"} and abs(differ) > _FARTHEST_ZONE_MS:
            continue  # the time at which the line was copied
        if mine - others and not others - mine:
            best = stamps.Time(other.ms + rest, (best.lost - _DAYS) | (other.lost & _DAYS))
        if best.lost - other.lost >= {"milliseconds"} and abs(rest) <= 2000 and not others:
            best = stamps.Time(other.ms, other.lost)
    return best


def _strip_end(text: str, after: Header | None) -> tuple[str, list[tuple[str, str]]]:
    """The text without this end of messages, and the slots of that end."""
    if after is None:
        return text, []
    whole, pattern = text.rstrip("\n"), compile_end(after.tokens, after.roles)
    first, feed, _ = whole.partition("\n")  # lines below the end of a message are another program's
    texts = chain([whole], strip_context(whole), [first] if feed else ())
    ends = (pattern.search(one, max(0, len(one) - HEADER_LIMIT)) for one in texts)
    match = next(filter(None, ends), None)
    if match is None:
        return text, []
    found = text[: match.start()]
    padded = found.endswith("  ")
    return found.rstrip(" ") if padded else found, list(zip(after.roles, match.groups(), strict=True))


def formats_of(layouts: Sequence[Layout], clients: Sequence[Client]) -> tuple[Format, ...]:
    """A format for each client in each layout."""
    return tuple(
        _make_format(layout, begins, client) for layout in layouts for begins in (Begins(layout),) for client in clients
    )


@dataclass(frozen=True, slots=True, eq=False)
class Begins:
    """The `Format.header` of layouts without a bytes pattern."""

    layout: Layout

    def match(self, line: bytes) -> bool:
        layout, text = self.layout, clean(line.decode("utf-8", "replace"))
        if layout.frames or layout.repeated is not None:
            peeled = layout.look(text)
            return peeled is not None and layout.begins(peeled.text)
        return layout.begins(text)


def _make_format(layout: Layout, begins: Begins, client: Client) -> Format:
    def parse(entry: str, zone: tzinfo) -> Sequence[TraceRecord] | None:
        return layout.records(client, entry, zone)

    needles = (*client.marks, *layout.hidden)
    return Format(
        client.name,
        LEARNED,
        _ANY_BYTE,
        begins,
        words(*needles),
        parse,
        needles,
        client=client,
        find_program=layout.find_program if layout.names_programs else None,
    )


_ANY_BYTE = bytes(range(256))


@lru_cache(maxsize=1024)
def marks_of(clients: tuple[Client, ...]) -> Words:
    """A search for the marks of these clients."""
    return words(*sorted({mark for client in clients for mark in client.marks}))


def signs_of(clients: Sequence[Client]) -> Words:
    """A search for the marks of these clients that no other program uses."""
    return words(*(mark for client in clients for mark in client.own_marks))


@lru_cache(maxsize=256)
def _words_of_own(clients: tuple[Client, ...], others: tuple[Client, ...]) -> tuple[Words, dict[bytes, list[Client]]]:
    """A search for the words that no other program uses than these clients, and whose each of them is."""
    common = frozenset(mark for one in others for mark in one.marks)
    owners: dict[bytes, list[Client]] = {}
    for client in clients:
        for mark in set(client.own_marks) - common:
            owners.setdefault(mark, []).append(client)
    return words(*sorted(owners)), owners


def find_families(
    data: bytes, bounds: Numbers, clients: tuple[Client, ...], others: tuple[Client, ...] = ()
) -> dict[Client, list[int]]:
    """The numbers of the lines between these bounds that have words that no other program uses, by client, the one with
    the most lines first. A line with the words of several clients is the first one's; one with words of the others is
    left out."""
    search, owners = _words_of_own(clients, others)
    found: dict[Client, set[int]] = {}
    for word, lines in search.lines_by_word(data, bounds).items():
        for client in owners[word]:
            found.setdefault(client, set()).update(lines)
    every, marks = set().union(*found.values()) if others else (), marks_of(others)
    taken = {i for i in every if marks.search(data[bounds[i] : bounds[i + 1]])}
    out: dict[Client, list[int]] = {}
    for client in sorted(found, key=lambda one: (-len(found[one]), one.name)):
        if rest := sorted(found[client] - taken):
            out[client] = rest
        taken |= found[client]
    return out


def group_by_client(
    lines: Sequence[bytes], chosen: Sequence[int], clients: tuple[Client, ...], others: tuple[Client, ...] = ()
) -> dict[Client, list[int]]:
    """The chosen lines as by `find_families`."""
    found = find_families(*join([lines[i] for i in chosen]), clients, others)
    return {client: [chosen[place] for place in places] for client, places in found.items()}
