"""A group in migration on the coordinator itself: the requests of a trace, under any release.

The trace begins with a stable classic group, and its targets are scripted, because the scenario is about messages to
members and not about an assignor: the coordinator computes each target as usual, and adopts the scripted one instead.
Targets are computed at once (an assignment interval of 0), as in every release before 4.3. A member that returns with
the other protocol is a new member of the coordinator, and keeps its name in the scenario.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fsm.coordinator.assignors import Assignments, GroupSpec
from fsm.coordinator.classic.responses import PRINTED
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.host import HOST, Host
from fsm.coordinator.migration import classic_members
from fsm.coordinator.model.classic_group import ClassicGroup, ClassicGroupMember, ClassicMembers
from fsm.coordinator.model.consumer_group import ConsumerGroup, GroupMember
from fsm.coordinator.model.context import BrokerConfig, Context, Image, Topic
from fsm.coordinator.model.dialect import Choice, Dialect
from fsm.coordinator.model.persistent import PersistentMap
from fsm.coordinator.model.timers import Deadlines, TimerKind
from fsm.errors import LocalProtocolError
from fsm.protocol import messages
from fsm.protocol.assignment import TopicPartitions, topic_partitions
from fsm.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
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
"""The classic members' strategy by the rebalance protocol of the scenario."""


