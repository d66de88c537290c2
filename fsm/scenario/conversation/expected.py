"""What a step of a conversation expects, as text to be compared with what was seen.

Each field has its own way of being written: partitions as a list, callbacks as `on_partitions_revoked: [orders-1]`,
requests by their API with those fields that matter. What is misspelt is an error with its line, never a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields

from fsm.errors import InputError
from fsm.member.events import ListenerMethod
from fsm.nodes import Node
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from fsm.scenario.story import Expected
from fsm.scenario.texts import (
    NOTHING,
    read_known,
    read_offsets,
    read_partitions,
    read_texts,
    show,
    show_api,
    show_list,
    show_offsets,
    show_partitions,
)
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
_IN_BYTES: Mapping[type, tuple[str, ...]] = {JoinGroupRequest: ("topics", "owned_partitions")}
APIS = {show_api(kind): tuple(f.name for f in fields(kind)) + _IN_BYTES.get(kind, ()) for kind in _REQUESTS}
"""The fields of each request that can be expected."""


def read_expected(node: Node, seen: Mapping[str, str]) -> Iterator[Expected]:
    """Everything a step expects. Raises `InputError` with the line for a field or a name that does not exist."""
    known = [name for name in seen if not name.startswith("sent ")]
    states = tuple(ConsumerState.__members__ if "epoch" in seen else ClassicState.__members__)
    for name, value in node.fields(known).items():
        if name == "sent":
            yield from _read_sent(value)
        elif name == "state":
            yield Expected(name, read_known(value, states, "state"), value.where)
        elif name == "transitions":
            yield Expected(name, show_list(_read_transition(item, states) for item in value.items()), value.where)
        else:
            yield Expected(name, _FIELDS.get(name, _read_scalar)(value), value.where)


def _read_transition(node: Node, states: Sequence[str]) -> str:
    source, to, target = node.text().partition(" to ")
    for state in (source, target):
        if not to or state not in states:
            raise InputError(f"{node.text()[:60]!r} is no transition", node.where, "write JOINING to STABLE")
    return node.text()


def _read_sent(node: Node) -> Iterator[Expected]:
    """The APIs in their order, and of each request the fields that are named."""
    requests = [_read_request(item) for item in node.items()]
    yield Expected("sent", show_list(api for api, _ in requests), node.where)
    for number, (api, given) in enumerate(requests, 1):
        for field, value in given.fields(APIS[api]).items() if given is not None else ():
            yield Expected(f"sent {number} {field}", _read_request_field(field, value), value.where)


def _read_request(node: Node) -> tuple[str, Node | None]:
    if isinstance(node.value, str):
        return read_known(node, tuple(APIS), "request"), None
    key, value = _read_pair(node, "request")
    return read_known(key, tuple(APIS), "request"), None if value.is_null else value


def _read_request_field(name: str, node: Node) -> str:
    if node.is_null:
        return NOTHING
    if name in ("topic_partitions", "owned_partitions"):
        return _read_partitions(node)
    if name == "offsets":
        return show_offsets(read_offsets(node))
    return _read_texts(node) if isinstance(node.value, list) else _read_scalar(node)


def _read_pair(node: Node, role: str) -> tuple[Node, Node]:
    """The one key of an item with its value."""
    pairs = list(node.mapping().values())
    if len(pairs) != 1:
        what = f"more than one {role} in an item" if pairs else f"no {role} in an item"
        raise InputError(what, pairs[1][0].where if pairs else node.where, "begin each with a dash")
    return pairs[0]


def _read_scalar(node: Node) -> str:
    return NOTHING if node.is_null else node.text()


def _read_partitions(node: Node) -> str:
    return show_partitions(read_partitions(node))


def _read_texts(node: Node) -> str:
    return show_list(read_texts(node))


def _read_commits(node: Node) -> str:
    commits = node.items() if isinstance(node.value, list) else [node]
    return show_list(show_offsets(read_offsets(commit))[1:-1] for commit in commits)


def _read_callback(node: Node) -> str:
    key, value = _read_pair(node, "callback")
    return f"{read_known(key, [m.value for m in ListenerMethod], 'callback')} {_read_partitions(value)}"


def _read_event(node: Node) -> str:
    key, value = _read_pair(node, "event")
    return f"{read_known(key, ('application', 'background'), 'queue')}: {value.text()}"


_FIELDS: Mapping[str, Callable[[Node], str]] = {
    "owned": _read_partitions,
    "fetchable": _read_partitions,
    "callbacks": lambda node: show_list(map(_read_callback, node.items())),
    "events": lambda node: show_list(map(_read_event, node.items())),
    "effects": _read_texts,
    "returned": _read_texts,
    "committed": _read_commits,
    "closed": lambda node: show(node.flag()),
}
"""How a field is written that is no plain text."""
