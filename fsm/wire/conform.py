"""A broker held against our coordinator, step by step: the differ as a library.

    held = hold(peer, families=("plain",), seed=1, steps=500)
    held[0].difference      # None, or the first difference: request, field, expected, got

In each family one group is walked. A step goes to the peer; what it shows is followed by our coordinator in the peer's
dialect, as a recorded walk is. `expected` is what Kafka does, `got` what the peer did.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fsm.coordinator.comparison import FieldDifference
from fsm.coordinator.recording import Asked, RecordedStep, Recording
from fsm.coordinator.walk import Walk, begin
from fsm.wire.families import FAMILIES
from fsm.wire.peer import Observed, Peer
from fsm.wire.walker import Change, Move, Wait, Walker


@dataclass(frozen=True)
class Held:
    """How far one family went."""

    family: str
    group: str
    steps: int
    """Those that were equal."""
    requests: dict[str, int]
    """How many of each kind were equal."""
    ties: int
    reordered: int
    early_or_late: int
    difference: FirstDifference | None
    unspoken: dict[str, str]
    """Why the family was not walked at all."""


@dataclass(frozen=True)
class FirstDifference:
    """Where a peer parted from Kafka."""

    step: RecordedStep
    fields: tuple[FieldDifference, ...]
    """`expected` is Kafka's, `got` the peer's."""
    before: tuple[RecordedStep, ...]
    """The steps of the walk, up to this one."""


def hold(
    peer: Peer,
    families: Sequence[str],
    seed: int,
    steps: int,
    progress: Callable[[str, int], None] = lambda _family, _step: None,
) -> list[Held]:
    """Walks each family for so many steps, or up to its first difference. Raises `PeerError` if the peer goes away."""
    return [_Holding(peer, family, seed).run(steps, progress) for family in families]


class _Holding:
    """One family on one peer."""

    def __init__(self, peer: Peer, family: str, seed: int) -> None:
        self.peer = peer
        self.family = family
        self.group = f"conform-{family}-{seed}"
        self.seed = seed
        self.lacks = {api: peer.unspoken[api] for api in FAMILIES[family].needs() if api in peer.unspoken}
        self.steps: list[RecordedStep] = []
        self.counted: dict[str, int] = {}

    def run(self, steps: int, progress: Callable[[str, int], None]) -> Held:
        if self.lacks:
            return self._held(None, None)
        self.group = self.peer.begin(self.group)
        walk = begin(self._recording())
        walk.unseen = self._unseen()
        chance = random.Random(f"{self.family}/{self.seed}")  # noqa: S311  # a walk is to be repeated, not secret
        walker = Walker(chance, FAMILIES[self.family], self.group, self.peer.topics)
        for n in range(1, steps + 1):
            step = self._taken(n, walker.next(n), walk)
            found = walk.step(step, self.peer.now_ms(), _answer_to(step))
            self.steps.append(step)
            if found:
                return self._held(walk, FirstDifference(step, tuple(_turned(found)), tuple(self.steps)))
            self._count(step)
            walker.learn(step)
            progress(self.family, n)
        return self._held(walk, None)

    def _unseen(self) -> tuple[str, ...]:
        """What the peer does not let others see."""
        describes = {"ConsumerGroupDescribe", "DescribeGroups"} - self.peer.unspoken.keys()
        return (*(() if self.peer.keeps_log else ("records",)), *(() if len(describes) == 2 else ("group",)))

    def _recording(self) -> Recording:
        """The head of the walk that is about to be recorded."""
        settings = {key: value for key, value in self.peer.settings.items() if key.startswith(("group.", "offset."))}
        return Recording(self.group, self.peer.release, self.family, self.group, settings, True, self.peer.topics, ())

    def _taken(self, n: int, move: Move, walk: Walk) -> RecordedStep:
        """What the peer does with the move."""
        t_ms = self.peer.now_ms()
        request = admin = None
        wait_ms = 0
        if isinstance(move, Asked):
            request = move
            observed = self.peer.ask(n, move, walk.foresee(n, move, t_ms))
        elif isinstance(move, Wait):
            wait_ms = move.wait_ms
            observed = self.peer.wait(move.wait_ms)
        else:
            admin = self.peer.administer(*move)
            observed = self.peer.wait(0)
        described = {} if observed.described is None else observed.described
        return RecordedStep(n, t_ms, request, wait_ms, admin, observed.responses, observed.records, described)

    def _count(self, step: RecordedStep) -> None:
        kind = step.request.api if step.request else "a change of topics" if step.admin else "a wait"
        self.counted[kind] = self.counted.get(kind, 0) + 1

    def _held(self, walk: Walk | None, difference: FirstDifference | None) -> Held:
        equal = sum(self.counted.values())
        freedoms = (walk.ties, walk.reordered, walk.early_or_late) if walk else (0, 0, 0)
        return Held(self.family, self.group, equal, self.counted, *freedoms, difference, self.lacks)


def _answer_to(step: RecordedStep) -> Any:
    own = [response.body for response in step.responses if response.to == step.n]
    return own[0] if own else None


def _turned(found: list[FieldDifference]) -> list[FieldDifference]:
    """A recording is right and we are held against it; here our coordinator stands for Kafka."""
    return [FieldDifference(one.field, one.got, one.expected) for one in found]


__all__ = ["Change", "FirstDifference", "Held", "Observed", "hold"]
