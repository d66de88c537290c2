"""Checks of an answer before a member gets it: it must be one to its request, with fields of their declared types.

The member does not check types, so a wrong value would fail later, or silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fsm.errors import RemoteProtocolError
from fsm.protocol import messages as m
from fsm.protocol.assignment import TopicNames
from fsm.protocol.check import find_fault, quick_check
from fsm.protocol.codec import API_OF

QUICK_CHECKS: dict[tuple[type[Any], type[Any]], Callable[[Any], bool]] = {
    (request, response): quick_check(response)
    for request, response in (
        (m.ConsumerGroupHeartbeatRequest, m.ConsumerGroupHeartbeatResponse),
        (m.HeartbeatRequest, m.HeartbeatResponse),
        (m.OffsetCommitRequest, m.OffsetCommitResponse),
    )
}
"""Fast checks of frequent answers, by the types of request and answer; if one holds, `check_answer` is not needed."""


def check_answer(request: object, answer: object, list_names: Callable[[], Mapping[str, str]]) -> None:
    """Raises `RemoteProtocolError` for an answer to another request, or with a field of another type.

    `list_names` returns topic names, to detect an assignment that has names instead of ids.
    """
    if isinstance(answer, m.TransportFailure):
        return
    what = type(answer).__name__
    if type(request) not in API_OF or not isinstance(answer, API_OF[type(request)].response):
        raise RemoteProtocolError(f"{what} does not answer {type(request).__name__}")
    if isinstance(answer, m.ConsumerGroupHeartbeatResponse) and answer.assignment is not None:
        _check_assignment(answer.assignment, list_names())
    if fault := find_fault(answer):
        raise RemoteProtocolError(f"{what}{fault}")


def _check_assignment(given: Any, names: Mapping[str, str]) -> None:
    what = f"{m.ConsumerGroupHeartbeatResponse.__name__}.assignment"
    if not (isinstance(given, tuple) and all(_is_topic(each) for each in given)):
        raise RemoteProtocolError(f"{what} is {given!r}; give topic ids, as ((topic_id, (0, 1)),)")
    unknown = [topic_id for topic_id, _ in given if topic_id not in names]
    ids = {name: topic_id for topic_id, name in names.items()} if unknown else {}
    for topic_id in unknown:
        if topic_id in ids:
            raise RemoteProtocolError(f"{what} names topic {topic_id!r}; give its id, {ids[topic_id]!r}")


def _is_topic(given: Any) -> bool:
    match given:
        case (str(), tuple(numbers)):
            return isinstance(given, tuple) and all(isinstance(number, int) and number >= 0 for number in numbers)
    return False


def check_names(names: object) -> None:
    """Raises `RemoteProtocolError` for metadata of a KIP-848 member that are not `TopicNames`."""
    if not isinstance(names, TopicNames):
        raise RemoteProtocolError(f"the metadata are {type(names).__name__}; give TopicNames({{topic_id: name}})")


def check_counts(counts: object) -> None:
    """Raises `RemoteProtocolError` for metadata of a classic member that are not partition counts."""
    if not is_counts(counts):
        raise RemoteProtocolError(f"the metadata are {counts!r}; give ((topic, partitions), ...)")


def is_counts(given: object) -> bool:
    """Whether they are the metadata of a classic member."""
    return isinstance(given, tuple) and all(
        isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str) and isinstance(each[1], int)
        for each in given
    )
