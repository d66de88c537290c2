"""Separates several consumers with one client id in one file.

Java clients without `client.id` all have the same one. If a collector writes the lines of a group's processes into one
file, most lines do not name their process. It is found from their content:

* a record with a member id belongs to the process of that id, and so does the rest of its entry; a static member's
  lines have its instance id;
* a process prints its start and its subscription before it has an id: the first to start is the first to join;
* an assignment block fits the process that owns the partitions that the block has as owned, a callback the process that
  has to add, revoke, or lose exactly its partitions; if several fit, the one that has waited longest is taken;
* a process that has left is the next to close.

A record that fits no process is left out. From then on every record is marked as doubtful, and findings that rest on
such lines are for information only. librdkafka prints one partition per line and no ids, so its clients cannot be
separated at all. A transition of the classic protocol has no source state, so its order cannot be checked here: those
transitions are left out as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fsm.audit.hygiene.line_order import LineOrder
from fsm.audit.rows import Seen
from fsm.logs import facts_of
from fsm.trace import Kind, Partition, TraceRecord

Owned = Iterator[tuple[str, Seen, bool]]
"""(member, record, doubtful)"""
EXPIRY_MS = 100
"""Longest time from the line of a poll timeout to the step that it causes."""


@dataclass(slots=True)
class _Process:
    number: int
    instance_id: str = ""
    ids: list[str] = field(default_factory=list)
    waiting: list[Seen] = field(default_factory=list)
    """Its records before it had an id."""
    subscribed: bool = False
    owned: set[Partition] = field(default_factory=set)
    given_up: set[Partition] = field(default_factory=set)
    """Partitions of the last revoked callback."""
    revoke: set[Partition] | None = None
    """Expected partitions of the next revoked callback."""
    assign: set[Partition] | None = None
    """Expected partitions of the next assigned callback."""
    since: int = 0
    """Number of the entry since which it waits for its next step."""
    synced: bool = False
    """A classic member that waits for its assignment."""
    open: Kind | None = None
    """The callback that is running."""
    out: bool = False
    """Fenced, stale or failed."""
    leaving: bool = False
    closing: bool = False
    closed: bool = False

    def learn(self, record: TraceRecord, entry: int) -> None:
        """Updates the process from one of its records, in the entry of that number."""
        if self._learn_callback(record) or self._learn_step(record):
            self.since = entry
        if record.kind is Kind.TRANSITION:
            self.out = record.next_state in ("FENCED", "STALE", "FATAL")
            self.leaving = self.leaving or record.next_state in ("LEAVING", "UNSUBSCRIBED", "FATAL")
            if record.next_state in ("JOINING", "RECONCILING"):
                self.leaving = False

    def _learn_callback(self, record: TraceRecord) -> bool:
        partitions = set(record.partitions)
        match record.kind:
            case Kind.ASSIGN_BEGIN:
                self.owned |= partitions
                self.assign = self.revoke = None
                self.out = False
            case Kind.REVOKE_BEGIN:
                self.owned -= partitions
                self.given_up, self.revoke = partitions, None
            case Kind.LOST_BEGIN:
                self.owned -= partitions
                self.given_up = set()
                self.assign = self.revoke = None
            case Kind.ASSIGN_END | Kind.REVOKE_END | Kind.LOST_END | Kind.CALLBACK_FAILED | Kind.JOINING:
                self.open = None
                return True
            case _:
                return False
        self.open = record.kind
        return True

    def _learn_step(self, record: TraceRecord) -> bool:
        match record.kind:
            case Kind.SUBSCRIBED:
                self.subscribed = True
            case Kind.SYNCED:
                self.synced, self.out = True, False
            case Kind.RECONCILING:
                self.revoke = set(record.revoked) if record.revoked else None
                self.assign, self.synced = set(record.partitions), False
            case Kind.TARGET:  # a classic member's assignment; a cooperative one has printed the block already
                self.assign = set(record.full or ()) - self.owned if self.assign is None else self.assign
                self.synced = False
            case Kind.FENCED | Kind.GENERATION_RESET:
                self.out = True
            case Kind.LEAVE_BEGIN:
                self.leaving = True
            case Kind.CLOSE_BEGIN:
                self.closing = self.leaving = True
            case Kind.CLOSE_END:
                self.closed = True
            case _:
                return False
        return True


class SharedClientId:
    """Separates the processes with one client id; records are given in order."""

    def __init__(self, member: str) -> None:
        self.member = member
        self.alive: list[_Process] = []
        self.by_id: dict[str, _Process] = {}
        self.expired: list[Seen] = []
        """Poll timeouts whose process is not known yet."""
        self.files: list[str] = []
        """Files read so far, in the order of their first lines."""
        self.order = LineOrder("", member)
        self.sure = True
        """Every line so far could be attributed."""
        self.entries = 0
        self.started = 0
        self.entry: list[Seen] = []
        """The records of the current entry, which belong to one process."""

    def see(self, seen: Seen) -> Owned:
        """The records whose process is known by now."""
        if self.entry and self.entry[0].place != seen.place:
            yield from self._take_entry()
        self.entry.append(seen)

    def _take_entry(self) -> Owned:
        entry, self.entry = self.entry, []
        self.entries += 1
        self._check_order(entry[0])
        self.sure = self.sure and facts_of(entry[0].record.client_id).identifies_members
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
                yield from self._attribute(owner, seen)

    def _check_order(self, seen: Seen) -> None:
        """Attribution becomes unsure if timestamps do not rise within a file (concatenated logs), or if lines are
        spread over several files, which have no certain order within a timestamp. Consecutive files have one.
        """
        self.order.see(seen)
        file = seen.place.file
        if file in self.files[:-1] or self.order.has_jump(file):
            self.sure = False
        elif file not in self.files:
            self.files.append(file)

    def finish(self) -> Owned:
        if self.entry:
            yield from self._take_entry()
        for process in self.alive:
            for seen in process.waiting:
                yield self._name(process), seen, False

    def _attribute(self, process: _Process, seen: Seen) -> Owned:
        process.learn(seen.record, self.entries)
        if not process.ids:
            process.waiting.append(seen)
            return
        earlier, process.waiting = process.waiting, []
        for one in (*earlier, *self._timeouts(seen.record), seen):
            yield self._name(process), one, one is seen and not self.sure
        if process.closed:
            self.alive = [p for p in self.alive if p is not process]

    def _timeouts(self, record: TraceRecord) -> list[Seen]:
        """The poll timeout that made this process leave."""
        self.expired = [e for e in self.expired if record.ts_ms - e.record.ts_ms <= EXPIRY_MS]
        leaves = record.kind is Kind.LEAVE_BEGIN or record.next_state == "PREPARE_LEAVING"
        return [self.expired.pop(0)] if leaves and self.expired else []

    def _name(self, process: _Process) -> str:
        return f"{self.member} [{process.ids[0] if process.ids else f'process {process.number}'}]"

    # -- which process ------------------------------------------------------------------------------------

    def _of_id(self, record: TraceRecord) -> _Process:
        """The process of a member id. A new id belongs to a process without one, or to one that has lost its id."""
        process = self.by_id.get(record.member_id)
        if process is None:
            process = self._without_id(record) or self._start(record)
            process.ids.append(record.member_id)
            self.by_id[record.member_id] = process
        return process

    def _without_id(self, record: TraceRecord) -> _Process | None:
        candidates = [p for p in self._alike(record) if not p.ids]
        if candidates:
            return min(candidates, key=lambda p: (not p.subscribed, p.number))
        lost = [p for p in self._alike(record) if p.out and record.kind is not Kind.TRANSITION]
        return min(lost, key=lambda p: p.since, default=None)

    def _alike(self, record: TraceRecord) -> list[_Process]:
        return [p for p in self.alive if not record.instance_id or p.instance_id == record.instance_id]

    def _start(self, record: TraceRecord) -> _Process:
        self.started += 1
        process = _Process(self.started, record.instance_id)
        self.alive.append(process)
        return process

    def _guess(self, record: TraceRecord) -> _Process | None:
        if record.kind is Kind.STARTED:
            return self._start(record)
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


_MATTERS = frozenset({
    Kind.SUBSCRIBED, Kind.UNSUBSCRIBED, Kind.RECONCILING, Kind.TARGET, Kind.ASSIGN_BEGIN, Kind.REVOKE_BEGIN,
    Kind.LOST_BEGIN, Kind.ADDED, Kind.DROPPED, Kind.OWNED, Kind.CLOSE_END,
})  # fmt: skip
"""Kinds without which the ownership and subscription of a process are not known."""
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
"""Tests that attribute a record without an id to a process, the surest first."""
