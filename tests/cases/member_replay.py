"""A consumer member led through a recording of the Java client, and the first thing that it does otherwise.

The member is given what is not its decision: the application's calls, the end of its callbacks, responses, names of
topics, positions, the coordinator. What it decides is compared: every transition, every new target, every mark, the
commit before a run, every callback with its partitions, every heartbeat with all its fields, in the order recorded.

Free is what was not recorded: the instants of poll() and of the loop, and which of two lines of different lanes was
really first. A small search looks for a choice that fits: to reach the next thing recorded it may deliver a response
that is due, poll, turn the loop, or let the application go on, a few of these in a row. The moves themselves stand in
`member_moves`, the world they lead through in `member_world`, the recording's words in `member_recorded`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from member_moves import Moves
from member_world import Difference, Mismatch, World

from fsm.member.dialect import Dialect
from fsm.member.inputs import MetadataUpdated
from fsm.member.state import new_member

REACH = 4
"""How many free steps may lie between two things recorded."""
LATE_MS = 500.0
"""How late a plain heartbeat may be on a busy machine."""
BUSY_MS = 1500.0
"""How long a response may lie before the client looks at it: its first one waits for classes to be loaded."""


class Replay:
    """One recording, and the search for a way through it."""

    def __init__(self, recorded: Any, in_order: Callable[[Any], Any], spoken: Dialect | None = None) -> None:
        self.moves = Moves(recorded, in_order, spoken)

    def reach(self, world: World, lane: str, place: int, now: float) -> World:
        """The world in which a place of a lane has been read. Raises `Mismatch` where no choice leads there."""
        self.moves.worst = None
        for depth in range(REACH + 1):
            found = self.search(world, lane, place, now, depth)
            if found is not None:
                return found
        raise self.moves.worst or Mismatch(lane, self.moves.lanes[lane][place].says, "nothing")

    def search(self, world: World, lane: str, place: int, now: float, depth: int) -> World | None:
        if world.read(lane) > place:
            return world
        tried: list[Callable[[], World]] = []
        if world.read(lane) == place:
            tried += self.directly(world, lane, now)
        if depth == 0:
            return self.first_done(tried, lane, place)
        found = self.first_done(tried, lane, place)
        if found is not None:
            return found
        for choice in self.moves.choices(world, now):
            after = self.moves.attempt(choice)
            if after is None or after == world:
                continue
            found = self.search(after, lane, place, now, depth - 1)
            if found is not None:
                return found
        return None

    def directly(self, world: World, lane: str, now: float) -> list[Callable[[], World]]:
        """How the next thing of a lane comes about without anything else."""
        if lane == "response":
            return [lambda: self.moves.response(world, now)]
        if lane == "app":
            return [lambda: self.moves.application(world, now)]
        head = self.moves.head(world, lane)
        if lane == "log" and head.kind == "completed":
            return [lambda: self.moves.completed(world, *head.says, now)]
        return list(self.moves.choices(world, now))

    def first_done(self, tried: list[Callable[[], World]], lane: str, place: int) -> World | None:
        for choice in tried:
            after = self.moves.attempt(choice)
            if after is not None and after.read(lane) > place:
                return after
        return None

    def begin(self) -> World:
        start = self.moves.lanes["app"][0].t_ms if self.moves.lanes["app"] else 0.0
        member = new_member(self.moves.config, self.moves.recorded.member_id, self.moves.dialect, round(start))
        return World(member)

    def run(self, order: Iterator[tuple[str, int]]) -> Difference | None:
        """Everything recorded, in the order of time."""
        world = self.begin()
        for lane, place in order:
            if world.read(lane) > place:
                continue
            seen = self.moves.lanes[lane][place]
            names = self.moves.known_names(seen.t_ms)
            if names != world.member.metadata:
                world = self.moves.step(world, MetadataUpdated(names), seen.t_ms)
            world = self.moves.unseen_poll(world, seen.t_ms)
            try:
                world = self.reach(world, lane, place, seen.t_ms)
            except Mismatch as found:
                if lane == "response" and self.may_wait(world, seen.t_ms):
                    continue
                return self.difference(seen.t_ms, found.field, found.expected, found.got, f"{lane}: {seen.kind}")
        return self.left_over(world) or self.late(world)

    def difference(self, t_ms: float, field: str, expected: Any, got: Any, sought: str = "") -> Difference:
        recorded = self.moves.recorded
        return Difference(recorded.scenario, recorded.member, t_ms, field, expected, got, sought)

    def left_over(self, world: World) -> Difference | None:
        """Something recorded that was never come to."""
        for lane in self.moves.lanes:
            head = self.moves.head(world, lane)
            if head is not None and not (lane == "response" and self.moves.recorded.killed):
                return self.difference(head.t_ms, lane, f"{head.kind} {head.says}", "nothing of the kind")
        return None

    def late(self, world: World) -> Difference | None:
        """A plain heartbeat that the client sent long after ours was due.

        Explained: a process that a signal holds sends nothing, however much is due, nor does one that has to find its
        coordinator first.
        """
        found = [seen.t_ms for seen in self.moves.lanes["response"] if seen.kind == "coordinator"]
        for t_ms, late_ms in world.lateness:
            held = any(since < t_ms and t_ms - late_ms < until for since, until in self.moves.recorded.stopped)
            searched = any(t_ms - late_ms < at <= t_ms for at in found)
            if late_ms > LATE_MS and not held and not searched:
                return self.difference(t_ms, "request", f"heartbeat at {t_ms}", f"due {late_ms:.0f} ms earlier")
        return None

    def may_wait(self, world: World, now: float) -> bool:
        """Whether a response may have been looked at later: the log goes on within the time a busy client takes.

        One that came when the process was killed was perhaps never looked at.
        """
        log = self.moves.head(world, "log")
        if log is None:
            return bool(self.moves.recorded.killed)
        return bool(log.t_ms <= now + BUSY_MS)
