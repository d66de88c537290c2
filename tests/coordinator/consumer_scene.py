"""A consumer group to talk to in tests: members send heartbeats, time passes, topics come and go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fsm.conformance.steps import record_group
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.host import Appended, Host
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.model.context import BrokerConfig, Context, Image, Topic
from fsm.coordinator.model.dialect import dialect
from fsm.coordinator.model.persistent import PersistentMap
from fsm.coordinator.model.step import Step
from fsm.protocol.json_form import from_recorded, recorded_label, to_recorded
from fsm.protocol.messages import APIS
from fsm.protocol.records import Current, GroupEpoch, Record, Target, TargetEpoch
from fsm.protocol.schema import struct_of

IDS = {"foo": "AAAAAAAAAAEAAAAAAAAAAQ", "bar": "AAAAAAAAAAEAAAAAAAAAAg", "baz": "AAAAAAAAAAEAAAAAAAAAAw"}
NAMES = {topic_id: name for name, topic_id in IDS.items()}
"""Of topics that were never deleted."""
START_MS = 1_000_000
SAID_BY_ALL = {"group_id": "g", "transactional_id": "t", "producer_epoch": 0}


def message(api: str, version: int, body: Mapping[str, Any]) -> Any:
    """A request to the group `g` from a recorded body; fields that its version lacks are not said."""
    cls = APIS[api].request
    known = {recorded_label(field.name) for field in struct_of(cls).fields if field.is_in(version)}
    fields = {name: value for name, value in {**SAID_BY_ALL, **body}.items() if name in known}
    return from_recorded(cls, fields, version)


class Scene:
    """One group `g`, its clock, and what its last step showed."""

    def __init__(self, release: str = "4.4.0", topics: Mapping[str, int] | None = None, **settings: Any) -> None:
        config = BrokerConfig(**{"group_consumer_assignment_interval_ms": 0, **settings})
        found = {name: Topic(IDS[name], count) for name, count in (topics or {"foo": 2, "bar": 1}).items()}
        context = Context(START_MS, dialect(release), config, Image(PersistentMap(found), 1))
        self.host = Host(context, resolves=False, on_step=self._note_step)
        self.deleted = 0
        self.log: list[Appended] = []
        """What was appended so far, one entry for each step that wrote anything."""
        self.moves: list[tuple[Coordinator, Coordinator]] = []
        """Each step's states, before and after; whoever watches them clears them."""
        self.last: Step[Coordinator] = Step(self.state)
        self._before = self.state

    @property
    def state(self) -> Coordinator:
        """The coordinator as it is."""
        return self.host.state

    @state.setter
    def state(self, state: Coordinator) -> None:
        self.host.state = self._before = state

    @property
    def context(self) -> Context:
        """What its last step was told."""
        return self.host.context

    @context.setter
    def context(self, context: Context) -> None:
        self.host.context = context

    def _note_step(self, step: Step[Coordinator]) -> None:
        self.last = step
        self.moves.append((self._before, step.state))
        self._before = step.state
        if step.records:
            self.log.append(Appended(self.host.now_ms, step.records, step.producer_id))

    @property
    def group(self) -> ConsumerGroup:
        """The group as it is."""
        found = self.state.groups["g"]
        assert isinstance(found, ConsumerGroup)
        return found

    @property
    def described(self) -> Mapping[str, Any]:
        """What ConsumerGroupDescribe says."""
        found = record_group(self.host.describe("g"))
        assert found is not None
        return found

    @property
    def records(self) -> list[str]:
        """The records of the last step, each as a few words."""
        return [_shown(record) for record in self.last.records]

    @property
    def events(self) -> list[str]:
        """The events of the group's own table in the last step."""
        return [one.event.name for one in self.last.happened if not one.member_id]

    def send(self, api: str, version: int, body: Mapping[str, Any], fresh_id: str = "") -> Mapping[str, Any]:
        """The answer to a request."""
        sent = self.host.send("client", message(api, version, body), version, fresh_id=fresh_id)
        (answer,) = sent.answers
        return to_recorded(answer.body, version)

    def beat(self, member_id: str, epoch: int, *, version: int = 1, **fields: Any) -> Mapping[str, Any]:
        """The answer to a heartbeat; `owned` and the answer's assignment are partitions by topic name."""
        if "owned" in fields:
            fields["topic_partitions"] = owned(fields.pop("owned"))
        body = {"member_id": member_id, "member_epoch": epoch, **fields}
        return self.send("ConsumerGroupHeartbeat", version, body, "made-by-broker")

    def join(self, member_id: str, *names: str, **fields: Any) -> Mapping[str, Any]:
        """The answer to a heartbeat with epoch 0."""
        full = {"rebalance_timeout": 30_000, "subscribed_topic_names": list(names), "owned": {}, **fields}
        return self.beat(member_id, 0, **full)

    def ack(self, member_id: str) -> Mapping[str, Any]:
        """The answer to a heartbeat that reports exactly what the member was handed."""
        member = self.group.members[member_id]
        topics = [{"topic_id": topic_id, "partitions": list(numbers)} for topic_id, numbers in member.assigned]
        fields: dict[str, Any] = {} if member.instance_id is None else {"instance_id": member.instance_id}
        return self.beat(member_id, member.epoch, topic_partitions=topics, **fields)

    def settle(self, *member_ids: str) -> None:
        """Everybody reports what it was handed until the group is at rest."""
        for _ in range(4):
            for member_id in member_ids or tuple(self.group.members):
                self.ack(member_id)
        assert self.group.state.name == "STABLE"

    def wait(self, ms: int) -> list[str]:
        """Time passes; the records of the timers that ran out meanwhile."""
        written = len(self.log)
        self.host.advance(self.context.now_ms + ms)
        return [_shown(record) for one in self.log[written:] for record in one.records]

    def resolve(self) -> list[str]:
        """The background task that resolves regular expressions is done; its records."""
        self.last = Step(self.state)
        self.host.resolve()
        return self.records

    def fail_to_resolve(self) -> list[str]:
        """The background task that resolves regular expressions failed; its records."""
        self.last = Step(self.state)
        self.host.fail_to_resolve()
        return self.records

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        """The producer's transaction ends, whether or not it has one."""
        self.host.end_transaction(producer_id, commits=commits)
        self._note_step(Step(self.state))
        self.log.append(Appended(self.host.now_ms, producer_id=producer_id, commits=commits))

    def clean_up(self, now_ms: int | None = None) -> list[str]:
        """What a broker does every ten minutes; its records."""
        if now_ms is not None:
            self.context = replace(self.context, now_ms=now_ms)
        self.host.clean_up()
        return self.records

    def topic(self, name: str, partitions: int) -> None:
        """The topic has so many partitions from now on; 0 deletes it, and the next of that name has another id."""
        topics = self.context.image.topics
        known = topics.get(name)
        self.deleted += partitions == 0
        topic = Topic(known.topic_id if known else _id(name, self.deleted), partitions)
        self.host.change_topics(topics.set(name, topic) if partitions else topics.without(name))
        self._before = self.state


