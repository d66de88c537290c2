"""Recorded logs as something that can be edited: entries with what the parsers say of them, and text in the words of
the client that wrote the file.

A scenario is a mapping of file names to bytes, each file the log of one member.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, TypeVar

from memory import parsed

from fsm.trace import Kind, Partition, TraceRecord, by_partition

JAVA, CLASSIC, RDKAFKA = "consumer-member", "classic-member", "rdkafka-join-state"
"""The machines whose steps the three families of logs print."""
CALM_MS = 600
"""A place is calm if nobody does anything for so long after it."""
BURST_MS = 60
"""What follows within this time belongs to a step."""
_RESTING = ("STABLE", "STEADY")
_T = TypeVar("_T")


class NoPlace(LookupError):  # noqa: N818  # no error: the logs just do not offer what the fault needs
    """These logs have no place for a fault of this kind."""


class Line(NamedTuple):
    """An entry and what the parsers say of it."""

    data: bytes
    ts_ms: int
    records: tuple[TraceRecord, ...] = ()

    def record(self, kind: Kind) -> TraceRecord | None:
        """The record of that kind."""
        return next((r for r in self.records if r.kind is kind), None)


class Spot(NamedTuple):
    """An entry of a file."""

    file: str
    at: int


@lru_cache(maxsize=256)
def _read(data: bytes) -> tuple[Line, ...]:
    lines = []
    last_ms = 0
    for entry in parsed(data):
        records = tuple(entry.records or ())
        last_ms = records[0].ts_ms if records else when_ms(entry.data) or last_ms
        lines.append(Line(entry.data, last_ms, records))
    return tuple(lines)


class Scene:
    """The entries of all files, to be changed."""

    def __init__(self, logs: Mapping[str, bytes], chance: random.Random) -> None:
        self.before = logs
        self.files = {name: list(_read(data)) for name, data in sorted(logs.items())}
        self.chance = chance

    def logs(self) -> dict[str, bytes]:
        """The files as they are now."""
        return {
            name: self.before[name]
            if tuple(lines) == _read(self.before[name])
            else b"".join(line.data + b"\n" for line in lines)
            for name, lines in self.files.items()
        }

    def __getitem__(self, spot: Spot) -> Line:
        return self.files[spot.file][spot.at]

    def family(self, file: str) -> str:
        """The machine whose steps the file prints; empty where it prints none."""
        return next((r.machine for line in self.files[file] for r in line.records if r.machine), "")

    def spots(self, kind: Kind, *families: str) -> list[Spot]:
        """Entries with a record of that kind, in files of those families, or of any."""
        return [
            Spot(name, at)
            for name, lines in self.files.items()
            if not families or self.family(name) in families
            for at, line in enumerate(lines)
            if line.record(kind)
        ]

    def steps(self, *families: str) -> list[list[Spot]]:
        """The transitions of each file, in order."""
        found: dict[str, list[Spot]] = {}
        for spot in self.spots(Kind.TRANSITION, *families):
            found.setdefault(spot.file, []).append(spot)
        return list(found.values())

    def pick(self, spots: Iterable[_T]) -> _T:
        """One of them. Raises `NoPlace` where there are none."""
        found = list(spots)
        if not found:
            raise NoPlace
        return self.chance.choice(found)

    def put(self, spot: Spot, *lines: Line) -> None:
        """These lines instead of that one; none takes it out."""
        self.files[spot.file][spot.at : spot.at + 1] = lines

    def insert(self, spot: Spot, *lines: Line) -> None:
        """These lines before that one."""
        self.files[spot.file][spot.at : spot.at] = lines

    def shift(self, file: str, after_ms: int, by_ms: int) -> None:
        """What the file says after that moment, it says that much later."""
        self.files[file] = [later(x, by_ms) if x.ts_ms > after_ms else x for x in self.files[file]]

    def pause(self, after_ms: int, by_ms: int) -> None:
        """Nothing happens anywhere for that long."""
        for file in self.files:
            self.shift(file, after_ms, by_ms)

    def owned(self, spot: Spot) -> set[Partition]:
        """What the member owns when it comes there."""
        own: set[Partition] = set()
        for line in self.files[spot.file][: spot.at]:
            for record in line.records:
                if record.kind in (Kind.ASSIGN_BEGIN, Kind.ADDED):
                    own |= set(record.partitions)
                elif record.kind in (Kind.REVOKE_BEGIN, Kind.LOST_BEGIN, Kind.DROPPED):
                    own -= set(record.partitions)
        return own

    def calm(self, room_ms: int, *families: str, owning: bool = False, last: bool = False) -> Spot:
        """A place where the member rests and nobody does anything, with room for `room_ms` after it.

        What happened after that place happens that much later. `last`: no step follows but those of a close.
        """
        picked = self.pick(self._calm(families, owning, last))
        after_ms = self[picked].ts_ms + CALM_MS // 2
        self.pause(after_ms, room_ms)
        lines = self.files[picked.file]
        return Spot(picked.file, next((i for i, x in enumerate(lines) if x.ts_ms > after_ms), len(lines)))

    def _calm(self, families: tuple[str, ...], owning: bool, last: bool) -> Iterator[Spot]:
        busy = sorted(x.ts_ms for lines in self.files.values() for x in lines if _busy(x))
        for steps in self.steps(*families):
            for here, after in pairwise(steps):
                step, ts_ms = self[here].record(Kind.TRANSITION), self[here].ts_ms
                rests = step is not None and step.next_state in _RESTING
                settled = Spot(here.file, self._index(here.file, ts_ms + CALM_MS // 2))
                if not rests or any(ts_ms + BURST_MS < t <= ts_ms + CALM_MS for t in busy):
                    continue
                if (owning and not self.owned(settled)) or (last and not self._closes(after)):
                    continue
                yield here

    def _index(self, file: str, ts_ms: int) -> int:
        lines = self.files[file]
        return next((i for i, x in enumerate(lines) if x.ts_ms > ts_ms), len(lines))

    def _closes(self, step: Spot) -> bool:
        """True where nothing is assigned any more and no generation joined."""
        rest = self.files[step.file][step.at :]
        return not any(x.record(k) for x in rest for k in (Kind.ASSIGN_BEGIN, Kind.JOINED, Kind.ADDED))


_QUIET = (Kind.HEARTBEAT_SENT, Kind.HEARTBEAT_OK, Kind.VERSION, Kind.COMMIT_FAILED, Kind.COORDINATOR_FOUND)


def _busy(line: Line) -> bool:
    return any(r.kind not in _QUIET for r in line.records)


# -- text ---------------------------------------------------------------------------------------------------

_EPOCH_TIME = re.compile(rb"(?:%\d\|)?(\d{9,11})\.(\d{3})\|")
_ISO_TIME = re.compile(rb"[^\d]{0,20}(\d{4}-\d\d-\d\d)([T ])(\d\d:\d\d:\d\d)([.,])(\d{3})")


def when_ms(data: bytes) -> int:
    epoch, iso = _EPOCH_TIME.match(data), _ISO_TIME.match(data)
    if epoch:
        return int(epoch[1]) * 1000 + int(epoch[2])
    if iso is None:
        return 0
    moment = datetime.fromisoformat(f"{iso[1].decode()}T{iso[3].decode()}").replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1000 + int(iso[5])


def later(line: Line, by_ms: int) -> Line:
    """The same line at another time."""
    data, epoch, iso = line.data, _EPOCH_TIME.match(line.data), _ISO_TIME.match(line.data)
    if epoch:
        ms = when_ms(data) + by_ms
        data = data[: epoch.start(1)] + b"%d.%03d" % divmod(ms, 1000) + data[epoch.end(2) :]
    elif iso:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=when_ms(data) + by_ms)
        day, time = moment.strftime("%Y-%m-%d").encode(), moment.strftime("%H:%M:%S").encode()
        stamp = day + iso[2] + time + iso[4] + b"%03d" % (moment.microsecond // 1000)
        data = data[: iso.start(1)] + stamp + data[iso.end(5) :]
    return line._replace(data=data, ts_ms=line.ts_ms + by_ms)


def set_at(line: Line, ts_ms: int) -> Line:
    return later(line, ts_ms - line.ts_ms)


def with_states(line: Line, state: str | None = None, next_state: str | None = None) -> Line:
    """The line of a step with other states."""

    def renamed(match: re.Match[bytes]) -> bytes:
        low = match[2] == b" -> "
        own = [match[1].decode(), match[3].decode()]
        new = [n.lower().replace("_", "-") if n and low else n for n in (state, next_state)]
        return (new[0] or own[0]).encode() + match[2] + (new[1] or own[1]).encode()

    return line._replace(data=_STATES.sub(renamed, line.data, count=1))


_STATES = re.compile(rb"(?<=(?:ed from|n state) )([A-Za-z_-]+)( to | -> )([A-Za-z_-]+)")
_LOGGERS = re.compile(
    rb"(?:Consumer(?:RebalanceListenerInvoker|MembershipManager|HeartbeatRequestManager|Coordinator)"
    rb"|AsyncKafkaConsumer|ClassicKafkaConsumer)\b"
)
_SAID = re.compile(rb'(\[Consumer [^\]\n]*\] ).*?( \(org\.[\w.$]+\)|","[^\n]*|)\Z')


def java_line(scene: Scene, file: str, ts_ms: int, logger: str, message: str) -> Line:
    """A line of that file in the layout of its others."""
    model = next(
        x for x in scene.files[file] if x.records and b"\n" not in x.data and _SAID.search(x.data) and _logger_of(x)
    )
    text = _SAID.sub(lambda m: m[1] + message.encode() + m[2], model.data, count=1)
    return set_at(model._replace(data=text.replace(_logger_of(model), logger.encode()), records=()), ts_ms)


def _logger_of(line: Line) -> bytes:
    tail = line.data[_SAID.search(line.data).end(1) :] + line.data  # type: ignore[union-attr]
    found = _LOGGERS.search(tail)
    return found[0] if found else b""


def rdkafka_line(scene: Scene, file: str, ts_ms: int, facility: str, text: str) -> Line:
    """A line of that file in librdkafka's own layout, or in that of Python's logging."""
    model = next(x for x in scene.files[file] if x.record(Kind.TRANSITION))
    tag = re.compile(rb"(?<=\|)CGRPJOINSTATE")
    said = tag.sub(facility.encode(), model.data[: model.data.index(b"]: ") + 3], count=1) + text.encode()
    return set_at(model._replace(data=said, records=()), ts_ms)


def listing(partitions: Iterable[Partition]) -> str:
    return "[" + ", ".join(f"{t}-{n}" for t, n in by_partition(partitions)) + "]"


def callback_line(scene: Scene, file: str, ts_ms: int, verb: str, partitions: Iterable[Partition]) -> Line:
    """A callback of a Java member."""
    return java_line(scene, file, ts_ms, "ConsumerRebalanceListenerInvoker", f"{verb} {listing(partitions)}")


ADDING, REVOKE, LOST = (
    "Adding newly assigned partitions:",
    "Revoke previously assigned partitions",
    "Lost previously assigned partitions",
)


def takes(scene: Scene, file: str, ts_ms: int, partitions: Iterable[Partition]) -> list[Line]:
    """The lines by which a member owns partitions."""
    added = by_partition(partitions)
    if scene.family(file) != RDKAFKA:
        return [callback_line(scene, file, ts_ms, ADDING, added)]
    group = group_of(scene, file)
    return [rdkafka_line(scene, file, ts_ms, "PARTADD", f'Group "{group}": add {t} [{n}]') for t, n in added]


def drops(scene: Scene, file: str, ts_ms: int, partitions: Iterable[Partition], reason: str = "") -> list[Line]:
    """The lines by which a member gives partitions up; for a reason, they are lost."""
    gone = by_partition(partitions)
    if scene.family(file) != RDKAFKA:
        return [callback_line(scene, file, ts_ms, LOST if reason else REVOKE, gone)]
    group = group_of(scene, file)
    why = reason or "sync group revoke"
    told = (
        f'Group "{group}": delegating incremental revoke of {len(gone)} partition(s) to application on queue q: {why}'
    )
    dels = [rdkafka_line(scene, file, ts_ms + 1, "PARTDEL", f'Group "{group}": delete {t} [{n}]') for t, n in gone]
    return [rdkafka_line(scene, file, ts_ms, "ASSIGN", told), *dels]


def group_of(scene: Scene, file: str) -> str:
    return next(r.group for x in scene.files[file] for r in x.records if r.group)


def java_step(scene: Scene, file: str, ts_ms: int, state: str, next_state: str) -> Line:
    model = next(x for x in reversed(scene.files[file]) if (r := x.record(Kind.TRANSITION)) and (r.epoch or 0) > 0)
    return set_at(with_states(model, state, next_state), ts_ms)


def callback_part(line: Line) -> tuple[tuple[Partition, ...], str] | None:
    """The partitions of a Java callback, and its opening words."""
    for kind, verb in ((Kind.ASSIGN_BEGIN, ADDING), (Kind.REVOKE_BEGIN, REVOKE), (Kind.LOST_BEGIN, LOST)):
        record = line.record(kind)
        if record is not None and verb.encode() in line.data:
            return record.partitions, verb
    return None
