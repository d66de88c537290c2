"""A coordinator and one group: the requests of members, and the coordinator's answers, state and records.

    requests: the second member takes half of the partitions         # what it shows; marks this kind of scenario
    dialect: 4.4                   # a release of the broker; the latest by default, --dialect overrides it
    config: {group_consumer_assignment_interval_ms: 0}               # the broker's settings in snake case
    topics: {foo: 4}
    group: shop                    # the group's id, `group` by default
    steps:
    - from: A                      # the sender: the name of a member in the scenario
      ConsumerGroupHeartbeat: {subscribed_topic_names: [foo]}
      expect:
        answer: {member_epoch: 2, assignment: [foo-0, foo-1, foo-2, foo-3]}
        group: {state: STABLE, epoch: 2}
        A: {assigned: [foo-0, foo-1, foo-2, foo-3]}
    - wait: 1000                   # timers run out
    - topics: {foo: 4, bar: 2}     # all topics from now on

Requests are those of `fsm/scenario/broker.py`. Expectations: fields of the `answer` (of this step's request;
`other_answers` are to earlier ones), of the `group`, of members by their names, and `records` by their types.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping

from fsm.coordinator.host import Host
from fsm.coordinator.model.context import BrokerConfig, Context, Topic
from fsm.coordinator.model.dialect import Choice, Dialect
from fsm.coordinator.model.dialect import dialect as release
from fsm.coordinator.model.step import Answer
from fsm.errors import InputError
from fsm.nodes import Node, nearest
from fsm.protocol.error_codes import ErrorCode
from fsm.render.sequence import Arrow, Look
from fsm.scenario import broker
from fsm.scenario.conversation.record import COORDINATOR
from fsm.scenario.reading import has_key, read_broker_config, read_dialect, read_topics
from fsm.scenario.story import Act, Expected, Replay, Seen, Stage, play, read_steps
from fsm.scenario.texts import NOTHING, read_partitions, read_text, read_texts, show_list, show_node, show_partitions

NAME = "requests"
_KEYS = ("requests", "dialect", "config", "topics", "group", "steps")
STARTED_MS = 1_700_000_000_000
"""The start time of scenarios: instants of a broker must not be near 0, which means unknown."""
reads = has_key(NAME)


def replay(document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
    """Sends the requests one after the other. Raises `InputError` with the line for an invalid one."""
    given = document.fields(_KEYS, (NAME, "steps"))
    config = read_broker_config(given.get("config"))
    group_id = read_text(given, "group", "group")
    stage = Requests(read_dialect(given, dialect, release), config, group_id)
    stage.change_topics(read_topics(given["topics"]) if "topics" in given else {})
    yield Replay(file, NAME, given[NAME].text(), stage.dialect.name, play(stage, read_steps(given["steps"])))


def make_topic_id(name: str, times: int) -> str:
    """A deterministic id for a topic that was created this many times before."""
    return base64.urlsafe_b64encode(hashlib.sha256(f"{name} {times}".encode()).digest()[:16]).decode().rstrip("=")


class Requests(Stage):
    """The stage: a coordinator, one group, and its requests."""

    verbs = (*broker.APIS, "wait", "topics")
    beside = ("from",)

    def __init__(self, dialect: Dialect, config: BrokerConfig, group_id: str) -> None:
        self.dialect = dialect
        self.group_id = group_id
        self.host = Host(Context(STARTED_MS, dialect, config))
        self.topic_names: dict[str, str] = {}
        """The names of all topics so far, by id."""
        self.ids: dict[str, str] = {}
        """The current member id of each name."""
        self.epochs: dict[str, int] = {}
        """The epoch or generation of each name's last answer."""
        self.protocols: dict[str, str] = {}
        """The protocol in the answer to each name's last join."""
        self._asked: dict[int, tuple[str, str]] = {}
        """Requests without an answer: sender and request."""
        self._last = 0
        """The last request."""
        self._written = 0
        """How many steps of the log were read."""
        self._own: dict[str, str] = {}
        """Fields of the answer to the last request."""
        self._others: list[str] = []
        """Answers to earlier requests."""
        self._arrows: list[Arrow] = []
        self._state = ""
        """The group's state last shown in a picture."""

    @property
    def now_ms(self) -> int:
        return self.host.now_ms - STARTED_MS

    # Steps

    def do(self, act: Act) -> None:
        if act.verb in broker.APIS:
            self._send(act)
        elif act.verb == "wait":
            self._wait(act.value)
        else:
            self.change_topics(read_topics(act.value))

    def change_topics(self, topics: Mapping[str, int]) -> None:
        """Sets the broker's topics and partition counts; a smaller count recreates the topic."""
        found = {name: self._topic(name, count) for name, count in topics.items()}
        self.topic_names |= {topic.topic_id: name for name, topic in found.items()}
        self.host.change_topics(found)
        self.host.resolve()

    def _topic(self, name: str, count: int) -> Topic:
        known = self.host.context.image.topics.get(name)
        if known is not None and known.partitions <= count:
            return Topic(known.topic_id, count)
        return Topic(make_topic_id(name, sum(made == name for made in self.topic_names.values())), count)

    def _wait(self, node: Node) -> None:
        if node.number() < 0:
            raise InputError("time cannot go back", node.where)
        self._receive(self.host.advance(self.host.now_ms + node.number()))

    def _send(self, act: Act) -> None:
        if "from" not in act.beside:
            raise InputError("has no sender", act.where, "add from: NAME")
        api, name = broker.APIS[act.verb], act.beside["from"].text()
        given = {} if act.value.is_null and not api.required else act.value.fields(api.keys, api.required)
        text = ", ".join(f"{key}={show_node(node)}" for key, node in given.items())
        self._arrows.append(Arrow(name, COORDINATOR, f"{act.verb}({text})"))
        if act.verb == "ConsumerGroupHeartbeat" and Choice.CLIENT_MAKES_MEMBER_ID in self.dialect:
            self.ids.setdefault(name, name)
        topic_ids = {topic: found.topic_id for topic, found in self.host.context.image.topics.items()}
        epoch, protocol = self.epochs.get(name, 0), self.protocols.get(name, "")
        sender = broker.Sender(self.group_id, self.ids.get(name, ""), topic_ids, self.ids, epoch, protocol)
        sent = self.host.send(name, api.build(given, sender), api.version, fresh_id=name)
        self._last = sent.token
        self._asked[sent.token] = (name, act.verb)
        self._receive(sent.answers)
        self._receive(self.host.advance(self.host.now_ms))

    def _receive(self, answers: Iterable[Answer]) -> None:
        for answer in answers:
            name, api = self._asked.pop(answer.token)
            self._learn(name, answer.body)
            fields = broker.show_answer(answer.body, self._names())
            text = ", ".join(f"{key}={value}" for key, value in fields.items() if value not in (NOTHING, ""))
            self._arrows.append(Arrow(COORDINATOR, name, text or "answered", Look.TAKE))
            if answer.token == self._last:
                self._own = fields
            else:
                self._others.append(f"{name}: {api}({text})")

    def _learn(self, name: str, body: object) -> None:
        """Updates a member after an answer; one that left begins again."""
        if member_id := getattr(body, "member_id", None):
            self.ids[name] = member_id
        if getattr(body, "error_code", ErrorCode.NONE) is ErrorCode.NONE:
            epoch = getattr(body, "member_epoch", getattr(body, "generation_id", self.epochs.get(name, 0)))
            self.epochs[name] = max(0, epoch)
            self.protocols[name] = getattr(body, "protocol_name", None) or self.protocols.get(name, "")

    def _names(self) -> broker.Names:
        return broker.Names(self.ids, self.topic_names)

    # Results

    def see(self) -> Seen:
        group = broker.show_group(self.host.state.groups.get(self.group_id), self._names(), self.dialect)
        appended = self.host.list_appends()
        records = [record for one in appended[self._written :] for record in one.records]
        fields = {f"answer {key}": value for key, value in self._own.items()}
        fields |= {**group, "other_answers": show_list(self._others), "records": broker.show_records(records)}
        own = ", ".join(f"{key}={value}" for key, value in self._own.items() if value not in (NOTHING, ""))
        lines = [f"answered {text}" for text in (*([own] if self._own else []), *self._others)]
        lines += _group_lines(group)
        if records:
            lines.append(f"records {broker.show_records(records)}")
        arrows = (*self._arrows, *self._new_state(group))
        self._own, self._others, self._arrows, self._written = {}, [], [], len(appended)
        return Seen(fields, lines, arrows)

    def _new_state(self, group: Mapping[str, str]) -> Iterator[Arrow]:
        number = group.get("group epoch", group.get("group generation", ""))
        state = f"{group.get('group state', '')} {number}".strip()
        if state != self._state:
            self._state = state
            yield Arrow(COORDINATOR, COORDINATOR, state, Look.STATE)

    def expect(self, node: Node, seen: Mapping[str, str]) -> Iterator[Expected]:
        for name, (key, value) in node.mapping().items():
            if name in {"records", "other_answers"}:
                yield Expected(name, show_list(read_texts(value)), value.where)
                continue
            known = {"answer": broker.ANSWER_FIELDS, "group": broker.GROUP_FIELDS}.get(name, broker.MEMBER_FIELDS)
            if known is broker.MEMBER_FIELDS and not any(field.startswith(f"{name} ") for field in seen):
                raise InputError(f"{name[:60]!r} is unknown here", key.where, nearest(name, ("answer", "group")))
            for field, each in value.fields(known).items():
                yield Expected(f"{name} {field}", _read_value(field, each), each.where)


def _group_lines(fields: Mapping[str, str]) -> list[str]:
    lines: dict[str, list[str]] = {}
    for name, value in fields.items():
        subject, _, field = name.rpartition(" ")
        lines.setdefault(subject, []).append(f"{field}={value}")
    return [f"{subject}: {', '.join(shown)}" for subject, shown in lines.items()]


def _read_value(field: str, node: Node) -> str:
    if node.is_null:
        return NOTHING
    if not isinstance(node.value, list):
        return node.text()
    if field in {"assigned", "assignment", "revoking", "target"}:
        return show_partitions(read_partitions(node))
    return show_list(sorted(read_texts(node)))
