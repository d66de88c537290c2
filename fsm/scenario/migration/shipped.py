"""A group in migration on the coordinator itself: the requests of a trace, under any release.

The trace begins with a classic group at rest, and its targets are scripted, since the story is about what members are
told and not about an assignor: the coordinator computes each target as it does, and adopts the scripted one for it.
Targets are computed at once (an assignment interval of 0), as every release before 4.3 does.

Who comes back with the other protocol is another member to the coordinator, and keeps its name in the story.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fsm.coordinator.assignors import Assignments, GroupSpec
from fsm.coordinator.coordinator import Coordinator, handle
from fsm.coordinator.migration import classic_members
from fsm.coordinator.model.classic_group import ClassicGroup, ClassicGroupMember, ClassicMembers
from fsm.coordinator.model.consumer_group import ConsumerGroup, GroupMember
from fsm.coordinator.model.context import BrokerConfig, Context, Image, Topic
from fsm.coordinator.model.dialect import Choice, Dialect
from fsm.coordinator.model.persistent import FrozenMap
from fsm.coordinator.model.step import Request
from fsm.coordinator.model.timers import Deadlines, TimerKind
from fsm.errors import LocalProtocolError
from fsm.protocol.assignment import topic_partitions
from fsm.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from fsm.protocol.json_form import from_recorded, to_recorded
from fsm.protocol.messages import APIS
from fsm.protocol.records import ClassicProtocol
from fsm.scenario.migration.view import MemberView, Numbers, View
from fsm.tables.classic_group import State as ClassicState
from fsm.tables.consumer_group_member import State

GROUP = "group"
STEP_MS = 100
"""Time between two requests."""
SESSION_MS, REBALANCE_MS = 45_000, 300_000
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
STRATEGIES = {"eager": "range", "cooperative": "cooperative-sticky"}
"""The classic members' strategy by the rebalance protocol of the story."""
TIMERS = {
    TimerKind.SESSION: "session",
    TimerKind.REBALANCE: "rebalance",
    TimerKind.JOIN: "join",
    TimerKind.SYNC: "sync",
}
PHASES = {
    ClassicState.PREPARING_REBALANCE: "PreparingRebalance",
    ClassicState.COMPLETING_REBALANCE: "CompletingRebalance",
    ClassicState.STABLE: "Stable",
    ClassicState.EMPTY: "Empty",
    ClassicState.DEAD: "Dead",
}


