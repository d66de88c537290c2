"""Rounds that recorded leaders computed, held against the assignor.

A leader's DEBUG log prints what its assignor was given and what it gave. `rounds_of` reads that from the lines of one
worker, `differences` runs the same rounds through ours: each leader process has a memory of its own, from its start.

The instant of a round is the leader's clock where a line prints it, else the time stamp of the line that decides about
the delay. A delay may differ by `TOLERANCE_MS`; the deadline of the memory is then the leader's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple

from fsm.connect.assignor.incremental import AS_GIVEN, Memory, Round, assign
from fsm.connect.assignor.leader import assign_eagerly
from fsm.connect.units import Unit, Units
from fsm.logs.programs.connect_worker import ASSIGNMENT, partitions

TOLERANCE_MS = 50


@dataclass
class RecordedRound:
    """One round as its leader's log tells it."""

    process: int
    """Which process of the worker led, counted from 0."""
    time_ms: int
    """Of its first line."""
    now_ms: int
    max_delay_ms: int
    generation: int = -1
    """-1 for an eager round, whose lines do not name it."""
    last_completed_generation: int = -1
    configured: frozenset[Unit] = frozenset()
    received: dict[str, Units] = field(default_factory=dict)
    sent: dict[str, tuple[Units, Units, int]] = field(default_factory=dict)
    """For each member what was assigned and revoked, and the delay."""
    history_dropped: bool = False

    @property
    def is_eager(self) -> bool:
        """Whether the eager assignor ran."""
        return self.generation < 0


class Difference(NamedTuple):
    """Where our assignor gives something else than the recorded leader."""

    time_ms: int
    what: str
    expected: object
    got: object


_TIME = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] (\w+) ")
_MEMBER = r"(?P<member>[^\s={}]{1,300})"
_HOLDING = re.compile(_MEMBER + r"=\{ connectorIds=\[(?P<connectors>[^\]]*)\], taskIds=\[(?P<tasks>[^\]]*)\]\}")
_SENT = re.compile(_MEMBER + "=" + ASSIGNMENT)
_EAGER = re.compile(r"Assignment: " + _MEMBER + " -> " + ASSIGNMENT)
_CONFIGURED = re.compile(r"Configured assignments: \{ connectorIds=\[([^\]]*)\], taskIds=\[([^\]]*)\]\}")
_GENERATION = re.compile(r"Performing task assignment during generation: (\d+) ")
_JOINED = re.compile(r"Joined group at generation (-?\d+) ")
_CLOCK = re.compile(r"Resetting rebalance delay to the max: \d+\. scheduledRebalance: \d+ now: (\d+) ")
_MAX_DELAY = re.compile(r"\tscheduled\.rebalance\.max\.delay\.ms = (\d+)")
_DECIDES = ("Delayed rebalance in progress.", "Delayed rebalance expired.", "Consecutive revoking rebalances observed.")


class _Reader:
    """Reads the lines of one worker's file."""

    def __init__(self) -> None:
        self.process, self.max_delay_ms, self.completed = -1, 300_000, -1
        self.open: RecordedRound | None = None

    def see(self, line: str) -> Iterator[RecordedRound]:
        """The round that the line completes."""
        if (setting := _MAX_DELAY.match(line)) is not None:
            self.max_delay_ms = int(setting[1])
        if (stamp := _TIME.match(line)) is None:
            return
        if "Kafka Connect worker initializing" in line:
            yield from self.close()
            self.process, self.completed = self.process + 1, -1
        elif ".IncrementalCooperativeAssignor:" in line:
            yield from self._cooperative(line, _ms(stamp))
        elif ".EagerAssignor:" in line:
            yield from self._eager(line, _ms(stamp))
        elif (joined := _JOINED.search(line)) is not None:
            yield from self.close()
            self.completed = int(joined[1])

    def close(self) -> Iterator[RecordedRound]:
        """The open round, if it was computed to its end."""
        if self.open is not None and self.open.sent:
            yield self.open
        self.open = None

    def _begin(self, time_ms: int) -> RecordedRound:
        self.open = RecordedRound(
            self.process, time_ms, time_ms, self.max_delay_ms, last_completed_generation=self.completed
        )
        return self.open

    def _cooperative(self, line: str, time_ms: int) -> Iterator[RecordedRound]:
        if (generation := _GENERATION.search(line)) is not None:
            yield from self.close()
            self._begin(time_ms).generation = int(generation[1])
        elif self.open is not None:
            self._given(self.open, line, time_ms)
            if "Actual assignments: " in line:
                self.open.sent = {m["member"]: _read_assignment(m) for m in _SENT.finditer(line)}
                yield from self.close()

    def _given(self, round_: RecordedRound, line: str, time_ms: int) -> None:
        if (configured := _CONFIGURED.search(line)) is not None:
            round_.configured = frozenset(_units(configured[1], configured[2]))
        elif "Received assignments: " in line:
            round_.received = {m["member"]: _units(m["connectors"], m["tasks"]) for m in _HOLDING.finditer(line)}
        elif (clock := _CLOCK.search(line)) is not None:
            round_.now_ms = int(clock[1])
        elif any(text in line for text in _DECIDES):
            round_.now_ms = time_ms
        elif "Clearing the view of previous assignments" in line:
            round_.history_dropped = True

    def _eager(self, line: str, time_ms: int) -> Iterator[RecordedRound]:
        match = _EAGER.search(line)
        if match is None:
            yield from self.close()
            return
        round_ = self.open or self._begin(time_ms)
        round_.sent[match["member"]] = _read_assignment(match)


