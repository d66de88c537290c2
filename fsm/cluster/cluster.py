"""Consumers and their coordinator on one clock: a seeded transition system, one event at a time.

    cluster = Cluster(random.Random(1), "4.4.0", LOSSY)
    cluster.join("a", "4.4.0", ("foo",))
    cluster.run(10_000)
    cluster.quiet()                      # no faults any more: everybody polls and is heard
    cluster.run(cluster.now_ms + 60_000)
    cluster.unsettled()                  # why it has not converged; empty if it has
    cluster.doubles                      # when two applications used one partition, and why

The members are those of `fsm.member`, the coordinator that of `fsm.coordinator`. Whenever two applications use one
partition, that is a `Double` with its cause: a weak spot of the protocol, or None, which nothing explains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from fsm.cluster.channel import NONE, Chance, Channel, Faults
from fsm.cluster.client import Client, Wire
from fsm.cluster.translation import as_answered, as_sent
from fsm.coordinator import coordinator as broker
from fsm.coordinator.consumer_group import ConsumerGroup
from fsm.coordinator.context import BrokerConfig, Context, Image, Topic
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.dialect import dialect
from fsm.coordinator.frozen import FrozenMap
from fsm.coordinator.members import GroupMember
from fsm.coordinator.messages import Request
from fsm.coordinator.step import Step
from fsm.kafka.assignment import TopicNames, TopicPartition
from fsm.kafka.config import ConsumerConfig
from fsm.member.background import Background
from fsm.member.embedding import Response
from fsm.member.shell import ConsumerMember
from fsm.table import Symbol
from fsm.tables.consumer_group import State
from fsm.tables.consumer_group_member import Event

GROUP, HOST = "g", "/127.0.0.1"
STARTED_MS = 1_700_000_000_000
TOPICS = FrozenMap({name: Topic(f"{i:020d}AA", count) for i, (name, count) in enumerate((("foo", 4), ("bar", 3)))})
SETTINGS = BrokerConfig(
    group_consumer_session_timeout_ms=3_000,
    group_consumer_min_session_timeout_ms=3_000,
    group_consumer_heartbeat_interval_ms=500,
    group_consumer_min_heartbeat_interval_ms=500,
    group_consumer_assignment_interval_ms=500,
)
MAX_POLL_INTERVAL_MS, REQUEST_TIMEOUT_MS = 4_000, 1_000

CAUSES: Mapping[Symbol, str] = {
    Event.LEFT: "A5",
    Event.REBALANCE_TIMEOUT_EXPIRED: "A7",
    Event.SESSION_EXPIRED: "expired",
}
"""Why a member that its coordinator removed may still use partitions: it left at its poll timeout, and its application
has not noticed; its callback outlived the rebalance timeout; nothing was heard of it for a session."""


class Double(NamedTuple):
    """Two applications used one partition."""

    at_ms: int
    partition: TopicPartition
    users: tuple[str, ...]
    cause: str | None
    """A5, A7, expired, W6, untold; None where no weak spot explains it.

    Untold is a fault of clients: the member has given the partition up, and its application was never called back.
    """


class Cluster:
    """One group. Nothing happens but in `step`."""

    def __init__(self, chance: Chance, release: str, faults: Faults = NONE, config: BrokerConfig = SETTINGS) -> None:
        self.chance = chance
        self.now_ms = 0
        self.state = Coordinator()
        self.channel = Channel(chance, faults)
        self.clients: dict[str, Client] = {}
        self.doubles: list[Double] = []
        self.steps = 0
        self._context = Context(STARTED_MS, dialect(release), config, Image(TOPICS, 1))
        self._waiting: dict[int, Callable[[Any], None]] = {}
        self._removed: dict[str, Symbol] = {}
        self._twice: set[str] = set()
        self._joins: dict[str, Any] = {}
        self._shared: frozenset[TopicPartition] = frozenset()
        self._tokens = 0

    @property
    def group(self) -> ConsumerGroup | None:
        """The group as its coordinator has it."""
        found = self.state.groups.get(GROUP)
        return found if isinstance(found, ConsumerGroup) else None

    # What may happen from outside.

    def join(self, name: str, spoken: str, topics: Iterable[str], instance_id: str | None = None) -> Client:
        """A consumer starts and subscribes."""
        config = ConsumerConfig(
            GROUP,
            group_instance_id=instance_id,
            max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            enable_auto_commit=False,
        )
        member = ConsumerMember(config, member_id=f"{name}-{self.steps}", now_ms=self.now_ms, spoken=spoken)
        wire = Wire(self._find, self._learn, partial(self._carry, name))
        background = Background(member, wire, jitter=lambda: 0.0, wake=partial(self._wake, name))
        self.clients[name] = Client(name, member, background, next_poll_ms=self.now_ms)
        self.clients[name].subscribe(topics)
        return self.clients[name]

    def kill(self, name: str) -> None:
        """A process ends without a word."""
        del self.clients[name]

    def repeat_join(self, name: str) -> None:
        """A late duplicate of the request with which this client joined reaches the coordinator."""
        self._waiting[self._tokens + 1] = lambda _: None
        self._tokens += 1
        self._handle(name, self._joins[name], again=True)
        self._look()

    def quiet(self) -> None:
        """From now on nothing is lost, nobody is frozen, every callback ends at once."""
        self.channel.faults = NONE
        for client in self.clients.values():
            client.thawed_ms, client.slow_ms = 0, 0
            client.callback_ends_ms = min(client.callback_ends_ms, self.now_ms)
            client.next_poll_ms = min(client.next_poll_ms, self.now_ms)

    # Time.

    def run(self, until_ms: int) -> None:
        """Every event up to that time."""
        while (due_ms := self._next_ms()) <= until_ms:
            self.step(due_ms)
        self.now_ms = max(self.now_ms, until_ms)

    def _next_ms(self) -> int:
        deadline_ms = broker.next_deadline_ms(self.state)
        times = [client.next_ms for client in self.clients.values()]
        times += [self.channel.next_ms] if self.channel.next_ms is not None else []
        times += [deadline_ms - STARTED_MS] if deadline_ms is not None else []
        return max(self.now_ms, min(times, default=1 << 62))

    def step(self, due_ms: int) -> None:
        """The next event: a timer of the coordinator, a message that arrives, a client that acts."""
        self.now_ms, self.steps = due_ms, self.steps + 1
        deadline_ms = broker.next_deadline_ms(self.state)
        if deadline_ms is not None and deadline_ms <= STARTED_MS + due_ms:
            self._take(broker.handle_timer(self.state, self._now()))
        elif self.channel.next_ms is not None and self.channel.next_ms <= due_ms:
            self.channel.deliver()
        else:
            client = min(self.clients.values(), key=lambda one: (one.next_ms, one.name))
            client.act(due_ms)
        self._look()

    # Messages.

    def _find(self, found: Callable[[Any], None]) -> None:
        self.channel.at(self.now_ms + 1, lambda _: found(None))

    def _learn(self, learnt: Callable[[Any], None]) -> None:
        names = TopicNames({topic.topic_id: name for name, topic in TOPICS.items()})
        self.channel.at(self.now_ms + 1, lambda _: learnt(names))

    def _carry(self, name: str, request: Any, answered: Callable[[Response], None]) -> None:
        arrivals: list[int] = []
        if as_sent(request).body.get("member_epoch") == 0:
            self._joins[name] = request

        def arrive(at_ms: int) -> None:
            arrivals.append(at_ms)
            self._tokens += 1
            self._waiting[self._tokens] = lambda body: answered(as_answered(request, body))
            self._handle(name, request, again=len(arrivals) > 1)

        self.channel.send(self.now_ms, arrive)

    def _handle(self, name: str, request: Any, *, again: bool) -> None:
        sent = as_sent(request)
        if again and sent.body.get("member_epoch") == 0:
            self._twice.add(sent.body["member_id"])
        made = f"{self._tokens:032x}"
        received = Request(self._tokens, name, HOST, sent.api, sent.version, sent.body, made)
        self._take(broker.handle(self.state, received, self._now()))

    def _take(self, step: Step[Coordinator]) -> None:
        self.state = step.state
        for happened in step.happened:
            if happened.event in CAUSES:
                self._removed[happened.member_id] = happened.event
        for token, body in step.answers:
            self.channel.send(self.now_ms, partial(_arrived, self._waiting.pop(token), body))

    def _wake(self, name: str) -> None:
        if name in self.clients:
            self.clients[name].background.next_turn_ms = self.now_ms

    def _now(self) -> Context:
        return replace(self._context, now_ms=STARTED_MS + self.now_ms)

    # Who uses what.

    def users(self) -> dict[TopicPartition, list[str]]:
        """Names of clients by the partitions that their applications use."""
        found: dict[TopicPartition, list[str]] = {}
        for client in self.clients.values():
            for one in client.using:
                found.setdefault(one, []).append(client.name)
        return found

    def _look(self) -> None:
        """Notes a partition that has come to be used twice."""
        shared = {one: names for one, names in self.users().items() if len(names) > 1}
        for one in sorted(shared.keys() - self._shared):
            cause = self._cause(one, shared[one])
            self.doubles.append(Double(self.now_ms, one, tuple(sorted(shared[one])), cause))
        self._shared = frozenset(shared)

    def _cause(self, partition: TopicPartition, names: list[str]) -> str | None:
        """The weak spots of all but one of the users; the one holds the partition by its coordinator's record."""
        found = [self._weak_spot(self.clients[name], partition) for name in sorted(names)]
        astray = [cause for cause, holds in found if not holds]
        if len(astray) < len(names) - 1 or None in astray:
            return None
        return astray[0]

    def _weak_spot(self, client: Client, partition: TopicPartition) -> tuple[str | None, bool]:
        """Why a client uses what its coordinator does not count as its own; whether it does count it."""
        member_id = client.member.member_id
        member = self.group.members.by_id.get(member_id) if self.group else None
        if member is not None and (TOPICS[partition[0]].topic_id, partition[1]) in member.current.held:
            return None, True
        if member_id in self._removed:
            return CAUSES[self._removed[member_id]], False
        if partition not in client.member.owned:
            return "untold", False
        return ("W6" if member_id in self._twice else None), False

    def unsettled(self) -> list[str]:
        """What is not as it should be once everybody was heard for long enough; empty where it converged."""
        return list(self._unsettled())

    def _unsettled(self) -> Iterator[str]:
        group = self.group
        if group is None:
            return
        if self.clients and group.state is not State.STABLE:
            yield f"the group is {group.state.name}"
        for client in self.clients.values():
            member = group.members.by_id.get(client.member.member_id)
            if member is None:
                yield f"{client.name} is no member"
            elif client.member.owned != assigned(member):
                yield f"{client.name} owns {client.member.owned}, and is assigned {assigned(member)}"
        wanted = {(name, i) for name in group.subscribed_names() for i in range(TOPICS[name].partitions)}
        owned = {one for client in self.clients.values() for one in client.member.owned}
        yield from (f"nobody owns {one}" for one in sorted(wanted - owned) if self.clients)

    def untold(self) -> list[str]:
        """Clients whose applications use other partitions than their members own: some callback never came."""
        clients = (self.clients[name] for name in sorted(self.clients))
        return [client.name for client in clients if client.using != client.member.owned]


def assigned(member: GroupMember) -> tuple[TopicPartition, ...]:
    """What a member was handed, by topic name."""
    names = {topic.topic_id: name for name, topic in TOPICS.items()}
    return tuple(sorted((names[topic_id], number) for (topic_id, number), _ in member.current.assigned))


def _arrived(answered: Callable[[Any], None], body: Any, _now_ms: int) -> None:
    answered(body)
