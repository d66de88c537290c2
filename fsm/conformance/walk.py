"""Compares a broker with our coordinator, step by step, in seeded walks.

    broker = Broker("127.0.0.1", 9092, "4.4.0", {})
    (result,) = compare(broker, ("plain",), seed=1, steps=500)
    result.difference    # None, or the first difference: step, fields, what our tables decided

Each family walks one group. A step is sent to the peer, and our coordinator follows the observation in the peer's
dialect. `expected` is Kafka's behaviour, `got` the peer's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fsm.conformance.comparison import FieldDifference
from fsm.conformance.families import FAMILIES, TOPICS
from fsm.conformance.follower import NO_FREEDOMS, SLACK_MS, Follower, Freedoms, Verdict
from fsm.conformance.peer import Observed, Peer
from fsm.conformance.steps import WalkRequest, WalkStep
from fsm.conformance.walker import Move, Wait, Walker
from fsm.coordinator.model.step import Happened
from fsm.wire.dialogue import PeerError

NOTHING_OBSERVED = Observed((), (), None)
UNDER_WAY_MS = 100
"""Delay of a response or a record after the description that shows its step."""


@dataclass(frozen=True)
class FirstDifference:
    """A deviation of a peer from Kafka."""

    step: WalkStep
    fields: tuple[FieldDifference, ...]
    """`expected` is Kafka's, `got` the peer's."""
    decided: tuple[Happened, ...]
    """Kafka's decisions in this step, according to our tables."""
    before: tuple[WalkStep, ...]
    """The earlier steps of the walk."""
    group: Mapping[str, Any] | None
    """The description of the group before this step."""


@dataclass(frozen=True)
class WalkResult:
    """The result of one family's walk."""

    family: str
    group: str
    requests: Mapping[str, int]
    """Number of equal steps by kind."""
    freedoms: Freedoms
    difference: FirstDifference | None
    unsupported: Mapping[str, str]
    """APIs that the family needs and the peer does not support, and why; not empty if the family was not walked."""

    @property
    def equal(self) -> int:
        """Number of equal steps."""
        return sum(self.requests.values())


Progress = Callable[[str, int], None]


def compare(
    peer: Peer,
    families: Sequence[str],
    seed: int,
    steps: int,
    *,
    slack_ms: int = SLACK_MS,
    progress: Progress = lambda _family, _step: None,
) -> list[WalkResult]:
    """Walks each family for `steps` steps, or up to its first difference.

    A closed connection, a timeout or an invalid answer is a difference. Raises `PeerError` if the peer cannot be
    reached for the next family.
    """
    return [_Walk(peer, family, seed, slack_ms).run(steps, progress) for family in families]


class _Walk:
    """One family on one peer."""

    def __init__(self, peer: Peer, family: str, seed: int, slack_ms: int) -> None:
        self.peer = peer
        self.family = family
        self.seed = seed
        self.slack_ms = slack_ms
        self.group = f"conform-{family}-{seed}"
        self.lacks = {api: peer.unsupported[api] for api in FAMILIES[family].needs() if api in peer.unsupported}
        self.steps: list[WalkStep] = []
        self.counted: dict[str, int] = {}

    def run(self, steps: int, progress: Progress) -> WalkResult:
        if self.lacks:
            return self._finish(None, None)
        self.group = self.peer.begin(self.group)
        follower, walker = self._make_follower(), self._make_walker()
        for n in range(1, steps + 1):
            difference = self._step(n, walker.next(n), follower)
            if difference:
                return self._finish(follower, difference)
            walker.learn(self.steps[-1])
            progress(self.family, n)
        return self._finish(follower, None)

    def _make_follower(self) -> Follower:
        peer = self.peer
        describes = {"ConsumerGroupDescribe", "DescribeGroups"}.isdisjoint(peer.unsupported)
        ignored = (*(() if peer.keeps_log else ("records",)), *(() if describes else ("group",)))
        return Follower(self.group, peer.release, peer.settings, peer.topics, slack_ms=self.slack_ms, ignored=ignored)

    def _make_walker(self) -> Walker:
        chance, forms = (
            random.Random(f"{self.family}/{self.seed}{what}")  # noqa: S311  # a walk is to be repeated, not secret
            for what in ("", "/forms")
        )
        topics = {name: topic for name, topic in self.peer.topics.items() if name in TOPICS}
        return Walker(chance, FAMILIES[self.family], self.group, topics, forms=forms, versions=self.peer.versions)

    def _step(self, n: int, move: Move, follower: Follower) -> FirstDifference | None:
        before = follower.described
        try:
            step, verdict = self._compare(self._take(n, move, follower), follower)
        except PeerError as problem:
            step = self._record(n, self.peer.now_ms(), move, NOTHING_OBSERVED)
            fields = (FieldDifference("connection", "an answer", str(problem)),)
            return FirstDifference(step, fields, (), tuple(self.steps), before)
        if verdict.differences:
            differences = _swap_sides(verdict.differences)
            return FirstDifference(step, differences, verdict.happened, tuple(self.steps), before)
        follower.accept(verdict)
        self.steps.append(step)
        kind = step.request.api if step.request else "a change of topics" if step.admin else "a wait"
        self.counted[kind] = self.counted.get(kind, 0) + 1
        return None

    def _compare(self, step: WalkStep, follower: Follower) -> tuple[WalkStep, Verdict]:
        """The step and its verdict; an incomplete one is compared again with late observations, as of the same time."""
        until_ms = self.peer.now_ms()
        verdict = follower.compare(step, until_ms, step.answer)
        if verdict.is_complete:
            return step, verdict
        step = _add_late(step, self.peer.wait(UNDER_WAY_MS))
        return step, follower.compare(step, until_ms, step.answer)

    def _take(self, n: int, move: Move, follower: Follower) -> WalkStep:
        t_ms = self.peer.now_ms()
        if isinstance(move, WalkRequest):
            return self._record(n, t_ms, move, self.peer.ask(n, move, follower.expect(n, move, t_ms)))
        if isinstance(move, Wait):
            return self._record(n, t_ms, move, self.peer.wait(move.wait_ms))
        admin = self.peer.administer(*move)
        return self._record(n, t_ms, move, self.peer.wait(0))._replace(admin=admin)

    def _record(self, n: int, t_ms: int, move: Move, observed: Observed) -> WalkStep:
        request = move if isinstance(move, WalkRequest) else None
        wait_ms = move.wait_ms if isinstance(move, Wait) else 0
        described = {} if observed.described is None else observed.described
        return WalkStep(n, t_ms, request, wait_ms, None, observed.responses, observed.records, described)

    def _finish(self, follower: Follower | None, difference: FirstDifference | None) -> WalkResult:
        freedoms = follower.freedoms if follower else NO_FREEDOMS
        return WalkResult(self.family, self.group, self.counted, freedoms, difference, self.lacks)


def _add_late(step: WalkStep, late: Observed) -> WalkStep:
    responses, records = (*step.responses, *late.responses), (*step.records, *late.records)
    return step._replace(responses=responses, records=records, described=late.described or {})


def _swap_sides(found: Iterable[FieldDifference]) -> tuple[FieldDifference, ...]:
    """Swaps `expected` and `got`: the follower expects the observation, but here our coordinator represents Kafka."""
    return tuple(FieldDifference(one.field, one.got, one.expected) for one in found)
