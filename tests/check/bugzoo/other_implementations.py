"""Bugs of other implementations of the protocols: clients and brokers that share no code with Kafka's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from bugzoo.classic_groups import row
from bugzoo.consumer_members import no_effect
from bugzoo.planting import Patches, cure, plant
from fsm.check.mutation import cell_of, replace_function, rewrite_cells
from fsm.coordinator.classic import join, timers
from fsm.coordinator.classic.draft import ClassicGroupDraft
from fsm.coordinator.consumer import heartbeat, membership, reconciliation
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.step import Answer, Refused, Step
from fsm.coordinator.storage import load
from fsm.member.classic import assignors
from fsm.member.classic import decisions as classic
from fsm.member.classic.effects import Effects
from fsm.member.classic.step import ClassicMemberDraft
from fsm.member.consumer import decisions
from fsm.member.events import ListenerMethod
from fsm.member.timers import NEVER
from fsm.protocol.assignment import partitions
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import HeartbeatRequest, SyncGroupRequest
from fsm.tables.classic_group import TABLE as GROUP
from fsm.tables.classic_group import Effect as GroupEffect
from fsm.tables.classic_group import Event as GroupEvent
from fsm.tables.classic_group import State as Group
from fsm.tables.classic_member import Effect, Event, State

# Members of classic groups


@plant("kafka-go-1432")
def throws_the_id_away() -> Patches:
    return [no_effect(Effects.adopt_member_id)]


@plant("librdkafka-5569")
def throws_the_id_of_an_outdated_answer_away() -> Patches:
    return row(State.UNJOINED, Event.JOIN_MEMBER_ID_REQUIRED, Effect.REQUEST_REJOIN)


@plant("sarama-2058")
def a_join_at_a_coordinator_that_loads_is_fatal() -> Patches:
    return [patch.dict(classic.JOIN_ERRORS, {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Event.JOIN_FATAL})]


@cure("kafkajs-1779")
def a_sync_at_a_coordinator_that_loads_is_in_vain() -> Patches:
    mended = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Event.SYNC_REBALANCE_IN_PROGRESS}
    return [patch.dict(classic.SYNC_ERRORS, mended)]


@plant("kafka-go-1351")
def watches_what_it_subscribes_to() -> Patches:
    def watched(original: Any, member: Any) -> Any:
        return tuple(one for one in original(member) if one[0] in (member.topics or ()))

    return [replace_function(classic.list_watched, watched)]


@plant("crabka-344")
def leaves_with_its_first_id() -> Patches:
    def leave(original: Any, draft: Any, reason: str) -> None:
        known = draft.generation
        if known.member_id:
            draft.generation = known._replace(member_id=f"{known.member_id.rstrip('0123456789')}0")
        original(draft, reason)
        draft.generation = known

    return [replace_function(Effects.send_leave_group, leave)]


# Coordinators of classic groups


@plant("crabka-212")
def who_is_static_never_expires() -> Patches:
    def missing(original: Any, group: ClassicGroup, who: str) -> Any:
        is_static = who in group.members.static.values()
        return GroupEvent.SESSION_EXCUSED if is_static else original(group, who)

    return [replace_function(timers._heartbeat_missing, missing)]


@plant("kfake-7825098b")
def one_common_protocol_with_anybody_is_enough() -> Patches:
    def supports(_original: Any, group: Any, protocol_type: str, names: Any) -> bool:
        if not group.members:
            return bool(protocol_type and names)
        known = {name for member in group.members.values() for name, _ in member.protocols}
        return group.protocol_type == protocol_type and not known.isdisjoint(names)

    return [replace_function(ClassicGroup.supports, supports)]


# Members of KIP-848


@plant("Dekaf-1348")
def who_is_static_leaves_for_good() -> Patches:
    return [replace_function(decisions.leave_epoch, lambda _original, _member: -1)]


# Coordinators of KIP-848


@plant("crabka-301")
def an_id_is_the_coordinators_to_give() -> Patches:
    def find(original: Any, draft: Any, sent: Any, member_id: str) -> Any:
        if sent.member_epoch == 0 and sent.member_id and sent.member_id not in draft.stored.members.by_id:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        return original(draft, sent, member_id)

    return [replace_function(heartbeat._find_sender, find)]


@plant("kfake-109ecd03")
def who_leaves_for_a_while_keeps_nothing() -> Patches:
    def leave(original: Any, group: Any, member: Any, request: Any, context: Any) -> Any:
        bare = replace(member, current=replace(member.current, assigned=()))
        return original(group, bare, request, context)

    return [replace_function(heartbeat.leave_for_a_while, leave)]


# What a member tells its coordinator and its application


@plant("kafkajs-1361")
def who_fetches_nothing_sends_no_heartbeats() -> Patches:
    def tick(original: Any, member: Any, given: Any) -> None:
        if member.state is State.STABLE and not member.owned:
            member.heartbeats = replace(member.heartbeats, heartbeat_due_ms=NEVER)
        original(member, given)

    return [replace_function(ClassicMemberDraft.tick, tick)]


@plant("aiokafka-306")
def an_answer_finds_no_subscription() -> Patches:
    def receive(original: Any, member: Any, given: Any) -> None:
        if member.topics is None:
            raise TypeError("there is no subscription")
        original(member, given)

    return [replace_function(Effects.receive_sync, receive)]


@plant("ruby-kafka-277")
def a_heartbeat_at_another_broker_is_fatal() -> Patches:
    return [patch.dict(classic.HEARTBEAT_ERRORS, {ErrorCode.NOT_COORDINATOR: Event.HEARTBEAT_FENCED_INSTANCE_ID})]


@plant("kafka_ex-561")
def only_joins_name_the_instance() -> Patches:
    def send(original: Any, member: Any, body: Any, *rest: Any) -> None:
        bare = isinstance(body, HeartbeatRequest | SyncGroupRequest)
        original(member, replace(body, group_instance_id=None) if bare else body, *rest)

    return [replace_function(Effects.send, send)]


@plant("confluent-kafka-python-1551")
def what_was_assigned_is_lost() -> Patches:
    """Who loses its membership gets a callback for its last assignment, whether it still owns that or not."""

    def lose(original: Any, member: Any, reason: str) -> Any:
        owned, member.owned = member.owned, member.assigned
        waits = original(member, reason)
        member.owned = owned
        return waits

    return [replace_function(Effects.lose_all_partitions, lose)]


@plant("librdkafka-5c848fef8")
def what_is_lost_is_revoked() -> Patches:
    def remove(original: Any, member: Any, _method: Any, given: Any) -> Any:
        return original(member, ListenerMethod.REVOKED, given)

    return [replace_function(Effects._remove, remove)]


@plant("iggy-3334")
def who_is_idle_takes_one() -> Patches:
    """Of what a new member is to take it gets the first, and the others stay."""

    def balance(original: Any, members: Any, given: Any, claims: Any) -> Any:
        idle = [who for who, mine in given.items() if not mine]
        had = {one: who for who, mine in given.items() for one in mine}
        found = original(members, given, claims)
        for who in idle:
            for one in [one for one in found[who] if one in had][1:]:
                found[who].remove(one)
                found[had[one]].append(one)
        return found

    return [replace_function(assignors._balance, balance)]


# What coordinators of classic groups tell, store and load


@plant("kfake-d4d15137")
def whoever_returns_keeps_the_id_that_it_sent() -> Patches:
    """The answer to a join has the id of the request, which a static member that returns does not have."""

    def answer(original: Any, draft: Any) -> None:
        original(draft)
        token, body = draft.answers[-1]
        draft.answers[-1] = Answer(token, replace(body, member_id=draft.asked.body.member_id))

    return [replace_function(ClassicGroupDraft.answer_join, answer)]


@plant("kfake-718aef16")
def only_a_changed_leader_rebalances() -> Patches:
    def ending(original: Any, draft: Any, event: GroupEvent, *, prepares: bool) -> GroupEvent:
        is_changed = event is GroupEvent.MEMBER_CHANGED
        unheard = draft.state is Group.STABLE and draft.is_leader(draft.member_id) is not is_changed
        return GroupEvent.FOLLOWER_REJOINED if unheard else original(draft, event, prepares=prepares)

    return [replace_function(join._ending, ending)]


@plant("kfake-12889e13")
def a_group_is_stored_as_if_it_were_stable() -> Patches:
    """Who leaves is gone from the log, and the rebalance for it is not there."""

    def remove(original: Any, draft: Any) -> None:
        original(draft)
        if draft.state is Group.STABLE and draft.members:
            draft.write_group()

    return [replace_function(ClassicGroupDraft.remove_members, remove)]


@plant("redpanda-b54ff1dea7")
def takes_over_before_it_has_read_the_log() -> Patches:
    return [replace_function(load.load, lambda _original, _stored, _context: Step(Coordinator()))]


@plant("seaweedfs-9143-join")
def whoever_joins_again_has_no_assignment() -> Patches:
    def answer(original: Any, draft: Any) -> None:
        if draft.replaced is None:
            draft.members = draft.members.set(replace(draft.members[draft.member_id], assignment=b""))
        original(draft)

    return [replace_function(ClassicGroupDraft.answer_join, answer)]


@plant("seaweedfs-9143-sync")
def a_follower_does_not_wait_for_the_leader() -> Patches:
    completing = Group.COMPLETING_REBALANCE
    cell = cell_of(completing, (GroupEffect.FORGET_SYNC, GroupEffect.ANSWER_SYNC))
    synced = GroupEvent.FOLLOWER_SYNCED, GroupEvent.FOLLOWER_SYNCED_LAST
    return [rewrite_cells(GROUP.compiled, {(completing, event): cell for event in synced})]


# What coordinators of KIP-848 grant and refuse


@plant("crabka-521")
def the_whole_target_is_granted() -> Patches:
    return [replace_function(reconciliation._find_granted, lambda _original, _member, _given, wanted: wanted)]


@plant("kfake-6754bede")
def who_waits_keeps_its_epoch() -> Patches:
    def compute(original: Any, member: Any, given: Any, base: int) -> Any:
        event, found = original(member, given, base)
        if found.state is not reconciliation.UNRELEASED or base == 0:
            return reconciliation.Decision(event, found)
        waits = replace(found, epoch=base, previous_epoch=member.previous_epoch)
        return reconciliation.Decision(event, member if waits == member else waits)

    return [replace_function(reconciliation._compute, compute)]


@plant("kfake-09e99f07")
def whoever_lost_its_instance_id_is_unknown() -> Patches:
    def find(original: Any, group: Any, member_id: str, instance_id: str) -> Any:
        holder = group.members.static.get(instance_id)
        if holder is not None and holder != member_id:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"no member {member_id}")
        return original(group, member_id, instance_id)

    return [replace_function(membership.find_holder, find)]


# Rounds of classic members, and the revocations of KIP-848


@plant("kafkajs-550")
def an_empty_assignment_cannot_be_read() -> Patches:
    def adopt(original: Any, member: Any, answer: Any) -> Event:
        event: Event = original(member, answer)
        return event if member.assigned else Event.SYNC_FATAL

    return [replace_function(Effects._adopt_assignment, adopt)]


@plant("sarama-6750d926")
def the_first_member_counts_twice() -> Patches:
    def assign(_original: Any, members: Any, counts: Any) -> Any:
        given: dict[str, list[Any]] = {candidate.member_id: [] for candidate in members}
        takers = [min(members), *sorted(members)]
        for topic, count in counts:
            for number in range(count):
                given[takers[number * len(takers) // count].member_id].append((topic, number))
        return {who: partitions(mine) for who, mine in given.items()}

    return [replace_function(assignors.assign_range, assign)]


@plant("sarama-3688")
def joins_again_without_a_commit() -> Patches:
    return [replace_function(ClassicMemberDraft._commit_is_over, lambda _original, _member: True)]


@plant("librdkafka-2631")
def who_is_unknown_goes_on() -> Patches:
    def decide(original: Any, member: Any, sent: Any, answer: Any) -> Event | None:
        event: Event | None = original(member, sent, answer)
        return None if event is Event.HEARTBEAT_UNKNOWN_MEMBER_ID else event

    return [replace_function(classic.decide_heartbeat, decide)]


@plant("node-rdkafka-1144")
def a_cooperative_close_hears_of_no_callback() -> Patches:
    def end(original: Any, member: Any, given: Any) -> None:
        if member.closing is None or not member.config.is_cooperative:
            original(member, given)

    return [replace_function(ClassicMemberDraft.end_callback, end)]


@plant("kfake-007d8635")
def who_revokes_moves_on_to_the_target() -> Patches:
    """A member that has not revoked yet is reconciled as any other one."""

    def reconcile(_original: Any, member: Any, given: Any) -> Any:
        return reconciliation._compute(member, given, member.epoch)

    return [replace_function(reconciliation._reconcile_unrevoked, reconcile)]
