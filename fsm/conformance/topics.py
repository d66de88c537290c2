"""Creates, grows and deletes topics of a broker, and waits until its metadata shows the change."""

from __future__ import annotations

import time

from fsm.conformance.steps import TopicChange
from fsm.errors import InputError
from fsm.protocol.json_form import error_name
from fsm.protocol.messages import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from fsm.wire.connection import Connection
from fsm.wire.dialogue import PeerError

READY_S, TIMEOUT_MS = 60.0, 10_000


class Topics:
    """The topics of one broker."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.made: list[str] = []
        """Topics that walks created and did not delete."""

    def all(self) -> dict[str, TopicChange]:
        """Every topic by name: a regular expression may match any of them."""
        found = [topic for topic in metadata(self.connection).topics if not topic.error_code]
        return {t.name: TopicChange("create", t.name, t.topic_id, len(t.partitions)) for t in found if t.name}

    def partitions(self, name: str) -> int:
        """The number of partitions of the topic; 0 if there is no such topic."""
        found = self._find(name)
        return len(found.partitions) if found else 0

    def ensure(self, name: str, partitions: int) -> None:
        """Creates the topic if it is missing.

        Raises `PeerError` if the broker refuses, `InputError` if the topic has another number of partitions.
        """
        found = self.partitions(name)
        if not found:
            self._ask("create", name, partitions)
            self._wait_until_settled("create", name, partitions)
        elif found != partitions:
            what = f"topic {name} has {found} partitions, a walk needs {partitions}"
            raise InputError(what, self.connection.peer, "delete it; it is recreated")

    def change(self, action: str, name: str, partitions: int) -> TopicChange:
        """Creates, grows or deletes a topic. Raises `PeerError` if the broker refuses."""
        self._ask(action, name, partitions)
        if action == "create":
            self.made.append(name)
        elif action == "delete":
            self.made.remove(name)
        return self._wait_until_settled(action, name, partitions)

    def remove_made(self) -> None:
        """Deletes the topics left by walks. Raises `PeerError` if the broker refuses."""
        for name in list(self.made):
            self.change("delete", name, 0)

    def _find(self, name: str) -> MetadataResponseTopic | None:
        return next((topic for topic in metadata(self.connection, name).topics if not topic.error_code), None)

    def _wait_until_settled(self, action: str, name: str, partitions: int) -> TopicChange:
        """The topic, when the broker's metadata shows the change. Raises `PeerError` after `READY_S`."""
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            found = self._find(name)
            if len(found.partitions) == partitions if found else action == "delete":
                return TopicChange(action, name, found.topic_id if found else "", partitions)
            time.sleep(0.05)
        raise PeerError(f"{self.connection.peer}: topic {name} is not ready {READY_S:g} s after: {action}")

    def _ask(self, action: str, name: str, partitions: int) -> None:
        call = self.connection.call
        if action == "create":
            results = call(CreateTopicsRequest((CreatableTopic(name, partitions, 1),), TIMEOUT_MS)).topics
        elif action == "grow":
            results = call(CreatePartitionsRequest((CreatePartitionsTopic(name, partitions),), TIMEOUT_MS)).results
        else:
            results = call(DeleteTopicsRequest(topic_names=(name,), timeout_ms=TIMEOUT_MS)).responses
        if error := results[0].error_code:
            raise PeerError(f"{self.connection.peer}: cannot {action} topic {name}: {error_name(error)}")


def metadata(connection: Connection, *names: str) -> MetadataResponse:
    """The Metadata response for these topics, or for all."""
    topics = tuple(MetadataRequestTopic(name=name) for name in names) if names else None
    found: MetadataResponse = connection.call(MetadataRequest(topics, allow_auto_topic_creation=False))
    return found
