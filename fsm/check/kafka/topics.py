"""The topics of a cluster as a component, which sends metadata updates to its brokers and clients.

Topics are created, grow, are deleted and recreated under another id, each at most once; each broker and client learns
of it at its own time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, reduce
from operator import or_
from typing import Any

from fsm.check.kafka.application import BROKER
from fsm.check.model import Choice, Component, Look, Received, Step, Wire
from fsm.coordinator.model.context import Image, Topic
from fsm.coordinator.model.persistent import PersistentMap
from fsm.errors import InputError
from fsm.protocol.assignment import TopicNames, TopicPartition

CLUSTER = "cluster"
LATER = "later"
"""A topic with subscribers from the start that is created later."""
CREATED, GROWN, DELETED, RECREATED = "topic_created", "topic_grown", "topic_deleted", "topic_recreated"
CHANGES = (CREATED, DELETED, GROWN, RECREATED)
ASKS = "asks which topics there are"
ANEW = "9" * 20 + "AA"
"""The id of the recreated topic."""


class Topics:
    """The topics of a model, before and after changes; raises `InputError` if masks have too few bits."""

    def __init__(self, topics: Mapping[str, int], *, change: bool) -> None:
        self.first = dict(sorted(topics.items()))
        self.change = change
        most = dict(self.first)
        if change:
            grown = next(iter(self.first))
            most |= {grown: self.first[grown] + 1, LATER: 1}
        self.last = max(self.first, default="")
        """The topic that may be deleted and recreated."""
        if (many := sum(most.values()) + (most[self.last] if change else 0)) > 62:
            raise InputError(f"{many} partitions", "--topics", "give at most 62")
        self.subscribed = tuple(sorted(most))
        self.bits: dict[TopicPartition, int] = {}
        for name, count in most.items():
            self.bits |= {(name, number): len(self.bits) + number for number in range(count)}
        self._ids = {name: f"{i:020d}AA" for i, name in enumerate(most)}
        ids = [*self._ids.items(), *([(self.last, ANEW)] if change else [])]
        self.ids = {(i, number): self.bits[name, number] for name, i in ids for number in range(most[name])}
        self.places = {one: bit for bit, one in enumerate(self.ids)}
        """A bit for each partition under each id."""
        self.anew = mask((one for one in self.ids if one[0] == ANEW), self.places)
        self.all_names = TopicNames({topic_id: name for name, topic_id in ids})
        self.image = cache(self._image)

    def id_of(self, name: str, changes: Sequence[str]) -> str:
        """The id of a topic after these changes."""
        return ANEW if name == self.last and RECREATED in changes else self._ids[name]

    def __str__(self) -> str:
        return ", ".join(f"{name} with {count} partitions" for name, count in self.first.items())

    def counts(self, changes: Sequence[str]) -> dict[str, int]:
        """Partitions by topic after these changes."""
        found = dict(self.first)
        if CREATED in changes:
            found[LATER] = 1
        if GROWN in changes:
            found[next(iter(self.first))] += 1
        if DELETED in changes and RECREATED not in changes:
            del found[self.last]
        return found

    def _image(self, changes: tuple[str, ...]) -> Image:
        counts = self.counts(changes)
        return Image(PersistentMap({n: Topic(self.id_of(n, changes), c) for n, c in counts.items()}), 1 + len(changes))

    def names(self, changes: Sequence[str]) -> TopicNames:
        """The topic names that a client knows after these changes."""
        return TopicNames({self.id_of(name, changes): name for name in self.counts(changes)})

    def mask_topics(self, names: Iterable[str]) -> int:
        """The mask of all partitions that these topics ever have."""
        wanted = {*names}
        return mask((one for one in self.bits if one[0] in wanted), self.bits)

    def everything(self, changes: Sequence[str]) -> int:
        """The mask of all partitions after these changes."""
        counts = self.counts(changes)
        return sum(1 << self.bits[name, number] for name in counts for number in range(counts[name]))

    def components(self, receivers: Sequence[str]) -> list[Component]:
        """The component, which sends updates to these brokers and clients; none if no topic changes."""

        def choices(changes: tuple[str, ...]) -> Iterable[Choice]:
            left = [kind for kind in _TEXTS if kind not in changes]
            if RECREATED not in left and DELETED in left:
                left.remove(DELETED)
            yield from (Choice(_TEXTS[kind], kind, kind) for kind in left)

        def step(changes: tuple[str, ...], given: Any) -> Step:
            if isinstance(given, Received):
                return Step(changes, [(given.sender, changes)])
            after = (*changes, given)
            return Step(after, [(one, after) for one in receivers])

        features = {"everything": self.everything}
        found = Component(CLUSTER, (), choices, step, features, describe=self.describe, look=self.look, role="topics")
        return [found] if self.change else []

    def look(self, changes: tuple[str, ...]) -> Look:
        topics = self._image(changes).topics
        return Look(fields=[(name, f"{one.partitions} partitions, id {one.topic_id}") for name, one in topics.items()])

    def wires(self, receivers: Sequence[str]) -> list[Wire]:
        """The wires on which brokers and clients receive updates, and those on which they request metadata; none if no
        topic changes.
        """

        def describe(changes: Sequence[str]) -> str:
            return f"the topics are {self.describe(changes)}"

        learn = [Wire(CLUSTER, one, describe=describe) for one in receivers]
        return [*learn, *(Wire(one, CLUSTER) for one in receivers if one != BROKER)] if self.change else []

    def describe(self, changes: Sequence[str]) -> str:
        """The topics on one line."""
        return ", ".join(f"{name}:{count}" for name, count in self.counts(changes).items()) or "no topic"


_TEXTS = {
    CREATED: "a topic is created",
    GROWN: "a topic grows",
    DELETED: "a topic is deleted",
    RECREATED: "a topic is made anew",
}


def mask(found: Iterable[Any], bits: Mapping[Any, int]) -> int:
    """Partitions as bits; one name may have had two ids."""
    return reduce(or_, (1 << bits[one] for one in found), 0)


NO_TOPICS = Topics({}, change=False)
"""Those of a group of Connect."""
