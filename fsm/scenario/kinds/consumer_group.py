"""A whole consumer group: real members, their applications and the coordinator under a virtual clock.

    consumers: a rolling restart under KIP-848     # what it shows; marks this kind of scenario
    dialect: 4.4                   # a release of the coordinator; the latest by default, --dialect overrides it
    config: {group_consumer_assignment_interval_ms: 0}       # the broker's settings in snake case
    topics: {foo: 4}
    steps:
    - start: A                     # subscribes to all topics; or {consumer: A, topics: [foo], protocol: range, ...}
    - settle                       # until every consumer uses its assignment; {most_ms: 60000}
    - close: A
    - wait: 5000
      expect:
        group: {state: STABLE, epoch: 3}
        B: {state: STABLE, epoch: 3, owned: [foo-0, foo-1], uses: [foo-0, foo-1]}
        doubles: []                # partitions that two applications used at once, and the weak spot behind it

`start` takes `protocol` (`consumer`, or a classic `partition.assignment.strategy`: `range`, `cooperative-sticky`,
`range,cooperative-sticky`), `dialect` (of a consumer's client), `instance_id`, `commits` (automatic commits). Further
steps: `kill: A` (its process is killed), `freeze: {consumer: A, ms: 5000}` (it pauses), `slow_callback: {consumer: A,
ms: 2000}` (its next revoked or lost callback takes this long), `cut` and `heal` (no answer reaches it), `subscribe:
{consumer: A, topics: [foo]}`, `grow: {foo: 6}`. A step may carry a `note`.

Clients have short timeouts, so that scenarios stay short: session 3 s, heartbeat 0.5 s, max.poll.interval 4 s. They
poll every 100 ms, and a message takes 1 ms. Expectations: `group` (`type`, `state`, `epoch` or `generation`,
`members`), consumers by their names (`state`, `epoch` or `generation`, `owned`, `uses`; GONE once they ended),
`doubles` (empty by default), `unsettled`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from fsm.cluster.client import CLASSIC, Client
from fsm.cluster.cluster import SETTINGS, Cluster
from fsm.cluster.network import STEADY
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.context import BrokerConfig, Topic
from fsm.coordinator.model.dialect import dialect as release
from fsm.coordinator.model.persistent import PersistentMap
from fsm.errors import InputError
from fsm.member.classic.state import ClassicMember
from fsm.member.dialect.dialect import dialect as client_release
from fsm.nodes import Node, nearest
from fsm.protocol.assignment import Partitions, without
from fsm.render.timeline.ownership import Bar, Mark, Partition, Picture, Stay
from fsm.scenario.kinds.requests import make_topic_id
from fsm.scenario.reading import has_key, read_broker_config, read_dialect, read_topics
from fsm.scenario.story import Act, Expected, Replay, Seen, Stage, play, read_steps
from fsm.scenario.texts import NOTHING, read_ms, read_partitions, read_texts, show_list, show_partitions

if TYPE_CHECKING:
    from fsm.member.runtime.classic_shell import ClassicConsumerMember
    from fsm.member.runtime.consumer_shell import ConsumerMember

NAME = "consumer group"
_KEYS = ("consumers", "dialect", "config", "topics", "steps")
_GROUP_FIELDS = ("type", "state", "epoch", "generation", "members")
_CONSUMER_FIELDS = ("state", "epoch", "generation", "owned", "uses")
CONSUMERS_LIMIT, WAIT_LIMIT_MS, SETTLE_MS = 50, 3_600_000, 60_000
QUIET_MS = 1_500
"""A group that does not change for three heartbeats of all members has settled."""
reads = has_key("consumers")


def replay(document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
    """Drives the group through its steps. Raises `InputError` with the line for an invalid part of the scenario."""
    given = document.fields(_KEYS, ("consumers", "topics", "steps"))
    rules = read_dialect(given, dialect, release)
    config = read_broker_config(given.get("config"), SETTINGS)
    stage = ConsumerGroup(rules.name, config, read_topics(given["topics"]))
    steps = play(stage, read_steps(given["steps"]))
    yield Replay(file, NAME, given["consumers"].text(), rules.name, steps, stage.picture())


class ConsumerGroup(Stage):
    """The stage: consumers, their coordinator, and the partitions used over time."""

    implied: Mapping[str, str] = {"doubles": show_list(())}

    def __init__(self, dialect: str, config: BrokerConfig, topics: Mapping[str, int]) -> None:
        made = {name: Topic(make_topic_id(name, 0), count) for name, count in topics.items()}
        self.cluster = Cluster(STEADY, dialect, config=config, topics=PersistentMap(made))
        self.cluster.on_use = self._note_use
        self.topics = dict(topics)
        self.verbs = tuple(VERBS)
        self._using: dict[tuple[str, Partition], int] = {}
        self._bars: list[Bar] = []
        self._stays: dict[str, int] = {}
        self._left: list[Stay] = []
        self._marks: list[Mark] = []
        self._happened: list[str] = []
        self._doubles = 0
        self._identities: dict[str, str] = {}
        """Names of consumers by member id, also of ended ones."""

    @property
    def now_ms(self) -> int:
        return self.cluster.now_ms

    def client(self, node: Node) -> Client:
        """The consumer of that name. Raises `InputError` if none runs."""
        if node.text() not in self.cluster.clients:
            raise InputError(
                f"no consumer {node.text()[:60]!r} is running",
                node.where,
                nearest(node.text(), tuple(self.cluster.clients)),
            )
        return self.cluster.clients[node.text()]

    def begin(self, name: str) -> None:
        """Starts a process."""
        self._stays[name] = self.now_ms

    def _note_use(self, client: Client, before: Partitions) -> None:
        for verb, changed in (("stops", without(before, client.using)), ("starts", without(client.using, before))):
            for partition in changed:
                key = (client.name, Partition(*partition))
                if verb == "starts":
                    self._using[key] = self.now_ms
                else:
                    self._bars.append(Bar(key[1], client.name, self._using.pop(key), self.now_ms))
            if changed:
                self._happened.append(f"{self.now_ms:>6} ms  {client.name} {verb} using {show_partitions(changed)}")
        if client.name not in self.cluster.clients or client.closing:
            self._end(client.name)

    def _end(self, name: str) -> None:
        if name in self._stays:
            self._left.append(Stay(name, self._stays.pop(name), self.now_ms))

    def run(self, until_ms: int) -> None:
        """Runs up to an instant; notes ends and epochs."""
        while self.now_ms < until_ms:
            self.cluster.run(min(until_ms, self.now_ms + 10))
            self._note_changes()

    def settle(self, most_ms: int) -> bool:
        """Runs until nothing has changed for a while and the group has settled."""
        until_ms, since_ms, known = self.now_ms + most_ms, self.now_ms, self._read_use()
        while self.now_ms < until_ms:
            self.run(self.now_ms + 100)
            if self._read_use() != known:
                since_ms, known = self.now_ms, self._read_use()
            elif self.now_ms - since_ms >= QUIET_MS and not self.cluster.find_unsettled():
                return True
        return False

    def _read_use(self) -> object:
        return self._epoch(), [(name, client.using) for name, client in sorted(self.cluster.clients.items())]

    def _epoch(self) -> tuple[str, int]:
        group = self.cluster.group
        if group is None:
            return "", 0
        return ("generation", group.generation) if isinstance(group, ClassicGroup) else ("epoch", group.epoch)

    def _note_changes(self) -> None:
        for name in sorted(self._stays.keys() - self.cluster.clients.keys()):
            self._end(name)
        word, number = self._epoch()
        if word and (not self._marks or (self._marks[-1].word, self._marks[-1].generation) != (word, number)):
            self._marks.append(Mark(self.now_ms, number, word=word))
            self._happened.append(f"{self.now_ms:>6} ms  the group is at {word} {number}")

    def do(self, act: Act) -> None:
        VERBS[act.verb](self, act.value)
        self._note_changes()

    def see(self) -> Seen:
        happened, self._happened = self._happened, []
        found = self.cluster.doubles[self._doubles :]
        self._doubles = len(self.cluster.doubles)
        doubles = show_list(f"{Partition(*one.partition)}: {' and '.join(one.users)} ({one.cause})" for one in found)
        problems = [f"{one.at_ms:>6} ms  {Partition(*one.partition)} is used twice: {one.cause}" for one in found]
        fields = {**dict(self._group()), **dict(self._consumers()), "doubles": doubles}
        fields["unsettled"] = show_list(self.cluster.find_unsettled())
        return Seen(fields, sorted((*happened, *problems), key=lambda line: int(line.split()[0])))

    def _group(self) -> Iterator[tuple[str, str]]:
        group = self.cluster.group
        if group is None:
            yield "group type", NOTHING
            return
        word, number = self._epoch()
        self._identities |= {client.member_id: name for name, client in self.cluster.clients.items()}
        yield "group type", "classic" if isinstance(group, ClassicGroup) else "consumer"
        yield "group state", group.state.name
        yield f"group {word}", str(number)
        yield "group members", show_list(sorted(self._identities.get(member, member) for member in group.members))

    def _consumers(self) -> Iterator[tuple[str, str]]:
        for name, client in sorted(self.cluster.clients.items()):
            member = cast("ConsumerMember | ClassicConsumerMember", client.member).member
            yield f"{name} state", member.state.name
            if isinstance(member, ClassicMember):
                yield f"{name} generation", str(member.generation.generation_id)
            else:
                yield f"{name} epoch", str(member.epoch)
            yield f"{name} owned", show_partitions(client.member.owned)
            yield f"{name} uses", show_partitions(client.using)
        for name in sorted({stay.worker for stay in self._left} - self.cluster.clients.keys()):
            yield f"{name} state", "GONE"

    def expect(self, node: Node, seen: Mapping[str, str]) -> Iterator[Expected]:
        for name, (key, value) in node.mapping().items():
            if name in {"doubles", "unsettled"}:
                yield Expected(name, show_list(read_texts(value)), value.where)
            elif name == "group" or f"{name} state" in seen:
                for field, each in value.fields(_GROUP_FIELDS if name == "group" else _CONSUMER_FIELDS).items():
                    yield Expected(f"{name} {field}", _read_value(field, each), each.where)
            else:
                known = (*(f.removesuffix(" state") for f in seen if f.endswith(" state")), "doubles", "unsettled")
                raise InputError(f"no consumer is called {name[:60]!r}", key.where, nearest(name, known))

    def picture(self) -> Picture:
        """The timeline of processes and used partitions."""
        now_ms = self.now_ms
        bars = [*self._bars, *(Bar(one, name, start_ms, now_ms) for (name, one), start_ms in self._using.items())]
        stays = [*self._left, *(Stay(name, start_ms, now_ms) for name, start_ms in self._stays.items())]
        marks = tuple(self._marks)
        return Picture(0, now_ms, tuple(sorted(bars)), (), marks, tuple(sorted(stays)), "Consumers", "Partitions")


def _read_value(field: str, node: Node) -> str:
    if field in {"owned", "uses"}:
        return show_partitions(read_partitions(node))
    return show_list(sorted(read_texts(node))) if field == "members" else node.text()


# Stimuli


def _start(stage: ConsumerGroup, node: Node) -> None:
    known = ("consumer", "topics", "protocol", "dialect", "instance_id", "commits")
    given = node.fields(known, ("consumer",)) if isinstance(node.value, dict) else {"consumer": node}
    name = given["consumer"].text()
    if not name or not name.isprintable() or len(name) > 60:
        raise InputError(f"{name[:60]!r} cannot be the name of a consumer", given["consumer"].where)
    if name in stage.cluster.clients:
        raise InputError(f"{name} is running", given["consumer"].where, "close or kill it first")
    if len(stage.cluster.clients) >= CONSUMERS_LIMIT:
        raise InputError(f"more than {CONSUMERS_LIMIT} consumers", node.where)
    protocol = given["protocol"].text() if "protocol" in given else "consumer"
    if protocol not in ("consumer", *CLASSIC):
        raise InputError(
            f"unknown protocol {protocol[:60]!r}", given["protocol"].where, "one of consumer, " + ", ".join(CLASSIC)
        )
    client_dialect = read_dialect(given, None, client_release).name if protocol == "consumer" else protocol
    instance_id = given["instance_id"].text() if "instance_id" in given else None
    commits = "commits" in given and given["commits"].flag()
    stage.cluster.join(name, client_dialect, _topics(stage, given.get("topics")), instance_id, commits=commits)
    stage.begin(name)


def _topics(stage: ConsumerGroup, node: Node | None) -> tuple[str, ...]:
    if node is None:
        return tuple(sorted(stage.topics))
    for item in node.items():
        if item.text() not in stage.topics:
            raise InputError(f"no topic {item.text()[:60]!r}", item.where, nearest(item.text(), tuple(stage.topics)))
    return read_texts(node)


def _close(stage: ConsumerGroup, node: Node) -> None:
    client = stage.client(node)
    before = client.using
    client.close(stage.now_ms)
    stage.cluster.on_use(client, before)


def _with_time(do: Callable[[ConsumerGroup, Client, int], None]) -> Callable[[ConsumerGroup, Node], None]:
    def act(stage: ConsumerGroup, node: Node) -> None:
        given = node.fields(("consumer", "ms"), ("consumer", "ms"))
        do(stage, stage.client(given["consumer"]), read_ms(given["ms"], WAIT_LIMIT_MS))

    return act


def _slow(_: ConsumerGroup, client: Client, ms: int) -> None:
    client.slow_ms = ms


def _subscribe(stage: ConsumerGroup, node: Node) -> None:
    given = node.fields(("consumer", "topics"), ("consumer", "topics"))
    stage.client(given["consumer"]).subscribe(_topics(stage, given["topics"]))


def _grow(stage: ConsumerGroup, node: Node) -> None:
    for name, (key, value) in node.mapping().items():
        if name not in stage.topics or value.number() <= stage.topics[name]:
            raise InputError(
                f"{name[:60]} has {stage.topics.get(name, 'no')} partitions", key.where, "a topic can only get more"
            )
        stage.topics[name] = value.number()
        stage.cluster.resize(name, value.number())


def _settle(stage: ConsumerGroup, node: Node) -> None:
    given = {} if node.is_null else node.fields(("most_ms",))
    if not stage.settle(read_ms(given["most_ms"], WAIT_LIMIT_MS) if given else SETTLE_MS):
        problems = "; ".join(stage.cluster.find_unsettled()) or "it keeps changing"
        raise InputError(f"the group does not settle: {problems}", node.where, "wait instead, or raise most_ms")


VERBS: Mapping[str, Callable[[ConsumerGroup, Node], None]] = {
    "start": _start,
    "close": _close,
    "kill": lambda stage, node: stage.cluster.kill(stage.client(node).name),
    "freeze": _with_time(lambda stage, client, ms: client.freeze(stage.now_ms + ms)),
    "slow_callback": _with_time(_slow),
    "cut": lambda stage, node: stage.cluster.deaf.add(stage.client(node).name),
    "heal": lambda stage, node: stage.cluster.deaf.discard(stage.client(node).name),
    "subscribe": _subscribe,
    "grow": _grow,
    "wait": lambda stage, node: stage.run(stage.now_ms + read_ms(node, WAIT_LIMIT_MS)),
    "settle": _settle,
}
