"""The effects of a classic member's table, one small function each, and `decide`, which takes a row.

A row's steps are done in their order. One that asks for a callback interrupts its row: the rest is kept as `work`
until the application reports the end. One that only a poll may begin is kept as `completion`.

Source: `AbstractCoordinator`, `ConsumerCoordinator`, `ConsumerRebalanceListenerInvoker`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fsm.kafka.assignment import Partitions, among, partitions, without
from fsm.kafka.classic_messages import (
    UNKNOWN_MEMBER_ID,
    ClassicRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from fsm.kafka.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from fsm.kafka.events import (
    BackgroundEvent,
    KafkaError,
    ListenerMethod,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
)
from fsm.kafka.messages import OffsetCommitRequest
from fsm.member.classic_decisions import watched
from fsm.member.classic_state import (
    Awaited,
    Draft,
    Generation,
    Purpose,
    Reported,
    Taken,
    UnsentClassicRequest,
    Work,
)
from fsm.member.client_assignors import Candidate, ClientAssignor
from fsm.member.effects import CoordinatorForgotten, Enqueued
from fsm.table import Symbol
from fsm.tables.classic_member import TABLE, Effect, Event, State

IN_POLL_ONLY = frozenset({Effect.ASSIGN_PARTITIONS, Effect.REVOKE_PARTITIONS})


def decide(d: Draft, event: Event, reason: str = "") -> None:
    """Takes the row of `event`. Raises `IllegalTransition` where the table has none."""
    cell = TABLE.compiled[d.state, event]
    d.effects.append(Taken(d.state, event, cell.target))  # type: ignore[arg-type]  # states of this very table
    perform(d, Work(cell.steps, reason))


def perform(d: Draft, work: Work) -> None:
    """Does the steps until one has to wait, and keeps the rest."""
    before = d.awaited
    for position, step in enumerate(work.steps):
        if isinstance(step, State):
            d.state = step
        elif step in IN_POLL_ONLY and not d.polling:
            d.completion = Work(work.steps[position:], work.reason)
            return
        else:
            EFFECTS[step](d, work.reason)
        if d.awaited is not before:
            d.work = Work(work.steps[position + 1 :], work.reason)
            return


# Requests


def send(d: Draft, body: ClassicRequest | OffsetCommitRequest, purpose: Purpose | None = None, call: int = 0) -> None:
    """Orders a request, to be answered with what was sent."""
    d.in_flight += 1
    d.effects.append(UnsentClassicRequest(body, d.generation, purpose, call))


def send_join_group(d: Draft) -> None:
    """The join, with what the member owns by now."""
    d.joined_topics, d.join_out = d.topics, True
    send(
        d,
        JoinGroupRequest(
            d.config.group_id,
            d.config.session_timeout_ms,
            d.config.max_poll_interval_ms,
            d.generation.member_id,
            tuple(JoinGroupRequestProtocol(a.name, _subscription(d, a)) for a in d.config.assignors),
            PROTOCOL_TYPE,
            d.config.group_instance_id,
            d.rejoin_reason,
        ),
    )


def _subscription(d: Draft, assignor: ClientAssignor) -> bytes:
    user_data = assignor.user_data(d.assignor_generation) if assignor.user_data else None
    generation_id = d.generation.generation_id
    return encode_subscription(Subscription(d.topics or (), user_data, d.owned, generation_id, d.config.client_rack))


def send_sync_group(d: Draft, _: str) -> None:
    """The leader's carries everyone's assignment; without one there is no sync."""
    if d.assignor_error is not None:
        return
    d.join_out = True
    send(
        d,
        SyncGroupRequest(
            d.config.group_id,
            d.generation.generation_id,
            d.generation.member_id,
            d.computed,
            PROTOCOL_TYPE,
            d.generation.protocol_name,
            d.config.group_instance_id,
        ),
    )


def send_leave_group(d: Draft, _: str) -> None:
    """Nothing is sent by a member without an id, or without a coordinator: its session will end."""
    if d.coordinator_known and d.generation.member_id != UNKNOWN_MEMBER_ID:
        identity = MemberIdentity(d.generation.member_id, reason=_leave_reason(d))
        send(d, LeaveGroupRequest(d.config.group_id, (identity,)))


def _leave_reason(d: Draft) -> str:
    if d.closing:
        return "the consumer is being closed"
    if d.unsubscribing is not None:
        return "the consumer unsubscribed from all topics"
    return "consumer poll timeout has expired."


# Generation


def adopt_generation(d: Draft, _: str) -> None:
    """The join's answer names it."""
    d.generation = Generation(d.joined.generation_id, d.joined.member_id, d.joined.protocol_name)
    d.led_metadata, d.computed = None, ()


def adopt_member_id(d: Draft, _: str) -> None:
    """The coordinator named the member; there is no generation yet."""
    d.generation = Generation(member_id=d.joined.member_id)


def reset_generation(d: Draft, reason: str) -> None:
    """What is owned stays with the application until its next poll prepares a join."""
    d.generation = Generation(member_id=d.generation.member_id)
    d.prepare_needed = True
    d.effects.append(Reported(Effect.RESET_GENERATION, reason))


def reset_member_id(d: Draft, reason: str) -> None:
    """The coordinator does not know it, or is not to."""
    d.generation = d.generation._replace(member_id=UNKNOWN_MEMBER_ID)
    d.effects.append(Reported(Effect.RESET_MEMBER_ID, reason))


def request_rejoin(d: Draft, reason: str) -> None:
    """The next poll joins, and tells the coordinator why."""
    d.rejoin_needed, d.rejoin_reason = True, reason
    d.effects.append(Reported(Effect.REQUEST_REJOIN, reason))


