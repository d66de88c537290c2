"""Consumers and their coordinator on one clock: a seeded transition system, one event at a time.

    cluster = Cluster(random.Random(1), "4.4.0", LOSSY)
    cluster.join("a", "4.4.0", ("foo",))
    cluster.join("b", "cooperative-sticky", ("foo",))    # a classic member
    cluster.run(10_000)
    cluster.stop_faults()                # no faults any more: every member polls and every request arrives
    cluster.run(cluster.now_ms + 60_000)
    cluster.find_unsettled()                  # why it has not converged; empty if it has
    cluster.doubles                      # when two applications used one partition, and why
    cluster.story.text()                 # the last events

The members are those of `fsm.member`, the coordinator that of `fsm.coordinator`. Two applications that use one
partition are a `Double` with its cause: a weak spot of the protocol, or None if nothing explains it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from typing import Any, NamedTuple

from fsm.cluster.client import CLASSIC, GROUP, POLL_MS, Client, new_member
from fsm.cluster.network import NONE, Chance, Channel, Faults
from fsm.cluster.stale_uses import Change, StaleUses, find_assigned
from fsm.cluster.story import COORDINATOR, Event, Story, version_of
from fsm.coordinator.host import Host
from fsm.coordinator.migration.conversion import may_downgrade
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.model.context import BrokerConfig, Context, Image, Topic
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.dialect import dialect as coordinator_dialect
from fsm.coordinator.model.groups import Group
from fsm.coordinator.model.persistent import PersistentMap
from fsm.coordinator.model.step import Answer
from fsm.member.runtime.background import Background
from fsm.member.runtime.shell import MemberShell
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions, TopicNames, TopicPartition, partitions, without
from fsm.protocol.codec import API_OF

EVENTS_SHOWN = 60
"""How many events are shown before an unexplained double ownership."""
STARTED_MS = 1_700_000_000_000
TOPICS = PersistentMap({name: Topic(f"{i:020d}AA", count) for i, (name, count) in enumerate((("foo", 4), ("bar", 3)))})
SETTINGS = BrokerConfig(
    group_consumer_session_timeout_ms=3_000,
    group_consumer_min_session_timeout_ms=3_000,
    group_consumer_heartbeat_interval_ms=500,
    group_consumer_min_heartbeat_interval_ms=500,
    group_consumer_assignment_interval_ms=500,
    group_min_session_timeout_ms=3_000,
    group_initial_rebalance_delay_ms=500,
)
Answers = tuple[Answer, ...]


class Double(NamedTuple):
    """A use of one partition by two applications."""

    at_ms: int
    partition: TopicPartition
    users: tuple[str, ...]
    cause: str | None
    """One of `CAUSES`; None if no weak spot explains it."""
    events: str = ""
    """The last events of the users and their coordinator if no weak spot explains it."""


class Cluster:
    """A cluster with one group. Time passes only in `run`."""

    def __init__(  # noqa: PLR0917  # all but two have defaults
        self,
        chance: Chance,
        release: str,
        faults: Faults = NONE,
        config: BrokerConfig = SETTINGS,
        topics: PersistentMap[str, Topic] = TOPICS,
        group_id: str = GROUP,
    ) -> None:
        self.chance = chance
        self.group_id = group_id
        self.now_ms = 0
        self.host = Host(Context(STARTED_MS, coordinator_dialect(release), config, Image(topics, 1)))
        self.channel = Channel(chance, faults)
        self.clients: dict[str, Client] = {}
        self.doubles: list[Double] = []
        self.stale_uses = StaleUses()
        self.names = TopicNames({topic.topic_id: name for name, topic in topics.items()})
        self.story = Story(self.names)
        self.deaf: set[str] = set()
        """Clients that receive no responses."""
        self.on_step: Callable[[Change, Answers], None] = _ignore
        """Called after each step of the coordinator."""
        self.on_use: Callable[[Client, Partitions], None] = _ignore
        """Called with a client and its previous partitions whenever its partitions in use change or it ends."""
        self.steps = 0
        self._started_ms = STARTED_MS
        self._waiting: dict[int, tuple[str, Callable[[Any], None]]] = {}
        self._users: dict[TopicPartition, set[str]] = {}
        self._counted: dict[str, Partitions] = {}
        """The partitions that each client used at the last count."""
        self._dues: list[tuple[int, str]] = []
        """A heap of the next actions of clients; `_due` has the valid entry of a client with several ones."""
        self._due: dict[str, int] = {}

    @property
    def context(self) -> Context:
        """The present context of the coordinator."""
        return self.host.context

    @property
    def group(self) -> Group | None:
        """The group in its coordinator."""
        found: Group | None = self.host.state.groups.get(self.group_id)
        return found

    # External events.

    def join(
        self, name: str, dialect: str, topics: Iterable[str], instance_id: str | None = None, *, commits: bool = False
    ) -> Client:
        """Starts and subscribes a consumer of a KIP-848 dialect, or of a classic protocol: a key of `CLASSIC`."""
        member = new_member(dialect, f"{name}-{self.steps}", instance_id, self.now_ms, commits=commits)
        return self.start(name, dialect, member, topics)

    def start(
        self, name: str, dialect: str, member: MemberShell[Any, Any], topics: Iterable[str], poll_ms: int = POLL_MS
    ) -> Client:
        """Starts and subscribes a consumer with this member."""
        network = _Network(self, name, is_classic=dialect in CLASSIC)
        background = Background(member, network, jitter=lambda: 0.0, wake=partial(self._wake, name))
        note, instance_id = partial(self._note, name), member.config.group_instance_id
        client = Client(name, dialect, member, background, next_poll_ms=self.now_ms, poll_ms=poll_ms, note=note)
        self.clients[name] = client
        client.note(f"starts, speaks {dialect}" + ("" if instance_id is None else f", instance {instance_id}"))
        client.subscribe(topics)
        self.enter(client)
        return client

    def kill(self, name: str) -> None:
        """Kills a process."""
        self._note(name, "ends")
        ended = self.clients.pop(name)
        self._due.pop(name, None)
        before, ended.using = ended.using, ()
        self._count_users(ended)
        del self._counted[name]
        self.on_use(ended, before)
        self.stale_uses.forget(name)

    def resize(self, topic: str, count: int) -> None:
        """Adds partitions to a topic. Coordinator and clients have them in their metadata from now on."""
        topics = self.context.image.topics
        self.host.change_topics(topics.set(topic, replace(topics[topic], partitions=count)))
        for client in self.clients.values():
            client.member.learn(self.metadata(is_classic=client.is_classic), self.now_ms)
            client.background.next_turn_ms = self.now_ms
            self.enter(client)

    def stop_faults(self) -> None:
        """Stops all faults: no message is lost, no process is frozen, every callback ends at once."""
        self.channel.faults = NONE
        self.deaf.clear()
        for client in self.clients.values():
            client.frozen_until_ms, client.slow_ms = 0, 0
            client.callback_ends_ms = min(client.callback_ends_ms, self.now_ms)
            client.next_poll_ms = min(client.next_poll_ms, self.now_ms)

    # Time.

    def run(self, until_ms: int) -> None:
        """Runs all events up to that time."""
        for client in self.clients.values():
            self.enter(client)
        while (due := self._next())[0] <= until_ms:
            self.now_ms, self.steps = due[0], self.steps + 1
            due[1]()
        self.now_ms = max(self.now_ms, until_ms)

    def enter(self, client: Client) -> None:
        """Updates the time of the client's next action."""
        due_ms = max(self.now_ms, client.next_ms)
        if self._due.get(client.name) != due_ms:
            self._due[client.name] = due_ms
            heappush(self._dues, (due_ms, client.name))

    def _next(self) -> tuple[int, Callable[[], None]]:
        """The next event and its time: timers of the coordinator come first, then messages, then clients."""
        deadline_ms = self.host.next_deadline_ms()
        at_ms, act = NEVER, self._expire
        if deadline_ms is not None:
            at_ms = max(self.now_ms, deadline_ms - self._started_ms)
        arrival_ms = self.channel.next_ms
        if arrival_ms is not None and arrival_ms < at_ms:
            at_ms, act = max(self.now_ms, arrival_ms), self.channel.deliver
        dues = self._dues
        while dues and self._due.get(dues[0][1]) != dues[0][0]:
            heappop(dues)
        if dues and dues[0][0] < at_ms:
            return dues[0][0], self._act_next
        return at_ms, act

    def _expire(self) -> None:
        before = self.group
        answers = self.host.expire(self._started_ms + self.now_ms)
        if self._accept(before):
            self._note_step(self._change(before), answers)

    def _act_next(self) -> None:
        _, name = heappop(self._dues)
        del self._due[name]
        self._act(self.clients[name])

    def _act(self, client: Client) -> None:
        before = client.using
        client.act(self.now_ms)
        if client.using is not before:
            self._note_use(client, before)
        elif client.using is not self._counted.get(client.name, ()):  # it closes
            self._count_users(client)
        if client.is_over:
            self.kill(client.name)
        else:
            self.enter(client)

    # Messages.

    def metadata(self, *, is_classic: bool) -> Any:
        """All topics: their sizes for classic members, their names by id for the others."""
        if not is_classic:
            return self.names
        return tuple(sorted((name, topic.partitions) for name, topic in self.context.image.topics.items()))

    def carry(self, name: str, request: Any, on_response: Callable[[Any], None]) -> None:
        """Sends a client's request, which may be lost or duplicated."""
        arrivals = [False]

        def arrive(_at_ms: int) -> None:
            arrivals[0] |= self._receive(name, request, on_response, is_duplicate=arrivals[0])

        under_way = self.channel.send(self.now_ms, arrive, name, is_answer=False)
        self.story.add(Event(self.now_ms, name, COORDINATOR, API_OF[type(request)].name, request, lost=not under_way))

    def _receive(self, name: str, request: Any, on_response: Callable[[Any], None], *, is_duplicate: bool) -> bool:
        """Has the coordinator handle a request; returns whether it did."""
        before = self.group
        now_ms, made = self._started_ms + self.now_ms, self.make_id(name)
        token, answers = self.host.send(name, request, version_of(request), now_ms, fresh_id=made)
        if not self._accept(before):
            return False
        self._waiting[token] = name, on_response
        change = self._change(before)._replace(client=name, token=token, request=request, is_duplicate=is_duplicate)
        self._note_step(change, answers)
        return True

    def make_id(self, name: str) -> str | None:  # noqa: ARG002
        """The random part of an id that the coordinator would make for this client; None: it goes by the request."""
        return None

    def _accept(self, before: Group | None) -> bool:  # noqa: ARG002
        """Whether the coordinator's last step is accepted; otherwise it was undone."""
        return True

    def find_coordinator(self, name: str, on_coordinator_found: Callable[[Any], None]) -> None:
        """Answers a search for the coordinator."""
        self.channel.at(self.now_ms + 1, lambda _: on_coordinator_found(None), name)

    def _change(self, before: Group | None) -> Change:
        return Change(before, self.group, self.context.image, self.host.now_ms)

    def _note_step(self, change: Change, answers: Answers) -> None:
        self.on_step(change, answers)
        if change.before is not self.group:
            self.stale_uses.note_step(change, self._find_concerned(change))
            if change.is_shown:
                self.story.add(Event(self.now_ms, COORDINATOR, COORDINATOR, "has", self.group))
        for token, body in answers:
            name, on_response = self._waiting.pop(token)
            arrive = partial(self._arrive, name, token, on_response, body)
            lost = name in self.deaf or not self.channel.send(self.now_ms, arrive, name, is_answer=True)
            self.story.add(Event(self.now_ms, COORDINATOR, name, "answers", body, lost))

    def _arrive(self, name: str, token: int, on_response: Callable[[Any], None], body: Any, _at_ms: int) -> None:
        self.stale_uses.note_answer(name, token)
        on_response(body)

    def _find_concerned(self, change: Change) -> Collection[Client]:  # noqa: ARG002  # a cluster of many asks who changed
        """The clients whose uses a step of the coordinator may make stale, or right again."""
        return self.clients.values()

    def _note(self, name: str, what: str) -> None:
        self.story.add(Event(self.now_ms, name, name, what))

    def _wake(self, name: str) -> None:
        if name in self.clients:
            client = self.clients[name]
            client.background.next_turn_ms = self.now_ms
            self.enter(client)

    # Uses of partitions.

    def _note_use(self, client: Client, before: Partitions) -> None:
        """Notes a change of a client's partitions in use, and double ownership that begins with it."""
        self.on_use(client, before)
        self.stale_uses.note_use(client, before, self.group, self.context.image)
        for one in self._count_users(client):
            users = tuple(sorted(name for name in self._users[one] if one in self.clients[name].using))
            if len(users) < 2:  # the other one closes
                continue
            cause = self.stale_uses.explain(one, [self.clients[name] for name in users])
            self._note(COORDINATOR, f"{one} is used by {' and '.join(users)}: {cause}")
            events = "" if cause is not None else self.story.text(EVENTS_SHOWN, users)
            self.doubles.append(Double(self.now_ms, one, users, cause, events))

    def _count_users(self, client: Client) -> Partitions:
        """Counts the users of partitions; returns the partitions that this client newly shares with another one."""
        before, self._counted[client.name] = self._counted.get(client.name, ()), client.using
        for one in without(before, client.using):
            self._users[one].discard(client.name)
        shared = []
        for one in without(client.using, before):
            users = self._users.setdefault(one, set())
            users.add(client.name)
            if len(users) == 2:
                shared.append(one)
        return tuple(shared)

    # Whether the group has converged: all clients are members and use their assignments, and all partitions are used.

    @property
    def stranded(self) -> str | None:
        """Why the group keeps a partition without an owner until a member joins; None if it does not.

        * W5: a consumer group has only classic members left and may not be downgraded, and none of them is told to
          join, so no member computes the next target.
        * A static member of a classic group came back with another subscription, under the protocol that it had: its
          group does not rebalance for that, whichever member leads.
        """
        group, context = self.group, self.context
        if isinstance(group, ClassicGroup) and group.generation == self.stale_uses.swapped:
            return "static swap"
        # In dialects where classic members compare the target, which no member computes, not the group's epoch.
        choices = context.dialect.choices
        if not {Choice.CLASSIC_REJOINS_BEHIND_TARGET, Choice.ASSIGNMENT_INTERVAL} <= choices:
            return None
        if Choice.CLASSIC_COMPUTES_TARGET in choices:
            return None
        if not isinstance(group, ConsumerGroup) or group.members.classic != len(group.members):
            return None
        waits = group.epoch > group.target_epoch and not may_downgrade(len(group.members), context)
        return "W5" if waits else None

    def find_unsettled(self) -> list[str]:
        """The deviations from a converged group; empty if it has converged.

        For a stranded group its state and unowned partitions are not reported.
        """
        group, clients, is_stranded = self.group, self.clients.values(), self.stranded is not None
        if not clients or group is None:
            return ["there is no group"] if clients else []
        found = []
        if group.state.name != "STABLE" and not is_stranded:
            found.append(f"the group is {group.state.name}")
        for client in clients:
            if client.member_id not in group.members:
                found.append(f"{client.name} is no member")
            elif client.member.owned != (assigned := find_assigned(group, client.member_id, self.context.image)):
                found.append(f"{client.name} owns {client.member.owned}, and is assigned {assigned}")
        if not is_stranded:
            topics = self.context.image.topics
            named = {name for one in clients for name in one.topics}
            wanted = {(name, i) for name in named for i in range(topics[name].partitions)}
            unowned = partitions(wanted - {one for client in clients for one in client.member.owned})
            found += [f"nobody owns {one}" for one in unowned]
        return found


@dataclass
class _Network:
    """The `Transport` of one client, which passes requests to the cluster."""

    cluster: Cluster
    name: str
    is_classic: bool

    def find_coordinator(self, on_coordinator_found: Callable[[Any], None]) -> None:
        self.cluster.find_coordinator(self.name, on_coordinator_found)

    def update_metadata(self, on_metadata: Callable[[Any], None]) -> None:
        learn = partial(self.cluster.metadata, is_classic=self.is_classic)
        self.cluster.channel.at(self.cluster.now_ms + 1, lambda _: on_metadata(learn()), self.name)

    def send(self, request: Any, on_response: Callable[[Any], None]) -> None:
        self.cluster.carry(self.name, request, on_response)


def _ignore(*_: Any) -> None: ...
