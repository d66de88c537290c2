"""Traces and logs of clients as recordings: all inputs of `fsm audit`, one lane a member, each record a step.

In a trace of exchanges each request and each answer is a step. Steps are sorted by time. A message in flight between
two steps is on its sender's connection. Each step has the findings of an audit of the file that last then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from itertools import islice
from math import isfinite
from operator import attrgetter
from pathlib import Path
from typing import Any

from fsm.audit.findings import Finding, Severity
from fsm.audit.local import audit_files
from fsm.audit.reading.piece import signs_of_formats
from fsm.audit.reading.scanning import Scanner, parse_all
from fsm.errors import FsmError, InputError
from fsm.explore.lanes import COORDINATOR, Lane, Lanes, make_moment, show
from fsm.explore.recording import MOST_MOMENTS, Moment, Recording, check_size
from fsm.kit.client_history import GROUP_APIS
from fsm.logs import formats
from fsm.logs.programs.exchanges import FORMATS, WIRE
from fsm.logs.reading.entries import LINE_LIMIT
from fsm.logs.reading.pieces import READ_ERRORS, WHOLE, Piece, PieceReader, reader_of
from fsm.protocol.messages import OffsetCommitResponse
from fsm.render.wording import many
from fsm.scenario.texts import show_answer, show_request
from fsm.trace import Kind, Partition, TraceRecord
from fsm.wire.exchange import Exchange, from_line

(_EXCHANGES,) = FORMATS
LONGEST_TEXT = 300
"""The maximum length of a message's text."""
RecordedExchange = tuple[Exchange, Sequence[TraceRecord]]
"""An exchange, and the trace records of its member."""


def _open_capture(file: Path, group: str) -> Recording:
    """The recording of a trace of exchanges. Raises `InputError` with the line for anything else."""
    names: dict[str, str] = {}
    exchanges: list[RecordedExchange] = []
    missing = Missing()
    with file.open(encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            missing.take(line)
            if not _EXCHANGES.candidate.search(line.encode(errors="surrogateescape")) or missing.is_cut:
                continue
            records = _EXCHANGES.parse(line, UTC) or ()
            for record in records:
                names |= record.settings if record.kind is Kind.TOPIC_NAMES else {}
            seen = from_line(line, f"{file}:{number}")
            if isinstance(seen, Exchange) and seen.api in GROUP_APIS and _is_of(seen, group):
                if not all(_is_time(at_ms) for at_ms in (seen.at_ms, seen.answered_ms or 0)):
                    raise InputError("has no time of an exchange", f"{file}:{number}", "give a trace of fsm capture")
                exchanges.append((seen, records))
            check_size(len(exchanges), str(file))
    if not exchanges:
        what = f"holds nothing of a group {group!r}" if group else "holds no request of a member of a group"
        raise InputError(what, str(file), "see fsm explore --help")
    capture = _Capture(exchanges, names)
    recording = Recording(file.name, str(file), capture.lanes.parts(), capture.moments)
    recording.missing = missing.describe()
    return mark(recording, file, group)


def _is_of(seen: Exchange, group: str) -> bool:
    """Whether a readable request is of that group, or of any group if none is named."""
    named = getattr(seen.request, "group_id", None)
    return named is not None and group in ("", named)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and isfinite(value)


def _name_topics(record: TraceRecord, names: Mapping[str, str]) -> TraceRecord:
    """The record with names for topic ids."""

    def name(found: tuple[Partition, ...]) -> tuple[Partition, ...]:
        return tuple((names.get(topic.removeprefix("id:"), topic), number) for topic, number in found)

    return replace(
        record,
        client_id=record.client_id.removesuffix(WIRE),
        partitions=name(record.partitions),
        revoked=name(record.revoked),
        full=None if record.full is None else name(record.full),
    )


class _Capture:
    """The conversion of exchanges to steps."""

    def __init__(self, exchanges: Sequence[RecordedExchange], names: Mapping[str, str]) -> None:
        self.lanes = Lanes([_whose(seen) for seen, _ in exchanges])
        self.names = names
        self._under_way: dict[tuple[str, str], list[str]] = {}
        ends = [(seen.at_ms, 0, at) for at, (seen, _) in enumerate(exchanges)]
        ends += [(seen.answered_ms, 1, at) for at, (seen, _) in enumerate(exchanges) if seen.answered_ms is not None]
        self.moments = [
            (self._answer if is_answer else self._add_request)(*exchanges[at]) for _, is_answer, at in sorted(ends)
        ]

    def _add_request(self, seen: Exchange, records: Sequence[TraceRecord]) -> Moment:
        """Adds a request, and the state of its sender; marks one without a response."""
        lane, hub = self.lanes.of(_whose(seen)), self._hub(seen)
        for record in records:
            if seen.answered_ms is None or record.ts_ms < round(seen.answered_ms):
                lane.take(_name_topics(record, self.names))
        text = self._text(show_request, seen.request)
        unanswered = "" if seen.is_answered else "; it is not answered"
        return Moment(
            f"{lane.name}: {text}{unanswered}",
            seen.at_ms,
            lane.name,
            f"sends{unanswered}",
            lane.name,
            hub.name,
            text,
            is_disturbance=bool(unanswered or seen.fault),
            components={lane.name: lane.show()},
            wires={} if unanswered else {(lane.name, hub.name): self._put((lane.name, hub.name), text)},
        )

    def _answer(self, seen: Exchange, records: Sequence[TraceRecord]) -> Moment:
        """Adds a response: the state of the member after it, and the coordinator's view."""
        lane, hub = self.lanes.of(_whose(seen)), self._hub(seen)
        for record in records:
            if seen.answered_ms is not None and record.ts_ms >= round(seen.answered_ms):
                named = _name_topics(record, self.names)
                lane.take(named)
                _note(hub, lane.name, named)
        text = self._text(_show_answer, seen.response) if seen.response is not None else "an answer"
        ends = lane.name, hub.name
        return Moment(
            f"{hub.name} to {lane.name}: {text}",
            seen.answered_ms,
            hub.name,
            "answers",
            hub.name,
            lane.name,
            text,
            is_disturbance=bool(getattr(seen.response, "error_code", 0)) or bool(seen.fault),
            components={lane.name: lane.show(), hub.name: hub.show()},
            wires={ends: self._take(ends, self._text(show_request, seen.request))},
        )

    def _hub(self, seen: Exchange) -> Lane:
        return self.lanes.of(TraceRecord(0, Kind.GROUP_STATE, seen.request.group_id, thread=COORDINATOR))

    def _put(self, ends: tuple[str, str], text: str) -> tuple[str, ...]:
        self._under_way.setdefault(ends, []).append(text)
        return tuple(self._under_way[ends])

    def _take(self, ends: tuple[str, str], text: str) -> tuple[str, ...]:
        known = self._under_way.setdefault(ends, [])
        if text in known:
            known.remove(text)
        return tuple(known)

    def _text(self, show_it: Callable[[Any], str], message: object) -> str:
        """Any message on one line, with names for topic ids."""
        try:
            text = show_it(message)
        except (FsmError, AttributeError, TypeError, ValueError):
            text = type(message).__name__
        for topic_id, name in self.names.items():
            text = text.replace(topic_id, name)
        return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} …"


