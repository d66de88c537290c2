"""Steps of a walk: a client's request, and the coordinator's answers, records and description."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fsm.coordinator.model.context import Image, Topic
from fsm.coordinator.model.persistent import PersistentMap
from fsm.protocol import messages as m
from fsm.protocol.codec import API_OF


class WalkRequest(NamedTuple):
    """A request of a step."""

    client: str
    message: Any
    version: int
    why: str

    @property
    def api(self) -> str:
        """Kafka's name: `JoinGroup`."""
        return API_OF[type(self.message)].name


class Response(NamedTuple):
    """An answer that arrived during a step."""

    to: int
    """The step that it answers."""
    t_ms: int
    message: Any


class TopicChange(NamedTuple):
    """A change of the topics: create, grow, delete."""

    action: str
    topic: str
    topic_id: str
    partitions: int
    """0 for a deleted topic."""

    def apply(self, image: Image) -> Image:
        """The metadata after the change."""
        if self.action == "delete":
            return Image(image.topics.without(self.topic), image.version + 1)
        return Image(image.topics.set(self.topic, Topic(self.topic_id, self.partitions)), image.version + 1)


def first_image(topics: Mapping[str, TopicChange]) -> Image:
    """The metadata at the start of a walk."""
    return Image(PersistentMap({name: Topic(topic.topic_id, topic.partitions) for name, topic in topics.items()}), 1)


class WalkStep(NamedTuple):
    """One step of a walk: a request, a wait, or a change of the topics."""

    n: int
    t_ms: int
    request: WalkRequest | None
    wait_ms: int
    admin: TopicChange | None
    responses: tuple[Response, ...]
    records: tuple[Mapping[str, Any], ...]
    """In the form of Kafka's tools."""
    described: Mapping[str, Any] | None
    """None if the description is unchanged, empty if there is no such group."""

    def __str__(self) -> str:
        if self.request:
            return f"{self.n} {self.request.api} of {self.request.client} ({self.request.why})"
        return f"{self.n} wait {self.wait_ms} ms" if self.admin is None else f"{self.n} {' '.join(self.admin[:2])}"

    @property
    def answer(self) -> Any:
        """The response to the step's request, None if it did not arrive within the step."""
        return next((response.message for response in self.responses if response.to == self.n), None)


CLASSIC = 0
"""The member type of a classic member in a consumer group."""


def record_group(group: m.DescribedConsumerGroup | m.DescribedGroup | None) -> Mapping[str, Any] | None:
    """The description in the form of recordings; None if there is no such group."""
    if group is None:
        return None
    if isinstance(group, m.DescribedConsumerGroup):
        return {
            "type": "consumer",
            "state": group.group_state,
            "epoch": group.group_epoch,
            "assignment_epoch": group.assignment_epoch,
            "assignor": group.assignor_name,
            "members": {member.member_id: _record_member(member) for member in group.members},
        }
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


def _record_member(member: m.DescribedConsumerGroupMember) -> Mapping[str, Any]:
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


def _by_name(topics: Iterable[m.DescribedTopicPartitions]) -> Mapping[str, list[int]]:
    return {topic.topic_name: sorted(topic.partitions) for topic in topics}
