"""A consumer member led through a recording of the Java client, and the first thing that it does otherwise.

The member is given what is not its decision: the application's calls, the end of its callbacks, responses, names of
topics, positions, the coordinator. What it decides is compared: every transition, every new target, every mark, the
commit before a run, every callback with its partitions, every heartbeat with all its fields, every error that poll()
throws, in the order recorded; and what the application was told meanwhile: its epoch, what it owned.

Whenever something is recorded the application polls, if it may, and the background thread turns: neither does anything
that is not recorded. Free are the instants of poll(), within 100 ms, and which of two lines of different lanes was
really first. A small search looks for a choice that fits: to reach the next thing recorded it may deliver a response
that is due, poll, turn the loop, or let the application go on, a few of these in a row. How late something may be is
what the timeline itself shows (`Timeline.noise_ms`, `Timeline.near`). The moves themselves stand in `member_moves`, the
world they lead through in `member_world`, the recording's words in `member_recorded`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from member_moves import Moves
from member_timeline import STAMP_MS
from member_world import Difference, Mismatch, World

from fsm.member.consumer.state import new_member
from fsm.member.dialect.dialect import Dialect

REACH = 4
"""How many free steps may lie between two things recorded."""


class Replay:
    """One recording, and the search for a way through it."""

    def __init__(self, recorded: Any, in_order: Callable[[Any], Any], dialect: Dialect | None = None) -> None:
        self.moves = Moves(recorded, in_order, dialect)

    def reach(self, world: World, lane: str, place: int, now: float) -> World:
        """The world in which a place of a lane has been read. Raises `Mismatch` where no choice leads there."""
        self.moves.worst = None
        for depth in range(REACH + 1):
            found = self.search(world, lane, place, now, depth)
            if found is not None:
                return found
        raise self.moves.worst or Mismatch(lane, self.moves.lanes[lane][place].content, "nothing")

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
            return [lambda: self.moves.completed(world, *head.content, now)]
        if lane == "log" and head.kind == "failed":
            return [lambda: self.moves.response(world, now), lambda: self.moves.failed(world, now)]
        if lane == "log" and head.kind == "run ended" and world.phase == "leaving":
            return [lambda: self.moves.unheard(world, now)]
        if lane == "log" and head.kind == "run ended" and world.phase == "unsubscribing":
            return [lambda: self.moves.skipped(world, now)]
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
            try:
                world = self.after(world, lane, place, seen.t_ms)
            except Mismatch as found:
                if self.may_wait(world, lane, place, seen.t_ms):
                    continue
                return self.difference(seen.t_ms, found.field, found.expected, found.got, f"{lane}: {seen.kind}")
        return self.left_over(world)

    def after(self, world: World, lane: str, place: int, now: float) -> World:
        """The world after what happens all the time and one thing recorded. The poll of this instant may come later."""
        try:
            return self.reach(self.moves.meanwhile(world, now, polls=True), lane, place, now)
        except Mismatch as found:
            if not self.moves.may_poll_later(world, now):
                raise
            try:
                return self.reach(self.moves.meanwhile(world, now, polls=False), lane, place, now)
            except Mismatch:
                raise found from None

    def difference(self, t_ms: float, field: str, expected: Any, got: Any, sought: str = "") -> Difference:
        recorded = self.moves.recorded
        return Difference(recorded.scenario, recorded.member, t_ms, field, expected, got, sought)

    def left_over(self, world: World) -> Difference | None:
        """Something recorded that was never come to."""
        for lane in self.moves.lanes:
            head = self.moves.head(world, lane)
            if head is not None and not (lane == "response" and self.moves.recorded.killed):
                return self.difference(head.t_ms, lane, f"{head.kind} {head.content}", "nothing of the kind")
        return None

    def may_wait(self, world: World, lane: str, place: int, now: float) -> bool:
        """Whether something on the wire belongs to a later line of the log: what comes of a response, what was sent.

        A response that came when the process was killed was perhaps never looked at.
        """
        if lane not in ("request", "response") or world.read(lane) > place:
            return False
        log = self.moves.head(world, "log")
        if lane == "request":
            return log is not None and bool(log.t_ms <= now + STAMP_MS)
        return bool(self.moves.recorded.killed if log is None else self.moves.soon(log.t_ms, now))
