"""A coordinator and one group: what members ask of it, in turn, and what it answers, keeps and writes.

    requests: the second member takes half of the partitions         # what it shows; marks this kind of scenario
    dialect: 4.4                   # a release of the broker; the latest by default, --dialect overrides it
    config: {group_consumer_assignment_interval_ms: 0}               # the broker's settings in snake case
    topics: {foo: 4}
    group: shop                    # the group's id, `group` by default
    steps:
    - from: A                      # who sends it: a name that the story has for a member
      ConsumerGroupHeartbeat: {subscribed_topic_names: [foo]}
      expect:
        answer: {member_epoch: 2, assignment: [foo-0, foo-1, foo-2, foo-3]}
        group: {state: STABLE, epoch: 2}
        A: {assigned: [foo-0, foo-1, foo-2, foo-3]}
    - wait: 1000                   # timers run out
    - topics: {foo: 4, bar: 2}     # what topics there are from now on

Requests are those of `fsm/scenario/broker/bodies.py`. Expectations: fields of the `answer` (of this step's request;
`other_answers` are to earlier ones), of the `group`, of members by their names, and `records` by their types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fsm.coordinator.model.context import BrokerConfig
from fsm.coordinator.model.dialect import dialect as release
from fsm.errors import InputError
from fsm.nodes import Node, nearest
from fsm.scenario.broker.bodies import APIS
from fsm.scenario.broker.shown import ANSWER_FIELDS, GROUP_FIELDS, MEMBER_FIELDS
from fsm.scenario.broker.side import GroupSide
from fsm.scenario.heads import broker_config, release_of, topic_counts
from fsm.scenario.steps import NOTHING, Expected, Replay
from fsm.scenario.story import Act, Seen, play
from fsm.scenario.words import listed, named, partitions_of, texts

NAME = "requests"
_KEYS = ("requests", "dialect", "config", "topics", "group", "steps")


def reads(document: Node) -> bool:
    """Whether the document is a list of requests to a coordinator."""
    return isinstance(document.value, dict) and NAME in document.value


def replay(document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
    """Sends the requests one after the other. Raises `InputError` with the line for what is none."""
    given = document.fields(_KEYS, (NAME, "steps"))
    side = _side(given, dialect)
    yield Replay(file, NAME, given[NAME].text(), side.dialect.name, play(Requests(side), given["steps"]))


def _side(given: Mapping[str, Node], dialect: str | None) -> GroupSide:
    config = broker_config(given["config"]) if "config" in given else BrokerConfig()
    group_id = given["group"].text() if "group" in given else "group"
    side = GroupSide(release(release_of(given, dialect, release)), config, group_id)
    side.topics_are(topic_counts(given["topics"]) if "topics" in given else {})
    return side


class Requests:
    """The stage: a coordinator and what is asked of it."""

    verbs = (*APIS, "wait", "topics")
    beside = ("from",)
    implied: Mapping[str, str] = {}

    def __init__(self, side: GroupSide) -> None:
        self.side = side

    @property
    def now_ms(self) -> int:
        """The coordinator's time, from the beginning of the story."""
        return self.side.now_ms

    def do(self, act: Act) -> None:
        """A request, or time, or other topics."""
        node = act.value
        if act.verb == "wait":
            if node.number() < 0:
                raise InputError("time does not go back", node.where)
            self.side.wait(node.number())
        elif act.verb == "topics":
            self.side.topics_are(topic_counts(node))
        elif "from" not in act.beside:
            raise InputError("nobody sends it", act.where, "from: NAME")
        else:
            api = APIS[act.verb]
            said = {} if node.is_null and not api.required else node.fields(api.keys, api.required)
            self.side.send(act.beside["from"].text(), act.verb, said)

    def see(self) -> Seen:
        """Answers, records and the group."""
        return Seen(*self.side.take())

    def expected(self, node: Node, seen: Mapping[str, str]) -> Iterator[Expected]:
        """What a step expects."""
        return _expected(node, seen)


# What is expected


def _expected(node: Node, seen: Mapping[str, str]) -> Iterator[Expected]:
    for name, (key, value) in node.mapping().items():
        if name in {"records", "other_answers"}:
            yield Expected(name, listed(texts(value)), value.where)
            continue
        known = {"answer": ANSWER_FIELDS, "group": GROUP_FIELDS}.get(name, MEMBER_FIELDS)
        if known is MEMBER_FIELDS and not any(field.startswith(f"{name} ") for field in seen):
            raise InputError(f"nobody is called {name[:60]!r} here", key.where, nearest(name, ("answer", "group")))
        for field, said in value.fields(known).items():
            yield Expected(f"{name} {field}", _value(field, said), said.where)


def _value(field: str, node: Node) -> str:
    if node.is_null:
        return NOTHING
    if not isinstance(node.value, list):
        return node.text()
    if field in {"assigned", "assignment", "revoking", "target"}:
        return named(partitions_of(node))
    return listed(sorted(texts(node)))
