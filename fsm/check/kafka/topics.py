"""The topics of a cluster as a component: which there are, and what its brokers and clients are told of them.

Topics are created, grow and are deleted, each at most once; a broker and a client learn of it each in its own time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from fsm.check.model import Choice, Component, Received, Step
from fsm.coordinator.model.context import Image, Topic
from fsm.coordinator.model.persistent import FrozenMap
from fsm.errors import InputError
from fsm.protocol.assignment import TopicNames, TopicPartition

CLUSTER = "cluster"
LATER = "later"
"""A topic that is subscribed to from the start, and created later."""
CREATED, GROWN, DELETED = "topic_created", "topic_grown", "topic_deleted"
ASKS = "asks which topics there are"


class Topics:
    """The topics of a model, before and after changes; raises `InputError` where masks have too few bits."""

    def __init__(self, topics: Mapping[str, int], *, change: bool) -> None:
        self.first = dict(sorted(topics.items()))
        self.change = change
        most = dict(self.first)
        if change:
            grown = next(iter(self.first))
            most |= {grown: self.first[grown] + 1, LATER: 1}
        if sum(most.values()) > 62:
            raise InputError(f"{sum(most.values())} partitions", "--topics", "give at most 62")
        self.subscribed = tuple(sorted(most))
        self.bits: dict[TopicPartition, int] = {}
        for name, count in most.items():
            self.bits |= {(name, number): len(self.bits) + number for number in range(count)}
        self._ids = {name: f"{i:020d}AA" for i, name in enumerate(most)}
        self.ids = {(self._ids[name], number): bit for (name, number), bit in self.bits.items()}
        self.all_names = TopicNames({topic_id: name for name, topic_id in self._ids.items()})
        self.image = cache(self._image)

    def counts(self, changes: Sequence[str]) -> dict[str, int]:
        """Partitions by topic after these changes."""
        found = dict(self.first)
        if CREATED in changes:
            found[LATER] = 1
        if GROWN in changes:
            found[next(iter(self.first))] += 1
        if DELETED in changes:
            del found[list(self.first)[-1]]
        return found

    def _image(self, changes: tuple[str, ...]) -> Image:
        counts = self.counts(changes)
        return Image(FrozenMap({n: Topic(self._ids[n], c) for n, c in counts.items()}), 1 + len(changes))

    def names(self, changes: Sequence[str]) -> TopicNames:
        """What a client knows after these changes."""
        return TopicNames({self._ids[name]: name for name in self.counts(changes)})

    def everything(self, changes: Sequence[str]) -> int:
        """The mask of all partitions after these changes."""
        counts = self.counts(changes)
        return sum(1 << self.bits[name, number] for name in counts for number in range(counts[name]))

    def component(self, told: Sequence[str]) -> Component:
        """The cluster, which tells these brokers and clients."""

        def choices(changes: tuple[str, ...]) -> Iterable[Choice]:
            yield from (Choice(_SAID[kind], kind, kind) for kind in (CREATED, GROWN, DELETED) if kind not in changes)

        def step(changes: tuple[str, ...], given: Any) -> Step:
            if isinstance(given, Received):
                return Step(changes, [(given.sender, changes)])
            after = (*changes, given)
            return Step(after, [(one, after) for one in told])

        features = {"everything": self.everything}
        return Component(CLUSTER, (), choices, step, features, describe=self.describe)

    def describe(self, changes: Sequence[str]) -> str:
        """The topics on one line."""
        return ", ".join(f"{name}:{count}" for name, count in self.counts(changes).items()) or "no topic"


_SAID = {CREATED: "a topic is created", GROWN: "a topic grows", DELETED: "a topic is deleted"}
