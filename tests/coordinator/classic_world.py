"""Clients of both protocols in one group that do anything at random; the classic group's promises watched."""

from __future__ import annotations

from random import Random
from typing import Any

from classic_scene import ClassicScene, subscribed
from offset_clients import OffsetClients
from promises import broken as broken_promises

from fsm.coordinator.classic.invariants import find_broken
from fsm.coordinator.consumer.invariants import Moment
from fsm.coordinator.consumer.invariants import find_broken as broken_in_consumer_group
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup

POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
WAITS_MS = (1, 200, 1_000, 3_000, 8_000, 15_000, 70_000)


class ClassicWorld:
    """One group; ids that clients have heard of, used rightly and wrongly."""

    def __init__(self, release: str, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311  # reproducible on purpose
        self.probes = Random(seed)  # noqa: S311
        self.taken_over = -1
        """The generation whose assignment the group has as its target: a leader need not have assigned everything."""
        policy = self.random.choice(POLICIES)
        size = self.random.choice((2, 3, 100))
        self.scene = ClassicScene(
            release,
            {"foo": 3, "bar": 2},
            group_consumer_migration_policy=policy,
            group_max_size=size,
            offsets_retention_minutes=1,
        )
        self.offsets = OffsetClients(self.scene, self.random)
        self.ids: list[str] = []
        self.made = 0
        self.answers = 0
        self.states: set[str] = set()

    def act(self) -> None:
        """One random thing happens, and every promise still holds."""
        before = self.scene.state.groups.get("g")
        roll = self.random.random()
        if roll < 0.45:
            self.join()
        elif roll < 0.65:
            self.sync()
        elif roll < 0.75:
            self.scene.pulse(self._id(), self._generation())
        elif roll < 0.82:
            self.scene.go(*(self._entry() for _ in range(self.random.randint(1, 2))))
        elif roll < 0.90:
            self.consume()
        elif roll < 0.94:
            self.offsets.act()
        else:
            self.scene.wait(self.random.choice(WAITS_MS))
        self._watch(before)

    def join(self) -> None:
        """A JoinGroup of somebody new, or of somebody known, with one strategy or two."""
        self.made += 1
        names = self.random.choice((("range",), ("range", "roundrobin"), ("roundrobin", "range")))
        topics = self.random.choice((("foo",), ("foo", "bar")))
        protocols = [{"name": name, "metadata": subscribed(*topics)} for name in names]
        instance_id = self.random.choice((None, None, None, "i1", "i2"))
        member_id = "" if self.random.random() < 0.35 else self._id()
        version = self.random.choice((3, 9, 9, 9))
        name = f"join {self.made}"
        answer = self.scene.come(
            member_id, name=name, fresh_id=str(self.made), version=version, protocols=protocols,
            group_instance_id=instance_id,
        )  # fmt: skip
        if answer and answer["member_id"]:
            self.ids.append(answer["member_id"])

    def sync(self) -> None:
        """A SyncGroup, of the leader if there is one, in some generation."""
        group = self.scene.state.groups.get("g")
        leader = group.leader if isinstance(group, ClassicGroup) and self.random.random() < 0.6 else None
        self.made += 1
        member_id = leader or self._id()
        body = {"protocol_name": None, "group_instance_id": self._instance(member_id)}
        parts = {i: {"foo": [part]} for part, i in enumerate(dict.fromkeys(self.ids[-3:]))}
        self.scene.share(member_id, self._generation(), body, assigns=parts)

    def consume(self) -> None:
        """A heartbeat of the consumer protocol."""
        member_id = self.random.choice(("m1", "m2"))
        epoch = self.random.choice((0, 0, -1, self._generation()))
        if epoch == 0:
            self.scene.join(member_id, self.random.choice(("foo", "bar")))
        else:
            self.scene.beat(member_id, epoch)

    def _id(self) -> str:
        group = self.scene.state.groups.get("g")
        members = sorted(group.members) if group is not None else []
        return self.random.choice([*members, *self.ids[-3:], "nobody"])

    def _instance(self, member_id: str) -> str | None:
        group = self.scene.state.groups.get("g")
        member = group.members.get(member_id) if group is not None else None
        return member.instance_id if member is not None else None

    def _entry(self) -> tuple[str, str | None]:
        member_id = self._id()
        return self.random.choice(((member_id, self._instance(member_id)), ("", "i1"), (member_id, "i2")))

    def _generation(self) -> int:
        group = self.scene.state.groups.get("g")
        now = group.generation if isinstance(group, ClassicGroup) else group.epoch if group is not None else 0
        return now + self.random.choice((0, 0, 0, 0, -1))

    def _watch(self, before: Any) -> None:
        group = self.scene.state.groups.get("g")
        for was, now in self.scene.moves:
            old, new = was.groups.get("g"), now.groups.get("g")
            if isinstance(old, ClassicGroup) and isinstance(new, ConsumerGroup):
                self.taken_over = old.generation
        self.offsets.watch()
        promises = broken_promises(self.scene, self.probes)
        assert not promises, (promises, before, group)
        if isinstance(group, ConsumerGroup):
            was = before if isinstance(before, ConsumerGroup) else None
            found = broken_in_consumer_group(Moment(was, group, self.scene.context))
            # The 23rd asks a consumer heartbeat what its member reported; classic members report it as they join.
            exempt = ("23 ", "10 ") if group.target_epoch == self.taken_over else ("23 ",)
            failed = [promise for promise in found if not promise.startswith(exempt)]
            assert not failed, (failed, group)
        if not isinstance(group, ClassicGroup):
            return
        self.states.add(group.state.name)
        found = list(find_broken(group))
        assert not found, (found, group)
        if isinstance(before, ClassicGroup) and before.generation > group.generation:
            assert before.is_empty or group.is_empty, "a generation fell"
