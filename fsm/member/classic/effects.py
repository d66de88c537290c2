"""The effects of a classic member's table, each the method of its name.

An effect that asks for a callback pauses its row until the application reports the end of it; one that only a poll may
begin pauses before it does anything. `fsm.tables.classic_member.Effect` says what each effect is.

Source: `AbstractCoordinator`, `ConsumerCoordinator`, `ConsumerRebalanceListenerInvoker`.
"""

from __future__ import annotations

from collections.abc import Mapping

from fsm.member.classic.assignors import Candidate, ClientAssignor
from fsm.member.classic.decisions import list_watched
from fsm.member.classic.state import Awaited, ClassicStep, Generation, Reported
from fsm.member.effects import CoordinatorForgotten, Enqueued
from fsm.member.events import (
    BackgroundEvent,
    KafkaError,
    ListenerMethod,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
)
from fsm.protocol.assignment import Partitions, among, partitions, without
from fsm.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from fsm.protocol.messages import (
    UNKNOWN_MEMBER_ID,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from fsm.step import Pause
from fsm.tables.classic_member import Effect


class Effects(ClassicStep):
    """The effects of this module."""

    # Requests

    def send_join_group(self) -> None:
        """The join, with what the member owns by now. It is no effect of a row: a poll sends it."""
        config = self.config
        self.joined_topics, self.join_out = self.topics, True
        self.send(
            JoinGroupRequest(
                config.group_id,
                config.session_timeout_ms,
                config.max_poll_interval_ms,
                self.generation.member_id,
                config.group_instance_id,
                PROTOCOL_TYPE,
                tuple(JoinGroupRequestProtocol(a.name, self._subscription(a)) for a in config.assignors),
                self.rejoin_reason,
            )
        )

    def _subscription(self, assignor: ClientAssignor) -> bytes:
        user_data = assignor.user_data(self.assignor_generation) if assignor.user_data else None
        generation_id, rack = self.generation.generation_id, self.config.client_rack
        return encode_subscription(Subscription(self.topics or (), user_data, self.owned, generation_id, rack))

    def send_sync_group(self, _: str) -> None:
        if self.assignor_error is not None:
            return
        self.join_out = True
        self.send(
            SyncGroupRequest(
                self.config.group_id,
                self.generation.generation_id,
                self.generation.member_id,
                self.config.group_instance_id,
                PROTOCOL_TYPE,
                self.generation.protocol_name,
                self.computed,
            )
        )

    def send_leave_group(self, _: str) -> None:
        if self.coordinator_known and self.generation.member_id != UNKNOWN_MEMBER_ID:
            identity = MemberIdentity(self.generation.member_id, reason=self._leave_reason())
            self.send(LeaveGroupRequest(self.config.group_id, (identity,)))

    def _leave_reason(self) -> str:
        if self.closing:
            return "the consumer is being closed"
        if self.unsubscribing is not None:
            return "the consumer unsubscribed from all topics"
        return "consumer poll timeout has expired."

    # Generation

    def adopt_generation(self, _: str) -> None:
        self.generation = Generation(self.joined.generation_id, self.joined.member_id, self.joined.protocol_name)
        self.led_metadata, self.computed = None, ()

    def adopt_member_id(self, _: str) -> None:
        self.generation = Generation(member_id=self.joined.member_id)

    def reset_generation(self, reason: str) -> None:
        self.generation = Generation(member_id=self.generation.member_id)
        self.prepare_needed = True
        self.effects.append(Reported(Effect.RESET_GENERATION, reason))

    def reset_member_id(self, reason: str) -> None:
        self.generation = self.generation._replace(member_id=UNKNOWN_MEMBER_ID)
        self.effects.append(Reported(Effect.RESET_MEMBER_ID, reason))

    def request_rejoin(self, reason: str) -> None:
        self.rejoin_reason = reason
        self.effects.append(Reported(Effect.REQUEST_REJOIN, reason))

    def run_assignor(self, _: str) -> None:
        """An assignor that raises, or members that write no subscription, end the rebalance in place of the sync."""
        try:
            found = {
                Candidate.of(m.member_id, m.group_instance_id): decode_subscription(m.metadata)
                for m in self.joined.members
            }
            self.group_topics = tuple(sorted({topic for wants in found.values() for topic in wants.topics}))
            self.led_metadata = list_watched(self)
            if not self.joined.skip_assignment:
                self.computed = self._assignments(found)
        except Exception as error:  # the assignor is the application's
            self.assignor_error = KafkaError(type(error).__name__, str(error))

    def _assignments(self, members: Mapping[Candidate, Subscription]) -> tuple[SyncGroupRequestAssignment, ...]:
        assignor = {a.name: a for a in self.config.assignors}[self.joined.protocol_name or ""]
        given = assignor.assign(members, self.led_metadata or ())
        return tuple(
            SyncGroupRequestAssignment(member_id, encode_assignment(Assignment(partitions(given[member_id]))))
            for member_id in sorted(given)
        )

    # Partitions and callbacks

    def revoke_all_partitions(self, _: str) -> Pause | None:
        """Before a join an eager member calls back even for nothing; one that leaves does not."""
        if self.owned or not (self.closing or self.unsubscribing is not None):
            return self._remove(ListenerMethod.REVOKED, self.owned)
        return None

    def revoke_unsubscribed_topics(self, _: str) -> Pause | None:
        dropped = tuple(p for p in self.owned if p[0] not in (self.topics or ()))
        return self._remove(ListenerMethod.REVOKED, dropped) if dropped else None

    def revoke_partitions(self, _: str) -> Pause:
        if not self.polling:
            return Pause.BEFORE
        return self._remove(ListenerMethod.REVOKED, without(self.owned, self.assigned))

    def lose_all_partitions(self, _: str) -> Pause | None:
        return self._remove(ListenerMethod.LOST, self.owned) if self.owned else None

    def assign_partitions(self, _: str) -> Pause:
        if not self.polling:
            return Pause.BEFORE
        added = without(self.assigned, self.owned)
        self.owned = self.assigned
        self.assignor_generation = self.generation.generation_id
        if self.pattern is not None:
            topics = {topic for topic, _ in self.assigned}
            self.topics = tuple(sorted({*(self.topics or ()), *topics}))
            self.joined_topics = tuple(sorted({*(self.joined_topics or ()), *topics}))
        awaited = Awaited(self._ticket(), ListenerMethod.ASSIGNED, added)
        return self._call_back(awaited, PartitionsAssignedEvent(awaited.ticket, self.owned, added, apply=False))

    def _remove(self, method: ListenerMethod, given: Partitions) -> Pause:
        awaited = Awaited(self._ticket(), method, among(self.owned, given))
        return self._call_back(awaited, PartitionsRemovedEvent(awaited.ticket, method, awaited.partitions))

    def _ticket(self) -> int:
        return 1 if self.closing is None else 2

    def _call_back(self, awaited: Awaited, event: BackgroundEvent) -> Pause:
        self.awaited = awaited
        self.effects.append(Enqueued(event))
        return Pause.AFTER

    # Heartbeats and coordinator

    def start_heartbeats(self, _: str) -> None:
        self.heartbeats = self.heartbeats.start(self.config, self.now_ms)

    def stop_heartbeats(self, _: str) -> None:
        self.heartbeats = self.heartbeats.stop()

    def forget_coordinator(self, _: str) -> None:
        if self.coordinator_known:
            self.coordinator_known = False
            self.effects.append(CoordinatorForgotten())

    def reset_session_timer(self, _: str) -> None:
        self.coordinator_known = True
        self.heartbeats = self.heartbeats.find_coordinator(self.config, self.now_ms)

    def raise_error(self, _: str) -> None:
        """Whoever took the row has said where the error goes."""
        self.throw()
