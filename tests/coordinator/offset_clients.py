"""Clients that commit, fetch and delete offsets at random, in transactions and outside, held against a ledger.

The ledger knows nothing but the log: it takes one record after the other and counts where each stands, as a broker
does. What the coordinator knows must be what the ledger says, and what it answers must be what it wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from consumer_scene import IDS, Scene, name_of

from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.host import Appended
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.protocol.records import OffsetCommit, OffsetKey

PRODUCERS = (5, 6)
Place = tuple[str, str, int]
Stored = dict[Place, tuple[int, int]]
"""An offset, and where its record stands in the log."""


class Ledger:
    """Committed and pending offsets, as a log has them."""

    def __init__(self) -> None:
        self.at = 0
        self.committed: Stored = {}
        self.pending: dict[int, Stored] = {}

    def take(self, written: Appended) -> None:
        """What one step appended."""
        for key, value, _ in written.records:
            self.at += 1
            if isinstance(key, OffsetKey):
                self._store((key.group, key.topic, key.partition), value, written.producer_id)
        if written.commits is not None and written.producer_id is not None:
            found = self.pending.pop(written.producer_id, {})
            later = {p: o for p, o in found.items() if o[1] > self.committed.get(p, (0, -1))[1]}
            self.committed |= later if written.commits else {}

    def _store(self, place: Place, value: Any, producer_id: int | None) -> None:
        if isinstance(value, OffsetCommit):
            store = self.committed if producer_id is None else self.pending.setdefault(producer_id, {})
            store[place] = (value.offset, self.at)
            return
        for store in (self.committed, *self.pending.values()):
            store.pop(place, None)

    def differs(self, state: Coordinator) -> Iterator[str]:
        """Where the coordinator knows something else."""
        known = {(g, *place): one.offset for g, found in state.offsets.items() for place, one in found.items()}
        if known != {place: offset for place, (offset, _) in self.committed.items()}:
            yield f"committed: {known}, by the log {self.committed}"
        waits = {
            (one.producer_id, g, *place): one.commit.offset
            for g, found in state.transactions.items()
            for place, pending in found.items()
            for one in pending
            if one.commit
        }
        if waits != {(p, *place): offset for p, found in self.pending.items() for place, (offset, _) in found.items()}:
            yield f"pending: {waits}, by the log {self.pending}"


class OffsetClients:
    """Whoever deals with the offsets of one group."""

    def __init__(self, scene: Scene, random: Random) -> None:
        self.scene = scene
        self.random = random
        self.ledger = Ledger()
        self.taken = 0
        self.seen: set[str] = set()
        """What happened: kinds of requests with their errors."""

    def act(self) -> None:
        """One random thing happens."""
        roll = self.random.random()
        if roll < 0.3:
            self.commit()
        elif roll < 0.6:
            self.commit_in_transaction()
        elif roll < 0.75:
            self.scene.end_transaction(self.random.choice(PRODUCERS), commits=self.random.random() < 0.7)
        elif roll < 0.9:
            self.fetch()
        elif roll < 0.96:
            topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("foo", "bar")]
            self._note("OffsetDelete", self.scene.send("OffsetDelete", 0, {"topics": topics}))
        elif roll < 0.98:
            self._note("DeleteGroups", self.scene.send("DeleteGroups", 2, {"groups_names": ["g"]}))
        else:
            self.scene.clean_up()

    def watch(self) -> None:
        """Whatever happened: offsets are what the log says."""
        for written in self.scene.log[self.taken :]:
            self.ledger.take(written)
        self.taken = len(self.scene.log)
        differences = list(self.ledger.differs(self.scene.state))
        assert not differences, (differences, self.scene.last)

    def commit(self) -> None:
        """An OffsetCommit of a member, or of nobody, at some epoch."""
        member_id, epoch = self._speaker()
        identity = {"generation_id_or_member_epoch": epoch, "member_id": member_id}
        self._committed("OffsetCommit", self.random.choice((8, 9)), identity)

    def commit_in_transaction(self) -> None:
        """A TxnOffsetCommit of the same."""
        member_id, epoch = self._speaker()
        producer_id = self.random.choice(PRODUCERS)
        identity = {"generation_id": epoch, "member_id": member_id, "producer_id": producer_id, "transactional_id": "t"}
        self._committed("TxnOffsetCommit", self.random.choice((3, 6)), identity)

    def _speaker(self) -> tuple[str, int]:
        group = self.scene.state.groups.get("g")
        if group is None or not group.members or self.random.random() < 0.3:
            return "", self.random.choice((-1, -1, 3))
        member_id = self.random.choice(sorted(group.members))
        now = group.members[member_id].epoch if isinstance(group, ConsumerGroup) else group.generation
        return member_id, now - self.random.choice((0, 0, 0, 1))

    def _committed(self, api: str, version: int, identity: Mapping[str, Any]) -> None:
        """What was answered without error, and nothing else, was written."""
        topics = [self._topic(name) for name in self.random.sample(("foo", "bar"), self.random.randint(1, 2))]
        if api == "TxnOffsetCommit" and version >= 6:
            topics = [{"topic_id": IDS[topic["name"]], "partitions": topic["partitions"]} for topic in topics]
        before = self.scene.state
        answer = self.scene.send(api, version, {**identity, "topics": topics})
        self._note(api, answer)
        accepted = {
            (topic.get("name") or name_of(topic["topic_id"]), partition["partition_index"])
            for topic in answer["topics"]
            for partition in topic["partitions"]
            if partition["error_code"] is None
        }
        keys = [record.key for record in self.scene.last.records]
        written = {(key.topic, key.partition) for key in keys if isinstance(key, OffsetKey)}
        assert (accepted, len(accepted)) == (written, len(keys)), (answer, self.scene.last.records)
        errors = {one["error_code"] for topic in answer["topics"] for one in topic["partitions"]}
        if not errors & {None, "offset_metadata_too_large"}:  # for that the group is not asked
            assert (self.scene.state, keys) == (before, []), answer

    def _topic(self, name: str) -> Mapping[str, Any]:
        numbers = self.random.sample(range(3), self.random.randint(1, 2))
        long = self.random.random() < 0.05
        fields = {"committed_metadata": "x" * 5_000 if long else "", "committed_offset": self.random.randrange(1_000)}
        return {"name": name, "partitions": [{"partition_index": number, **fields} for number in numbers]}

    def fetch(self) -> None:
        """An OffsetFetch by nobody: what is committed, and where something waits if it is asked for stable offsets."""
        stable = self.random.random() < 0.5
        asked = [{"group_id": "g", "topics": [{"name": name, "partition_indexes": [0, 1]} for name in ("foo", "bar")]}]
        (group,) = self.scene.send("OffsetFetch", 9, {"groups": asked, "require_stable": stable})["groups"]
        waiting = {place for found in self.ledger.pending.values() for place in found} if stable else set()
        known = self.ledger.committed if "g" in self.scene.state.groups else {}
        for topic in group["topics"]:
            for one in topic["partitions"]:
                place = ("g", topic["name"], one["partition_index"])
                code = "unstable_offset_commit" if place in waiting else None
                expected = -1 if code else known.get(place, (-1, 0))[0]
                assert (one["committed_offset"], one["error_code"]) == (expected, code), (place, one)
                self.seen.add(f"OffsetFetch {code}")

    def _note(self, api: str, answer: Mapping[str, Any]) -> None:
        """Every error that the answer has."""
        parts = answer.get("topics") or answer.get("results") or [answer]
        for part in parts:
            self.seen |= {f"{api} {one['error_code']}" for one in part.get("partitions", [part])}
