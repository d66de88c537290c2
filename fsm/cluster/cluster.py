"""Consumers and their coordinator on one clock: a seeded transition system, one event at a time.

    cluster = Cluster(random.Random(1), "4.4.0", LOSSY)
    cluster.join("a", "4.4.0", ("foo",))
    cluster.join("b", "cooperative-sticky", ("foo",))    # a classic member
    cluster.run(10_000)
    cluster.quiet()                      # no faults any more: everybody polls and is heard
    cluster.run(cluster.now_ms + 60_000)
    cluster.unsettled()                  # why it has not converged; empty if it has
    cluster.doubles                      # when two applications used one partition, and why
    cluster.story.text()                 # the last events

The members are those of `fsm.member`, the coordinator that of `fsm.coordinator`. Whenever two applications use one
partition, that is a `Double` with its cause: a weak spot of the protocol, or None, which nothing explains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from fsm.cluster import rest
from fsm.cluster.channel import NONE, Chance, Channel, Faults
from fsm.cluster.client import Client, Wire
from fsm.cluster.speech import CLASSIC, GROUP, new_member, version_of
from fsm.cluster.standing import Change, Standing
from fsm.cluster.story import COORDINATOR, Event, Story
from fsm.coordinator import coordinator as broker
from fsm.coordinator.consumer.heartbeat_request import JOINING
from fsm.coordinator.coordinator import Coordinator, Group
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.model.context import BrokerConfig, Context, Image, Topic
from fsm.coordinator.model.dialect import dialect
from fsm.coordinator.model.persistent import FrozenMap
from fsm.coordinator.model.step import Request, Step
from fsm.member.runtime.background import Background
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions, TopicNames, TopicPartition
from fsm.protocol.codec import API_OF
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, OffsetCommitRequest

HOST = "/127.0.0.1"
NOBODYS = "nobody's"
"""A commit without an epoch, which a group without members takes from anybody; a member that has left sends it."""
TOLD = 60
"""So many events tell how it came to an unexplained double ownership."""
STARTED_MS = 1_700_000_000_000
TOPICS = FrozenMap({name: Topic(f"{i:020d}AA", count) for i, (name, count) in enumerate((("foo", 4), ("bar", 3)))})
SETTINGS = BrokerConfig(
    group_consumer_session_timeout_ms=3_000,
    group_consumer_min_session_timeout_ms=3_000,
    group_consumer_heartbeat_interval_ms=500,
    group_consumer_min_heartbeat_interval_ms=500,
    group_consumer_assignment_interval_ms=500,
    group_min_session_timeout_ms=3_000,
    group_initial_rebalance_delay_ms=500,
)


class Double(NamedTuple):
    """Two applications used one partition."""

    at_ms: int
    partition: TopicPartition
    users: tuple[str, ...]
    cause: str | None
    """One of `fsm.cluster.standing.CAUSES`; None where no weak spot explains it."""
    told: str = ""
    """The last events of the users and their coordinator, where nothing explains it."""


class Cluster:
    """One group. Nothing happens but in `step`."""

    def __init__(
        self,
        chance: Chance,
        release: str,
        faults: Faults = NONE,
        config: BrokerConfig = SETTINGS,
        topics: FrozenMap[str, Topic] = TOPICS,
    ) -> None:
        self.chance = chance
        self.now_ms = 0
        self.state = Coordinator()
        self.channel = Channel(chance, faults)
        self.clients: dict[str, Client] = {}
        self.doubles: list[Double] = []
        self.standing = Standing()
        self.names = TopicNames({topic.topic_id: name for name, topic in topics.items()})
        self.story = Story(self.names)
        self.deaf: set[str] = set()
        """Clients that no answer reaches."""
        self.late_commits: Counter[str | None] = Counter()
        """Commits of partitions whose use was astray, and that were accepted all the same: by the cause of that."""
        self.watch: Callable[[Change, Step[Coordinator]], None] = _unwatched
        """Called after each step of the coordinator that changed the group, or answered."""
        self.watch_use: Callable[[Client, Partitions], None] = _unwatched
        """Called with a client and what it used before, whenever its application uses other partitions or ends."""
        self.steps = 0
        self._context = Context(STARTED_MS, dialect(release), config, Image(topics, 1))
        self._started_ms = STARTED_MS
        self._waiting: dict[int, tuple[str, Callable[[Any], None]]] = {}
        self._joins: dict[str, Any] = {}
        self._shared: frozenset[TopicPartition] = frozenset()
        self._tokens = 0

    @property
    def group(self) -> Group | None:
        """The group as its coordinator has it."""
        found: Group | None = self.state.groups.get(GROUP)
        return found

    @property
    def consumer_group(self) -> ConsumerGroup:
        """The same where it is a consumer group. Raises `TypeError` where it is none."""
        if not isinstance(self.group, ConsumerGroup):
            raise TypeError("there is no consumer group")
        return self.group

    @property
    def context(self) -> Context:
        """What the coordinator is told now."""
        return replace(self._context, now_ms=self._started_ms + self.now_ms)

    # What may happen from outside.

    def join(
        self, name: str, spoken: str, topics: Iterable[str], instance_id: str | None = None, *, commits: bool = False
    ) -> Client:
        """A consumer starts and subscribes. It speaks a dialect of KIP-848, or classic: a key of `CLASSIC`."""
        member = new_member(spoken, f"{name}-{self.steps}", instance_id, self.now_ms, commits=commits)
        wire = Wire(self._find, partial(self._learn, spoken), partial(self._carry, name))
        background = Background(member, wire, jitter=lambda: 0.0, wake=partial(self._wake, name))
        client = Client(name, spoken, member, background, next_poll_ms=self.now_ms, note=partial(self._note, name))
        self.clients[name] = client
        client.note(f"starts, speaks {spoken}" + ("" if instance_id is None else f", instance {instance_id}"))
        client.subscribe(topics)
        return client

    def kill(self, name: str) -> None:
        """A process ends without a word."""
        self._note(name, "ends")
        ended = self.clients.pop(name)
        before, ended.using = ended.using, ()
        self.watch_use(ended, before)
        self.standing.forget(name)

    def resize(self, topic: str, partitions: int) -> None:
        """A topic gets more partitions. Coordinator and clients have it in their metadata from now on."""
        before = self._context.image
        grown = replace(before.topics[topic], partitions=partitions)
        self._context = replace(self._context, image=Image(before.topics.set(topic, grown), before.version + 1))
        self.state = broker.image_changed(self.state, before, self.context)
        for client in self.clients.values():
            client.member.learn(self._metadata(client.spoken), self.now_ms)
            client.background.next_turn_ms = self.now_ms

    def repeat_join(self, name: str) -> None:
        """A late duplicate of the request with which this client joined reaches the coordinator."""
        self._handle(name, self._joins[name], lambda _: None, again=True)
        self._look()

    def set_clock_back(self, by_ms: int) -> None:
        """The coordinator's clock says what it said so long ago."""
        self._started_ms -= by_ms
        self._note(COORDINATOR, f"its clock goes back by {by_ms} ms")

    def quiet(self) -> None:
        """From now on nothing is lost, nobody is frozen, every callback ends at once."""
        self.channel.faults = NONE
        self.deaf.clear()
        for client in self.clients.values():
            client.thawed_ms, client.slow_ms = 0, 0
            client.callback_ends_ms = min(client.callback_ends_ms, self.now_ms)
            client.next_poll_ms = min(client.next_poll_ms, self.now_ms)

    # Time.

    def run(self, until_ms: int) -> None:
        """Every event up to that time."""
        while (due := self._next())[0] <= until_ms:
            self._step(*due)
        self.now_ms = max(self.now_ms, until_ms)

    def _next(self) -> tuple[int, Callable[[], None]]:
        """When something happens next, and what: timers of the coordinator first, then messages, then clients."""
        deadline_ms = broker.next_deadline_ms(self.state)
        at_ms, act = NEVER, self._nothing
        if deadline_ms is not None:
            at_ms, act = max(self.now_ms, deadline_ms - self._started_ms), self._expire
        arrival_ms = self.channel.next_ms
        if arrival_ms is not None and arrival_ms < at_ms:
            at_ms, act = max(self.now_ms, arrival_ms), self.channel.deliver
        chosen = None
        for client in self.clients.values():
            due_ms = max(self.now_ms, client.next_ms)
            if due_ms < at_ms or (chosen is not None and due_ms == at_ms and client.name < chosen.name):
                at_ms, chosen = due_ms, client
        return at_ms, act if chosen is None else partial(self._act, chosen)

    def _step(self, at_ms: int, act: Callable[[], None]) -> None:
        self.now_ms, self.steps = at_ms, self.steps + 1
        act()

    def _nothing(self) -> None: ...

    def _expire(self) -> None:
        self._take(broker.handle_timer(self.state, self.context), None, again=False)

    def _act(self, client: Client) -> None:
        before = client.using
        client.act(self.now_ms)
        if client.using is not before:
            self.watch_use(client, before)
            self.standing.acted(client, before, self.group, self._context.image)
            self._look()
        if client.is_over:
            self.kill(client.name)

    # Messages.

    def _find(self, found: Callable[[Any], None]) -> None:
        self.channel.at(self.now_ms + 1, lambda _: found(None))

    def _learn(self, spoken: str, learnt: Callable[[Any], None]) -> None:
        self.channel.at(self.now_ms + 1, lambda _: learnt(self._metadata(spoken)))

    def _metadata(self, spoken: str) -> Any:
        """Of all topics: their sizes for who speaks the classic protocol, their names by id for the others."""
        if spoken not in CLASSIC:
            return self.names
        return tuple(sorted((name, topic.partitions) for name, topic in self._context.image.topics.items()))

    def _carry(self, name: str, request: Any, answered: Callable[[Any], None]) -> None:
        arrivals = [False]
        if isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch == JOINING:
            self._joins[name] = request

        def arrive(_at_ms: int) -> None:
            again, arrivals[0] = arrivals[0], True
            self._handle(name, request, answered, again=again)

        under_way = self.channel.send(self.now_ms, arrive)
        self.story.said(Event(self.now_ms, name, COORDINATOR, API_OF[type(request)].name, request, lost=not under_way))

    def _handle(self, name: str, sent: Any, answered: Callable[[Any], None], *, again: bool) -> None:
        self._tokens += 1
        self._waiting[self._tokens] = name, answered
        received = Request(self._tokens, name, HOST, version_of(sent), sent, f"{self._tokens:032x}")
        self._take(broker.handle(self.state, received, self.context), received, again=again)

    def _take(self, step: Step[Coordinator], asked: Request | None, *, again: bool) -> None:
        before, self.state = self.group, step.state
        now_ms = self._started_ms + self.now_ms
        change = Change(before, self.group, self._context.image, now_ms, asked, again)
        self.watch(change, step)
        if asked is not None and isinstance(asked.body, OffsetCommitRequest):
            epoch = asked.body.generation_id_or_member_epoch
            causes = self.standing.committed(asked.client_id, step.answers[0].body)
            self.late_commits.update(cause if epoch >= 0 else NOBODYS for cause in causes)
        if before is not self.group:
            self.standing.changed(change, self.clients.values())
            if before is None or self.group is None or _is_told(before, self.group):
                self.story.said(Event(self.now_ms, COORDINATOR, COORDINATOR, "has", self.group))
        for token, body in step.answers:
            name, answered = self._waiting.pop(token)
            arrive = partial(self._arrived, name, token, answered, body)
            lost = name in self.deaf or not self.channel.send(self.now_ms, arrive)
            self.story.said(Event(self.now_ms, COORDINATOR, name, "answers", body, lost))

    def _arrived(self, name: str, token: int, answered: Callable[[Any], None], body: Any, _at_ms: int) -> None:
        self.standing.heard(name, token)
        answered(body)

    def _note(self, name: str, what: str) -> None:
        self.story.note(self.now_ms, name, what)

    def _wake(self, name: str) -> None:
        if name in self.clients:
            self.clients[name].background.next_turn_ms = self.now_ms

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
        shared = {one: sorted(names) for one, names in self.users().items() if len(names) > 1}
        for one in sorted(shared.keys() - self._shared):
            users = tuple(shared[one])
            cause = self.standing.cause(one, [self.clients[name] for name in users])
            self._note(COORDINATOR, f"{one} is used by {' and '.join(users)}: {cause}")
            told = "" if cause is not None else self.story.text(TOLD, users)
            self.doubles.append(Double(self.now_ms, one, users, cause, told))
        self._shared = frozenset(shared)

    @property
    def stranded(self) -> str | None:
        """Why the group strands partitions until one of its members joins; None where it does not."""
        return rest.stranded(self.group, self._context, self.standing.swapped)

    def unsettled(self) -> list[str]:
        """What is not as it should be once everybody was heard for long enough; empty where it converged."""
        is_stranded = self.stranded is not None
        return list(rest.unsettled(self.group, self.clients.values(), self._context, is_stranded=is_stranded))

    def untold(self) -> list[str]:
        """Clients whose applications use other partitions than their members own: some callback never came."""
        clients = (self.clients[name] for name in sorted(self.clients))
        return [client.name for client in clients if client.using != client.member.owned]


def _unwatched(*_: Any) -> None: ...


def _is_told(before: Group, after: Group) -> bool:
    return before.members is not after.members or before.state is not after.state