def rounds_of(lines: Iterable[str]) -> Iterator[RecordedRound]:
    """The rounds that the worker of this log led, in their order; those that failed for want of configs are none."""
    reader = _Reader()
    for line in lines:
        yield from reader.see(line)
    yield from reader.close()


def differences(rounds: Iterable[RecordedRound]) -> Iterator[Difference]:
    """Where the assignor, fed with what these rounds of one worker were given, gives something else."""
    memory, process = Memory(), -1
    for recorded in rounds:
        if recorded.process != process:
            memory, process = Memory(), recorded.process
        if recorded.is_eager:
            yield from _eager_differences(recorded)
            continue
        found, memory = _replayed(recorded, memory)
        yield from found


def _replayed(recorded: RecordedRound, memory: Memory) -> tuple[list[Difference], Memory]:
    known = Round(
        recorded.now_ms,
        recorded.generation,
        recorded.configured,
        recorded.received,
        recorded.last_completed_generation,
    )
    outcome = assign(memory, known, recorded.max_delay_ms, order=AS_GIVEN)
    found = []
    for member, (assigned, revoked, _) in recorded.sent.items():
        found += _differs(recorded, f"assigned to {member}", assigned, outcome.assigned.get(member, ()))
        found += _differs(recorded, f"revoked from {member}", revoked, outcome.revoked.get(member, ()))
    delay_ms = max((delay for _, _, delay in recorded.sent.values()), default=0)
    if abs(delay_ms - outcome.delay_ms) > TOLERANCE_MS or (delay_ms > 0) != (outcome.delay_ms > 0):
        found.append(Difference(recorded.time_ms, "delay_ms", delay_ms, outcome.delay_ms))
    after = outcome.memory
    if delay_ms > 0 and outcome.delay_ms > 0:
        after = replace(after, delay_ms=delay_ms, deadline_ms=recorded.now_ms + delay_ms)
    return found, after


def _eager_differences(recorded: RecordedRound) -> Iterator[Difference]:
    """An eager leader prints no configs: that everything it dealt out is dealt out this way is all that can be seen."""
    dealt = frozenset(unit for assigned, _, _ in recorded.sent.values() for unit in assigned)
    ours = assign_eagerly(dealt, recorded.sent)
    for member, (assigned, _, _) in recorded.sent.items():
        yield from _differs(recorded, f"assigned to {member}", assigned, ours[member])


def _differs(recorded: RecordedRound, what: str, expected: Units, got: Units) -> list[Difference]:
    if set(expected) == set(got):
        return []
    return [Difference(recorded.time_ms, what, list(map(str, sorted(expected))), list(map(str, sorted(got))))]


def _units(connectors: str, tasks: str) -> Units:
    return tuple(Unit(*each) for each in partitions(connectors, tasks))


def _read_assignment(match: re.Match[str]) -> tuple[Units, Units, int]:
    named: Mapping[str, str | None] = match.groupdict()
    assigned = _units(named["connectors"] or "", named["tasks"] or "")
    revoked = _units(named["revoked_connectors"] or "", named["revoked_tasks"] or "")
    return assigned, revoked, int(named["delay_ms"] or 0)


def _ms(stamp: re.Match[str]) -> int:
    seconds = datetime.fromisoformat(stamp[1]).replace(tzinfo=UTC).timestamp()
    return int(seconds) * 1000 + int(stamp[2])