def _show_answer(answer: Any) -> str:
    """A response on one line; for a commit its result."""
    if isinstance(answer, OffsetCommitResponse):
        codes = sorted({one.error_code.name for topic in answer.topics for one in topic.partitions})
        return f"OffsetCommit answered({', '.join(codes)})"
    return show_answer(answer)


def _whose(seen: Exchange) -> TraceRecord:
    """The lane of an exchange: its member, or its client if that has no member id yet."""
    members = getattr(seen.request, "members", None)
    member_id = getattr(seen.request, "member_id", "") or (members[0].member_id if members else "")
    return TraceRecord(0, Kind.JOINING, seen.request.group_id, str(seen.client_id or ""), member_id or "")


def _note(hub: Lane, who: str, record: TraceRecord) -> None:
    """Notes the coordinator's view of a member, according to its responses."""
    if record.kind in (Kind.JOINED, Kind.SYNCED, Kind.HEARTBEAT_OK, Kind.TARGET) and record.epoch is not None:
        hub.fields[f"{who} epoch"] = str(record.epoch)
        hub.fields["epoch"] = str(max(record.epoch, int(hub.fields.get("epoch", 0))))
    if record.full is not None and record.kind in (Kind.TARGET, Kind.OWNED):
        hub.fields[f"{who} assigned"] = show(record.full)
    if record.kind in (Kind.LEFT, Kind.FENCED):
        hub.fields.pop(f"{who} epoch", None)
        hub.fields.pop(f"{who} assigned", None)


