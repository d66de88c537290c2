"""Our own coordinator as a peer, in this process and on a clock of its own: what a broker would be, without sockets.

Every request and every answer goes through the bytes of the wire, every record through the bytes of the log. A peer in
another dialect than it is held against shows where two releases part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fsm.conformance.families import TOPICS
from fsm.conformance.follower import HOST, STARTED_MS, Expectation
from fsm.conformance.peer import Observed
from fsm.conformance.recording import Admin, Asked, Response, recorded_group
from fsm.coordinator.coordinator import (
    Coordinator,
    describe,
    handle,
    handle_resolution,
    handle_timer,
    image_changed,
    next_deadline_ms,
    resolutions,
)
from fsm.coordinator.model.context import BrokerConfig, Context, Image, Topic
from fsm.coordinator.model.dialect import dialect
from fsm.coordinator.model.persistent import FrozenMap
from fsm.coordinator.model.step import Answer, Request, Step
from fsm.protocol.codec import decode, encode
from fsm.protocol.json_form import to_recorded
from fsm.protocol.printed_records import as_dumped
from fsm.protocol.record_batches import batch_of, read_batches, write_batch
from fsm.protocol.records import Record

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
}
"""What walks want to get on; timers are walked by families of their own."""

STEP_MS = 3
"""How long a request takes on this clock."""


class Own:
    """Our coordinator, asked by one walk after the other: each finds it as it was made."""

    keeps_log = True
    log: bytes
    """Everything that was appended in this walk, as a segment."""

    def __init__(self, release: str, settings: Mapping[str, str], follows: str = "") -> None:
        """Held against one release, it follows that or another."""
        self.release = release
        self.settings = {**SETTINGS, **settings}
        self.unspoken: dict[str, str] = {}
        self.topics = {name: _created(name, i, count) for i, (name, count) in enumerate(sorted(TOPICS.items()))}
        topics = FrozenMap({name: Topic(topic.topic_id, topic.partitions) for name, topic in self.topics.items()})
        rules, config = dialect(follows or release), BrokerConfig.of(self.settings)
        self._fresh = Context(STARTED_MS, rules, config, Image(topics, 1))
        self.begin("")

    def now_ms(self) -> int:
        return self._now_ms

    def begin(self, group: str) -> str:
        self.group = group
        self.state = Coordinator()
        self.log = b""
        self._context = self._fresh
        self._asked: dict[int, Asked] = {}
        self._now_ms = self._offset = self._made = 0
        return group

    def ask(self, n: int, asked: Asked, expected: Expectation) -> Observed:
        _ = expected
        self._asked[n] = asked
        self._now_ms += STEP_MS
        before = self._background()
        self._made += 1
        message = _sent(asked.message, asked.version)
        made = f"{self._made:08d}-0000-4000-8000-000000000000"
        request = Request(n, f"c-{asked.client}", HOST, asked.version, message, made)
        step = handle(self.state, request, self._context_now())
        self.state = step.state
        return self._observed([*before, step, *self._background()])

    def wait(self, wait_ms: int) -> Observed:
        self._now_ms += wait_ms
        return self._observed(self._background())

    def administer(self, action: str, topic: str, partitions: int) -> Admin:
        before = self._context.image
        old = before.topics.get(topic)
        changed = _created(topic, before.version + 100, partitions)._replace(action=action)
        if old is not None:
            changed = changed._replace(topic_id=old.topic_id)
        topics = before.topics.without(topic)
        if action != "delete":
            topics = before.topics.set(topic, Topic(changed.topic_id, partitions))
        self._context = replace(self._context, image=Image(topics, before.version + 1))
        self.state = image_changed(self.state, before, self._context)
        return changed

    def close(self) -> None:
        """Nothing to give back."""

    def _context_now(self) -> Context:
        return replace(self._context, now_ms=STARTED_MS + self._now_ms)

    def _background(self) -> list[Step[Coordinator]]:
        """Tasks that are under way end, and timers that are due fire."""
        return list(self._events())

    def _events(self) -> Iterator[Step[Coordinator]]:
        for group_id in resolutions(self.state):
            yield self._taken(handle_resolution(self.state, group_id, self._context_now()))
        while (deadline_ms := next_deadline_ms(self.state)) is not None and deadline_ms <= STARTED_MS + self._now_ms:
            yield self._taken(handle_timer(self.state, replace(self._context, now_ms=deadline_ms)))

    def _taken(self, step: Step[Coordinator]) -> Step[Coordinator]:
        self.state = step.state
        return step

    def _observed(self, steps: list[Step[Coordinator]]) -> Observed:
        answers = [answer for step in steps for answer in step.answers]
        records = [shown for step in steps for shown in self._appended(step.records)]
        responses = (self._responded(one) for one in answers)
        described = describe(self.state, self.group, self._context_now())
        return Observed(tuple(responses), tuple(records), recorded_group(described))

    def _responded(self, answer: Answer) -> Response:
        version = self._asked.pop(answer.token).version
        return Response(answer.token, self._now_ms, to_recorded(_sent(answer.body, version), version))

    def _appended(self, records: tuple[Record, ...]) -> list[Mapping[str, Any]]:
        """The records as they are read back from the log."""
        if not records:
            return []
        written = write_batch(batch_of(self._offset, records, STARTED_MS + self._now_ms))
        self._offset += len(records)
        self.log += written
        entries = (entry for batch in read_batches(written) for entry in batch.records)
        return [as_dumped(entry.decoded()) for entry in entries if _is_of(entry.decoded(), self.group)]


def _sent(message: Any, version: int) -> Any:
    """The message as it is read at the other end of a wire."""
    return decode(type(message), encode(message, version), version)


def _is_of(record: Record, group_id: str) -> bool:
    return record.key[1] == group_id


def _created(name: str, number: int, partitions: int) -> Admin:
    """A topic with an id that no other topic has."""
    return Admin("create", name, f"{number:020d}AA", partitions)
