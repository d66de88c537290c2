"""Splits the records of a member into processes, and decides how far their print order is known.

**Consumers.** An instance begins with `STARTED`, or with the first line if the log begins later, and ends with a close,
with the next `STARTED`, or with the last line. If the lines of a start are missing, a member id shows a new instance: a
classic member gets a new id only after it has given up the old one, which is logged; a member of the consumer protocol
chooses one when it is created and keeps it (KIP-848). An instance subscribes before it has its id, so the lines since
the last subscription belong to the new instance too: they are held back until a line with a member id.

**Connect workers** print their name with the first line of the herder, after the line of their start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fsm.audit.conformance import initial
from fsm.audit.findings import Finding, FindingKind, finding
from fsm.audit.hygiene.duplicate_lines import DuplicateLines
from fsm.audit.hygiene.identity import ASSIGNS_ITSELF
from fsm.audit.hygiene.line_order import LineOrder
from fsm.audit.hygiene.repeated_lines import RepeatedLines
from fsm.audit.hygiene.rotation import Missing, are_adjacent, is_hole
from fsm.audit.limits import BURST_MS, REORDER_MS, SETTLED_MS
from fsm.audit.rows import NOWHERE, At, Begin, End, Ended, Known, Order, Place, Seen
from fsm.audit.wording import seconds
from fsm.logs import ClientFacts, facts_of
from fsm.logs.programs.connect_worker import MACHINE as WORKER
from fsm.trace import Kind

Item = Begin | Known | End | Finding
Stream = Iterable[Item]
"""Every `Known` record is between the `Begin` and the `End` of its process."""

ACTIVE = frozenset({
    Kind.TRANSITION, Kind.SUBSCRIBED, Kind.JOINING, Kind.JOINED, Kind.RECONCILING, Kind.ASSIGN_BEGIN,
    Kind.REVOKE_BEGIN,
})  # fmt: skip
"""Kinds that do not occur after a close: in another file, they begin another process."""
_HELD = 64
"""Most lines held back between a subscription and the id; an instance that prints more is not new."""
_GIVES_UP_ID = frozenset({
    Kind.GENERATION_RESET, Kind.FENCED, Kind.ERROR, Kind.LOST_BEGIN, Kind.POLL_EXPIRED, Kind.LEAVE_BEGIN,
    Kind.LEAVE_SENT, Kind.LEFT, Kind.FATAL, Kind.UNSUBSCRIBED, Kind.CLOSE_BEGIN,
})  # fmt: skip
"""Kinds after which a classic member may get another id."""
_GETS_ID = (Kind.JOINED, Kind.MEMBER_ID)
_NEEDS_ID = (Kind.ASSIGN_BEGIN, Kind.REVOKE_BEGIN, Kind.LOST_BEGIN, Kind.SYNCED)
"""Kinds that no instance without an id prints."""


_NO_LINE = At(0, NOWHERE)


@dataclass(slots=True)
class _Process:
    """The state by which the next process, and the order of lines, is recognised."""

    number: int
    last: At
    whole: bool = False
    """The log shows its start."""
    start_ms: int = 0
    closed_ms: int | None = None
    client_id: str = ""
    member_id: str = ""
    id_files: set[str] = field(default_factory=set)
    """Files with its member id."""
    gave_up_id: bool = False
    """A classic member may get another id."""
    works: bool = False
    """It has printed partitions."""
    burst_ms: int = 0
    """Begin of the current burst of lines (`BURST_MS`)."""
    before_burst: At = _NO_LINE
    """The last line before that burst."""
    stretch: int = 0
    stretches: dict[str, int] = field(default_factory=dict)
    """The stretch of each file so far."""
    file_ms: int | None = None
    """When the last file began, if it is not a rotation of the one before."""
    scattered: bool = False
    """A file continued after a line of another file."""

    def add(self, seen: Seen, *, shuffled: bool, doubtful: bool) -> Known:
        record, place = seen
        if record.ts_ms - self.last.ts_ms > BURST_MS:
            self.before_burst, self.burst_ms = self.last, record.ts_ms
        if place.file != self.last.place.file:
            self._change_file(record.ts_ms, place.file)
        self.last = At(record.ts_ms, place, self.stretch)
        if record.kind in _GIVES_UP_ID:
            self.gave_up_id = True
        elif record.kind is Kind.JOINED and record.member_id == self.member_id:
            self.gave_up_id = False
        self.client_id = record.client_id or self.client_id
        if record.member_id:
            self.member_id = record.member_id
            self.id_files.add(place.file)
        if record.kind is Kind.CLOSE_END:
            self.closed_ms = record.ts_ms
        if record.partitions or record.full:
            self.works = True
        plain = self.file_ms is None and not shuffled
        return Known(record, self.last, Order.KNOWN if plain else self._order(shuffled), self.whole, doubtful)

    @property
    def facts(self) -> ClientFacts:
        return facts_of(self.client_id)

    def _change_file(self, ts_ms: int, file: str) -> None:
        self.scattered = self.scattered or file in self.stretches
        before = self.last.place.file
        if are_adjacent(before, file) and not self.scattered:
            self.stretches[file] = self.stretch
        else:
            self.stretch = self.stretches.setdefault(file, len(self.stretches))
            self.file_ms = ts_ms

    def _order(self, shuffled: bool) -> Order:
        if shuffled:
            return Order.NONE
        if self.scattered:
            return Order.INTERLEAVED
        settles = self.file_ms is not None and self.last.ts_ms - self.file_ms <= REORDER_MS
        return Order.SETTLES if settles else Order.KNOWN


class ConsumerInstances:
    """Splits the records of a member, which are given by time, file and offset, into instances."""

    def __init__(self, group: str, member: str, gone: Missing) -> None:
        self.group = group
        self.member = member
        self.gone = gone
        self.order = LineOrder(group, member)
        self.process = _Process(-1, _NO_LINE)
        self.held: list[tuple[Seen, Known]] | None = None
        """Lines held back since the last subscription, or since the coordinator was found."""
        self.before_held = self.process.last
        """The last line before those."""

    def see(self, seen: Seen, doubtful: bool) -> Stream:
        process, record = self.process, seen.record
        if record.kind is Kind.VERSION:  # of any client in the process: it shows no begin of a process
            return [Known(record, process.last)] if process.number >= 0 else ()
        out: list[Item] = []
        if self._continues(seen):
            self.order.see(seen)
            self._add(seen, doubtful, out)
            return out
        behind_hole = self._is_behind_hole(seen)
        self.order.see(seen)
        if behind_hole:
            out += [*self._release(), self._missing_file(seen), End(Ended.HOLE, process.last)]
            out.append(self._begin(seen, whole=False, continues=True))
        elif self._is_successor(seen):
            out += self._succeed(seen, doubtful)
        elif self._completes_start(seen):
            process.whole = True
        elif self._starts(seen):
            out += self._release()
            if process.closed_ms is None:
                self._end_before_burst(record.ts_ms)
            out += self._end(Ended.RESTARTED)
            begins = record.kind in (Kind.STARTED, facts_of(record.client_id).begins_with)
            out.append(self._begin(seen, whole=begins))
        self._add(seen, doubtful, out)
        return out

    def finish(self) -> Stream:
        return [*self._release(), *self._end(Ended.LOG_ENDED), *self.order.findings()]

    def _add(self, seen: Seen, doubtful: bool, out: list[Item]) -> None:
        process, record = self.process, seen.record
        found = record.kind is Kind.COORDINATOR_FOUND and self.held is None
        if record.kind is Kind.SUBSCRIBED or found:
            out += self._release()
            if process.member_id and not process.facts.id_names_instance:
                self.held, self.before_held = [], process.last
        elif self.held is not None and (record.member_id or record.kind in _NEEDS_ID or len(self.held) == _HELD):
            out += self._release()
        known = process.add(seen, shuffled=self.order.is_shuffled(seen.place.file), doubtful=doubtful)
        if self.held is None:
            out.append(known)
        else:
            self.held.append((seen, known))

    def _release(self) -> Stream:
        """The held lines, which belong to this process."""
        held, self.held = self.held, None
        return [known for _, known in held or ()]

    def _succeed(self, seen: Seen, doubtful: bool) -> Stream:
        """Begins another process, to which the held lines belong."""
        held, self.held = self.held, None
        if held:
            self.process.last = self.before_held
        else:
            self._end_before_burst(seen.record.ts_ms)
        first = held[0][0] if held else seen
        out = [*self._end(Ended.RESTARTED), self._begin(first, whole=first.record.kind is Kind.SUBSCRIBED)]
        for one, _ in held or ():
            self._add(one, doubtful, out)
        return out

    def _begin(self, seen: Seen, *, whole: bool, continues: bool = False) -> Begin:
        number = self.process.number + 1
        at = At(seen.record.ts_ms, seen.place)
        self.process = _Process(number, at, whole, at.ts_ms, stretches={seen.place.file: 0})
        return Begin(number, at, whole, continues=continues)

    def _end(self, how: Ended) -> Stream:
        return [End(how, self.process.last)] if self.process.number >= 0 else ()

    def _end_before_burst(self, ts_ms: int) -> None:
        """Moves the last burst to the next instance, whose first lines precede `STARTED`."""
        process = self.process
        if ts_ms - process.burst_ms <= SETTLED_MS and process.before_burst.ts_ms >= process.start_ms:
            process.last = process.before_burst

    # -- signs of another process ---------------------------------------------------------------------------

    def _continues(self, seen: Seen) -> bool:
        """Whether the line cannot show another process, as most lines."""
        process, record = self.process, seen.record
        same_id = not process.member_id or record.member_id in ("", process.member_id)
        begun = process.number >= 0 and process.closed_ms is None and record.kind is not Kind.STARTED
        return same_id and begun and seen.place.file == process.last.place.file

    def _is_successor(self, seen: Seen) -> bool:
        """Whether another instance printed the line, without a line for its start."""
        process, record = self.process, seen.record
        old = process.member_id
        if not old or record.member_id in ("", old) or process.scattered or process.facts.id_names_instance:
            return False
        if len(record.member_id) == process.facts.chosen_id_length:
            return bool(record.state) and record.state == initial(record.machine)
        joins = record.kind in _GETS_ID or record.next_state == "COMPLETING_REBALANCE"
        return joins and not process.gave_up_id

    def _completes_start(self, seen: Seen) -> bool:
        """Whether this is the start of the current process: librdkafka prints a few lines before it."""
        process = self.process
        early = process.number >= 0 and not process.whole and seen.record.ts_ms - process.start_ms <= SETTLED_MS
        return early and seen.record.kind is Kind.STARTED and not process.works

    def _starts(self, seen: Seen) -> bool:
        process, record = self.process, seen.record
        if process.number < 0 or record.kind is Kind.STARTED or self._has_another_id(seen):
            return True
        if process.closed_ms is None:
            return False
        elsewhere = record.kind in ACTIVE and seen.place.file != process.last.place.file
        return (elsewhere and record.ts_ms > process.closed_ms) or record.ts_ms - process.closed_ms > SETTLED_MS

    def _has_another_id(self, seen: Seen) -> bool:
        """Whether a file that is new to this instance has another id: another process began without a logged start.

        Only if the client chooses its id and keeps it: a classic member gets a new one when it rejoins.
        """
        old, new = self.process.member_id, seen.record.member_id
        chosen = len(old) == len(new) == self.process.facts.chosen_id_length and old != new
        return chosen and seen.place.file not in self.process.id_files

    def _is_behind_hole(self, seen: Seen) -> bool:
        """Whether the record is the first of its file, and a rotated file before that is missing."""
        process = self.process
        begins = process.number < 0 or process.closed_ms is not None or seen.record.kind is Kind.STARTED
        file = seen.place.file
        return not begins and is_hole(self.gone, process.last.place.file, file) and file not in self.order.files

    def _missing_file(self, seen: Seen) -> Finding:
        last, end_ms = self.process.last, seen.record.ts_ms
        places = [last.place, seen.place]
        what = f"what {self.member} did in these {seconds(end_ms - last.ts_ms)} is not known"
        summary = f"a rotated file between {last.place.file} and {seen.place.file} is missing: {what}"
        return finding(FindingKind.UNPARSED_LINES, self.group, self.member, last.ts_ms, end_ms, summary, places)


class WorkerProcesses:
    """Splits the records of a Connect worker into processes."""

    def __init__(self) -> None:
        self.process = _Process(-1, _NO_LINE)
        self.herded = False
        """The herder of this process has printed its name."""

    def see(self, seen: Seen, doubtful: bool) -> Stream:
        record, out = seen.record, list[Item]()
        starts = record.kind is Kind.STARTED or (record.kind is Kind.TRANSITION and record.event == "START")
        if self.process.number < 0 or record.kind is Kind.STARTED or (starts and self.herded):
            if self.process.number >= 0:
                out.append(End(Ended.RESTARTED, self.process.last))
            at = At(record.ts_ms, seen.place)
            self.process = _Process(self.process.number + 1, at, starts, at.ts_ms, stretches={seen.place.file: 0})
            self.herded = False
            out.append(Begin(self.process.number, at, starts, worker=True))
        self.herded = self.herded or bool(record.client_id)
        out.append(self.process.add(seen, shuffled=False, doubtful=doubtful))
        return out

    def finish(self) -> Stream:
        return [End(Ended.LOG_ENDED, self.process.last)] if self.process.number >= 0 else ()


class ProcessStreams:
    """Takes one member's records by time, file and offset, and returns the streams of its processes.

    Consumers of Connect's internal topics print a group but are no members: they have no stream.
    """

    def __init__(self, group: str, member: str, gone: Missing) -> None:
        self.duplicates = DuplicateLines(group, member)
        self.repeated = RepeatedLines(group, member)
        self.processes: ConsumerInstances | WorkerProcesses = ConsumerInstances(group, member, gone)
        self.idle: list[Seen] | None = None
        """The records of a consumer of Connect's internal topics, until one shows that it is a member."""
        self.begun = False
        self.doubtful_since: tuple[int, Place] | None = None

    def see(self, seen: Seen, *, doubtful: bool = False) -> Stream:
        if doubtful and self.doubtful_since is None:
            self.doubtful_since = seen.record.ts_ms, seen.place
        if not self.begun:
            self.begun = True
            self.idle = [] if ASSIGNS_ITSELF.search(seen.record.client_id) else None
        if self.idle is None:
            given = self._thin(seen)
            return self._see(given[0]) if len(given) == 1 else self._cut(given)
        self.idle.append(seen)
        if seen.record.kind not in ACTIVE or seen.record.kind is Kind.TRANSITION:
            return ()
        idle, self.idle = self.idle, None
        return [item for one in idle for item in self._cut(self._thin(one))]

    def finish(self) -> Stream:
        if self.idle is None:
            yield from self._cut(self.repeated.finish(self.duplicates.finish()))
            yield from self.processes.finish()
            yield from self.duplicates.findings()
            yield from self.repeated.findings()

    def _thin(self, seen: Seen) -> Sequence[Seen]:
        """The records that no copy and no repetition adds."""
        return self.repeated.see(self.duplicates.see(seen))

    def _cut(self, given: Iterable[Seen]) -> Stream:
        return [item for seen in given for item in self._see(seen)]

    def _see(self, seen: Seen) -> Stream:
        if seen.record.machine == WORKER and isinstance(self.processes, ConsumerInstances):  # VERSION lines come before
            self.processes = WorkerProcesses()
        since = self.doubtful_since
        return self.processes.see(seen, since is not None and (seen.record.ts_ms, seen.place) >= since)
