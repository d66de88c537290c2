"""Bugs of the rounds of classic groups: a callback or a commit that fails, a broker that has moved, what the leader
deals, whom the coordinator waits for.
"""

from __future__ import annotations

from typing import Any

from bugzoo.classic_groups import only_the_newest_generation_counts, row
from bugzoo.planting import Patches, plant
from fsm.check.mutation import replace_function
from fsm.coordinator.classic import timers
from fsm.coordinator.classic.draft import ClassicGroupDraft
from fsm.coordinator.classic.requests import removal
from fsm.member.classic import assignors, decisions
from fsm.member.classic.effects import Effects
from fsm.member.classic.state import Purpose
from fsm.member.classic.step import ClassicMemberDraft
from fsm.member.events import KafkaError
from fsm.protocol.assignment import without
from fsm.protocol.consumer_protocol import decode_assignment
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import HeartbeatRequest, HeartbeatResponse, TransportFailure
from fsm.tables.classic_member import KEEP_MEMBER_ID, Effect, Event, State

# A callback or a commit that fails


def ends_its_round(member: Any, error: Any) -> bool:
    """Whether a callback that raised was the last one of its round, which the next poll repeats."""
    return error is not None and member.awaited is None


@plant("KAFKA-7194")
def an_assignment_can_be_read_once() -> Patches:
    def end(original: Any, member: Any, rest: Any, error: Any) -> None:
        original(member, rest, error)
        if ends_its_round(member, error):
            member.failure = KafkaError("BufferUnderflowException")

    return [replace_function(ClassicMemberDraft._end_completion, end)]


@plant("KAFKA-3782")
def no_heartbeats_after_a_failed_round() -> Patches:
    def end(original: Any, member: Any, rest: Any, error: Any) -> None:
        original(member, rest, error)
        if ends_its_round(member, error):
            member.heartbeats = member.heartbeats.stop()

    return [replace_function(ClassicMemberDraft._end_completion, end)]


@plant("aiokafka-19494402")
def a_commit_before_a_join_may_fail_the_poll() -> Patches:
    def end(original: Any, member: Any, purpose: Any, call: int, error: Any, *, passes: bool = False) -> None:
        original(member, purpose, call, error, passes=passes)
        if purpose is Purpose.PREPARE and not passes:
            member.failure = member.failure or error

    return [replace_function(Effects.end_commit, end)]


@plant("kafkajs-e3c1c0c8")
def an_unknown_member_commits_and_goes_on() -> Patches:
    def decide(original: Any, member: Any, sent: Any, code: ErrorCode) -> Any:
        return None if code is ErrorCode.UNKNOWN_MEMBER_ID else original(member, sent, code)

    return [replace_function(decisions.decide_commit, decide)]


# A membership that is over, a broker that has moved


@plant("librdkafka-db1cca379")
def an_unknown_member_keeps_its_id() -> Patches:
    alive = (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE, State.STABLE)
    reset = (State.UNJOINED, *KEEP_MEMBER_ID)
    return [one for state in alive for one in row(state, Event.HEARTBEAT_UNKNOWN_MEMBER_ID, *reset)]


@plant("librdkafka-a972599a8")
def who_was_assigned_nothing_does_not_join_again() -> Patches:
    def move(original: Any, member: Any) -> Any:
        is_idle = member.state is State.STABLE and not member.join_out and member.completion is None
        return not (is_idle and not member.owned) and original(member)

    return [replace_function(ClassicMemberDraft._one_move, move)]


@plant("sarama-1231")
def joins_at_the_broker_that_it_knows() -> Patches:
    return row(State.PREPARING_REBALANCE, Event.JOIN_COORDINATOR_LOST, Effect.REQUEST_REJOIN)


@plant("kafka-python-0057e75e")
def no_heartbeats_after_a_move() -> Patches:
    def forget(original: Any, member: Any, reason: str) -> None:
        original(member, reason)
        member.heartbeats = member.heartbeats.stop()

    return [replace_function(Effects.forget_coordinator, forget)]


@plant("kafka-python-3018")
def keeps_what_it_no_longer_subscribes_to_while_it_joins() -> Patches:
    return row(State.STABLE, Event.JOIN_PREPARED_COOPERATIVE)


@plant("franz-go-2fbbda5e")
def what_was_assigned_before_is_not_new() -> Patches:
    """An eager member forgets what it revoked but not that it was assigned: the same partitions are not taken up."""

    def adopt(original: Any, member: Any, answer: Any) -> Any:
        before, event = member.assigned, original(member, answer)
        if not member.config.is_cooperative:
            member.assigned = without(member.assigned, before)
        return event

    return [replace_function(Effects._adopt_assignment, adopt)]


# What the leader deals


