"""A broker held against our coordinator, step by step: the differ as a library.

    broker = Broker("127.0.0.1", 9092, "4.4.0", {})
    (held,) = hold(broker, ("plain",), seed=1, steps=500)
    held.difference      # None, or the first difference: step, fields, what our tables decided

In each family one group is walked. A step goes to the peer; what that shows is followed by our coordinator in the
peer's dialect, as a recorded walk is. `expected` is what Kafka does, `got` what the peer did.
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
from fsm.conformance.recorded_walk import follower_of
from fsm.conformance.recording import Asked, RecordedStep, Recording
from fsm.conformance.walker import Move, Wait, Walker
from fsm.coordinator.model.step import Happened
from fsm.wire.connection import PeerError

NOTHING_OBSERVED = Observed((), (), None)
UNDER_WAY_MS = 100
"""So long may an answer or a record be on its way when the description shows already what it goes with."""


@dataclass(frozen=True)
class FirstDifference:
    """Where a peer parted from Kafka."""

    step: RecordedStep
    fields: tuple[FieldDifference, ...]
    """`expected` is Kafka's, `got` the peer's."""
    decided: tuple[Happened, ...]
    """What Kafka decides in this step, as our tables have it."""
    before: tuple[RecordedStep, ...]
    """The steps of the walk before this one."""
    group: Mapping[str, Any] | None
    """The group as it was described before this step."""


@dataclass(frozen=True)
class Held:
    """How far one family went."""

    family: str
    group: str
    requests: Mapping[str, int]
    """How many steps of each kind were equal."""
    freedoms: Freedoms
    difference: FirstDifference | None
    unspoken: Mapping[str, str]
    """Why the family could not be walked at all: the requests that the peer cannot speak."""

    @property
    def equal(self) -> int:
        """How many steps were equal."""
        return sum(self.requests.values())


Progress = Callable[[str, int], None]


def hold(
    peer: Peer,
    families: Sequence[str],
    seed: int,
    steps: int,
    *,
    slack_ms: int = SLACK_MS,
    progress: Progress = lambda _family, _step: None,
) -> list[Held]:
    """Walks each family for so many steps, or up to its first difference.

    A peer that closes the connection, is silent or answers nonsense differs there. Raises `PeerError` if it cannot be
    reached for the next family.
    """
    return [_Holding(peer, family, seed, slack_ms).run(steps, progress) for family in families]


class _Holding:
    """One family on one peer."""

    def __init__(self, peer: Peer, family: str, seed: int, slack_ms: int) -> None:
        self.peer = peer
        self.family = family
        self.seed = seed
        self.slack_ms = slack_ms
        self.group = f"conform-{family}-{seed}"
        self.lacks = {api: peer.unspoken[api] for api in FAMILIES[family].needs() if api in peer.unspoken}
        self.steps: list[RecordedStep] = []
        self.counted: dict[str, int] = {}

    def run(self, steps: int, progress: Progress) -> Held:
        if self.lacks:
            return self._held(None, None)
        self.group = self.peer.begin(self.group)
        follower, walker = self._follower(), self._walker()
        for n in range(1, steps + 1):
            difference = self._step(n, walker.next(n), follower)
            if difference:
                return self._held(follower, difference)
            walker.learn(self.steps[-1])
            progress(self.family, n)
        return self._held(follower, None)

    def _follower(self) -> Follower:
        """Our coordinator, set up as the peer is."""
        peer = self.peer
        head = Recording(self.group, peer.release, self.family, self.group, peer.settings, True, peer.topics, ())
        follower = follower_of(head)
        follower.slack_ms = self.slack_ms
        describes = {"ConsumerGroupDescribe", "DescribeGroups"}.isdisjoint(self.peer.unspoken)
        follower.unseen = (*(() if self.peer.keeps_log else ("records",)), *(() if describes else ("group",)))
        return follower

    def _walker(self) -> Walker:
        chance = random.Random(f"{self.family}/{self.seed}")  # noqa: S311  # a walk is to be repeated, not secret
        topics = {name: topic for name, topic in self.peer.topics.items() if name in TOPICS}
        return Walker(chance, FAMILIES[self.family], self.group, topics)

    def _step(self, n: int, move: Move, follower: Follower) -> FirstDifference | None:
        """One step of the peer, followed by ours."""
        before = follower.described
        try:
            step, verdict = self._compared(self._taken(n, move, follower), follower)
        except PeerError as problem:
            step = self._recorded(n, self.peer.now_ms(), move, NOTHING_OBSERVED)
            fields = (FieldDifference("connection", "an answer", str(problem)),)
            return FirstDifference(step, fields, (), tuple(self.steps), before)
        if verdict.differences:
            return FirstDifference(step, _turned(verdict.differences), verdict.happened, tuple(self.steps), before)
        follower.accept(verdict)
        self.steps.append(step)
        kind = step.request.api if step.request else "a change of topics" if step.admin else "a wait"
        self.counted[kind] = self.counted.get(kind, 0) + 1
        return None

    def _compared(self, step: RecordedStep, follower: Follower) -> tuple[RecordedStep, Verdict]:
        """The step held against ours; what differs is looked at again a moment later, as of the same instant."""
        until_ms = self.peer.now_ms()
        verdict = follower.compare(step, until_ms, _answer_to(step))
        if verdict.is_complete:
            return step, verdict
        step = _with_late(step, self.peer.wait(UNDER_WAY_MS))
        return step, follower.compare(step, until_ms, _answer_to(step))

    def _taken(self, n: int, move: Move, follower: Follower) -> RecordedStep:
        """What the peer does with the move."""
        t_ms = self.peer.now_ms()
        if isinstance(move, Asked):
            return self._recorded(n, t_ms, move, self.peer.ask(n, move, follower.expect(n, move, t_ms)))
        if isinstance(move, Wait):
            return self._recorded(n, t_ms, move, self.peer.wait(move.wait_ms))
        admin = self.peer.administer(*move)
        return self._recorded(n, t_ms, move, self.peer.wait(0))._replace(admin=admin)

    def _recorded(self, n: int, t_ms: int, move: Move, observed: Observed) -> RecordedStep:
        request = move if isinstance(move, Asked) else None
        wait_ms = move.wait_ms if isinstance(move, Wait) else 0
        described = {} if observed.described is None else observed.described
        return RecordedStep(n, t_ms, request, wait_ms, None, observed.responses, observed.records, described)

    def _held(self, follower: Follower | None, difference: FirstDifference | None) -> Held:
        freedoms = follower.freedoms if follower else NO_FREEDOMS
        return Held(self.family, self.group, self.counted, freedoms, difference, self.lacks)


def _with_late(step: RecordedStep, late: Observed) -> RecordedStep:
    responses, records = (*step.responses, *late.responses), (*step.records, *late.records)
    return step._replace(responses=responses, records=records, described=late.described or {})


def _answer_to(step: RecordedStep) -> Mapping[str, Any] | None:
    return next((response.body for response in step.responses if response.to == step.n), None)


def _turned(found: Iterable[FieldDifference]) -> tuple[FieldDifference, ...]:
    """A recording is right and we are held against it; here our coordinator stands for Kafka."""
    return tuple(FieldDifference(one.field, one.got, one.expected) for one in found)