def run_assignor(d: Draft, _: str) -> None:
    """Everyone's assignment, by the assignor that the coordinator chose; none where it is to stay as it was.

    An assignor that raises, or members that write no subscription, end the rebalance in place of the sync.
    """
    try:
        found = {
            Candidate.of(m.member_id, m.group_instance_id): decode_subscription(m.metadata) for m in d.joined.members
        }
        d.group_topics = tuple(sorted({topic for wants in found.values() for topic in wants.topics}))
        d.led_metadata = watched(d)
        if not d.joined.skip_assignment:
            d.computed = _assignments(d, found)
    except Exception as error:  # the assignor is the application's
        d.assignor_error = KafkaError(type(error).__name__, str(error))


def _assignments(d: Draft, members: Mapping[Candidate, Subscription]) -> tuple[SyncGroupRequestAssignment, ...]:
    assignor = {a.name: a for a in d.config.assignors}[d.joined.protocol_name or ""]
    given = assignor.assign(members, d.led_metadata or ())
    return tuple(
        SyncGroupRequestAssignment(member_id, encode_assignment(Assignment(partitions(given[member_id]))))
        for member_id in sorted(given)
    )


# Partitions and callbacks


def revoke_all_partitions(d: Draft, _: str) -> None:
    """Before a join an eager member calls back even for nothing; one that leaves does not."""
    if d.owned or not (d.closing or d.unsubscribing is not None):
        _removed(d, ListenerMethod.REVOKED, d.owned)


def revoke_unsubscribed_topics(d: Draft, _: str) -> None:
    """What nobody in the group would let the member keep."""
    dropped = tuple(p for p in d.owned if p[0] not in (d.topics or ()))
    if dropped:
        _removed(d, ListenerMethod.REVOKED, dropped)


def revoke_partitions(d: Draft, _: str) -> None:
    """What the assignment takes away."""
    _removed(d, ListenerMethod.REVOKED, without(d.owned, d.assigned))


def lose_all_partitions(d: Draft, _: str) -> None:
    """Nobody is called for nothing."""
    if d.owned:
        _removed(d, ListenerMethod.LOST, d.owned)


def assign_partitions(d: Draft, _: str) -> None:
    """Called back for what is new, even if nothing is."""
    added = without(d.assigned, d.owned)
    d.owned = d.assigned
    d.assignor_generation = d.generation.generation_id
    if d.pattern is not None:
        d.topics = tuple(sorted({*(d.topics or ()), *(topic for topic, _ in d.assigned)}))
        d.joined_topics = tuple(sorted({*(d.joined_topics or ()), *(topic for topic, _ in d.assigned)}))
    event = PartitionsAssignedEvent(d.next_ticket, d.owned, added, apply=False)
    _call_back(d, Awaited(d.next_ticket, ListenerMethod.ASSIGNED, added), event)


def _removed(d: Draft, method: ListenerMethod, given: Partitions) -> None:
    event = PartitionsRemovedEvent(d.next_ticket, method, among(d.owned, given))
    _call_back(d, Awaited(d.next_ticket, method, event.partitions), event)


def _call_back(d: Draft, awaited: Awaited, event: BackgroundEvent) -> None:
    d.awaited = awaited
    d.next_ticket += 1
    d.effects.append(Enqueued(event))


# Heartbeats and coordinator


def start_heartbeats(d: Draft, _: str) -> None:
    """The timers begin anew; attempts go on counting."""
    d.heartbeats = d.heartbeats.started(d.config, d.now_ms)


def stop_heartbeats(d: Draft, _: str) -> None:
    """No session is kept alive while a join is out: the coordinator knows that the member waits."""
    d.heartbeats = d.heartbeats.stopped()


def forget_coordinator(d: Draft, _: str) -> None:
    """Once; who hears of it again has nothing to forget."""
    if d.coordinator_known:
        d.coordinator_known = False
        d.effects.append(CoordinatorForgotten())


def reset_session_timer(d: Draft, _: str) -> None:
    """The session is counted from here, also if no heartbeat has been answered for long."""
    d.coordinator_known = True
    d.heartbeats = d.heartbeats.coordinator_found(d.config, d.now_ms)


def raise_error(d: Draft, _: str) -> None:
    """Whoever took the row has said where the error goes."""
    d.throw(d)


EFFECTS: Mapping[Symbol, Callable[[Draft, str], None]] = {
    Effect.REVOKE_ALL_PARTITIONS: revoke_all_partitions,
    Effect.REVOKE_UNSUBSCRIBED_TOPICS: revoke_unsubscribed_topics,
    Effect.REVOKE_PARTITIONS: revoke_partitions,
    Effect.LOSE_ALL_PARTITIONS: lose_all_partitions,
    Effect.ASSIGN_PARTITIONS: assign_partitions,
    Effect.RUN_ASSIGNOR: run_assignor,
    Effect.SEND_SYNC_GROUP: send_sync_group,
    Effect.SEND_LEAVE_GROUP: send_leave_group,
    Effect.ADOPT_GENERATION: adopt_generation,
    Effect.ADOPT_MEMBER_ID: adopt_member_id,
    Effect.RESET_GENERATION: reset_generation,
    Effect.RESET_MEMBER_ID: reset_member_id,
    Effect.REQUEST_REJOIN: request_rejoin,
    Effect.START_HEARTBEATS: start_heartbeats,
    Effect.STOP_HEARTBEATS: stop_heartbeats,
    Effect.FORGET_COORDINATOR: forget_coordinator,
    Effect.RESET_SESSION_TIMER: reset_session_timer,
    Effect.RAISE_ERROR: raise_error,
}
