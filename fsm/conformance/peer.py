"""The interface of a walk to a coordinator, and our own coordinator behind it, without sockets.

Our requests and answers are encoded and decoded as on the wire, records as in the log. A coordinator that follows
another release than it is compared with shows the differences of the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from fsm.conformance.families import SEVERAL_VERSIONS, TOPICS
from fsm.conformance.follower import STARTED_MS, Expectation
from fsm.conformance.steps import Response, TopicChange, WalkRequest, first_image, record_group
from fsm.coordinator.host import Host
from fsm.coordinator.model.context import BrokerConfig, Context, Image
from fsm.coordinator.model.dialect import Choice, dialect
from fsm.coordinator.model.step import Answer, Step
from fsm.protocol.codec import decode, encode
from fsm.protocol.messages import APIS
from fsm.protocol.record_batches import batch_of, read_batches, write_batch
from fsm.protocol.records import Record, to_dump_json

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
}
"""Broker settings of walks; timers have families of their own."""

STEP_MS = 3
"""Duration of a request on this clock."""


class Observed(NamedTuple):
    """The observation of one step."""

    responses: tuple[Response, ...]
    records: tuple[Mapping[str, Any], ...]
    described: Mapping[str, Any] | None


class Peer(Protocol):
    """A coordinator to be walked: a broker on a socket, or our own in this process."""

    @property
    def release(self) -> str:
        """The dialect it is compared with."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The broker settings of groups, by Kafka's names."""

    @property
    def topics(self) -> Mapping[str, TopicChange]:
        """The topics at the start of the walk."""

    @property
    def keeps_log(self) -> bool:
        """Whether its records can be read."""

    @property
    def unsupported(self) -> Mapping[str, str]:
        """APIs that cannot be used, and why."""

    @property
    def versions(self) -> Mapping[str, range]:
        """Versions of the requests that are sent in several; without those that the peer does not support."""

    def now_ms(self) -> int:
        """The walk's clock."""

    def begin(self, group: str) -> str:
        """Begins a walk and returns the group's name, another one than given if the peer has such a group already."""

    def ask(self, n: int, request: WalkRequest, expected: Expectation) -> Observed:
        """Sends the request of step `n`, and waits for the expected results, with a timeout."""

    def wait(self, wait_ms: int) -> Observed:
        """Lets time pass."""

    def administer(self, action: str, topic: str, partitions: int) -> TopicChange:
        """Creates, grows or deletes a topic, and waits until the metadata shows it."""

    def close(self) -> None:
        """Closes its connections."""


class OwnCoordinator:
    """Our coordinator, for consecutive walks; each starts with a fresh one."""

    keeps_log = True

    def __init__(self, release: str, settings: Mapping[str, str], follows: str = "") -> None:
        """It is compared with `release` and follows that release or `follows`."""
        self.release = release
        self.settings = {**SETTINGS, **settings}
        self.unsupported: dict[str, str] = {}
        counts = enumerate(sorted(TOPICS.items()))
        self.topics = {name: TopicChange("create", name, _topic_id(i), count) for i, (name, count) in counts}
        rules, config = dialect(follows or release), BrokerConfig.of(self.settings)
        names_ids = Choice.OFFSET_COMMIT_HAS_TOPIC_ID in rules
        self.versions = {name: range(APIS[name].oldest, APIS[name].newest + names_ids) for name in SEVERAL_VERSIONS}
        self._fresh = Context(STARTED_MS, rules, config, first_image(self.topics))
        self.begin("")

    def now_ms(self) -> int:
        return self._now_ms

    def begin(self, group: str) -> str:
        self.group = group
        self._steps: list[Step[Any]] = []
        self.host = Host(self._fresh, resolves=False, on_step=self._steps.append)
        self._image = self._fresh.image
        self._versions: dict[int, int] = {}
        self._now_ms = self._offset = self._made = 0
        return group

    def ask(self, n: int, request: WalkRequest, expected: Expectation) -> Observed:
        _ = expected
        self._versions[n] = request.version
        self._now_ms += STEP_MS
        self._run_background()
        self._made += 1
        made = f"{self._made:08d}-0000-4000-8000-000000000000"
        message = _encode_and_decode(request.message, request.version)
        self.host.send(f"c-{request.client}", message, request.version, self._clock_ms(), fresh_id=made, token=n)
        self._run_background()
        return self._observe()

    def wait(self, wait_ms: int) -> Observed:
        self._now_ms += wait_ms
        self._run_background()
        return self._observe()

    def administer(self, action: str, topic: str, partitions: int) -> TopicChange:
        known = self._image.topics.get(topic)
        topic_id = _topic_id(self._image.version + 100) if known is None else known.topic_id
        change = TopicChange(action, topic, topic_id, partitions)
        self._image = change.apply(self._image)
        self._publish_image(self._image)
        return change

    def close(self) -> None:
        """Does nothing."""

    def _clock_ms(self) -> int:
        return STARTED_MS + self._now_ms

    def _publish_image(self, image: Image) -> None:
        """Passes the metadata image to the coordinator."""
        self.host.update(image)

    def _run_background(self) -> None:
        self.host.resolve(self._clock_ms())
        self.host.advance(STARTED_MS + self._now_ms)

    def _observe(self) -> Observed:
        steps = [*self._steps]
        self._steps.clear()
        responses = (self._respond(answer) for step in steps for answer in step.answers)
        records = (shown for step in steps for shown in self._append(step.records))
        return Observed(tuple(responses), tuple(records), record_group(self.host.describe(self.group)))

    def _respond(self, answer: Answer) -> Response:
        return Response(answer.token, self._now_ms, _encode_and_decode(answer.body, self._versions.pop(answer.token)))

    def _append(self, records: tuple[Record, ...]) -> list[Mapping[str, Any]]:
        """The records, written to bytes of the log and read back."""
        if not records:
            return []
        written = write_batch(batch_of(self._offset, records, self._clock_ms()))
        self._offset += len(records)
        found = (entry.decode() for batch in read_batches(written) for entry in batch.records)
        return [to_dump_json(record) for record in found if record.key[1] == self.group]


def _encode_and_decode(message: Any, version: int) -> Any:
    return decode(type(message), encode(message, version), version)


def _topic_id(number: int) -> str:
    return f"{number:020d}AA"
