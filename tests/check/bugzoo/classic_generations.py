"""Bugs of classic groups that cost a generation or time: what is given up too soon or too late, who waits in vain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from bugzoo.classic_groups import row
from bugzoo.planting import Patches, plant
from fsm.check.mutation import cell_of, replace_function, rewrite_cells
from fsm.coordinator.classic import join, responses, timers
from fsm.coordinator.classic.draft import ClassicGroupDraft
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.storage.replay import _Replay
from fsm.member.classic import assignors, decisions
from fsm.member.classic.effects import Effects
from fsm.member.classic.heartbeat import Heartbeats
from fsm.member.classic.step import ClassicMemberDraft
from fsm.member.timers import NEVER
from fsm.protocol.assignment import partitions
from fsm.protocol.consumer_protocol import decode_assignment
from fsm.protocol.error_codes import ErrorCode
from fsm.tables.classic_group import TABLE as GROUP
from fsm.tables.classic_group import Effect as GroupEffect
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


@plant("kafka-PR-9354")
def an_unknown_member_does_not_join_again() -> Patches:
    """The generation is reset, and nobody asks for another one."""
    alive = (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE, State.STABLE)
    reset = (State.UNJOINED, Effect.RESET_GENERATION, Effect.RESET_MEMBER_ID)
    return [one for state in alive for one in row(state, Event.HEARTBEAT_UNKNOWN_MEMBER_ID, *reset)]


@plant("kafka-python-3017")
def an_old_generation_costs_the_id() -> Patches:
    alive = (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE, State.STABLE)
    heard = [(state, Event.HEARTBEAT_ILLEGAL_GENERATION) for state in alive]
    heard.append((State.COMPLETING_REBALANCE, Event.SYNC_ILLEGAL_GENERATION))
    return [one for state, event in heard for one in row(state, event, State.UNJOINED, *RESET_ALL)]


@plant("librdkafka-6b6e901cd")
def leaves_or_commits() -> Patches:
    """A close that commits sends no leave."""

    def close(original: Any, member: Any, operation: Any) -> None:
        if not member.config.enable_auto_commit:
            original(member, operation)
            return
        member.heartbeats = member.heartbeats.stop()
        member._end_membership(None, None)

    return [replace_function(ClassicMemberDraft._close_membership, close)]


@plant("kafka-python-3020")
def closes_without_a_callback() -> Patches:
    return row(State.STABLE, Event.LEAVE_CALLED, Effect.SEND_LEAVE_GROUP, State.UNJOINED, *RESET_ALL)


@plant("KAFKA-9620")
def a_callback_that_raises_is_the_last() -> Patches:
    """What follows it in the same round is left out, and the next poll begins with the assignment."""

    def end(original: Any, member: Any, rest: Any, error: Any) -> None:
        original(member, None if error else rest, error)

    return [replace_function(ClassicMemberDraft._end_completion, end)]


# When it sends heartbeats


@plant("librdkafka-14700e9b4")
def a_failed_heartbeat_is_the_last() -> Patches:
    def fail(original: Any, beats: Heartbeats, *given: Any) -> Heartbeats:
        found: Heartbeats = original(beats, *given)
        return replace(found, heartbeat_due_ms=NEVER) if found.enabled else found

    return [replace_function(Heartbeats.fail, fail)]


@plant("librdkafka-c086b8bf8")
def heartbeats_though_nobody_polls() -> Patches:
    def tick(original: Any, member: Any, given: Any) -> None:
        if member.heartbeats.enabled:
            member.heartbeats = replace(member.heartbeats, poll_due_ms=NEVER)
        original(member, given)

    return [replace_function(ClassicMemberDraft.tick, tick)]


# What it is assigned


@plant("KAFKA-8104")
def an_assignment_needs_no_generation() -> Patches:
    """What was reset between the answer to the sync and the poll that reads it is not looked at."""

    def complete(_original: Any, member: Any, completion: Any) -> None:
        member.go_on(completion.steps, completion.reason)

    return [replace_function(ClassicMemberDraft._complete_join, complete)]


@plant("KAFKA-3949")
def joined_with_what_it_subscribes_to_now() -> Patches:
    """A subscription that changes while a round is under way passes for the one that the member joined with."""

    def end(original: Any, member: Any, rest: Any, error: Any) -> None:
        member.joined_topics = member.topics
        original(member, rest, error)

    return [replace_function(ClassicMemberDraft._end_completion, end)]


@plant("sarama-1462")
def new_partitions_are_not_noticed() -> Patches:
    """The leader compares the names of topics, and not how many partitions they have."""

    def cause(original: Any, member: Any) -> Any:
        led, known = dict(member.led_metadata or ()), dict(decisions.list_watched(member))
        return None if led != known and led.keys() == known.keys() else original(member)

    return [replace_function(decisions.find_rejoin_cause, cause)]


@plant("sarama-2290")
def who_gets_nothing_is_left_out() -> Patches:
    def assignments(original: Any, member: Any, found: Any) -> Any:
        return tuple(one for one in original(member, found) if decode_assignment(one.assignment).partitions)

    return [replace_function(Effects._assignments, assignments)]


@plant("librdkafka-57da62532")
def as_many_topics_as_members() -> Patches:
    def assign(original: Any, members: Any, counts: Any) -> Any:
        return original(members, counts[: len(members)])

    return [replace_function(assignors.assign_range, assign)]


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


@plant("KAFKA-9752")
def who_is_new_has_no_session() -> Patches:
    """The timer of a new member ends with the round that it joined in, and no other one begins."""

    def reset(original: Any, draft: Any) -> None:
        original(draft)
        draft.heartbeat_deadlines_ms = draft.heartbeat_deadlines_ms.without(*draft.new_members)

    return [replace_function(ClassicGroupDraft.reset_heartbeat_timers, reset)]


@plant("kafka-PR-451")
def who_waited_for_the_leader_has_no_session() -> Patches:
    def answer(original: Any, draft: Any, body: Any) -> None:
        timers_before = draft.heartbeat_deadlines_ms
        original(draft, body)
        draft.heartbeat_deadlines_ms = timers_before

    return [replace_function(ClassicGroupDraft._answer_syncs, answer)]


@plant("KAFKA-9885")
def who_has_an_id_has_a_place() -> Patches:
    """An id that was given out is not counted, and whoever has it is let in; of too many the first to join goes."""

    def accepts(_original: Any, group: Any, member_id: str, max_size: int) -> bool:
        if not member_id:
            return len(group.members) < max_size
        return len(group.members) <= max_size or member_id not in group.members or member_id in group.delayed_joins

    return [replace_function(join._is_accepted, accepts)]


@plant("seaweedfs-9162")
def joins_behind_the_leader() -> Patches:
    """A member that joins while the leader assigns is of that generation, without another round."""
    completing = Group.COMPLETING_REBALANCE
    joins = GroupEffect.ADD_MEMBER, GroupEffect.ANSWER_JOIN, GroupEffect.RESET_HEARTBEAT_TIMER
    return [rewrite_cells(GROUP.compiled, {(completing, GroupEvent.MEMBER_JOINED): cell_of(completing, joins)})]


# What a log says of a group


@plant("kafka-PR-462")
def the_first_record_counts() -> Patches:
    def take(original: Any, found: Any, group_id: str, value: Any) -> None:
        if value is None or not isinstance(found.state.groups.get(group_id), ClassicGroup):
            original(found, group_id, value)

    return [replace_function(_Replay._take_classic, take)]


# What a member is told, and tells


@plant("KAFKA-4033")
def what_is_no_longer_subscribed_to_is_gone_at_once() -> Patches:
    def subscribe(original: Any, member: Any, asked: Any) -> None:
        original(member, asked)
        member.owned = tuple(one for one in member.owned if one[0] in member.topics)

    return [replace_function(ClassicMemberDraft.subscribe, subscribe)]


@plant("KAFKA-9701")
def no_generation_has_no_protocol() -> Patches:
    """The name in the answer to a sync is compared with that of a generation that was reset meanwhile."""

    def differs(_original: Any, member: Any, answer: Any) -> bool:
        return answer.protocol_name not in (None, member.generation.protocol_name)

    return [replace_function(decisions._is_of_another_protocol, differs)]


@plant("KAFKA-10134")
def a_rebalance_goes_on_until_it_is_stored() -> Patches:
    completing = Group.COMPLETING_REBALANCE
    told = GroupEffect.RESET_HEARTBEAT_TIMER, GroupEffect.ANSWER_REBALANCE_IN_PROGRESS
    return [rewrite_cells(GROUP.compiled, {(completing, GroupEvent.HEARTBEAT): cell_of(completing, told)})]


@plant("KAFKA-13435")
def the_process_of_before_leads() -> Patches:
    """Before KIP-814: a static leader that returns is told the id that it had, and watches nothing."""
    return [patch.object(responses, "SKIPS_ASSIGNMENT_SINCE", 99)]