def _id(name: str, generation: int) -> str:
    return IDS[name] if not generation else f"{generation:05d}{IDS[name][5:]}"


def name_of(topic_id: str) -> str:
    """The topic that the id was made for."""
    return next(name for name, first in IDS.items() if first[5:] == topic_id[5:])


def owned(partitions: Mapping[str, list[int]] | None) -> list[dict[str, Any]] | None:
    """Partitions by topic name as a request has them."""
    if partitions is None:
        return None
    return [{"topic_id": IDS[name], "partitions": numbers} for name, numbers in partitions.items()]


def assigned(answer: Mapping[str, Any]) -> dict[str, list[int]] | None:
    """The assignment of an answer by topic name; None where nothing changed."""
    if answer["assignment"] is None:
        return None
    return {name_of(topic["topic_id"]): topic["partitions"] for topic in answer["assignment"]["topic_partitions"]}


def _shown(record: Record) -> str:
    key, value = record.key, record.value
    whose = " ".join(str(part) for part in key[1:] if part != "g")
    parts = [f"{int(key[0])}{'t' if value is None else ''}", whose, _of(value)]
    return " ".join(part for part in parts if part)


def _of(value: Any) -> str:
    if isinstance(value, GroupEpoch):
        return f"epoch {value.epoch}"
    if isinstance(value, TargetEpoch):
        return f"epoch {value.assignment_epoch} at {value.assignment_timestamp}"
    if isinstance(value, Target):
        return _partitions(value.topic_partitions)
    if isinstance(value, Current):
        pending = _partitions(value.partitions_pending_revocation)
        has = _partitions(value.assigned_partitions)
        return f"{value.previous_member_epoch}->{value.member_epoch} {has}{' gives up ' + pending if pending else ''}"
    return ""


def _partitions(topics: Any) -> str:
    return " ".join(f"{name_of(topic.topic_id)}{list(topic.partitions)}" for topic in topics)
