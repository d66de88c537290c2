"""Clusters as the tests of this folder begin them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fsm.cluster.cluster import SETTINGS, Answers, Cluster
from fsm.cluster.network import NONE, Faults
from fsm.cluster.stale_uses import Change
from fsm.cluster.story import COORDINATOR
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.member.dialect.dialect import FIXED
from fsm.protocol.assignment import Partitions
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, OffsetCommitRequest, OffsetCommitResponse

LATEST = "4.4.0"
FOO = tuple(("foo", i) for i in range(4))
WITHOUT_EPOCH = "without an epoch"
"""A commit that a group without members takes from anybody; a member that has left sends it."""


class Watched(Cluster):
    """A cluster that counts late commits, and two things that may happen to it besides."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.late_commits: Counter[str | None] = Counter()
        """Commits of partitions whose use was stale, and that were accepted all the same: by the cause of that."""
        self.joins: dict[str, Any] = {}

    @property
    def state(self) -> Coordinator:
        """The coordinator as it is."""
        return self.host.state

    @property
    def consumer_group(self) -> ConsumerGroup:
        """The group as its coordinator has it."""
        assert isinstance(self.group, ConsumerGroup)
        return self.group

    def _note_step(self, change: Change, answers: Answers) -> None:
        if isinstance(change.request, OffsetCommitRequest):
            epoch = change.request.generation_id_or_member_epoch
            causes = self._late(change.client, answers[0].body)
            self.late_commits.update(cause if epoch >= 0 else WITHOUT_EPOCH for cause in causes)
        super()._note_step(change, answers)

    def _late(self, name: str, answer: OffsetCommitResponse) -> Iterator[str | None]:
        stale = self.stale_uses.causes.get(name, {})
        for topic in answer.topics:
            for partition in topic.partitions:
                one = topic.name, partition.partition_index
                if one in stale and partition.error_code is ErrorCode.NONE:
                    yield stale[one]

    def carry(self, name: str, request: Any, on_response: Callable[[Any], None]) -> None:
        """The request with which a client joins is kept."""
        if isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch == 0:
            self.joins[name] = request
        super().carry(name, request, on_response)

    def repeat_join(self, name: str) -> None:
        """A late duplicate of the request with which this client joined reaches the coordinator."""
        self._receive(name, self.joins[name], lambda _: None, is_duplicate=True)

    def set_clock_back(self, by_ms: int) -> None:
        """The coordinator's clock says what it said so long ago."""
        self._started_ms -= by_ms
        self._note(COORDINATOR, f"its clock goes back by {by_ms} ms")


def cluster(seed: int = 1, release: str = LATEST, faults: Faults = NONE, policy: str = "bidirectional") -> Watched:
    """A coordinator of that release, with nobody in its group."""
    config = replace(SETTINGS, group_consumer_migration_policy=policy)
    return Watched(random.Random(seed), release, faults, config)  # noqa: S311  # runs are to be repeated


def two(found: Watched, first: str = FIXED, second: str = FIXED) -> None:
    """Two settled consumers of one topic, two partitions each."""
    found.join("a", first, ("foo",))
    found.join("b", second, ("foo",))
    found.run(8_000)
    assert found.find_unsettled() == []
    assert {name: len(client.using) for name, client in found.clients.items()} == {"a": 2, "b": 2}


def of(found: Cluster, name: str) -> Partitions:
    """What the application of this client uses."""
    return found.clients[name].using


def causes(found: Cluster) -> set[str | None]:
    """Those of all double ownership so far."""
    return {double.cause for double in found.doubles}


def kinds(found: Cluster) -> set[str]:
    """Who is in the cluster: "classic", "consumer"."""
    return {"classic" if client.is_classic else "consumer" for client in found.clients.values()}


def without_callback(found: Cluster) -> list[str]:
    """Clients whose applications use other partitions than their members own: some callback never came."""
    clients = (found.clients[name] for name in sorted(found.clients))
    return [client.name for client in clients if client.using != client.member.owned]