@plant("KAFKA-13406")
def who_claims_what_is_given_away_revokes_it() -> Patches:
    """The leader refuses an assignment that gives a partition away of which a member still claims an old generation."""

    def assignments(original: Any, member: Any, found: Any) -> Any:
        made = original(member, found)
        given = {(one.member_id, p) for one in made for p in decode_assignment(one.assignment).partitions}
        owned = {(one.member_id, p) for one, wants in found.items() for p in wants.owned_partitions}
        revoked, added = ({p for _, p in left} for left in (owned - given, given - owned))
        if revoked & added:
            raise ValueError("partitions are revoked and assigned in one round")
        return made

    return [*only_the_newest_generation_counts(), replace_function(Effects._assignments, assignments)]


@plant("KAFKA-7962")
def every_topic_exists() -> Patches:
    def assign(original: Any, members: Any, counts: Any) -> Any:
        known = dict(counts)
        if any(topic not in known for one in members.values() for topic in one.topics):
            raise KeyError("no partitions of a topic")
        return original(members, counts)

    return [replace_function(assignors.assign_cooperative_sticky, assign)]


@plant("librdkafka-3306")
def nothing_moves_from_a_fuller_member() -> Patches:
    return [replace_function(assignors._move, lambda _original, _takers, _given: None)]


@plant("franz-go-dcfcacb5")
def nobody_has_had_anything() -> Patches:
    """What the members report of their last assignment is not read."""

    def balance(original: Any, members: Any, held: Any, claims: Any) -> Any:
        return original(members, {one: [] for one in held}, claims)

    return [replace_function(assignors._balance, balance)]


# Heartbeats and timers of the coordinator


def answers_in_a_rebalance(code: ErrorCode) -> Patches:
    """What a heartbeat is answered while members are to join."""

    def answer(original: Any, draft: Any) -> None:
        if isinstance(draft.asked.body, HeartbeatRequest):
            draft.answer(HeartbeatResponse(code))
        else:
            original(draft)

    return [replace_function(ClassicGroupDraft.answer_rebalance_in_progress, answer)]


@plant("KAFKA-1740")
def a_rebalance_is_not_told() -> Patches:
    return answers_in_a_rebalance(ErrorCode.NONE)


@plant("KAFKA-2557")
def a_rebalance_ends_the_generation_at_once() -> Patches:
    return answers_in_a_rebalance(ErrorCode.ILLEGAL_GENERATION)


@plant("redpanda-3761")
def an_id_that_was_given_out_has_no_timer() -> Patches:
    def reset(original: Any, draft: Any) -> None:
        if draft.member_id not in draft.pending_join_members:
            original(draft)

    return [replace_function(ClassicGroupDraft.reset_heartbeat_timer, reset)]


@plant("redpanda-25270")
def a_join_phase_has_members() -> Patches:
    def over(original: Any, group: Any, phase: Any) -> Any:
        if not group.members:
            raise ValueError("no rebalance timeout without members")
        return original(group, phase)

    return [replace_function(timers._join_phase_over, over)]


@plant("redpanda-22749")
def who_waits_has_to_send_heartbeats() -> Patches:
    def missing(original: Any, group: Any, who: str) -> Any:
        if group.is_waiting(who):
            return removal(group, (who,), timers._SESSION, ends_initial=True)
        return original(group, who)

    return [replace_function(timers._heartbeat_missing, missing)]


# Another coordinator, an answer that is lost, a broker that has moved


@plant("KAFKA-16148")
def who_waits_is_not_told_of_a_move() -> Patches:
    answers = (ClassicGroupDraft.answer_joins_not_coordinator, ClassicGroupDraft.answer_syncs_not_coordinator)
    return [replace_function(one, lambda _original, _draft: None) for one in answers]


@plant("KAFKA-8386")
def whoever_waits_at_a_dead_group_is_unknown() -> Patches:
    def joins(_original: Any, draft: Any) -> None:
        draft._refuse_joins(ErrorCode.UNKNOWN_MEMBER_ID)

    def syncs(_original: Any, draft: Any) -> None:
        draft._refuse_syncs(ErrorCode.UNKNOWN_MEMBER_ID)

    return [
        replace_function(ClassicGroupDraft.answer_joins_not_coordinator, joins),
        replace_function(ClassicGroupDraft.answer_syncs_not_coordinator, syncs),
    ]


@plant("KAFKA-2677")
def a_sync_that_fails_is_awaited() -> Patches:
    def receive(original: Any, member: Any, given: Any) -> None:
        if not isinstance(given.answer, TransportFailure):
            original(member, given)

    return [replace_function(Effects.receive_sync, receive)]


@plant("KAFKA-5277")
def claims_what_it_was_assigned_last() -> Patches:
    """The assignor remembers the assignment, and the member has lost it since."""

    def subscribe(original: Any, member: Any, assignor: Any) -> Any:
        owned, member.owned = member.owned, member.assigned
        found = original(member, assignor)
        member.owned = owned
        return found

    return [replace_function(Effects._subscription, subscribe)]