PACKETS = (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x0a\x0d\x0d\x0a")
"""The first bytes of packet captures."""


def open_log(file: Path, group: str = "") -> Recording:
    """The recording of a file, or of one group in it. Raises `InputError` for a file of another type."""
    try:
        with file.open("rb") as opened:
            first = opened.readline(1 << 16)
        if first.startswith(PACKETS):
            what = f"fsm capture --read {file} -o trace.jsonl makes a trace of it"
            raise InputError("holds packets", str(file), what)
        if _EXCHANGES.header.match(first):
            return _open_capture(file, group)
        records, missing = _read(file)
    except OSError as problem:
        raise InputError(f"cannot be read: {problem.strerror or problem}", str(file), "give a file") from None
    found = record(records, file.name, str(file), group, file)
    found.missing = missing
    return found


def _read(file: Path) -> tuple[list[TraceRecord], list[str]]:
    """The records of a log as far as it can be read, and its missing parts. Raises OSError if it cannot be read."""
    records: list[TraceRecord] = []
    missing = Missing()
    try:
        records.extend(islice(_records(file), MOST_MOMENTS + 1))  # one more shows that there are too many
    except READ_ERRORS as problem:
        if not records:
            raise OSError(str(problem)) from None
        return records, [f"it cannot be read on after {many(len(records), 'record')}: {str(problem).rstrip('.')}"]
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - LINE_LIMIT))
        missing.take(opened.read().rpartition(b"\n")[2].decode(errors="surrogateescape"))
    return records, missing.describe()


def record(
    records: Iterable[TraceRecord], title: str, source: str, group: str = "", file: Path | None = None
) -> Recording:
    """The recording of records sorted by time, with the findings of an audit of their file.

    Raises `InputError` if none is of a member of the group.
    """
    held = list(records)
    check_size(len(held), source)
    attributed = (one for one in held if one.client_id or one.member_id or one.thread == COORDINATOR)
    chosen = _of_group(sorted(attributed, key=attrgetter("ts_ms")), group)
    if not chosen:
        what = f"holds nothing of a group {group!r}" if group else "holds no model, scenario, trace, capture or log"
        raise InputError(what, source, "see fsm explore --help")
    lanes = Lanes(chosen)
    moments = []
    for one in chosen:
        lane = lanes.of(one)
        lane.take(one)
        moments.append(make_moment(one, lane))
    found = Recording(title, source, lanes.parts(), moments)
    return found if file is None else mark(found, file, group)


def _records(file: Path) -> Iterator[TraceRecord]:
    known = formats()
    reader = reader_of(Piece(str(file), 0, WHOLE), known)
    if isinstance(reader, PieceReader):
        found = Scanner(reader, signs_of_formats(known), UTC).scan()
    else:
        found = parse_all(reader.entries(), UTC)
    for parsed in found:
        yield from parsed.records or ()


def _of_group(held: list[TraceRecord], group: str) -> list[TraceRecord]:
    """The records of a group, and those of its clients without a group; all if no group is named."""
    if not group:
        return held
    clients = {one.client_id for one in held if one.group == group}
    return [one for one in held if one.group == group or (not one.group and one.client_id in clients)]


# What is wrong with a file: the findings of its audit, and its missing parts.


def mark(recording: Recording, file: Path, group: str = "") -> Recording:
    """The recording, with the findings of an audit of its file at each step; steps are sorted by time."""
    found = (one for one in audit_files([file]).findings if one.severity is not Severity.INFO)
    waiting = sorted((one for one in found if group in ("", one.group)), key=attrgetter("start_ms"), reverse=True)
    lasting: list[Finding] = []
    marked = []
    for moment in recording.moments:
        now_ms = round(moment.at_ms or 0)
        while waiting and waiting[-1].start_ms <= now_ms:
            lasting.append(waiting.pop())
        lasting = [one for one in lasting if one.end_ms >= now_ms]
        marked.append(moment._replace(broken=tuple(one.summary.replace(WIRE, "") for one in lasting)))
    recording.moments = marked
    return recording


_DAMAGED = re.compile(r'^\{"event": "damaged",.*"packets": (\d+)')
_LOST = re.compile(
    r'^\{"event": "lost",.*"why": "(\d+) bytes were not captured or read, (\d+) answers have no request"'
)


class Missing:
    """Counts missing parts, line by line."""

    def __init__(self) -> None:
        self.is_cut = False
        """Whether the last line so far is truncated."""
        self._connections = self._bytes = self._answers = self._packets = 0

    def take(self, line: str) -> None:
        """Takes the next line; only the last one may be truncated."""
        self.is_cut = line.startswith('{"') and not line.endswith("\n") and not _is_json(line)
        if found := _LOST.search(line):
            self._connections += 1
            self._bytes += int(found[1])
            self._answers += int(found[2])
        elif found := _DAMAGED.search(line):
            self._packets += int(found[1])

    def describe(self) -> list[str]:
        """One line of text for each kind of missing part."""
        where = f"of {many(self._connections, 'connection')}"
        lines = {
            f"{many(self._packets, 'packet')} damaged or cut": self._packets,
            f"{many(self._bytes, 'byte')} {where} not captured or not read": self._bytes,
            f"{many(self._answers, 'answer')} {where} without a request": self._answers,
            "1 line left out: it is the last one, and was cut": self.is_cut,
        }
        return [line for line, is_so in lines.items() if is_so]


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
