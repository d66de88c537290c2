"""A broker held against our coordinator, step by step: the differ as a library.

    broker = Broker("127.0.0.1", 9092, "4.4.0", {})
    (held,) = hold(broker, ("plain",), seed=1, steps=500)
    held.difference      # None, or the first difference: step, fields, what our tables decided

In each family one group is walked. A step goes to the peer; what that shows is followed by our coordinator in the
peer's dialect, as a recorded walk is. `expected` is what Kafka does, `got` what the peer did.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fsm.coordinator.comparison import FieldDifference
from fsm.coordinator.recording import Asked, RecordedStep, Recording
from fsm.coordinator.step import Happened
from fsm.coordinator.walk import SLACK_MS, Walk, begin
from fsm.wire.connection import PeerError
from fsm.wire.families import FAMILIES, TOPICS
from fsm.wire.peer import Observed, Peer
from fsm.wire.walker import Move, Wait, Walker

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
    ties: int
    """Steps in which a tie of an assignor was broken the other way."""
    reordered: int
    """Steps whose records came in another order of a hash map."""
    early_or_late: int
    """Steps that needed the freedom around a deadline."""
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
        walk, walker = self._walk(), self._walker()
        for n in range(1, steps + 1):
            difference = self._step(n, self._pause(walk) or walker.next(n), walk)
            if difference:
                return self._held(walk, difference)
            walker.learn(self.steps[-1])
            progress(self.family, n)
        return self._held(walk, None)

    def _pause(self, walk: Walk) -> Wait | None:
        """Nothing is asked while two clocks that go a little apart would decide differently, and nothing showed it."""
        unsure_ms = walk.unsure_ms(self.peer.now_ms())
        return Wait(unsure_ms) if unsure_ms else None

    def _walk(self) -> Walk:
        """Our coordinator, set up as the peer is."""
        peer = self.peer
        head = Recording(self.group, peer.release, self.family, self.group, peer.settings, True, peer.topics, ())
        walk = begin(head)
        walk.slack_ms = self.slack_ms
        describes = {"ConsumerGroupDescribe", "DescribeGroups"}.isdisjoint(self.peer.unspoken)
        walk.unseen = (*(() if self.peer.keeps_log else ("records",)), *(() if describes else ("group",)))
        return walk

    def _walker(self) -> Walker:
        chance = random.Random(f"{self.family}/{self.seed}")  # noqa: S311  # a walk is to be repeated, not secret
        topics = {name: topic for name, topic in self.peer.topics.items() if name in TOPICS}
        return Walker(chance, FAMILIES[self.family], self.group, topics)

    def _step(self, n: int, move: Move, walk: Walk) -> FirstDifference | None:
        """One step of the peer, followed by ours."""
        before = walk.described
        try:
            step, found = self._followed(self._taken(n, move, walk), walk)
        except PeerError as problem:
            step = self._recorded(n, self.peer.now_ms(), move, NOTHING_OBSERVED)
            fields = (FieldDifference("connection", "an answer", str(problem)),)
            return FirstDifference(step, fields, (), tuple(self.steps), before)
        if found:
            return FirstDifference(step, _turned(found), walk.happened, tuple(self.steps), before)
        self.steps.append(step)
        kind = step.request.api if step.request else "a change of topics" if step.admin else "a wait"
        self.counted[kind] = self.counted.get(kind, 0) + 1
        return None

    def _followed(self, step: RecordedStep, walk: Walk) -> tuple[RecordedStep, list[FieldDifference]]:
        """What differs from ours; what does is looked at again a moment later, and its clock has not moved on."""
        until_ms = self.peer.now_ms()
        found = walk.step(step, until_ms, _answer_to(step))
        if not found:
            return step, found
        step = _with_late(step, self.peer.wait(UNDER_WAY_MS))
        return step, walk.step(step, until_ms, _answer_to(step))

    def _taken(self, n: int, move: Move, walk: Walk) -> RecordedStep:
        """What the peer does with the move."""
        t_ms = self.peer.now_ms()
        if isinstance(move, Asked):
            return self._recorded(n, t_ms, move, self.peer.ask(n, move, walk.foresee(n, move, t_ms)))
        if isinstance(move, Wait):
            return self._recorded(n, t_ms, move, self.peer.wait(move.wait_ms))
        admin = self.peer.administer(*move)
        return self._recorded(n, t_ms, move, self.peer.wait(0))._replace(admin=admin)

    def _recorded(self, n: int, t_ms: int, move: Move, observed: Observed) -> RecordedStep:
        request = move if isinstance(move, Asked) else None
        wait_ms = move.wait_ms if isinstance(move, Wait) else 0
        described = {} if observed.described is None else observed.described
        return RecordedStep(n, t_ms, request, wait_ms, None, observed.responses, observed.records, described)

    def _held(self, walk: Walk | None, difference: FirstDifference | None) -> Held:
        freedoms = (walk.ties, walk.reordered, walk.early_or_late) if walk else (0, 0, 0)
        return Held(self.family, self.group, self.counted, *freedoms, difference, self.lacks)


def _with_late(step: RecordedStep, late: Observed) -> RecordedStep:
    responses, records = (*step.responses, *late.responses), (*step.records, *late.records)
    return step._replace(responses=responses, records=records, described=late.described or {})


def _answer_to(step: RecordedStep) -> Mapping[str, Any] | None:
    return next((response.body for response in step.responses if response.to == step.n), None)


def _turned(found: list[FieldDifference]) -> tuple[FieldDifference, ...]:
    """A recording is right and we are held against it; here our coordinator stands for Kafka."""
    return tuple(FieldDifference(one.field, one.got, one.expected) for one in found)