@dataclass
class Story:
    """The coordinator with the one group of the trace, and the names that its members have in the story."""

    topic: str
    partitions: int
    dialect: Dialect
    strategy: str
    targets: list[Mapping[str, Numbers]]
    """Scripted targets that are still to come, by name."""
    state: Coordinator = field(default_factory=Coordinator)
    ids: dict[str, str] = field(default_factory=dict)
    """The present member id of each name."""
    now_ms: int = 0
    requests: int = 0

    def begin(self, generation: int, holds: Mapping[str, Numbers]) -> None:
        """A classic group at rest in this generation."""
        self.ids = {name: f"{name}-classic" for name in holds}
        members = {self.ids[name]: self._classic_member(name, numbers) for name, numbers in holds.items()}
        group = ClassicGroup(
            GROUP,
            ClassicState.STABLE,
            ClassicState.COMPLETING_REBALANCE,
            state_since_ms=0,
            generation=generation,
            protocol_type="consumer",
            protocol_name=self.strategy,
            leader=next(iter(members), None),
            members=ClassicMembers.of(members.values()),
            subscribed_topics=frozenset({self.topic}),
            heartbeat_deadlines_ms=Deadlines(dict.fromkeys(members, SESSION_MS)),
        )
        self.state = self.state.having(group)

    def _classic_member(self, name: str, numbers: Numbers) -> ClassicGroupMember:
        return ClassicGroupMember(
            self.ids[name],
            None,
            name,
            "/127.0.0.1",
            REBALANCE_MS,
            SESSION_MS,
            (ClassicProtocol(self.strategy, self._subscription(numbers)),),
            encode_assignment(Assignment(tuple((self.topic, n) for n in numbers))),
        )

    def _subscription(self, owned: Numbers, generation: int = -1) -> bytes:
        held = tuple((self.topic, n) for n in owned)
        return encode_subscription(Subscription((self.topic,), owned_partitions=held, generation_id=generation))

    # Requests

    def consumer_heartbeat(self, name: str, epoch: int, owned: Numbers | None) -> dict[str, object]:
        """ConsumerGroupHeartbeat; at epoch 0 it is another member that comes under this name."""
        joins = epoch == 0
        if joins:
            self.ids[name] = f"{name}-consumer"
        body = {
            "member_id": "" if joins and Choice.CLIENT_MAKES_MEMBER_ID not in self.dialect else self.ids[name],
            "member_epoch": epoch,
            "rebalance_timeout": REBALANCE_MS if joins else -1,
            "subscribed_topic_names": [self.topic] if joins else None,
            "topic_partitions": None if owned is None else self._topics(owned),
        }
        answer = self._send(name, "ConsumerGroupHeartbeat", body)
        assigned = answer.get("assignment")
        return {
            "error": _code(answer),
            "member_epoch": answer.get("member_epoch"),
            "assignment": None if assigned is None else _flat(assigned["topic_partitions"]),
        }

    def _topics(self, numbers: Numbers) -> list[dict[str, object]]:
        return [{"topic_id": TOPIC_ID, "partitions": list(numbers)}] if numbers else []

    def leave_group(self, name: str) -> dict[str, object]:
        """LeaveGroup"""
        body = {"members": [{"member_id": self.ids[name], "group_instance_id": None, "reason": None}]}
        answer = self._send(name, "LeaveGroup", body)
        return {"error": _code(answer)}

    def classic_heartbeat(self, name: str, generation: int) -> dict[str, object]:
        """Heartbeat"""
        return {"error": _code(self._send(name, "Heartbeat", {"generation_id": generation, **self._me(name)}))}

    def join_group(self, name: str, owned: Numbers) -> dict[str, object]:
        """JoinGroup"""
        metadata = base64.b64encode(self._subscription(owned, self._generation(name))).decode()
        body = {
            "session_timeout": SESSION_MS,
            "rebalance_timeout": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": [{"name": self.strategy, "metadata": metadata}],
            **self._me(name),
        }
        answer = self._send(name, "JoinGroup", body)
        keys = {"generation_id": "generation", "leader": "leader", "members": "members"}
        return {"error": _code(answer), **{word: answer.get(key) for key, word in keys.items()}}

    def sync_group(self, name: str, generation: int) -> dict[str, object]:
        """SyncGroup"""
        body = {"generation_id": generation, "protocol_type": "consumer", "protocol_name": self.strategy}
        answer = self._send(name, "SyncGroup", {**body, "assignments": [], **self._me(name)})
        data = base64.b64decode(str(answer.get("assignment") or ""))
        numbers = tuple(n for _, n in decode_assignment(data).partitions) if data else ()
        return {"error": _code(answer), "assignment": numbers}

    def _me(self, name: str) -> dict[str, object]:
        return {"member_id": self.ids[name], "group_instance_id": None}

    def _generation(self, name: str) -> int:
        group = self.state.groups[GROUP]
        if isinstance(group, ClassicGroup):
            return group.generation
        member = group.members.get(self.ids[name])
        return member.epoch if member is not None else -1

    def _send(self, name: str, api: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer to a request. Raises `LocalProtocolError` where it is left for later."""
        self.requests += 1
        self.now_ms += STEP_MS
        message = from_recorded(APIS[api].request, {"group_id": GROUP, **body}, VERSIONS[api])
        request = Request(self.requests, name, "/127.0.0.1", VERSIONS[api], message, f"{name}-consumer")
        step = handle(self.state, request, self._context())
        self.state = step.state
        for answer in step.answers:
            if answer.token == self.requests:
                return to_recorded(answer.body, VERSIONS[api])
        raise LocalProtocolError(f"the {api} of {name} is not answered at once")

    def _context(self) -> Context:
        config = BrokerConfig(group_consumer_assignment_interval_ms=0)
        image = Image(FrozenMap({self.topic: Topic(TOPIC_ID, self.partitions)}))
        return Context(self.now_ms, self.dialect, config, image, adopt=self._adopt)

    def _adopt(self, _assignor: str, spec: GroupSpec, computed: Assignments) -> Assignments:
        """The next scripted target, if it is one for the members there are."""
        names = {member_id: name for name, member_id in self.ids.items()}
        if not self.targets or {names.get(member_id) for member_id in spec.members} != set(self.targets[0]):
            return computed
        script = self.targets.pop(0)
        return {member_id: topic_partitions({TOPIC_ID: script[names[member_id]]}) for member_id in spec.members}

    # How it looks

    def view(self) -> View:
        """The group as it is now."""
        group = self.state.groups[GROUP]
        return self._classic_view(group) if isinstance(group, ClassicGroup) else self._consumer_view(group)

    def _named(self, members: Mapping[str, Any]) -> dict[str, Any]:
        return {name: members[member_id] for name, member_id in self.ids.items() if member_id in members}

    def _classic_view(self, group: ClassicGroup) -> View:
        members = {
            name: MemberView(
                is_classic=True,
                epoch=group.generation,
                assigned=tuple(n for _, n in decode_assignment(member.assignment).partitions),
                phase=PHASES[group.state],
            )
            for name, member in self._named(group.members).items()
        }
        return View(self.topic, True, group.generation, members, state=PHASES[group.state])

    def _consumer_view(self, group: ConsumerGroup) -> View:
        members = {name: self._member_view(group, member) for name, member in self._named(group.members).items()}
        targets = {name: _numbers(given) for name, given in self._named(group.targets).items()}
        for name, member_id in self.ids.items():
            if member_id in group.members:
                targets.setdefault(name, ())
        return View(self.topic, False, group.epoch, members, group.target_epoch, targets, group.state.name)

    def _member_view(self, group: ConsumerGroup, member: GroupMember) -> MemberView:
        current = member.current
        assigned, revoking = (tuple(n for (_, n), _ in held) for held in (current.assigned, current.pending))
        wanted = _numbers(group.target_of(member.member_id, member.instance_id))
        waits = current.state is State.UNRELEASED_PARTITIONS
        running = (word for kind, word in TIMERS.items() if group.timers.is_running(kind, member.member_id))
        return MemberView(
            member.is_classic,
            current.epoch,
            assigned,
            revoking,
            tuple(n for n in wanted if n not in assigned) if waits else (),
            classic_members.phase(group, member, self.dialect).value if member.is_classic else "",
            current.state.name,
            current.previous_epoch,
            tuple(sorted(running)),
        )


VERSIONS = {"ConsumerGroupHeartbeat": 1, "LeaveGroup": 5, "Heartbeat": 4, "JoinGroup": 9, "SyncGroup": 5}


def _code(answer: Mapping[str, Any]) -> str:
    return str(answer.get("error_code") or "none").upper()


def _flat(topics: list[Mapping[str, Any]]) -> Numbers:
    return tuple(sorted(n for topic in topics for n in topic["partitions"]))


def _numbers(given: tuple[tuple[str, tuple[int, ...]], ...]) -> Numbers:
    return tuple(n for _, numbers in given for n in numbers)