class ShippedGroup:
    """The one group of the trace, and the names of its members in the scenario."""

    def __init__(
        self, topic: str, partitions: int, dialect: Dialect, strategy: str, targets: Sequence[Mapping[str, Numbers]]
    ) -> None:
        self.topic = topic
        self.dialect = dialect
        self.strategy = strategy
        self.targets = list(targets)
        """The remaining scripted targets, by name."""
        self.ids: dict[str, str] = {}
        """The current member id of each name."""
        config = BrokerConfig(group_consumer_assignment_interval_ms=0)
        image = Image(PersistentMap({topic: Topic(TOPIC_ID, partitions)}))
        self.host = Host(Context(0, dialect, config, image, adopt=self._adopt))

    def begin(self, generation: int, holds: Mapping[str, Numbers]) -> None:
        """A stable classic group in this generation."""
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
        self.host.state = Coordinator().with_group(group)

    def _classic_member(self, name: str, numbers: Numbers) -> ClassicGroupMember:
        return ClassicGroupMember(
            self.ids[name],
            None,
            name,
            HOST,
            REBALANCE_MS,
            SESSION_MS,
            (ClassicProtocol(self.strategy, self._subscription(numbers)),),
            encode_assignment(Assignment(tuple((self.topic, n) for n in numbers))),
        )

    def _subscription(self, owned: Numbers, generation: int = -1) -> bytes:
        held = tuple((self.topic, n) for n in owned)
        return encode_subscription(Subscription((self.topic,), owned_partitions=held, generation_id=generation))

    # Requests

    def send_consumer_heartbeat(self, name: str, epoch: int, owned: Numbers | None) -> dict[str, object]:
        """Sends a consumer heartbeat; at epoch 0 the name gets a new member."""
        joins = epoch == 0
        if joins:
            self.ids[name] = f"{name}-consumer"
        request = messages.ConsumerGroupHeartbeatRequest(
            GROUP,
            "" if joins and Choice.CLIENT_MAKES_MEMBER_ID not in self.dialect else self.ids[name],
            epoch,
            rebalance_timeout_ms=REBALANCE_MS if joins else -1,
            subscribed_topic_names=(self.topic,) if joins else None,
            topic_partitions=None if owned is None else ((TOPIC_ID, owned),) if owned else (),
        )
        answer = self._send(name, request)
        assigned = None if answer.assignment is None else tuple(sorted(_numbers(answer.assignment)))
        return {"error": answer.error_code.name, "member_epoch": answer.member_epoch, "assignment": assigned}

    def leave_group(self, name: str) -> dict[str, object]:
        request = messages.LeaveGroupRequest(GROUP, members=(messages.MemberIdentity(self.ids[name]),))
        return {"error": self._send(name, request).error_code.name}

    def send_heartbeat(self, name: str, generation: int) -> dict[str, object]:
        return {"error": self._send(name, messages.HeartbeatRequest(GROUP, generation, self.ids[name])).error_code.name}

    def join_group(self, name: str, owned: Numbers) -> dict[str, object]:
        protocol = messages.JoinGroupRequestProtocol(self.strategy, self._subscription(owned, self._generation(name)))
        request = messages.JoinGroupRequest(GROUP, SESSION_MS, REBALANCE_MS, self.ids[name], protocols=(protocol,))
        answer = self._send(name, request)
        return {
            "error": answer.error_code.name,
            "generation": answer.generation_id,
            "leader": answer.leader,
            "members": answer.members,
        }

    def sync_group(self, name: str, generation: int) -> dict[str, object]:
        request = messages.SyncGroupRequest(GROUP, generation, self.ids[name], None, "consumer", self.strategy)
        answer = self._send(name, request)
        numbers = tuple(n for _, n in decode_assignment(answer.assignment).partitions) if answer.assignment else ()
        return {"error": answer.error_code.name, "assignment": numbers}

    def _generation(self, name: str) -> int:
        group = self.host.state.groups[GROUP]
        if isinstance(group, ClassicGroup):
            return group.generation
        member = group.members.get(self.ids[name])
        return member.epoch if member is not None else -1

    def _send(self, name: str, request: Any) -> Any:
        """Sends a request; returns the answer. Raises `LocalProtocolError` if it is delayed."""
        sent = self.host.send(name, request, now_ms=self.host.now_ms + STEP_MS, fresh_id=f"{name}-consumer")
        for answer in sent.answers:
            if answer.token == sent.token:
                return answer.body
        api = type(request).__name__.removesuffix("Request")
        raise LocalProtocolError(f"the {api} of {name} is not answered at once")

    def _adopt(self, _assignor: str, spec: GroupSpec, computed: Assignments) -> Assignments:
        """The next scripted target, if it fits the current members."""
        names = {member_id: name for name, member_id in self.ids.items()}
        if not self.targets or {names.get(member_id) for member_id in spec.members} != set(self.targets[0]):
            return computed
        script = self.targets.pop(0)
        return {member_id: topic_partitions({TOPIC_ID: script[names[member_id]]}) for member_id in spec.members}

    # View

    def make_view(self) -> View:
        """The current group."""
        group = self.host.state.groups[GROUP]
        return self._classic_view(group) if isinstance(group, ClassicGroup) else self._consumer_view(group)

    def _by_name(self, members: Mapping[str, Any]) -> dict[str, Any]:
        return {name: members[member_id] for name, member_id in self.ids.items() if member_id in members}

    def _classic_view(self, group: ClassicGroup) -> View:
        members = {
            name: MemberView(
                is_classic=True,
                epoch=group.generation,
                assigned=tuple(n for _, n in decode_assignment(member.assignment).partitions),
                phase=PRINTED[group.state],
            )
            for name, member in self._by_name(group.members).items()
        }
        return View(self.topic, True, group.generation, members, state=PRINTED[group.state])

    def _consumer_view(self, group: ConsumerGroup) -> View:
        members = {name: self._member_view(group, member) for name, member in self._by_name(group.members).items()}
        targets = {name: _numbers(given) for name, given in self._by_name(group.targets).items()}
        for name, member_id in self.ids.items():
            if member_id in group.members:
                targets.setdefault(name, ())
        return View(self.topic, False, group.epoch, members, group.target_epoch, targets, group.state.name)

    def _member_view(self, group: ConsumerGroup, member: GroupMember) -> MemberView:
        current = member.current
        assigned, revoking = (tuple(n for (_, n), _ in held) for held in (current.assigned, current.pending))
        wanted = _numbers(group.target_of(member.member_id, member.instance_id))
        waits = current.state is State.UNRELEASED_PARTITIONS
        running = (kind.name.lower() for kind in TimerKind if (kind, member.member_id) in group.timers)
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


def _numbers(given: TopicPartitions) -> Numbers:
    return tuple(n for _, numbers in given for n in numbers)
