"""Collects marks and states of members and Connect workers for timelines while their records are judged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from fsm.audit.rows import ObservedTransition, Seen
from fsm.logs.programs.connect_worker import MACHINE
from fsm.render.timeline import views
from fsm.tables.connect_worker import State
from fsm.trace import Kind, Partition, TraceRecord

ROUNDS = 500
"""Most rounds shown of one group. Those with a delay, revocations or an error come first."""
SPANS = 250
"""Most states and assignments of one member, and owners of one partition, in a timeline."""
_LATE = 50
"""A transition is reported at most this many transitions late."""
MARKED = frozenset({
    Kind.STARTED, Kind.POLL_EXPIRED, Kind.FENCED, Kind.FATAL, Kind.LOST_BEGIN, Kind.CALLBACK_FAILED,
    Kind.COORDINATOR_LOST, Kind.CLOSE_BEGIN,
})  # fmt: skip
"""Kinds of records that are marks in a member's lane."""
MEMBER_ID_END = re.compile(r"(?:-[0-9a-f]+){5}$")
"""The UUID after the client id in the member id of a Connect worker."""


@dataclass(slots=True)
class _Round:
    start_ms: int
    workers: set[str] = field(default_factory=set)
    version: str = ""
    delay_ms: int = 0
    held: set[Partition] = field(default_factory=set)
    revoked: set[Partition] = field(default_factory=set)
    failed: bool = False


def is_drawn(record: TraceRecord) -> bool:
    """Whether `Highlights` takes anything from a record."""
    return record.kind in MARKED or (record.machine == MACHINE and bool(_worker_state(record)))


class Highlights:
    """Marks and states of members, and rounds of Connect workers; an `Observer` of one group's audit."""

    def __init__(self) -> None:
        self.marks: dict[str, list[views.Mark]] = {}
        self.states: dict[str, dict[str, list[tuple[int, str, int, str]]]] = {}
        """(time, file, offset, state) by member and machine."""
        self.workers: dict[str, list[tuple[int, str]]] = {}
        """(time, state) of each Connect worker."""
        self.rounds: dict[tuple[int, str], _Round] = {}
        """By generation and leader's id."""

    def see(self, member: str, seen: Seen) -> None:
        record = seen.record
        if record.kind in MARKED:
            marks = self.marks.setdefault(member, [])
            if len(marks) < SPANS:
                marks.append(views.Mark(record.ts_ms, record.kind.value, record.detail))
        if record.machine == MACHINE:
            self._see_worker(member, record)

    def see_transition(self, transition: ObservedTransition) -> None:
        own = self.states.setdefault(transition.member, {}).setdefault(transition.machine, [])
        if len(own) <= SPANS + _LATE:
            own.append((transition.ts_ms, *transition.place, transition.next_state))

    def _see_worker(self, member: str, record: TraceRecord) -> None:
        state, steps = _worker_state(record), self.workers.setdefault(member, [])
        if state and len(steps) <= SPANS and (not steps or steps[-1][1] != state):
            steps.append((record.ts_ms, state))
        if record.kind is Kind.TARGET and record.epoch is not None:
            settings = record.settings
            round_ = self.rounds.setdefault((record.epoch, settings.get("leader", "")), _Round(record.ts_ms))
            round_.start_ms = min(round_.start_ms, record.ts_ms)
            round_.workers.add(member)
            round_.version = max(round_.version, settings.get("version", ""))
            round_.delay_ms = max(round_.delay_ms, int(settings.get("delay_ms", "0")))
            round_.held.update(record.full or ())
            round_.revoked.update(record.revoked)
            round_.failed |= settings.get("error", "0") != "0"

    def spans(self, member: str, end_ms: int) -> tuple[tuple[views.StateSpan, ...], bool]:
        """(the states of a member, whether some are left out): of its first machine if it has two; of a worker, those
        that INFO logs show."""
        machines = self.states.get(member, {})
        steps = [(ts_ms, state) for ts_ms, _, _, state in sorted(machines[min(machines)])] if machines else []
        steps = self.workers.get(member) or steps
        return tuple(state_spans(steps, end_ms)[:SPANS]), len(steps) > SPANS

    def round_views(self) -> tuple[views.RoundView, ...]:
        def view(key: tuple[int, str], one: _Round) -> views.RoundView:
            leader = MEMBER_ID_END.sub("", key[1])
            held, revoked = len(one.held), len(one.revoked)
            return views.RoundView(
                one.start_ms, key[0], leader, len(one.workers), one.version, one.delay_ms, held, revoked, one.failed
            )

        shown = [(key, view(key, one)) for key, one in sorted(self.rounds.items())]
        notable = sorted(shown, key=lambda s: (not _is_notable(s[1]), s[1].start_ms, s[1].generation))[:ROUNDS]
        return tuple(one for _, one in sorted(notable, key=lambda s: (s[1].start_ms, s[0])))


def state_spans(steps: Sequence[tuple[int, str]], end_ms: int) -> list[views.StateSpan]:
    """Spans of the states that begin with these (time, state), each to the next one."""
    ends = [*steps, (end_ms, "")][1:]
    pairs = zip(steps, ends, strict=True)
    return [views.StateSpan(state, ts_ms, max(ts_ms, until_ms)) for (ts_ms, state), (until_ms, _) in pairs]


def _is_notable(round_: views.RoundView) -> bool:
    return round_.delay_ms > 0 or round_.revoked > 0 or round_.failed


def _worker_state(record: TraceRecord) -> str:
    """The state of a Connect worker by a record; empty if it shows none."""
    match record.kind:
        case Kind.JOINING if record.event == "JOIN_DUE":
            return State.JOINING.name
        case Kind.TARGET:
            return State.ASSIGNED.name if record.settings.get("delay_ms", "0") == "0" else State.DELAYED.name
        case Kind.STARTED | Kind.COORDINATOR_LOST:
            return State.DISCONNECTED.name
        case Kind.CLOSE_BEGIN | Kind.FATAL:
            return State.DOWN.name
        case _:
            return ""
