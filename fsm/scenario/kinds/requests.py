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
from dataclasses import fields
from typing import Any

from fsm.coordinator.context import BrokerConfig
from fsm.coordinator.dialect import dialect as release
from fsm.errors import FsmError, InputError
from fsm.nodes import Node, nearest
from fsm.scenario.broker.bodies import APIS
from fsm.scenario.broker.shown import ANSWER_FIELDS, GROUP_FIELDS, MEMBER_FIELDS
from fsm.scenario.broker.side import GroupSide
from fsm.scenario.members import PARTITIONS_LIMIT
from fsm.scenario.steps import NOTHING, Expected, Replay, Step
from fsm.scenario.words import listed, named, one_line, partitions_of, texts

NAME = "requests"
_KEYS = ("requests", "dialect", "config", "topics", "group", "steps")
_BESIDE = ("from", "expect", "note")
_VERBS = (*APIS, "wait", "topics")
STEPS_LIMIT = 2_000


def reads(document: Node) -> bool:
    """Whether the document is a list of requests to a coordinator."""
    return isinstance(document.value, dict) and NAME in document.value


def replay(document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
    """Sends the requests one after the other. Raises `InputError` with the line for what is none."""
    given = document.fields(_KEYS, (NAME, "steps"))
    side = _side(given, dialect)
    items = given["steps"].items()
    if not 0 < len(items) <= STEPS_LIMIT:
        raise InputError(f"{len(items)} steps", given["steps"].where, f"1 to {STEPS_LIMIT}")
    steps = tuple(_step(side, item) for item in items)
    yield Replay(file, NAME, given[NAME].text(), side.dialect.name, steps)


def _side(given: Mapping[str, Node], dialect: str | None) -> GroupSide:
    config = _config(given["config"]) if "config" in given else BrokerConfig()
    group_id = given["group"].text() if "group" in given else "group"
    side = GroupSide(release(_spoken(given, dialect)), config, group_id)
    side.topics_are(_topics(given["topics"]) if "topics" in given else {})
    return side


def _spoken(given: Mapping[str, Node], dialect: str | None) -> str:
    if dialect is not None or "dialect" not in given:
        return dialect or release().name
    try:
        return release(given["dialect"].text()).name
    except InputError as problem:
        raise InputError(problem.what, given["dialect"].where, problem.remedy) from None


def _config(node: Node) -> BrokerConfig:
    kinds = {field.name: str(field.type) for field in fields(BrokerConfig) if field.name != "groups"}
    given = node.fields(tuple(kinds))
    values: dict[str, Any] = {name: _setting(kinds[name], value) for name, value in given.items()}
    return BrokerConfig(**values)


def _setting(kind: str, node: Node) -> Any:
    if kind.startswith("tuple"):
        return texts(node)
    return node.number() if kind == "int" else node.text()


def _topics(node: Node) -> dict[str, int]:
    found = {name: value.number() for name, (_, value) in node.mapping().items()}
    if min(found.values(), default=1) < 1 or sum(found.values()) > PARTITIONS_LIMIT:
        raise InputError(f"a topic has at least one partition, all together {PARTITIONS_LIMIT}", node.where)
    return found


def _step(side: GroupSide, item: Node) -> Step:
    given = item.fields((*_BESIDE, *_VERBS))
    verbs = [name for name in given if name not in _BESIDE]
    if len(verbs) != 1:
        raise InputError(f"a step does one thing, not {len(verbs)}", item.where, f"one of {', '.join(_VERBS)}")
    verb, begun_ms = verbs[0], side.now_ms
    try:
        _do(side, verb, given, item.where)
    except InputError:
        raise
    except FsmError as problem:
        raise InputError(str(problem), item.where) from None
    seen, lines, arrows = side.take()
    expected = tuple(_expected(given["expect"], seen)) if "expect" in given else ()
    sender = f"{given['from'].text()} sends " if "from" in given else ""
    told = "" if given[verb].is_null else f" {one_line(given[verb])}"
    note = given["note"].text() if "note" in given else ""
    before = (f"# {note}",) if note else ()
    title = f"{begun_ms:>6} ms  {sender}{verb}{told}"
    return Step(title, item.where, seen, expected, (*before, *lines), arrows, note)


def _do(side: GroupSide, verb: str, given: Mapping[str, Node], where: str) -> None:
    node = given[verb]
    if verb == "wait":
        if node.number() < 0:
            raise InputError("time does not go back", node.where)
        side.wait(node.number())
    elif verb == "topics":
        side.topics_are(_topics(node))
    elif "from" not in given:
        raise InputError("nobody sends it", where, "from: NAME")
    else:
        api = APIS[verb]
        said = {} if node.is_null and not api.required else node.fields(api.keys, api.required)
        side.send(given["from"].text(), verb, said)


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
