"""A member in conversation: its application's calls, the coordinator's answers, the passage of time.

    conversation: a member joins and is given two partitions    # what it shows; marks this kind of scenario
    dialect: 4.4                   # a release of the client; the latest by default, --dialect overrides it
    protocol: consumer             # or classic
    config: {group_id: shop, enable_auto_commit: no}            # Kafka's settings in snake case
    listener: yes                  # no, or the behaviour of its callbacks: see fsm/scenario/conversation/client.py
    topics: [orders]               # of the client's metadata; with partitions for classic members: {orders: 2}
    commits: answered              # or `by hand`: the scenario answers commits, too
    steps:
    - subscribe: [orders]          # or {pattern: "or.*"} (matched by the client), {regex: "or.*"} (by the coordinator)
    - poll:                        # returns when nothing is left to do; or {timeout_ms: 100, consumed: {orders-0: 5}}
      expect:
        state: JOINING
        sent:
        - ConsumerGroupHeartbeat: {member_epoch: 0, subscribed_topic_names: [orders], topic_partitions: []}
    - answer: {member_epoch: 1, assignment: [orders-0, orders-1]}
    - wait: 5000

Further steps: `unsubscribe`, `close` (`{timeout_ms, operation}`), `callback_returns` (`{raises}`), `listener`, `fail`,
`metadata`, `coordinator` (`reachable`, `unreachable`). A step may carry a `note`. The background works as far as it can
after each step; time passes only in `wait`; a call that has to wait stays open (`inside`).

Expectations: `state`, `epoch` (classic: `generation`, `member_id`), `owned`, `fetchable`, `inside`, `closed`,
`transitions`, `sent`, `committed`, `callbacks`, `events` (of both queues), `effects`, `returned`, `raised`, `refused`.
Fields that a step does not name are not compared, except `refused`: a step that cannot be done is a difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from fsm.errors import InputError, LocalProtocolError
from fsm.member.classic.assignors import COOPERATIVE_STICKY, RANGE, PartitionCounts
from fsm.member.classic.state import ClassicConfig
from fsm.member.dialect.dialect import dialect as release
from fsm.member.events import GroupMembershipOperation
from fsm.member.runtime.consumer_api import SubscriptionPattern
from fsm.nodes import Node
from fsm.protocol.config import ConsumerConfig
from fsm.scenario.conversation.classic import ClassicClient
from fsm.scenario.conversation.client import read_listener
from fsm.scenario.conversation.consumer import ConsumerClient
from fsm.scenario.conversation.script import choose_request, read_answer, read_expected, read_failure
from fsm.scenario.reading import has_key, name_setting, read_dialect, read_topics
from fsm.scenario.story import REFUSED, Act, Expected, Replay, Seen, Stage, play, read_steps
from fsm.scenario.texts import NOTHING, read_known, read_number, read_offsets, read_text, read_texts

NAME = "conversation"
Client = ConsumerClient | ClassicClient
_KEYS = ("conversation", "dialect", "protocol", "config", "member_id", "listener", "topics", "commits", "steps")
PARTITIONS = 4
"""The default partition count of a topic."""
ASSIGNORS = {assignor.name: assignor for assignor in (RANGE, COOPERATIVE_STICKY)}
reads = has_key(NAME)


def replay(document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
    """Drives the member through the conversation. Raises `InputError` with the line for an invalid part."""
    given = document.fields(_KEYS, (NAME, "steps"))
    found = read_dialect(given, dialect, release).name
    client = _make_client(given, found, document.where)
    client.commits_answered = _read_commits(given)
    client.settle()
    client.record.take()
    yield Replay(file, NAME, given[NAME].text(), found, play(Conversation(client), read_steps(given["steps"])))


class Conversation(Stage):
    """The stage: a member, its application and its coordinator's answers."""

    implied: Mapping[str, str] = {REFUSED: NOTHING}

    def __init__(self, client: Client) -> None:
        self.client = client
        self.verbs = tuple(VERBS)

    @property
    def now_ms(self) -> int:
        return self.client.now_ms

    def do(self, act: Act) -> None:
        """Does a step. The application has one thread, so it makes no call inside another one."""
        if act.verb in CALLS and self.client.inside is not None:
            raise LocalProtocolError(f"the application is inside {self.client.inside}()")
        VERBS[act.verb](self.client, act.value)

    def see(self) -> Seen:
        happened, lines, arrows = self.client.record.take()
        return Seen({**self.client.show(), **happened}, lines, arrows)

    def expect(self, node: Node, seen: Mapping[str, str]) -> Iterator[Expected]:
        return read_expected(node, seen)


# The initial state


def _make_client(given: Mapping[str, Node], dialect: str, where: str) -> Client:
    topics = _read_topics(given["topics"]) if "topics" in given else ()
    listener = read_listener(given.get("listener"))
    protocol = read_text(given, "protocol", "consumer")
    if protocol == "consumer":
        config = _read_config(ConsumerConfig, given.get("config"), where)
        return ConsumerClient(config, read_text(given, "member_id", "m-1"), release(dialect), listener, topics)
    if protocol != "classic":
        raise InputError(f"{protocol[:60]!r} is not a protocol", given["protocol"].where, "consumer or classic")
    return ClassicClient(_read_config(ClassicConfig, given.get("config"), where), listener, topics)


