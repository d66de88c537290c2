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

from fsm.errors import FsmError, InputError, LocalProtocolError
from fsm.kafka.events import GroupMembershipOperation
from fsm.member.calls import SubscriptionPattern
from fsm.nodes import Node, nearest
from fsm.scenario import words
from fsm.scenario.answers import answer_to, failure_of, number_of
from fsm.scenario.expecting import expected_of
from fsm.scenario.listener import listener_of
from fsm.scenario.members import Side, side_of, topics_of
from fsm.scenario.steps import NOTHING, Expected, Replay, Step

NAME = "conversation"
_KEYS = ("conversation", "dialect", "protocol", "config", "member_id", "listener", "topics", "commits", "steps")
STEPS_LIMIT = 2_000
"""More steps than that are no story."""


def reads(document: Node) -> bool:
    """Whether the document is a conversation."""
    return isinstance(document.value, dict) and NAME in document.value


def replay(document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
    """Leads the member through the conversation. Raises `InputError` with the line for what is no part of one."""
    given = document.fields(_KEYS, (NAME, "steps"))
    side, spoken = side_of(given, dialect, document.where)
    items = given["steps"].items()
    if not items:
        raise InputError("no steps", given["steps"].where, "a conversation has at least one")
    if len(items) > STEPS_LIMIT:
        raise InputError(f"{len(items)} steps", given["steps"].where, f"at most {STEPS_LIMIT}")
    steps = tuple(_step(side, item) for item in items)
    yield Replay(file, NAME, given[NAME].text(), spoken, steps)


def _step(side: Side, item: Node) -> Step:
    verb, value, where, extra = _parts(item)
    begun_ms = side.now_ms
    refused = _do(side, verb, value, where)
    happened, lines, arrows = side.record.take()
    seen = {"refused": refused or NOTHING, **side.seen(), **happened}
    expected = expected_of(extra["expect"], seen) if "expect" in extra else ()
    if not any(e.field == "refused" for e in expected):
        expected = (Expected("refused", NOTHING, where, implied=True), *expected)
    title = f"{begun_ms:>6} ms  {verb}{_told(value)}"
    note = extra["note"].text() if "note" in extra else ""
    before = (f"# {note}",) if note else ()
    problem = (f"cannot be done: {refused}",) if refused else ()
    return Step(title, where, seen, expected, (*before, *problem, *lines), arrows, note)


def _parts(item: Node) -> tuple[str, Node, str, dict[str, Node]]:
    """The verb of a step, what it says, its place, and what stands beside it."""
    if isinstance(item.value, str):
        _check_verb(item.value, item.where)
        return item.value, Node("", item.where, item.label, plain=True), item.where, {}
    mapping = item.mapping()
    extra = {name: value for name, (_, value) in mapping.items() if name in ("expect", "note")}
    verbs = [name for name in mapping if name not in extra]
    for name in verbs:
        _check_verb(name, mapping[name][0].where)
    if len(verbs) != 1:
        raise InputError(f"a step does one thing, not {len(verbs)}", item.where, "one of " + ", ".join(VERBS))
    key, value = mapping[verbs[0]]
    return verbs[0], value, key.where, extra


def _check_verb(name: str, where: str) -> None:
    if name not in VERBS:
        raise InputError(f"unknown step {name[:60]!r}", where, nearest(name, tuple(VERBS)))


def _told(value: Node) -> str:
    return "" if value.is_null else f" {words.one_line(value)}"


def _do(side: Side, verb: str, value: Node, where: str) -> str | None:
    """Does a step; why it could not be done, if it could not."""
    if verb in CALLS and side.inside is not None:
        return f"the application is inside {side.inside}()"
    try:
        return VERBS[verb](side, value)
    except InputError:
        raise
    except LocalProtocolError as problem:
        return str(problem)
    except FsmError as problem:
        raise InputError(str(problem), where) from None


# What a step does; a text says why it could not be done.


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


def _answer(side: Side, value: Node) -> str | None:
    given = {} if value.is_null else {name: node for name, (_, node) in value.mapping().items()}
    number = number_of(given, side.unanswered)
    if number is None:
        return "no such request waits for an answer"
    side.answer(number, answer_to(side.unanswered[number][0], value))
    return None


def _fail(side: Side, value: Node) -> str | None:
    given = value.fields(("with", "to"), ("with",)) if isinstance(value.value, dict) else {"with": value}
    failure = failure_of(given["with"])
    number = number_of(given, side.unanswered)
    if number is None:
        return "no such request waits for an answer"
    side.answer(number, failure)
    return None


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
VERBS: Mapping[str, Callable[[Any, Node], str | None]] = {
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
