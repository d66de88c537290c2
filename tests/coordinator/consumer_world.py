"""Clients of a consumer group that do anything at random: join, subscribe, lose answers, fall silent, come back.

A client uses partitions as a real one does: it starts with what it was told, stops with what it is told no more, and
reports what it uses. After a lost answer it says everything again, and it does not start to use partitions of an
assignment that it had left out of a report, before that report is answered (weak spot W1 of the reference).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from consumer_scene import IDS, Scene, message
from offset_clients import OffsetClients
from promises import broken as broken_promises

from fsm.coordinator.consumer.invariants import Moment, find_broken
from fsm.coordinator.model.consumer_group import ConsumerGroup, Partition, elect, prefer
from fsm.coordinator.model.context import Image, Topic
from fsm.coordinator.model.dialect import Choice

PATTERNS = ("fo+", ".*", "ba.", "nothing")
OUT = {"fenced_member_epoch", "unknown_member_id", "group_id_not_found", "fenced_instance_id"}


@dataclass
class Client:
    """One process with its subscription and what it uses."""

    member_id: str
    instance_id: str | None = None
    names: list[str] = field(default_factory=list)
    pattern: str = ""
    epoch: int = 0
    using: set[Partition] = field(default_factory=set)
    received: set[Partition] | None = None
    """An assignment that it has not applied yet."""
    must_not_start: bool = False
    says_everything: bool = False

    def lose_all(self) -> None:
        """It is out: nothing is its own any more."""
        self.epoch, self.using, self.received = 0, set(), None
        self.must_not_start = self.says_everything = False

    def apply(self) -> None:
        """It stops and starts using partitions as the last assignment has it."""
        if self.received is not None and not self.must_not_start:
            self.using, self.received = self.received, None

    @property
    def owned(self) -> list[dict[str, Any]]:
        """What it uses, as a request has it."""
        topics = sorted({topic_id for topic_id, _ in self.using})
        return [{"topic_id": t, "partitions": sorted(p for i, p in self.using if i == t)} for t in topics]


class World:
    """One group, its clients, and every promise of the coordinator watched."""

    def __init__(self, release: str, seed: int, **settings: Any) -> None:
        self.random = Random(seed)  # noqa: S311  # reproducible on purpose
        self.probes = Random(seed)  # noqa: S311
        self.scene = Scene(release, {"foo": 3, "bar": 2}, offsets_retention_minutes=1, **settings)
        self.offsets = OffsetClients(self.scene, self.random)
        self.clients: list[Client] = []
        self.topics: Image | None = None
        """Which the invariants were last looked at with."""
        self.made = 0
        self.steps = 0

    @property
    def group(self) -> ConsumerGroup | None:
        """The group, once there is one."""
        found = self.scene.state.groups.get("g")
        return found if isinstance(found, ConsumerGroup) else None

    def act(self) -> None:
        """One random thing happens."""
        roll = self.random.random()
        client = self.random.choice(self.clients) if self.clients else None
        if client is None or (roll < 0.06 and len(self.clients) < 6):
            self.add()
        elif roll < 0.62:
            client.apply() if self.random.random() < 0.4 else self.beat(client)
        elif roll < 0.72:
            self.subscribe(client)
        elif roll < 0.77:
            self.leave(client)
        elif roll < 0.80:
            self.crash(client)
        elif roll < 0.83:
            self.disturb(client)
        elif roll < 0.92:
            self.pass_time(self.random.choice((1, 300, 900, 1_100, 4_000, 11_000, 50_000)))
        elif roll < 0.95:
            self.watched(self.scene.resolve)
        elif roll < 0.98:
            self.watched(self.offsets.act)
        else:
            self.change_topics()

    def add(self) -> None:
        """A new process, dynamic or with an instance id that may be in use."""
        self.made += 1
        instance_id = self.random.choice((None, None, "i1", "i2"))
        client = Client(f"m{self.made}", instance_id)
        self._choose(client)
        self.clients.append(client)
        self.beat(client)

    def _choose(self, client: Client) -> None:
        topics = ["foo", "bar", "baz"]
        client.names = self.random.sample(topics, self.random.randint(0, 3))
        client.pattern = self.random.choice(PATTERNS) if self.random.random() < 0.2 else ""

    def subscribe(self, client: Client) -> None:
        """Another subscription, or another vote, said at once."""
        fields: dict[str, Any] = {"server_assignor": self.random.choice(("uniform", "range"))}
        if self.random.random() < 0.8:
            self._choose(client)
            fields = {"subscribed_topic_names": client.names, "subscribed_topic_regex": client.pattern}
        self.beat(client, **fields)

    def beat(self, client: Client, **fields: Any) -> None:
        """A heartbeat as this client sends it now; its answer may be lost."""
        if client.epoch == 0 or client.says_everything or self.random.random() < 0.1:
            fields |= {"rebalance_timeout": 20_000, "topic_partitions": client.owned}
            fields |= {"subscribed_topic_names": client.names, "subscribed_topic_regex": client.pattern}
        elif self.random.random() < 0.5:
            fields["topic_partitions"] = client.owned
        if "topic_partitions" in fields and client.received is not None and client.received - client.using:
            client.must_not_start = True
        answer = self.sent(client, client.epoch, **fields)
        if self.random.random() < 0.1:
            client.says_everything = True
        else:
            self.hear(client, answer)

    def hear(self, client: Client, answer: Any) -> None:
        """The answer arrives."""
        if answer["error_code"] in OUT:
            client.lose_all()
        if answer["error_code"] is not None:
            return
        client.epoch, client.must_not_start, client.says_everything = answer["member_epoch"], False, False
        if answer["assignment"] is not None:
            topics = answer["assignment"]["topic_partitions"]
            client.received = {(topic["topic_id"], number) for topic in topics for number in topic["partitions"]}

    def sent(self, client: Client, epoch: int, **fields: Any) -> Any:
        """A heartbeat, with every promise of the coordinator watched."""
        body = {
            "group_id": "g",
            "member_id": client.member_id,
            "member_epoch": epoch,
            "instance_id": client.instance_id,
        }
        before, body = self.group, {**body, **fields}
        answer = self.scene.send("ConsumerGroupHeartbeat", 1, body)
        self._watch(before, body)
        return answer

    def watched(self, act: Any) -> None:
        """Something that is no request, watched."""
        before = self.group
        act()
        self._watch(before, None)

    def _watch(self, before: ConsumerGroup | None, body: dict[str, Any] | None) -> None:
        self.steps += 1
        self.offsets.watch()
        if self.group is None:
            return
        sent = None if body is None else message("ConsumerGroupHeartbeat", 1, body)
        answer = self.scene.last.answers[0] if body is not None else None
        moment = Moment(before, self.group, self.scene.context, sent, answer)
        found = find_broken(moment, held_before=self.topics is self.scene.context.image)
        self.topics = self.scene.context.image
        assert not found, (found, self.steps, sent, answer)
        promises = broken_promises(self.scene, self.probes)
        assert not promises, (promises, self.steps, sent, answer)
        self._are_safe(self.group)

    def _are_safe(self, group: ConsumerGroup) -> None:
        """16: what a live client uses, its member holds, as long as its epoch is the last or the one before."""
        for client in self.clients:
            member = group.members.by_id.get(client.member_id)
            if member is not None and client.epoch in {member.epoch, member.current.previous_epoch} and client.epoch:
                assert client.using <= member.current.held, (self.steps, client, member)

    def leave(self, client: Client) -> None:
        """For good, or for a while if it is static; the process ends or begins anew under another id."""
        for_a_while = client.instance_id is not None and self.random.random() < 0.7
        self.clients.remove(client)  # it stops using anything before it says so
        self.sent(client, -2 if for_a_while else -1)
        if for_a_while and self.random.random() < 0.8:
            self.made += 1
            self.clients.append(Client(f"m{self.made}", client.instance_id, client.names, client.pattern))

    def crash(self, client: Client) -> None:
        """It falls silent for ever."""
        self.clients.remove(client)

    def disturb(self, client: Client) -> None:
        """A request with an epoch or an owned list out of nowhere: a late duplicate, or a bug."""
        epoch = self.random.choice((-7, -2, -1, 1, client.epoch + 1, 10_000))
        stranger = replace(client, member_id=f"x{self.random.randint(1, 3)}", instance_id=None)
        owned = self.random.choice((None, [], [{"topic_id": IDS["foo"], "partitions": [0, 7]}]))
        self.sent(stranger, epoch, topic_partitions=owned)

    def pass_time(self, ms: int) -> None:
        """Deadlines on the way fire."""
        self.watched(lambda: self.scene.wait(ms))

    def change_topics(self) -> None:
        """A topic is made, grows, or is deleted."""
        name = self.random.choice(("foo", "bar", "baz"))
        old: Topic | None = self.scene.context.image.topics.get(name)
        count = self.random.choice((0, 1, 1)) * ((old.partitions if old else 0) + self.random.randint(0, 1))
        self.watched(lambda: self.scene.topic(name, min(count, 5)))

    def quiet(self, rounds: int = 14) -> None:
        """A fair time: nobody is silent, no answer is lost, every assignment is applied and reported."""
        for _ in range(rounds):
            self.pass_time(9_000)
            self.watched(self.scene.resolve)
            for client in self.clients:
                client.apply()
                full = {"rebalance_timeout": 20_000, "topic_partitions": client.owned}
                full |= {"subscribed_topic_names": client.names, "subscribed_topic_regex": client.pattern}
                self.hear(client, self.sent(client, client.epoch, **full))
                client.apply()

    def has_converged(self) -> bool:
        """33: the group is at rest, and every client in it uses exactly what its member was handed."""
        group = self.group
        if group is None or not self.clients:
            return True
        inside = [client for client in self.clients if client.member_id in group.members]
        uses = all(client.using == dict(group.members[client.member_id].current.assigned).keys() for client in inside)
        return (group.state.name == "STABLE" or self.is_torn()) and uses and bool(inside)

    def is_torn(self) -> bool:
        """Whether votes tie, so that some member's every request elects another assignor and bumps the epoch (F13)."""
        group = self.group
        if group is None or Choice.ELECTED_ASSIGNOR_BUMPS not in self.scene.context.dialect:
            return False
        votes = group.members.votes_in_order()
        given = [member.metadata.server_assignor for member in group.members.values()]
        return any(elect(votes, vote, vote) != prefer(votes) for vote in given if vote is not None)
