"""A member in conversation: what its application calls, what the coordinator answers, how time passes.

    conversation: a member joins and is given two partitions    # what it shows; marks this kind of scenario
    dialect: 4.4                   # a release of the client; the latest by default, --dialect overrides it
    protocol: consumer             # or classic
    config: {group_id: shop, enable_auto_commit: no}            # Kafka's settings in snake case
    listener: yes                  # no, or what its callbacks do: see fsm/scenario/listener.py
    topics: [orders]               # of the client's metadata; with partitions for classic members: {orders: 2}
    commits: answered              # or `by hand`: the scenario answers commits, too
    steps:
    - subscribe: [orders]          # or {pattern: "or.*"} (matched by the client), {regex: "or.*"} (by the coordinator)
    - poll:                        # returns when nothing more happens; or {timeout_ms: 100, consumed: {orders-0: 5}}
      expect:
        state: JOINING
        sent:
        - ConsumerGroupHeartbeat: {member_epoch: 0, subscribed_topic_names: [orders], topic_partitions: []}
    - answer: {member_epoch: 1, assignment: [orders-0, orders-1]}
    - wait: 5000

Further steps: `unsubscribe`, `close` (`{timeout_ms, operation}`), `callback_returns` (`{raises}`), `listener`, `fail`,
`metadata`, `coordinator` (`reachable`, `unreachable`). A step may carry a `note`. The background works as far as it
can after each step; time passes in `wait` alone; a call that has to wait stays open (`inside`).

Expectations: `state`, `epoch` (classic: `generation`, `member_id`), `owned`, `fetchable`, `inside`, `closed`,
`transitions`, `sent`, `committed`, `callbacks`, `events` (of both queues), `effects`, `returned`, `raised`, `refused`.
What a step does not name is not compared, but for `refused`: a step that cannot be done is a difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fsm.errors import InputError, LocalProtocolError
from fsm.member.events import GroupMembershipOperation
from fsm.member.runtime.consumer_api import SubscriptionPattern
from fsm.nodes import Node
from fsm.scenario import words
from fsm.scenario.answers import answer_to, failure_of, number_of
from fsm.scenario.expecting import expected_of
from fsm.scenario.listener import listener_of
from fsm.scenario.members import Side, side_of, topics_of
from fsm.scenario.steps import NOTHING, Expected, Replay
from fsm.scenario.story import REFUSED, Act, Seen, play

NAME = "conversation"
_KEYS = ("conversation", "dialect", "protocol", "config", "member_id", "listener", "topics", "commits", "steps")


def reads(document: Node) -> bool:
    """Whether the document is a conversation."""
    return isinstance(document.value, dict) and NAME in document.value


def replay(document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
    """Leads the member through the conversation. Raises `InputError` with the line for what is no part of one."""
    given = document.fields(_KEYS, (NAME, "steps"))
    side, release = side_of(given, dialect, document.where)
    yield Replay(file, NAME, given[NAME].text(), release, play(Conversation(side), given["steps"]))


class Conversation:
    """The stage: a member, its application and its coordinator's answers."""

    beside = ()
    implied: Mapping[str, str] = {REFUSED: NOTHING}

    def __init__(self, side: Side) -> None:
        self.side = side
        self.verbs = tuple(VERBS)

    @property
    def now_ms(self) -> int:
        """The time of the conversation."""
        return self.side.now_ms

    def do(self, act: Act) -> None:
        """Does a step: the application has one thread, so none of its calls while it is inside another one."""
        if act.verb in CALLS and self.side.inside is not None:
            raise LocalProtocolError(f"the application is inside {self.side.inside}()")
        VERBS[act.verb](self.side, act.value)

    def see(self) -> Seen:
        """The member as it is now, and what happened."""
        happened, lines, arrows = self.side.record.take()
        return Seen({**self.side.seen(), **happened}, lines, arrows)

    def expected(self, node: Node, seen: Mapping[str, str]) -> tuple[Expected, ...]:
        """What a step expects."""
        return expected_of(node, seen)


# What a step does.


def _subscribe(side: Side, value: Node) -> None:
    if isinstance(value.value, list):
        side.subscribe(words.texts(value))
        return
    given = value.fields(("pattern", "regex"))
    if len(given) != 1:
        raise InputError("neither topics nor one pattern", value.where, "subscribe: [topic] or {pattern: text}")
    (kind, pattern), *_ = given.items()
    side.subscribe(_compiled(pattern) if kind == "pattern" else SubscriptionPattern(pattern.text()))


def _compiled(node: Node) -> re.Pattern[str]:
    try:
        return re.compile(node.text())
    except (re.error, RecursionError, OverflowError) as problem:
        raise InputError(f"no regular expression: {problem}", node.where) from None


def _poll(side: Side, value: Node) -> None:
    given = _options(value, ("timeout_ms", "consumed"))
    timeout_ms = given["timeout_ms"].number() if "timeout_ms" in given else None
    side.poll(timeout_ms, words.offsets_of(given["consumed"]) if "consumed" in given else ())


def _unsubscribe(side: Side, value: Node) -> None:
    _options(value, ())
    side.unsubscribe()


_OPERATIONS = {operation.name.lower(): operation for operation in GroupMembershipOperation}


def _close(side: Side, value: Node) -> None:
    given = _options(value, ("timeout_ms", "operation"))
    operation = GroupMembershipOperation.DEFAULT
    if "operation" in given:
        name = given["operation"].text()
        if name not in _OPERATIONS:
            raise InputError(f"unknown operation {name[:60]!r}", given["operation"].where, ", ".join(_OPERATIONS))
        operation = _OPERATIONS[name]
    side.close(given["timeout_ms"].number() if "timeout_ms" in given else 30_000, operation)


def _callback_returns(side: Side, value: Node) -> None:
    given = _options(value, ("raises",))
    side.callback_returns(given["raises"].text() if "raises" in given else None)


def _listener(side: Side, value: Node) -> None:
    side.listener = listener_of(value)


def _answer(side: Side, value: Node) -> None:
    given = {} if value.is_null else {name: node for name, (_, node) in value.mapping().items()}
    number = number_of(given, side.unanswered)
    side.answer(number, answer_to(side.unanswered[number][0], value))


def _fail(side: Side, value: Node) -> None:
    given = value.fields(("with", "to"), ("with",)) if isinstance(value.value, dict) else {"with": value}
    failure = failure_of(given["with"])
    side.answer(number_of(given, side.unanswered), failure)


def _wait(side: Side, value: Node) -> None:
    ms = value.number()
    if ms < 0:
        raise InputError("time does not go back", value.where)
    side.wait(ms)


def _metadata(side: Side, value: Node) -> None:
    side.topics_are(topics_of(value))


def _coordinator(side: Side, value: Node) -> None:
    word = value.text()
    if word not in ("reachable", "unreachable"):
        raise InputError(f"{word[:60]!r} is neither reachable nor unreachable", value.where)
    side.reachable = word == "reachable"
    side.settle()


def _options(value: Node, known: tuple[str, ...]) -> Mapping[str, Node]:
    return {} if value.is_null else value.fields(known)


CALLS = ("subscribe", "poll", "unsubscribe", "close")
"""Steps in which the application calls its consumer: it has one thread."""
VERBS: Mapping[str, Callable[[Any, Node], None]] = {
    "subscribe": _subscribe,
    "poll": _poll,
    "unsubscribe": _unsubscribe,
    "close": _close,
    "callback_returns": _callback_returns,
    "listener": _listener,
    "answer": _answer,
    "fail": _fail,
    "wait": _wait,
    "metadata": _metadata,
    "coordinator": _coordinator,
}
