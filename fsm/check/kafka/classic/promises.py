"""What a step of the coordinator of a group that may be classic promises: to its members, and about its group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from fsm.check.kafka.consumer.compaction import TELLS
from fsm.check.kafka.consumer.coordinator import FORMER_OWNER
from fsm.check.kafka.standing import OF_STANDING
from fsm.check.kafka.standing import find_broken as find_outcasts
from fsm.check.kafka.targets import ask_target
from fsm.coordinator.classic.invariants import COUNTS, PROMISES, STORED, counts_generations, is_stored
from fsm.coordinator.classic.invariants import find_broken as find_broken_classic
from fsm.coordinator.consumer.invariants import INVARIANTS, Moment
from fsm.coordinator.consumer.invariants import find_broken as broken_in_consumer_group
from fsm.coordinator.model.classic_group import ClassicGroup, ClassicGroupMember
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice as Rule
from fsm.coordinator.model.groups import Group
from fsm.coordinator.model.step import Answer
from fsm.coordinator.model.timers import TimerKind
from fsm.protocol.assignment import TopicPartition
from fsm.protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from fsm.tables.classic_group import State as ClassicState
from fsm.tables.consumer_group_member import State as Settled

FOR_SOMETHING = "a classic member is not told to rejoin in vain"
DATA = "an upgrade loses no user data of assignors"
SUBSCRIBED = "no stable member is assigned an unsubscribed topic"
LEADER_STAYS = "a leader that has joined leads the next generation"
LEADER_JOINS = "the leader of a generation has joined it"
WAITS = "a join phase waits for somebody"
NOBODYS_TIMER = "the timer of nobody changes nothing"
JOINS_KNOWING = "who has joined is told who it is and who leads"
ANSWERED_ONCE = "no request is answered twice"
ANSWERED = "a request is answered or waits"
TIMED = "a classic member of a consumer group has a timer for the join or sync that it owes"
JOINED = "a member's protocols are those of its last join"
REJOIN = HeartbeatResponse(ErrorCode.REBALANCE_IN_PROGRESS)
NEVER_FALLS = "generations and epochs never decrease"
ASKED_OF_STEPS = (
    NEVER_FALLS,
    LEADER_STAYS,
    LEADER_JOINS,
    JOINS_KNOWING,
    WAITS,
    NOBODYS_TIMER,
    FORMER_OWNER,
    FOR_SOMETHING,
    SUBSCRIBED,
    DATA,
    ANSWERED_ONCE,
    ANSWERED,
    TELLS,
    JOINED,
    TIMED,
    COUNTS,
    STORED,
    *OF_STANDING,
    *(promise for promise, _ in PROMISES),
)
"""The invariants that are checked on each step of a coordinator with a classic group."""
OF_HEARTBEATS = tuple(name for name, _ in INVARIANTS if name.startswith("23 "))
"""The invariants of heartbeats, not checked in a group with classic members: these report owned partitions in joins."""


def find_broken(
    groups: tuple[Group | None, Group | None, Any], given: Any, answers: Sequence[Answer], context: Context
) -> Iterator[str]:
    """The invariants that a step breaks.

    Args:
        groups: before and after the step, and, of a classic one, what the log has then.
        given: the body of a request, or a timer: its kind, and whose it is.
    """
    before, after, stored = groups
    yield from _check_group(before, after, stored)
    yield from find_outcasts(before, after, given, answers, context)
    answered = [*(token for token, _ in answers), *waiting(after)]
    told_apart = [token for token in answered if not token.late]  # a process may send equal ones, which it abandoned
    if len(told_apart) != len({*told_apart}):
        yield ANSWERED_ONCE
    if not _is_led(before, after, answers):
        yield LEADER_JOINS
    if type(before) is type(after) and not all(_tells_all(after, body) for _, body in answers):
        yield JOINS_KNOWING
    if _waits_for_nobody(after):
        yield WAITS
    if isinstance(given, tuple):
        yield from [] if _passes(before, after, given) else [NOBODYS_TIMER]
    else:
        yield from [] if any(_is_for(one, given) for one in answered) else [ANSWERED]
        yield from _ask_request(before, after, given, answers, context)
    if isinstance(after, ConsumerGroup):
        was = before if isinstance(before, ConsumerGroup) else None
        yield from [] if was is None else ask_target(was, after, context)
        sent = given if isinstance(given, ConsumerGroupHeartbeatRequest) else None
        moment = Moment(was, after, context, sent, answers[0] if sent is not None and answers else None)
        found = broken_in_consumer_group(moment, held_before=True)
        yield from (name for name in found if name not in OF_HEARTBEATS)


def find_lost(stored: Group | None, loaded: Group | None, logged: Group | None, context: Context) -> Iterator[str]:
    """The invariants that another broker breaks as it takes over: it has loaded what was stored, and logs the rest."""
    yield from _check_group(stored, loaded, logged)
    yield from find_outcasts(stored, loaded, None, (), context)


def _ask_request(
    before: Group | None, after: Group | None, request: Any, answers: Sequence[Answer], context: Context
) -> Iterator[str]:
    """The invariants of requests of classic members that a step breaks."""
    yield from _ask_commit(before, request, answers)
    if not _joins_as_asked(after, request, answers):
        yield JOINED
    if isinstance(request, HeartbeatRequest) and any(one.body == REJOIN for one in answers):
        yield from [] if _has_to_rejoin(before, request, context) else [FOR_SOMETHING]
    if isinstance(after, ConsumerGroup) and not _timers_follow(after, request, answers):
        yield TIMED


def waiting(group: Group | None) -> Iterator[Any]:
    """The tokens of requests that are answered later."""
    if isinstance(group, ClassicGroup):
        for delayed in (group.delayed_joins, group.delayed_syncs):
            yield from (delayed[who].token for who in sorted(delayed))


def _is_for(token: Any, request: Any) -> bool:
    return token.order.body is request


def _check_group(before: Any, after: Any, stored: Any) -> Iterator[str]:
    """The invariants of a group that a step breaks; `stored` is the group as its log has it."""
    if isinstance(before, ClassicGroup) and isinstance(after, ConsumerGroup):
        given = (decode_assignment(one.assignment) for one in before.members.values() if one.assignment)
        yield from [DATA] if any(one.user_data for one in given) else []
    if isinstance(after, ClassicGroup):
        yield from find_broken_classic(after)
        if isinstance(before, ClassicGroup) and not counts_generations(before, after):
            yield COUNTS
        if not is_stored(after, stored):
            yield STORED
        has_joined = isinstance(before, ClassicGroup) and before.leader in before.delayed_joins
        if has_joined and before.leader in after.members and before.leader != after.leader:
            yield LEADER_STAYS
        of_consumers = after.protocol_type == PROTOCOL_TYPE and after.state is ClassicState.STABLE
        if of_consumers and not all(map(_subscribes_to_it, after.members.values())):
            yield SUBSCRIBED
    if before is None or after is None:
        return
    begins = before.is_empty and (isinstance(before, ConsumerGroup) or type(before) is not type(after))
    if not begins and _count_generations(after) < _count_generations(before):
        yield NEVER_FALLS


def _count_generations(group: Group) -> int:
    return group.generation if isinstance(group, ClassicGroup) else group.epoch


def _subscribes_to_it(member: ClassicGroupMember) -> bool:
    """Whether a consumer subscribes, by each of its assignors, to every topic of its assignment."""
    given = read_partitions(member.assignment)
    if not given:
        return True
    topics = {topic for topic, _ in given}
    return all(topics <= {*decode_subscription(one.metadata).topics} for one in member.protocols)


def read_partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    return decode_assignment(assignment).partitions if assignment else ()


def _is_led(before: Group | None, after: Group | None, answers: Iterable[tuple[Any, Any]]) -> bool:
    """Whether the leader of a generation that begins is told so."""
    if not (isinstance(before, ClassicGroup) and isinstance(after, ClassicGroup)) or not after.members:
        return True
    joined = {body.member_id for _, body in answers if isinstance(body, JoinGroupResponse)}
    return after.generation == before.generation or after.leader in joined


def _tells_all(group: Group | None, body: Any) -> bool:
    """Whether the answer to a join that succeeds has the id of a member, its generation or epoch, and its leader."""
    if group is None or not isinstance(body, JoinGroupResponse) or body.error_code is not ErrorCode.NONE:
        return True
    if body.member_id not in group.members:
        return False
    if isinstance(group, ConsumerGroup):
        return bool(body.generation_id == group.members[body.member_id].epoch)
    return (body.generation_id, body.leader) == (group.generation, group.leader)


def _waits_for_nobody(group: Group | None) -> bool:
    """Whether a join phase goes on though all have joined; an initial one waits for the end of its delay.

    A full group that refuses the last pending member does so in Kafka (W34).
    """
    if not isinstance(group, ClassicGroup) or group.state is not ClassicState.PREPARING_REBALANCE:
        return False
    return not group.is_initial_rebalance and group.has_all_joined()


def _passes(before: Group | None, after: Group | None, timer: tuple[TimerKind, str]) -> bool:
    """Whether a session timer changes nothing but itself if its id is in the group no more."""
    kind, who = timer
    if not isinstance(before, ClassicGroup) or kind is not TimerKind.SESSION:
        return True
    is_known = who in before.members or who in before.pending_join_members
    return is_known or after == replace(before, heartbeat_deadlines_ms=before.heartbeat_deadlines_ms.without(who))


def _joins_as_asked(after: Group | None, request: Any, answers: Iterable[tuple[Any, Any]]) -> bool:
    """Whether a classic group has the protocols of the member whose join was accepted, or waits."""
    if not isinstance(after, ClassicGroup) or not isinstance(request, JoinGroupRequest):
        return True
    joined = [who for who, delayed in after.delayed_joins.items() if _is_for(delayed.token, request)]
    joined += [
        body.member_id for token, body in answers if _is_for(token, request) and body.error_code is ErrorCode.NONE
    ]
    asked = tuple((one.name, one.metadata) for one in request.protocols)
    return all(after.members[who].protocols == asked for who in joined if who in after.members)


def _timers_follow(after: ConsumerGroup, request: Any, answers: Iterable[tuple[Any, Any]]) -> bool:
    """Whether the timers for the join and sync of a classic member run according to the answer that it gets."""
    body = next((body for token, body in answers if _is_for(token, request)), None)
    who = getattr(request, "member_id", "") or getattr(body, "member_id", "")
    if who not in after.members.by_id:
        return True
    joins, syncs = ((kind, who) in after.timers for kind in (TimerKind.JOIN, TimerKind.SYNC))
    match request, getattr(body, "error_code", None):
        case JoinGroupRequest(), ErrorCode.NONE:
            return syncs and not joins
        case SyncGroupRequest(), ErrorCode.NONE:
            return not syncs
        case HeartbeatRequest() | SyncGroupRequest(), ErrorCode.REBALANCE_IN_PROGRESS:
            return joins
    return True


def _ask_commit(group: Group | None, request: Any, answers: Sequence[Answer]) -> Iterator[str]:
    """The invariants that a commit breaks: it may not commit a partition that is assigned to another member."""
    if isinstance(request, OffsetCommitRequest) and isinstance(group, ClassicGroup) and answers:
        body: Any = answers[0].body
        results = ((topic.name, one) for topic in body.topics for one in topic.partitions)
        accepted = {(name, one.partition_index) for name, one in results if one.error_code is ErrorCode.NONE}
        others = (member for who, member in group.members.items() if who != request.member_id)
        if any(not accepted.isdisjoint(read_partitions(member.assignment)) for member in others):
            yield FORMER_OWNER


def _has_to_rejoin(group: Group | None, request: HeartbeatRequest, context: Context) -> bool:
    """Whether a classic member has something to rejoin for: a join phase, or what a consumer group has for it."""
    if isinstance(group, ClassicGroup):
        return group.state is ClassicState.PREPARING_REBALANCE
    member = None if group is None else group.members.by_id.get(request.member_id)
    rules = context.dialect
    computes = is_all_classic(group) and Rule.CLASSIC_COMPUTES_TARGET in rules
    if group is None or member is None or computes or Rule.CLASSIC_REJOINS_BEHIND_TARGET not in rules:
        return True
    return member.current.state is not Settled.STABLE or member.epoch < group.target_epoch


def is_all_classic(group: Group | None) -> bool:
    """Whether it is a consumer group of classic members alone."""
    return isinstance(group, ConsumerGroup) and bool(group.members) and group.members.classic == len(group.members)
