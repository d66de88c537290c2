"""What must hold of the coordinator's groups in every step of a cluster: the numbered invariants, and the promises.

Those of consumer groups are `fsm.coordinator.consumer.invariants`; here they meet classic members, whose
JoinGroups report what is owned, and groups that change their type (diagrams/hazards.md#group-29 to 31).
"""

from __future__ import annotations

from collections.abc import Iterator

from fsm.cluster.cluster import Answers, Cluster
from fsm.cluster.stale_uses import Change
from fsm.coordinator.classic import invariants as classic_invariants
from fsm.coordinator.consumer.invariants import Moment, find_broken
from fsm.coordinator.migration.conversion import by_id, encode
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup, GroupMember, Partition
from fsm.protocol.assignment import flatten
from fsm.protocol.consumer_protocol import decode_assignment, decode_subscription
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, HeartbeatRequest, SyncGroupRequest
from fsm.tables.classic_group import State as ClassicState
from fsm.tables.consumer_group import State
from fsm.tables.consumer_group_member import State as MemberState

REVOKED_BEFORE_ASSIGNED = "23 partitions are revoked before they are assigned"


def watch(found: Cluster) -> None:
    """From now on every step of the coordinator is looked at; one that breaks something ends the run."""

    def look(change: Change, answers: Answers) -> None:
        wrong = [*wrongs(found, change, answers)]
        assert not wrong, f"{wrong} after {change.request} at {found.now_ms} ms\n{found.story.text(40)}"

    found.on_step = look


def wrongs(found: Cluster, change: Change, answers: Answers) -> Iterator[str]:
    """What does not hold after this step."""
    if isinstance(change.after, ClassicGroup):
        yield from classic_invariants.find_broken(change.after)
        yield from downgraded(found, change)
    elif isinstance(change.after, ConsumerGroup):
        yield from of_consumer_group(found, change, answers, change.after)
        yield from upgraded(change, change.after)


def of_consumer_group(found: Cluster, change: Change, answers: Answers, group: ConsumerGroup) -> Iterator[str]:
    if change.before is not None and not isinstance(change.before, ConsumerGroup):
        return
    sent = change.request if isinstance(change.request, ConsumerGroupHeartbeatRequest) else None
    answer = None if sent is None else answers[0]
    names = find_broken(Moment(change.before, group, found.context, sent, answer))
    yield from (name for name in names if not change.is_join or name != REVOKED_BEFORE_ASSIGNED)
    if change.is_join and change.before is not None:
        yield from unreported(change, change.before, group)
    if sent is None and change.request is not None:
        yield from report_lagging(change, answers, group)


def unreported(change: Change, before: ConsumerGroup, after: ConsumerGroup) -> Iterator[str]:
    """23 of a classic member: what it stops holding its JoinGroup does not report as owned."""
    if not change.request.protocols:
        return
    for member_id, old in before.members.items():
        new = after.members.get(member_id)
        if new is None or old.current.held <= new.current.held:
            continue
        if member_id != change.request.member_id:
            yield f"23 {member_id} lost partitions by the request of another"
        elif (old.current.held - new.current.held) & owned(new, change):
            yield f"23 {member_id} lost partitions that it owns"


def owned(member: GroupMember, change: Change) -> set[Partition]:
    """What a classic member said in its join."""
    classic = member.metadata.classic_member_metadata
    if classic is None:
        return set()
    return {
        *flatten(by_id(decode_subscription(classic.supported_protocols[0].metadata).owned_partitions, change.image))
    }


def report_lagging(change: Change, answers: Answers, group: ConsumerGroup) -> Iterator[str]:
    """31: who is behind the target hears of it with every Heartbeat, and gets no assignment unless it must revoke."""
    request = change.request
    if not isinstance(request, HeartbeatRequest | SyncGroupRequest) or len(answers) != 1:
        return
    member = group.members.get(request.member_id)
    if member is None or answers[0].body.error_code is not ErrorCode.NONE or member.epoch >= group.target_epoch:
        return
    if isinstance(request, HeartbeatRequest) or member.current.state is not MemberState.UNREVOKED_PARTITIONS:
        yield f"31 {member.member_id} is behind the target, and hears nothing of it"


def upgraded(change: Change, group: ConsumerGroup) -> Iterator[str]:
    """29: who was a classic member begins with what it was assigned, at the generation."""
    before = change.before
    if not isinstance(before, ClassicGroup) or not before.members:
        return
    if group.epoch - before.generation not in {0, 1, 2}:
        yield f"29 the group epoch became {group.epoch}, from generation {before.generation}"
    for member_id, old in before.members.items():
        member = group.members.get(member_id)
        given = () if not old.assignment else by_id(decode_assignment(old.assignment).partitions, change.image)
        if member is not None and (member.assigned, member.epoch) != (given, before.generation):
            yield f"29 {member_id} did not keep its assignment, or its epoch"


def downgraded(found: Cluster, change: Change) -> Iterator[str]:
    """30: the generation is the group epoch, the assignments are the targets, everybody speaks the classic protocol."""
    before, after = change.before, change.after
    if not isinstance(before, ConsumerGroup) or not isinstance(after, ClassicGroup) or before.state is State.EMPTY:
        return
    if after.generation != before.epoch or after.state not in {ClassicState.PREPARING_REBALANCE, ClassicState.STABLE}:
        yield f"30 generation {after.generation} in {after.state.name}, from epoch {before.epoch}"
    for member_id, member in after.members.items():
        if member_id not in before.members or not before.members[member_id].is_classic:
            continue  # the joiner that takes a place, or a member that changes its protocol
        target = before.targets.get(member_id, ())
        if member.assignment != encode(target, member.metadata(after.protocol_name), found.context.image):
            yield f"30 {member_id} was not assigned its target"