def _read_commits(given: Mapping[str, Node]) -> bool:
    word = read_text(given, "commits", "answered")
    if word not in ("answered", "by hand"):
        raise InputError(f"{word[:60]!r} is neither `answered` nor `by hand`", given["commits"].where)
    return word == "answered"


def _read_topics(node: Node) -> PartitionCounts:
    """Reads a list of topics, or a mapping from topic to partition count."""
    if isinstance(node.value, list):
        return tuple(sorted((item.text(), PARTITIONS) for item in node.value))
    return tuple(sorted(read_topics(node).items()))


def _read_config(kind: Any, node: Node | None, where: str) -> Any:
    kinds = {field.name: str(field.type) for field in fields(kind)}
    given = node.fields(tuple(kinds)) if node is not None else {}
    values = {"group_id": "group", **{name: _read_setting(name, kinds[name], v) for name, v in given.items()}}
    try:
        return kind(**values)
    except InputError as problem:  # the error names the setting
        place = given[problem.where].where if problem.where in given else where
        raise InputError(f"{problem.where} {problem.what}", place, problem.remedy) from None


def _read_setting(name: str, kind: str, node: Node) -> Any:
    if kind.startswith("tuple"):
        return tuple(ASSIGNORS[read_known(name, tuple(ASSIGNORS), "assignor")] for name in node.items())
    with name_setting(name):
        if kind == "int":
            return node.number()
        if kind == "bool":
            return node.flag()
        return None if node.is_null else node.text()


# Steps


def _subscribe(client: Client, value: Node) -> None:
    if isinstance(value.value, list):
        client.subscribe(read_texts(value))
        return
    given = value.fields(("pattern", "regex"))
    if len(given) != 1:
        raise InputError("neither topics nor one pattern", value.where, "subscribe: [topic] or {pattern: text}")
    (kind, pattern), *_ = given.items()
    client.subscribe(_compile(pattern) if kind == "pattern" else SubscriptionPattern(pattern.text()))


def _compile(node: Node) -> re.Pattern[str]:
    try:
        return re.compile(node.text())
    except (re.error, RecursionError, OverflowError) as problem:
        raise InputError(f"not a regular expression: {problem}", node.where) from None


def _poll(client: Client, value: Node) -> None:
    given = _options(value, "timeout_ms", "consumed")
    client.poll(read_number(given, "timeout_ms", None), read_offsets(given["consumed"]) if "consumed" in given else ())


def _unsubscribe(client: Client, value: Node) -> None:
    _options(value)
    client.unsubscribe()


_OPERATIONS = {operation.name.lower(): operation for operation in GroupMembershipOperation}


def _close(client: Client, value: Node) -> None:
    given = _options(value, "timeout_ms", "operation")
    name = read_text(given, "operation", "default")
    if name not in _OPERATIONS:
        raise InputError(f"unknown operation {name[:60]!r}", given["operation"].where, ", ".join(_OPERATIONS))
    client.close(read_number(given, "timeout_ms", 30_000), _OPERATIONS[name])


def _callback_returns(client: Client, value: Node) -> None:
    given = _options(value, "raises")
    client.end_callback(read_text(given, "raises", None))


def _listener(client: Client, value: Node) -> None:
    client.listener = read_listener(value)


def _answer(client: Client, value: Node) -> None:
    given = {} if value.is_null else {name: node for name, (_, node) in value.mapping().items()}
    number = choose_request(given, client.unanswered)
    client.answer(number, read_answer(client.unanswered[number][0], value))


def _fail(client: Client, value: Node) -> None:
    given = value.fields(("with", "to"), ("with",)) if isinstance(value.value, dict) else {"with": value}
    failure = read_failure(given["with"])
    client.answer(choose_request(given, client.unanswered), failure)


def _wait(client: Client, value: Node) -> None:
    ms = value.number()
    if ms < 0:
        raise InputError("time cannot go back", value.where)
    client.wait(ms)


def _coordinator(client: Client, value: Node) -> None:
    word = value.text()
    if word not in ("reachable", "unreachable"):
        raise InputError(f"{word[:60]!r} is neither reachable nor unreachable", value.where)
    client.reachable = word == "reachable"
    client.settle()


def _options(value: Node, *known: str) -> Mapping[str, Node]:
    return {} if value.is_null else value.fields(known)


CALLS = ("subscribe", "poll", "unsubscribe", "close")
"""Steps in which the application calls its consumer: it has one thread."""
VERBS = {
    "subscribe": _subscribe,
    "poll": _poll,
    "unsubscribe": _unsubscribe,
    "close": _close,
    "callback_returns": _callback_returns,
    "listener": _listener,
    "answer": _answer,
    "fail": _fail,
    "wait": _wait,
    "metadata": lambda client, value: client.change_topics(_read_topics(value)),
    "coordinator": _coordinator,
}
