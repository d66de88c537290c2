"""Scripted faults: which requests a rule matches, and their treatment.

A rule is data. It matches requests by client, API, group, member, epoch, and so on, and does one thing to a number of
them. The first matching rule applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from fsm.protocol.assignment import TopicPartition
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, FindCoordinatorRequest, OffsetFetchRequest

ALWAYS = 1 << 31


class Do(Enum):
    """The kinds of faults, by their words in a file of rules."""

    REFUSE = "refuse"
    """It is answered with an error and not handled."""
    LOSE = "lose"
    """It is handled, its answer is lost, and the connection is closed."""
    MUTE = "mute"
    """It is handled and never answered; the connection stays open and answers nothing more."""
    SWALLOW = "swallow"
    """It is neither handled nor answered; the connection stays open and answers nothing more."""
    DELAY = "delay_ms"
    """It is handled with this delay; later requests on the same connection wait."""
    DELAY_ANSWER = "delay_answer_ms"
    """It is handled at once and answered with this delay."""
    CLOSE = "close"
    """It is not handled, and the connection is closed."""
    DUPLICATE = "duplicate"
    """It is handled twice; the second answer is lost."""
    REWRITE = "rewrite"
    """Fields of its answer are replaced."""
    THROTTLE = "throttle_ms"
    """Its answer has this throttle time, and the connection answers nothing until then."""
    PAUSE = "pause_ms"
    """Before it is handled, every broker pauses for this long: no request, no timer."""
    EXPIRE = "expire"
    """Before it is handled, the session of its member ends."""
    MOVE = "move"
    """Before it is handled, its group moves to another coordinator, or to the same one, which reloads it."""


@dataclass(slots=True)
class Rule:
    """A rule: the requests that it matches, and its fault. `met` and `done` are counters."""

    do: Do
    code: ErrorCode = ErrorCode.NONE
    """The error code of `REFUSE`."""
    ms: int = 0
    """The duration of faults that take time."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The values of `REWRITE`, by the field of the response."""
    name: str = ""
    client: str | None = None
    """The client id."""
    api: str | None = None
    version: int | None = None
    group: str | None = None
    member: str | None = None
    epoch: int | None = None
    """The member epoch or generation that the request names: 0 joins, -1 and -2 leave."""
    full: bool | None = None
    """For consumer heartbeats: whether the request has all fields (subscription, timeout, partitions)."""
    partition: TopicPartition | None = None
    """A partition that the request names by its topic's name, or a heartbeat reports as owned."""
    nth: int = 1
    """The first of the matching requests to which it applies."""
    times: int = 1
    """The number of requests to which it applies from there on."""
    after_ms: float = 0.0
    """Since the brokers began."""
    met: int = 0
    done: int = 0

    def meets(self, seen: Seen) -> bool:
        """Whether the rule applies to the request; counts matches."""
        if self.done >= self.times or not self._fits(seen):
            return False
        self.met += 1
        if self.met < self.nth:
            return False
        self.done += 1
        return True

    def _fits(self, seen: Seen) -> bool:
        request = seen.request
        return (
            self.api in (None, seen.api)
            and self.client in (None, seen.client_id)
            and self.version in (None, seen.version)
            and self.full in (None, is_full(request))
            and self.after_ms <= seen.since_ms
            and (self.epoch is None or self.epoch in epochs_of(request))
            and (self.group is None or self.group in groups_of(request))
            and (self.member is None or any(member == self.member for _, member in members_of(request)))
            and (self.partition is None or self.partition in partitions_of(request, seen.names))
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as rules see it."""

    api: str
    version: int
    client_id: str | None
    request: Any
    since_ms: float
    """Since the brokers began."""
    names: Mapping[str, str]
    """Topic names by id."""


EPOCHS = ("member_epoch", "generation_id", "generation_id_or_member_epoch")


def groups_of(request: Any) -> frozenset[str]:
    """The groups that a request names."""
    found = {getattr(request, "group_id", "")}
    for name in ("groups", "group_ids", "groups_names", "coordinator_keys"):
        found |= {one if isinstance(one, str) else one.group_id for one in getattr(request, name, ())}
    if isinstance(request, FindCoordinatorRequest):
        found.add(request.key)
    return frozenset(found - {""})


def members_of(request: Any) -> frozenset[tuple[str, str]]:
    """The members that a request names, each with its group."""
    group_id = getattr(request, "group_id", "")
    found = {(group_id, getattr(request, "member_id", ""))}
    found |= {(group_id, one.member_id) for one in getattr(request, "members", ())}
    if isinstance(request, OffsetFetchRequest):
        found |= {(one.group_id, one.member_id or "") for one in request.groups}
    return frozenset(one for one in found if one[1])


def epochs_of(request: Any) -> frozenset[int]:
    """The member epochs or generations that a request names."""
    found = {getattr(request, name) for name in EPOCHS if hasattr(request, name)}
    if isinstance(request, OffsetFetchRequest):
        found |= {one.member_epoch for one in request.groups}
    return frozenset(found)


def partitions_of(request: Any, names: Mapping[str, str]) -> frozenset[TopicPartition]:
    """The partitions that a request names, without those of unknown topic ids."""
    found: set[TopicPartition] = set()
    for topic_id, numbers in getattr(request, "topic_partitions", None) or ():
        found |= {(names.get(topic_id, topic_id), number) for number in numbers}
    topics = [*(getattr(request, "topics", None) or ()), *getattr(request, "topic_data", ())]
    for group in getattr(request, "groups", ()):
        topics += getattr(group, "topics", None) or ()
    for topic in topics:
        name = (
            getattr(topic, "name", "") or getattr(topic, "topic", "") or names.get(getattr(topic, "topic_id", ""), "")
        )
        for field_name in ("partitions", "partition_indexes", "partition_data"):
            for one in getattr(topic, field_name, ()):
                number = next(
                    (getattr(one, n) for n in ("partition_index", "partition", "index") if hasattr(one, n)), one
                )
                if isinstance(number, int):
                    found.add((name, number))
    return frozenset(found)


def is_full(request: Any) -> bool | None:
    """Whether a heartbeat of a consumer group has all fields, so that the coordinator repeats the assignment.

    None for other requests.
    """
    if not isinstance(request, ConsumerGroupHeartbeatRequest):
        return None
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return subscribes and request.topic_partitions is not None and request.rebalance_timeout_ms != -1
