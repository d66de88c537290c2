"""Several processes of one client id in one file: whose record is it?

Java clients without `client.id` all have the same one, so where a collector writes the lines of a group's processes
into one file, most lines do not say which process printed them. Many can be told by what they say:

* a record with a member id belongs to the process of that id, and so does the rest of its entry; a static member's
  lines carry its instance id;
* a process prints its start and its subscription before it has an id: the first to start is the first to join;
* an assignment block fits the process that owns what the block says is owned, a callback the process that was told
  to add, give up, or lose just these partitions; where several fit, the one that has waited longest is next;
* whoever has left is the next to close.

What fits nobody is left out, and from then on nothing is sure: every process is marked by a record that says so
(`DOUBT`), and what is found in its lines is for information only. librdkafka prints one partition a line and no ids:
its clients cannot be told apart at all. A step of the classic protocol names no state it comes from, so the order of
steps cannot be checked here: those transitions are left out as well.

State is one small object for each living process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

from fsm.audit.order import Order
from fsm.audit.rows import DOUBT, Seen
from fsm.trace import Kind, Partition, TraceRecord

Owner = Iterator[tuple[str, Seen]]
EXPIRY_MS = 100
"""A poll timeout is announced this long before the step it causes, at most."""


@dataclass(slots=True)
class _Process:
    """What is known of one process."""

    number: int
    instance_id: str = ""
    ids: list[str] = field(default_factory=list)
    waiting: list[Seen] = field(default_factory=list)
    """Its records from before it had an id."""
    subscribed: bool = False
    owned: set[Partition] = field(default_factory=set)
    given_up: set[Partition] = field(default_factory=set)
    """Partitions of the last revoked callback."""
    revoke: set[Partition] | None = None
    """What the next revoked callback must be about."""
    assign: set[Partition] | None = None
    """What the next assigned callback must be about."""
    since: int = 0
    """When it began to wait for what it waits for."""
    synced: bool = False
    """A classic member that is about to learn its assignment."""
    open: Kind | None = None
    """The callback that is running."""
    out: bool = False
    """Fenced, stale or failed."""
    leaving: bool = False
    closing: bool = False
    closed: bool = False
    marked: bool = False
    """It was said that its lines are not certain."""


_NEUTRAL = TraceRecord(0, Kind.ERROR, detail=DOUBT)


def separate(member: str, records: Iterable[Seen]) -> Owner:
    """(member, record) for every record whose process can be told; `records` are in order."""
    crowd = _Crowd(member)
    for _, entry in groupby(records, key=lambda seen: seen.place):
        yield from crowd.entry(list(entry))
    yield from crowd.finish()


class _Crowd:
    """The processes of one client id."""

    def __init__(self, member: str) -> None:
        self.member = member
        self.living: list[_Process] = []
        self.by_id: dict[str, _Process] = {}
        self.expired: list[Seen] = []
        """Poll timeouts whose process is not known yet."""
        self.files: list[str] = []
        """Files read so far, in the order of their first lines."""
        self.order = Order("", member)
        self.sure = True
        """Every line so far could be told."""
        self.tick = 0
        self.born = 0

    def entry(self, entry: list[Seen]) -> Owner:
        """The records of one entry have one owner."""
        self.tick += 1
        self._read_from(entry[0])
        named = next((s.record for s in entry if s.record.member_id), None)
        process = self._of_id(named) if named is not None else None
        for seen in entry:
            record = seen.record
            if record.kind is Kind.TRANSITION and not record.state:
                continue
            if record.kind is Kind.POLL_EXPIRED and process is None:
                self.expired.append(seen)
                continue
            owner = process if process is not None else self._guess(record)
            if owner is not None:
                yield from self._give(owner, seen)

    def _read_from(self, seen: Seen) -> None:
        """Where times do not rise within a file, logs were put behind one another: who is next in time tells nothing.

        Lines dealt out to several files have no certain order within a moment; files that follow one another do.
        """
        self.order.see(seen)
        file = seen.place.file
        if file in self.files[:-1] or self.order.jumps(file):
            self.sure = False
        elif file not in self.files:
            self.files.append(file)

    def finish(self) -> Owner:
        """Records of processes that never got an id."""
        for process in self.living:
            for seen in process.waiting:
                yield self._name(process), seen

    def _give(self, process: _Process, seen: Seen) -> Owner:
        self._learn(process, seen.record)
        if not process.ids:
            process.waiting.append(seen)
            return
        earlier, process.waiting = process.waiting, []
        for one in (*earlier, *self._timeouts(seen.record), seen):
            yield self._name(process), one
        if not self.sure and not process.marked:
            process.marked = True
            yield (
                self._name(process),
                Seen(replace(_NEUTRAL, ts_ms=seen.record.ts_ms, group=seen.record.group), seen.place),
            )
        if process.closed:
            self.living = [p for p in self.living if p is not process]

    def _timeouts(self, record: TraceRecord) -> list[Seen]:
        """The poll timeout that made this process leave."""
        self.expired = [e for e in self.expired if record.ts_ms - e.record.ts_ms <= EXPIRY_MS]
        leaves = record.kind is Kind.LEAVE_BEGIN or record.next_state == "PREPARE_LEAVING"
        return [self.expired.pop(0)] if leaves and self.expired else []

    def _name(self, process: _Process) -> str:
        return f"{self.member} [{process.ids[0] if process.ids else f'process {process.number}'}]"

    # -- who --------------------------------------------------------------------------------------------

    def _of_id(self, record: TraceRecord) -> _Process:
        """The process of a member id; a new id belongs to who has none yet, or has lost its own."""
        process = self.by_id.get(record.member_id)
        if process is None:
            process = self._heir(record) or self._birth(record)
            process.ids.append(record.member_id)
            self.by_id[record.member_id] = process
        return process

    def _heir(self, record: TraceRecord) -> _Process | None:
        candidates = [p for p in self._alike(record) if not p.ids]
        if candidates:
            return min(candidates, key=lambda p: (not p.subscribed, p.number))
        lost = [p for p in self._alike(record) if p.out and record.kind is not Kind.TRANSITION]
        return min(lost, key=lambda p: p.since, default=None)

    def _alike(self, record: TraceRecord) -> list[_Process]:
        return [p for p in self.living if not record.instance_id or p.instance_id == record.instance_id]

    def _birth(self, record: TraceRecord) -> _Process:
        self.born += 1
        process = _Process(self.born, record.instance_id)
        self.living.append(process)
        return process

    def _guess(self, record: TraceRecord) -> _Process | None:
        if record.kind is Kind.STARTED:
            return self._birth(record)
        alike = self._alike(record)
        if len(alike) == 1:
            return alike[0]
        for surest, fits in enumerate(_FITS.get(record.kind, ())):
            found = [p for p in alike if fits(p, record)]
            if found:
                self.sure = self.sure and (surest == 0 or len(found) == 1 or not record.partitions)
                return min(found, key=lambda p: (p.since, p.number))
        self.sure = self.sure and record.kind not in _MATTERS
        return None

    # -- what it means ----------------------------------------------------------------------------------

    def _learn(self, process: _Process, record: TraceRecord) -> None:
        learn = _LEARNS.get(record.kind)
        if learn is not None:
            learn(process, record)
            process.since = self.tick
        if record.kind is Kind.TRANSITION:
            process.out = record.next_state in ("FENCED", "STALE", "FATAL")
            process.leaving = process.leaving or record.next_state in ("LEAVING", "UNSUBSCRIBED", "FATAL")
            if record.next_state in ("JOINING", "RECONCILING"):
                process.leaving = False


def _subscribes(process: _Process, _record: TraceRecord) -> None:
    process.subscribed = True


def _syncs(process: _Process, _record: TraceRecord) -> None:
    process.synced = True
    process.out = False


def _reconciles(process: _Process, record: TraceRecord) -> None:
    process.revoke = set(record.revoked) if record.revoked else None
    process.assign = set(record.partitions)
    process.synced = False


def _is_told(process: _Process, record: TraceRecord) -> None:
    """A classic member learns its assignment; a cooperative one has printed the block already."""
    if process.assign is None:
        process.assign = set(record.full or ()) - process.owned
    process.synced = False


def _takes(process: _Process, record: TraceRecord) -> None:
    process.owned |= set(record.partitions)
    process.assign = process.revoke = None
    process.open = Kind.ASSIGN_BEGIN
    process.out = False


def _gives_up(process: _Process, record: TraceRecord) -> None:
    process.given_up = set(record.partitions)
    process.owned -= process.given_up
    process.revoke = None
    process.open = Kind.REVOKE_BEGIN


def _loses(process: _Process, record: TraceRecord) -> None:
    process.owned -= set(record.partitions)
    process.given_up = set()
    process.assign = process.revoke = None
    process.open = Kind.LOST_BEGIN


def _is_reset(process: _Process, _record: TraceRecord) -> None:
    process.out = True


def _returns(process: _Process, _record: TraceRecord) -> None:
    process.open = None


def _leaves(process: _Process, _record: TraceRecord) -> None:
    process.leaving = True


def _closes(process: _Process, _record: TraceRecord) -> None:
    process.closing = process.leaving = True


def _ends(process: _Process, _record: TraceRecord) -> None:
    process.closed = True


_LEARNS: dict[Kind, Callable[[_Process, TraceRecord], None]] = {
    Kind.SUBSCRIBED: _subscribes,
    Kind.SYNCED: _syncs,
    Kind.RECONCILING: _reconciles,
    Kind.TARGET: _is_told,
    Kind.ASSIGN_BEGIN: _takes,
    Kind.REVOKE_BEGIN: _gives_up,
    Kind.LOST_BEGIN: _loses,
    Kind.FENCED: _is_reset,
    Kind.GENERATION_RESET: _is_reset,
    Kind.ASSIGN_END: _returns,
    Kind.REVOKE_END: _returns,
    Kind.LOST_END: _returns,
    Kind.CALLBACK_FAILED: _returns,
    Kind.JOINING: _returns,
    Kind.LEAVE_BEGIN: _leaves,
    Kind.CLOSE_BEGIN: _closes,
    Kind.CLOSE_END: _ends,
}

_MATTERS = frozenset(
    {
        Kind.SUBSCRIBED,
        Kind.UNSUBSCRIBED,
        Kind.RECONCILING,
        Kind.TARGET,
        Kind.ASSIGN_BEGIN,
        Kind.REVOKE_BEGIN,
        Kind.LOST_BEGIN,
        Kind.ADDED,
        Kind.DROPPED,
        Kind.OWNED,
        Kind.CLOSE_END,
    }
)
"""Records without which what a process owns or wants is not known."""
_Fits = Callable[[_Process, TraceRecord], bool]


def _runs(kind: Kind) -> _Fits:
    return lambda process, _record: process.open is kind


_FITS: dict[Kind, tuple[_Fits, ...]] = {
    Kind.SUBSCRIBED: (lambda p, _: not p.subscribed and not p.ids,),
    Kind.RECONCILING: (
        lambda p, r: p.synced and p.owned == (set(r.full or ()) - set(r.partitions)) | set(r.revoked),
        lambda p, _: p.synced,
    ),
    Kind.TARGET: (
        lambda p, r: p.assign is not None and p.assign <= set(r.full or ()) and p.synced,
        lambda p, r: p.synced and p.owned <= set(r.full or ()),
        lambda p, _: p.synced,
    ),
    Kind.ASSIGN_BEGIN: (
        lambda p, r: p.assign == set(r.partitions) and p.revoke is None,
        lambda p, r: p.assign == set(r.partitions),
    ),
    Kind.REVOKE_DECIDED: (
        lambda p, r: p.revoke == set(r.partitions),
        lambda p, r: set(r.partitions) <= p.owned,
    ),
    Kind.REVOKE_BEGIN: (
        lambda p, r: p.revoke == set(r.partitions),
        lambda p, r: p.owned == set(r.partitions),
        lambda p, r: set(r.partitions) <= p.owned,
        lambda p, r: set(r.partitions) <= p.owned | p.given_up,
    ),
    Kind.LOST_BEGIN: (
        lambda p, r: p.out and set(r.partitions) == p.owned,
        lambda p, r: p.out and set(r.partitions) == p.owned | p.given_up,
        lambda p, r: set(r.partitions) == p.owned,
        lambda p, r: set(r.partitions) <= p.owned | p.given_up,
    ),
    Kind.ASSIGN_END: (_runs(Kind.ASSIGN_BEGIN),),
    Kind.REVOKE_END: (_runs(Kind.REVOKE_BEGIN),),
    Kind.LOST_END: (_runs(Kind.LOST_BEGIN),),
    Kind.CALLBACK_FAILED: (lambda p, _: p.open is not None,),
    Kind.JOINING: (_runs(Kind.REVOKE_BEGIN),),
    Kind.GENERATION_RESET: (lambda p, _: p.leaving and not p.out,),
    Kind.LEFT: (lambda p, _: p.leaving and not p.closing,),
    Kind.CLOSE_BEGIN: (lambda p, _: p.leaving and not p.closing,),
    Kind.CLOSE_END: (
        lambda p, _: p.closing,
        lambda p, _: p.leaving,
        lambda p, _: p.open is Kind.REVOKE_BEGIN and not p.owned,
    ),
}
"""How a record without an id is recognised, the surest sign first."""
