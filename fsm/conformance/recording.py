"""Recorded walks: what one seeded client asked a coordinator, and what that answered, wrote and described.

A recording is lines of JSON: a head, the topics, then one line a step, which is a request, a wait, or a change of the
topics. Nothing here judges; `read` gives the lines as values, in the shapes that the recorder wrote.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from fsm.errors import InputError
from fsm.protocol.json_form import from_recorded
from fsm.protocol.messages import (
    APIS,
    DescribedConsumerGroup,
    DescribedConsumerGroupMember,
    DescribedGroup,
    DescribedTopicPartitions,
)

TIMED_SET = "time"
"""The recorder's name for families in which clocks decide."""


class Response(NamedTuple):
    """An answer that arrived during a step."""

    to: int
    """The step it answers."""
    t_ms: int
    body: Mapping[str, Any]


class Asked(NamedTuple):
    """A request of a step."""

    client: str
    api: str
    version: int
    body: Mapping[str, Any]
    why: str

    @property
    def message(self) -> Any:
        """The request itself. Raises `InputError` for an API that is not known, or a body that is none of its own."""
        if self.api not in APIS:
            raise InputError(f"no API {self.api!r} of the group coordinator")
        return from_recorded(APIS[self.api].request, self.body, self.version)


class Admin(NamedTuple):
    """A change of the topics: create, grow, delete."""

    action: str
    topic: str
    topic_id: str
    partitions: int
    """0 for a topic that is deleted."""


class RecordedStep(NamedTuple):
    """One line of a walk."""

    n: int
    t_ms: int
    request: Asked | None
    wait_ms: int
    admin: Admin | None
    responses: tuple[Response, ...]
    records: tuple[Mapping[str, Any], ...]
    """As Kafka's tools print them."""
    described: Mapping[str, Any] | None
    """None where the description stayed as it was, empty where nobody knows the group."""

    def __str__(self) -> str:
        if self.request:
            return f"{self.n} {self.request.api} of {self.request.client} ({self.request.why})"
        return f"{self.n} wait {self.wait_ms} ms" if self.admin is None else f"{self.n} {' '.join(self.admin[:2])}"


@dataclass(frozen=True)
class Recording:
    """One walk of one group."""

    walk: str
    release: str
    family: str
    group: str
    settings: Mapping[str, str]
    """Broker settings that differ from the defaults, by Kafka's names."""
    is_timed: bool
    topics: Mapping[str, Admin]
    """What there was when the walk began."""
    steps: tuple[RecordedStep, ...]

    @property
    def name(self) -> str:
        return f"{self.release}/{self.walk}"

    @cached_property
    def answers(self) -> Mapping[int, Response]:
        """The answer to each request that got one, by the number of its step."""
        return {response.to: response for step in self.steps for response in step.responses}

    def lasts_ms(self, at: int) -> int:
        """When the step at this index was over, at the latest."""
        step = self.steps[at]
        if at + 1 < len(self.steps):
            return self.steps[at + 1].t_ms
        return max([step.t_ms + step.wait_ms, *(response.t_ms for response in step.responses)])


def is_recording(head: Any) -> bool:
    """Whether this first line begins a recorded walk."""
    return isinstance(head, dict) and {"walk", "family", "group", "config"} <= head.keys()


def read(lines: Iterable[Mapping[str, Any]]) -> Recording:
    """The recording of these lines. Raises `InputError` naming what a line lacks."""
    given = iter(lines)
    try:
        head, topics = next(given), next(given)
        return _recording(head, topics["topics"], given)
    except StopIteration:
        raise InputError("a recorded walk begins with two lines: its head and the topics") from None
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        raise InputError(f"not a recorded walk: {type(problem).__name__} {problem}") from None


def _recording(head: Mapping[str, Any], topics: Mapping[str, Any], steps: Iterator[Mapping[str, Any]]) -> Recording:
    config = head["config"]
    settings = dict(setting.split("=", 1) for setting in config.get("config", "").split())
    found = {name: Admin("create", name, topic["id"], topic["partitions"]) for name, topic in topics.items()}
    return Recording(
        head["walk"],
        config["kafka"],
        head["family"],
        head["group"],
        settings,
        config.get("set") == TIMED_SET,
        found,
        tuple(_step(line) for line in steps),
    )


def _step(line: Mapping[str, Any]) -> RecordedStep:
    return RecordedStep(
        line["n"],
        line["t_ms"],
        _asked(line) if "api" in line else None,
        line.get("wait_ms", 0),
        Admin(line["admin"], line["name"], line["id"], line.get("partitions", 0)) if "admin" in line else None,
        tuple(Response(r["to"], r["t_ms"], r["response"]) for r in line.get("responses", ())),
        tuple(line["records"]),
        line.get("group"),
    )


def _asked(line: Mapping[str, Any]) -> Asked:
    return Asked(line["client"], line["api"], line["version"], line["request"], line.get("why") or "")


CLASSIC = 0
"""The member type of a classic member in a consumer group."""


def recorded_group(group: DescribedConsumerGroup | DescribedGroup | None) -> Mapping[str, Any] | None:
    """The description as recordings have it; None where nobody knows the group."""
    if group is None:
        return None
    if isinstance(group, DescribedGroup):
        return _recorded_classic(group)
    return {
        "type": "consumer",
        "state": group.group_state,
        "epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": group.assignor_name,
        "members": {member.member_id: _recorded_member(member) for member in group.members},
    }


def _recorded_member(member: DescribedConsumerGroupMember) -> Mapping[str, Any]:
    return {
        "epoch": member.member_epoch,
        "instance": member.instance_id,
        "rack": member.rack_id,
        "names": sorted(member.subscribed_topic_names),
        "regex": member.subscribed_topic_regex or None,
        "classic": member.member_type == CLASSIC,
        "assigned": _by_name(member.assignment),
        "target": _by_name(member.target_assignment),
    }


def _by_name(topics: Iterable[DescribedTopicPartitions]) -> Mapping[str, list[int]]:
    return {topic.topic_name: sorted(topic.partitions) for topic in topics}


def _recorded_classic(group: DescribedGroup) -> Mapping[str, Any]:
    return {
        "type": "classic",
        "state": group.group_state,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol_data,
        "members": {
            member.member_id: {
                "instance": member.group_instance_id,
                "metadata": b64encode(member.member_metadata).decode(),
                "assignment": b64encode(member.member_assignment).decode(),
            }
            for member in group.members
        },
    }
