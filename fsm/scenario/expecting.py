"""What a step of a conversation expects, as text to be compared with what was seen.

Each field has its own way of being written: partitions as a list, callbacks as `on_partitions_revoked: [orders-1]`,
requests by their API with those fields that matter. What is misspelt is an error with its line, never a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields

from fsm.errors import InputError
from fsm.member.events import ListenerMethod
from fsm.nodes import Node, nearest
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from fsm.scenario import words
from fsm.scenario.steps import NOTHING, Expected
from fsm.tables.classic_member import State as ClassicState
from fsm.tables.consumer_member import State as ConsumerState

_REQUESTS = (
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
)
_SAID_IN_BYTES: Mapping[type, tuple[str, ...]] = {JoinGroupRequest: ("topics", "owned_partitions")}
APIS = {words.api_of(kind): tuple(f.name for f in fields(kind)) + _SAID_IN_BYTES.get(kind, ()) for kind in _REQUESTS}
"""The fields of each request that can be expected."""
_PARTITION_FIELDS = ("topic_partitions", "owned_partitions")


def expected_of(node: Node, seen: Mapping[str, str]) -> tuple[Expected, ...]:
    """Everything a step expects. Raises `InputError` with the line for a field or a name that does not exist."""
    known = [name for name in seen if not name.startswith("sent ")]
    states = tuple(ConsumerState.__members__ if "epoch" in seen else ClassicState.__members__)
    return tuple(e for name, value in node.fields(known).items() for e in _expected(name, value, states))


def _expected(name: str, node: Node, states: Sequence[str]) -> Iterator[Expected]:
    if name == "sent":
        yield from _sent(node)
    elif name == "state":
        yield Expected(name, _known(node, states, "state"), node.where)
    elif name == "transitions":
        yield Expected(name, words.listed(_transition(item, states) for item in node.items()), node.where)
    else:
        yield Expected(name, _WRITTEN.get(name, _scalar)(node), node.where)


def _known(node: Node, names: Sequence[str], role: str) -> str:
    if node.text() not in names:
        raise InputError(f"{node.text()[:60]!r} is no {role}", node.where, nearest(node.text(), names))
    return node.text()


def _transition(node: Node, states: Sequence[str]) -> str:
    source, to, target = node.text().partition(" to ")
    for state in (source, target):
        if not to or state not in states:
            raise InputError(f"{node.text()[:60]!r} is no transition", node.where, "write JOINING to STABLE")
    return node.text()


# Requests


def _sent(node: Node) -> Iterator[Expected]:
    """The APIs in their order, and of each request the fields that are named."""
    requests = [_request(item) for item in node.items()]
    yield Expected("sent", words.listed(api for api, _ in requests), node.where)
    for number, (api, given) in enumerate(requests, 1):
        for field, value in given.fields(APIS[api]).items() if given is not None else ():
            yield Expected(f"sent {number} {field}", _request_field(field, value), value.where)


def _request(node: Node) -> tuple[str, Node | None]:
    if isinstance(node.value, str):
        return _known(node, tuple(APIS), "request"), None
    (key, value), *more = node.mapping().values()
    if more:
        raise InputError("more than one request in an item", more[0][0].where, "begin each with a dash")
    return _known(key, tuple(APIS), "request"), None if value.is_null else value


def _request_field(name: str, node: Node) -> str:
    if node.is_null:
        return NOTHING
    if name in _PARTITION_FIELDS:
        return words.named(words.partitions_of(node))
    if name == "offsets":
        return words.offsets(words.offsets_of(node))
    return words.listed(words.texts(node)) if isinstance(node.value, list) else _scalar(node)


# Other fields


def _scalar(node: Node) -> str:
    return NOTHING if node.is_null else node.text()


def _partitions(node: Node) -> str:
    return words.named(words.partitions_of(node))


def _texts(node: Node) -> str:
    return words.listed(words.texts(node))


def _committed(node: Node) -> str:
    commits = node.items() if isinstance(node.value, list) else [node]
    return words.listed(words.offsets(words.offsets_of(commit))[1:-1] for commit in commits)


def _callbacks(node: Node) -> str:
    return words.listed(_callback(item) for item in node.items())


def _callback(node: Node) -> str:
    (key, value), *more = node.mapping().values()
    if more:
        raise InputError("more than one callback in an item", more[0][0].where, "begin each with a dash")
    return f"{_known(key, [m.value for m in ListenerMethod], 'callback')} {_partitions(value)}"


def _events(node: Node) -> str:
    return words.listed(_event(item) for item in node.items())


def _event(node: Node) -> str:
    (key, value), *more = node.mapping().values()
    if more:
        raise InputError("more than one event in an item", more[0][0].where, "begin each with a dash")
    return f"{_known(key, ('application', 'background'), 'queue')}: {value.text()}"


def _flag(node: Node) -> str:
    return words.plain(node.flag())


_WRITTEN: Mapping[str, Callable[[Node], str]] = {
    "owned": _partitions,
    "fetchable": _partitions,
    "callbacks": _callbacks,
    "events": _events,
    "effects": _texts,
    "returned": _texts,
    "committed": _committed,
    "closed": _flag,
}
