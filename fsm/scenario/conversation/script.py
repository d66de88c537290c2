"""The syntax of a conversation: the coordinator's answers, and expectations.

    answer: {member_epoch: 1, assignment: [orders-0, orders-1]}        # to the oldest request without an answer
    answer: {to: 4, error_code: FENCED_MEMBER_EPOCH}                   # to the fourth request of the conversation
    answer: {generation_id: 1, leader: m-2}                            # to a JoinGroup
    fail: disconnected                                                 # no answer: disconnected, timed_out, ...

Omitted fields of an answer are those of success: no error, the epoch of the request, no new assignment. Each field of
an expectation has its own syntax: partitions as a list, callbacks as `on_partitions_revoked: [orders-1]`, requests by
their API with the relevant fields. A misspelt name is an error with its line, never a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from fsm.errors import InputError, LocalProtocolError
from fsm.member.events import ListenerMethod
from fsm.nodes import Node
from fsm.protocol import messages as m
from fsm.protocol.assignment import TopicPartitions, numbers_by_topic, topic_partitions
from fsm.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from fsm.protocol.error_codes import ErrorCode
from fsm.scenario import texts
from fsm.scenario.story import Expected
from fsm.tables.classic_member import State as ClassicState
from fsm.tables.consumer_member import State as ConsumerState

FAILURES = {"disconnected": m.DISCONNECTED, "timed_out": m.TIMED_OUT, "unsupported_version": m.UNSUPPORTED_VERSION}
INTERVAL_MS = 5_000
"""The default heartbeat interval of a coordinator."""
FIRST_NAME = "m-1"
"""The default member id for a new member of the classic protocol."""


def read_failure(node: Node) -> m.TransportFailure:
    """The failure of a request. Raises `InputError` for an unknown word."""
    return FAILURES[texts.read_known(node, tuple(FAILURES), "failure")]


def choose_request(given: Mapping[str, Node], unanswered: Mapping[int, Any]) -> int:
    """The request of an answer: `to`, or the oldest. Raises `LocalProtocolError` if no such request waits."""
    number = texts.read_number(given, "to", min(unanswered, default=0))
    if number not in unanswered:
        raise LocalProtocolError("no such request is pending")
    return number


def read_answer(request: object, node: Node) -> object:
    """The response to a request. Raises `InputError` with the line for a field that its response does not have."""
    keys, build = _ANSWERS[type(request)]
    given = {} if node.is_null else node.fields(("to", *keys))
    return build(request, given)


def _read_error(given: Mapping[str, Node]) -> ErrorCode:
    return _read_code(given["error_code"]) if "error_code" in given else ErrorCode.NONE


def _read_code(node: Node) -> ErrorCode:
    return ErrorCode[texts.read_known(node, tuple(ErrorCode.__members__), "Kafka error code")]


def _heartbeat_of_consumer(asked: m.ConsumerGroupHeartbeatRequest, given: Mapping[str, Node]) -> object:
    return m.ConsumerGroupHeartbeatResponse(
        texts.read_number(given, "member_epoch", asked.member_epoch),
        texts.read_number(given, "heartbeat_interval_ms", INTERVAL_MS),
        _read_target(given["assignment"]) if "assignment" in given else None,
        error_code=_read_error(given),
        error_message=texts.read_text(given, "error_message", "") or None,
        member_id=asked.member_id,
    )


def _read_target(node: Node) -> TopicPartitions | None:
    return None if node.is_null else topic_partitions(numbers_by_topic(texts.read_partitions(node)))


def _commit(_: m.OffsetCommitRequest, given: Mapping[str, Node]) -> object:
    pairs = given["errors"].mapping().values() if "errors" in given else ()
    return m.OffsetCommitResponse(
        m.commit_results((texts.read_partition(key), _read_code(value)) for key, value in pairs)
    )


def _join(asked: m.JoinGroupRequest, given: Mapping[str, Node]) -> object:
    members = given["members"].mapping() if "members" in given else {}
    return m.JoinGroupResponse(
        texts.read_number(given, "generation_id", -1),
        "consumer",
        texts.read_text(given, "protocol_name", asked.protocols[0].name),
        texts.read_text(given, "leader", "another"),
        texts.read_text(given, "member_id", asked.member_id or FIRST_NAME),
        tuple(m.JoinGroupResponseMember(n, metadata=_read_subscription(value)) for n, (_, value) in members.items()),
        error_code=_read_error(given),
    )


def _read_subscription(node: Node) -> bytes:
    given = node.fields(("topics", "owned_partitions"), ("topics",))
    owned = texts.read_partitions(given["owned_partitions"]) if "owned_partitions" in given else ()
    return encode_subscription(Subscription(texts.read_texts(given["topics"]), owned_partitions=owned))


def _sync(asked: m.SyncGroupRequest, given: Mapping[str, Node]) -> object:
    assigned = texts.read_partitions(given["assignment"]) if "assignment" in given else ()
    error = _read_error(given)
    data = b"" if error is not ErrorCode.NONE else encode_assignment(Assignment(assigned))
    return m.SyncGroupResponse(data, protocol_type="consumer", protocol_name=asked.protocol_name, error_code=error)


_ANSWERS: Mapping[type, tuple[tuple[str, ...], Callable[[Any, Mapping[str, Node]], object]]] = {
    m.ConsumerGroupHeartbeatRequest: (
        ("member_epoch", "heartbeat_interval_ms", "assignment", "error_code", "error_message"),
        _heartbeat_of_consumer,
    ),
    m.OffsetCommitRequest: (("errors",), _commit),
    m.JoinGroupRequest: (("generation_id", "protocol_name", "leader", "member_id", "members", "error_code"), _join),
    m.SyncGroupRequest: (("assignment", "error_code"), _sync),
    m.HeartbeatRequest: (("error_code",), lambda _, given: m.HeartbeatResponse(_read_error(given))),
    m.LeaveGroupRequest: (("error_code",), lambda _, given: m.LeaveGroupResponse(_read_error(given))),
}
"""For each type of request: the keys of its answer, and the function that makes it."""


# Expectations

_IN_BYTES: Mapping[type, tuple[str, ...]] = {m.JoinGroupRequest: ("topics", "owned_partitions")}
APIS = {texts.show_api(kind): tuple(f.name for f in fields(kind)) + _IN_BYTES.get(kind, ()) for kind in _ANSWERS}
"""The fields of each request that can be expected."""


def read_expected(node: Node, seen: Mapping[str, str]) -> Iterator[Expected]:
    """The expectations of a step. Raises `InputError` with the line for an unknown field or name."""
    known = [name for name in seen if not name.startswith("sent ")]
    states = tuple(ConsumerState.__members__ if "epoch" in seen else ClassicState.__members__)
    for name, value in node.fields(known).items():
        if name == "sent":
            yield from _read_sent(value)
        elif name == "state":
            yield Expected(name, texts.read_known(value, states, "state"), value.where)
        elif name == "transitions":
            yield Expected(name, texts.show_list(_read_transition(item, states) for item in value.items()), value.where)
        else:
            yield Expected(name, _FIELDS.get(name, _read_scalar)(value), value.where)


def _read_transition(node: Node, states: Sequence[str]) -> str:
    source, to, target = node.text().partition(" to ")
    for state in (source, target):
        if not to or state not in states:
            raise InputError(f"{node.text()[:60]!r} is not a transition", node.where, "write JOINING to STABLE")
    return node.text()


def _read_sent(node: Node) -> Iterator[Expected]:
    """The APIs in order, and the named fields of each request."""
    requests = [_read_request(item) for item in node.items()]
    yield Expected("sent", texts.show_list(api for api, _ in requests), node.where)
    for number, (api, given) in enumerate(requests, 1):
        for field, value in given.fields(APIS[api]).items() if given is not None else ():
            yield Expected(f"sent {number} {field}", _read_request_field(field, value), value.where)


def _read_request(node: Node) -> tuple[str, Node | None]:
    if isinstance(node.value, str):
        return texts.read_known(node, tuple(APIS), "request"), None
    key, value = _read_pair(node, "request")
    return texts.read_known(key, tuple(APIS), "request"), None if value.is_null else value


def _read_request_field(name: str, node: Node) -> str:
    if node.is_null:
        return texts.NOTHING
    if name in ("topic_partitions", "owned_partitions"):
        return _read_partitions(node)
    if name == "offsets":
        return texts.show_offsets(texts.read_offsets(node))
    return _read_texts(node) if isinstance(node.value, list) else _read_scalar(node)


def _read_pair(node: Node, role: str) -> tuple[Node, Node]:
    pairs = list(node.mapping().values())
    if len(pairs) != 1:
        what = f"more than one {role} in an item" if pairs else f"no {role} in an item"
        raise InputError(what, pairs[1][0].where if pairs else node.where, "begin each with a dash")
    return pairs[0]


def _read_scalar(node: Node) -> str:
    return texts.NOTHING if node.is_null else node.text()


def _read_partitions(node: Node) -> str:
    return texts.show_partitions(texts.read_partitions(node))


def _read_texts(node: Node) -> str:
    return texts.show_list(texts.read_texts(node))


def _read_commits(node: Node) -> str:
    commits = node.items() if isinstance(node.value, list) else [node]
    return texts.show_list(texts.show_offsets(texts.read_offsets(commit))[1:-1] for commit in commits)


def _read_callback(node: Node) -> str:
    key, value = _read_pair(node, "callback")
    return f"{texts.read_known(key, [one.value for one in ListenerMethod], 'callback')} {_read_partitions(value)}"


def _read_event(node: Node) -> str:
    key, value = _read_pair(node, "event")
    return f"{texts.read_known(key, ('application', 'background'), 'queue')}: {value.text()}"


_FIELDS: Mapping[str, Callable[[Node], str]] = {
    "owned": _read_partitions,
    "fetchable": _read_partitions,
    "callbacks": lambda node: texts.show_list(map(_read_callback, node.items())),
    "events": lambda node: texts.show_list(map(_read_event, node.items())),
    "effects": _read_texts,
    "returned": _read_texts,
    "committed": _read_commits,
    "closed": lambda node: texts.show(node.flag()),
}
"""The parsers of fields that are not plain text."""
