"""Bugs of classic groups that cost a generation or time: what is given up too soon or too late, who waits in vain."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from bugzoo.classic_groups import row
from bugzoo.planting import Patches, plant
from fsm.check.mutation import replace_function, rewrite_cells
from fsm.coordinator.classic import timers
from fsm.coordinator.classic.draft import ClassicGroupDraft
from fsm.member.classic import assignors, decisions
from fsm.member.classic.step import ClassicMemberDraft
from fsm.protocol.assignment import partitions
from fsm.protocol.error_codes import ErrorCode
from fsm.tables.classic_group import TABLE as GROUP
from fsm.tables.classic_group import Event as GroupEvent
from fsm.tables.classic_group import State as Group
from fsm.tables.classic_member import KEEP_MEMBER_ID, RESET_ALL, Effect, Event, State

# What a member gives up


@plant("KAFKA-14016")
def a_sync_in_vain_ends_the_generation() -> Patches:
    return row(State.COMPLETING_REBALANCE, Event.SYNC_REBALANCE_IN_PROGRESS, State.UNJOINED, *KEEP_MEMBER_ID)


@plant("KAFKA-13214")
def a_lost_coordinator_ends_the_membership() -> Patches:
    gives_up = (Effect.FORGET_COORDINATOR, State.UNJOINED, *RESET_ALL)
    return row(State.PREPARING_REBALANCE, Event.JOIN_COORDINATOR_LOST, *gives_up)


@plant("librdkafka-4908")
def a_commit_is_told_and_the_member_goes_on() -> Patches:
    def decide(original: Any, member: Any, sent: Any, code: ErrorCode) -> Any:
        return None if code is ErrorCode.ILLEGAL_GENERATION else original(member, sent, code)

    return [replace_function(decisions.decide_commit, decide)]


@plant("librdkafka-22c61bb78")
def leaves_in_silence() -> Patches:
    return row(State.STABLE, Event.LEAVE_CALLED, Effect.REVOKE_ALL_PARTITIONS, State.UNJOINED, *RESET_ALL)


@plant("KAFKA-10870")
def a_round_in_vain_is_fatal() -> Patches:
    return [patch.dict(decisions.JOIN_ERRORS, {ErrorCode.REBALANCE_IN_PROGRESS: Event.JOIN_FATAL})]


# What it is assigned


@plant("KAFKA-7961")
def takes_what_it_no_longer_subscribes_to() -> Patches:
    return [replace_function(decisions.matches_subscription, lambda _original, _member, _assigned: True)]


@plant("KAFKA-3117")
def what_changes_during_a_round_is_known() -> Patches:
    """The leader compares its metadata with those at the end of the round, not with those that it assigned."""

    def end(original: Any, member: Any, rest: Any, error: Any) -> None:
        if member.led_metadata is not None:
            member.led_metadata = decisions.list_watched(member)
        original(member, rest, error)

    return [replace_function(ClassicMemberDraft._end_completion, end)]


@plant("librdkafka-3159")
def one_subscriber_takes_a_whole_topic() -> Patches:
    def assign(_original: Any, members: Any, counts: Any) -> Any:
        given: dict[str, list[Any]] = {one.member_id: [] for one in members}
        for topic, count in counts:
            first = min(one for one, wants in members.items() if topic in wants.topics)
            given[first.member_id] += [(topic, number) for number in range(count)]
        return {who: partitions(found) for who, found in given.items()}

    return [replace_function(assignors.assign_range, assign)]


# Whom a group waits for


def like(state: Group, *pairs: tuple[GroupEvent, GroupEvent]) -> Patches:
    """The first event of each pair does what the second one does."""
    cells = GROUP.compiled
    return [rewrite_cells(cells, {(state, one): cells[state, other] for one, other in pairs})]


@plant("KAFKA-7909")
def a_pending_id_that_expires_ends_no_phase() -> Patches:
    return like(Group.PREPARING_REBALANCE, (GroupEvent.PENDING_EXPIRED_ALL_JOINED, GroupEvent.PENDING_EXPIRED))


@plant("kop-380")
def a_member_that_goes_ends_no_phase() -> Patches:
    left = GroupEvent.MEMBERS_LEFT_ALL_JOINED, GroupEvent.MEMBERS_LEFT
    expired = GroupEvent.SESSION_EXPIRED_ALL_JOINED, GroupEvent.SESSION_EXPIRED
    return like(Group.PREPARING_REBALANCE, left, expired)


@plant("KAFKA-7196")
def the_timer_of_who_was_removed_goes_on() -> Patches:
    def remove(original: Any, draft: Any) -> None:
        timers_before = draft.heartbeat_deadlines_ms
        original(draft)
        draft.heartbeat_deadlines_ms = timers_before

    def missing(original: Any, group: Any, who: str) -> Any:
        is_gone = who not in group.members and who not in group.pending_join_members
        rebalances = is_gone and group.state is Group.STABLE
        return GroupEvent.SESSION_EXPIRED if rebalances else original(group, who)

    unjoined = replace_function(ClassicGroupDraft.remove_unjoined_members, remove)
    return [unjoined, replace_function(timers._heartbeat_missing, missing)]


@plant("KAFKA-8220")
def who_is_static_is_removed_like_any_other() -> Patches:
    def remove(_original: Any, draft: Any) -> None:
        draft.removed = [who for who in draft.members if who not in draft.delayed_joins]
        draft._remove(draft.removed)
        draft.cancel_heartbeat_timers()

    return [replace_function(ClassicGroupDraft.remove_unjoined_members, remove)]
