"""One coordinator with one group in a scenario: time, topics, who is who, and what came of each step."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fsm.coordinator.coordinator import (
    Coordinator,
    handle,
    handle_resolution,
    handle_timer,
    image_changed,
    next_deadline_ms,
    resolutions,
)
from fsm.coordinator.model.context import BrokerConfig, Context, Image, Topic
from fsm.coordinator.model.dialect import Choice, Dialect
from fsm.coordinator.model.persistent import FrozenMap
from fsm.coordinator.model.step import Answer, Request, Step
from fsm.nodes import Node
from fsm.protocol.json_form import from_recorded, to_recorded
from fsm.protocol.messages import APIS as MESSAGES
from fsm.protocol.records import Record
from fsm.render.sequence import Arrow, Look
from fsm.scenario.broker.bodies import APIS, Sender
from fsm.scenario.broker.shown import Names, answer_fields, group_fields, record_names
from fsm.scenario.record import COORDINATOR
from fsm.scenario.rest import TURNS_IN_ALL, Restless
from fsm.scenario.steps import NOTHING
from fsm.scenario.words import listed, one_line

STARTED_MS = 1_700_000_000_000
"""When scenarios begin: instants of a broker are never near 0, which means unknown."""
HOST = "/127.0.0.1"


def topic_id(name: str, times: int) -> str:
    """An id for a topic that was made so many times before, the same in every run."""
    return base64.urlsafe_b64encode(hashlib.sha256(f"{name} {times}".encode()).digest()[:16]).decode().rstrip("=")


@dataclass
class GroupSide:
    """The coordinator, and what has happened since the last `take`."""

    dialect: Dialect
    config: BrokerConfig
    group_id: str
    state: Coordinator = field(default_factory=Coordinator)
    image: Image = field(default_factory=Image)
    topic_names: dict[str, str] = field(default_factory=dict)
    """Of every topic there ever was, by its id."""
    ids: dict[str, str] = field(default_factory=dict)
    """The present member id of each name."""
    epochs: dict[str, int] = field(default_factory=dict)
    """The epoch or generation that each name was told last."""
    protocols: dict[str, str] = field(default_factory=dict)
    """The protocol that each name was told by its last join."""
    now_ms: int = 0
    asked: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Requests without an answer: who sent them, and what."""
    requests: int = 0
    records: list[Record] = field(default_factory=list)
    own: dict[str, str] = field(default_factory=dict)
    """Fields of the answer to the request of this step."""
    others: list[str] = field(default_factory=list)
    """Answers to requests of earlier steps."""
    arrows: list[Arrow] = field(default_factory=list)
    shown_state: str = ""
    """The group's state, as a picture shows it last."""

    def topics_are(self, topics: Mapping[str, int]) -> None:
        """The broker has exactly these topics, with so many partitions; fewer than before make it another topic."""
        before = self.image
        found = FrozenMap({name: self._topic(name, count) for name, count in topics.items()})
        self.topic_names |= {topic.topic_id: name for name, topic in found.items()}
        self.image = Image(found, before.version + 1)
        self.state = image_changed(self.state, before, self._context())
        self._rest()

    def _topic(self, name: str, count: int) -> Topic:
        known = self.image.topics.get(name)
        if known is not None and known.partitions <= count:
            return Topic(known.topic_id, count)
        return Topic(topic_id(name, sum(made == name for made in self.topic_names.values())), count)

    def send(self, name: str, api: str, given: Mapping[str, Node]) -> None:
        """A member sends a request."""
        self.requests += 1
        self.asked[self.requests] = (name, api)
        said = ", ".join(f"{key}={one_line(node)}" for key, node in given.items())
        self.arrows.append(Arrow(name, COORDINATOR, f"{api}({said})"))
        makes_own = api == "ConsumerGroupHeartbeat" and Choice.CLIENT_MAKES_MEMBER_ID in self.dialect
        if makes_own:
            self.ids.setdefault(name, name)
        topics = {topic: self.image.topics[topic].topic_id for topic in self.image.topics}
        told = (self.epochs.get(name, 0), self.protocols.get(name, ""))
        body = APIS[api].body(given, Sender(self.group_id, self.ids.get(name, ""), topics, self.ids, *told))
        version = APIS[api].version
        message = from_recorded(MESSAGES[api].request, body, version)
        request = Request(self.requests, name, HOST, version, message, name)
        self._after(handle(self.state, request, self._context()))
        self._rest()
        self.wait(0)

    def wait(self, ms: int) -> None:
        """Time passes, and timers run out; in no time those that are due. Raises `Restless` where too many are."""
        end_ms = self.now_ms + ms
        for _ in range(TURNS_IN_ALL):
            due = next_deadline_ms(self.state)
            if due is None or due > STARTED_MS + end_ms:
                self.now_ms = end_ms
                return
            self.now_ms = max(self.now_ms, due - STARTED_MS)
            self._after(handle_timer(self.state, self._context()))
            self._rest()
        raise Restless(f"{TURNS_IN_ALL} timers by {self.now_ms} ms; wait for less")

    def _context(self) -> Context:
        return Context(STARTED_MS + self.now_ms, self.dialect, self.config, self.image)

    def _rest(self) -> None:
        """What a background task would do, at once."""
        for group_id in resolutions(self.state):
            self._after(handle_resolution(self.state, group_id, self._context()))

    def _after(self, step: Step[Coordinator]) -> None:
        self.state = step.state
        self.records += step.records
        for answer in step.answers:
            self._answered(answer)

    def _answered(self, answer: Answer) -> None:
        name, api = self.asked.pop(answer.token)
        body = to_recorded(answer.body, APIS[api].version)
        if given := body.get("member_id"):
            self.ids[name] = given
        if body.get("error_code") is None:
            self.epochs[name] = _epoch(body, self.epochs.get(name, 0))
            self.protocols[name] = body.get("protocol_name") or self.protocols.get(name, "")
        fields = dict(answer_fields(body, self._names()))
        told = ", ".join(f"{key}={value}" for key, value in fields.items() if value not in (NOTHING, ""))
        self.arrows.append(Arrow(COORDINATOR, name, told or "answered", Look.TAKE))
        if answer.token == self.requests:
            self.own = fields
        else:
            self.others.append(f"{name}: {api}({told})")

    def _names(self) -> Names:
        return Names(self.ids, self.topic_names)

    def take(self) -> tuple[dict[str, str], tuple[str, ...], tuple[Arrow, ...]]:
        """Fields, lines and arrows of the step that is over."""
        group = group_fields(self.state.groups.get(self.group_id), self._names(), self.dialect)
        seen = {f"answer {key}": value for key, value in self.own.items()}
        seen |= {**group, "other_answers": listed(self.others), "records": record_names(self.records)}
        lines = [*self._answer_lines(), *_group_lines(group)]
        if self.records:
            lines.append(f"records {record_names(self.records)}")
        arrows = (*self.arrows, *self._new_state(group))
        self.own, self.others, self.records, self.arrows = {}, [], [], []
        return seen, tuple(lines), arrows

    def _new_state(self, group: Mapping[str, str]) -> Iterator[Arrow]:
        number = group.get("group epoch", group.get("group generation", ""))
        state = f"{group.get('group state', '')} {number}".strip()
        if state != self.shown_state:
            self.shown_state = state
            yield Arrow(COORDINATOR, COORDINATOR, state, Look.STATE)

    def _answer_lines(self) -> list[str]:
        own = ", ".join(f"{key}={value}" for key, value in self.own.items() if value not in (NOTHING, ""))
        return [*([f"answered {own}"] if self.own else []), *(f"answered {other}" for other in self.others)]


def _epoch(body: Mapping[str, Any], before: int) -> int:
    """What a member knows after an answer; one that left begins anew."""
    told = body.get("member_epoch", body.get("generation_id", before))
    return max(0, int(told))


def _group_lines(fields: Mapping[str, str]) -> list[str]:
    """A line for the group, and one for each member."""
    lines: dict[str, list[str]] = {}
    for name, value in fields.items():
        subject, _, field_ = name.rpartition(" ")
        lines.setdefault(subject, []).append(f"{field_}={value}")
    return [f"{subject}: {', '.join(said)}" for subject, said in lines.items()]
