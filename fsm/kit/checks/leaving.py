"""How a member leaves a consumer group: KIP-848, KIP-345."""

from __future__ import annotations

from fsm.kit.check import Grade, Verdict, hold, rule, slack
from fsm.kit.client_history import Moment, What
from fsm.kit.wording import heartbeat, partitions, seconds

LEAVE = "KIP-848, Member Lifecycle"
CLOSE_MS = 10_000.0
LONG_MS = 3_000.0
"""A callback that takes longer may use up the time that a client has for its close."""
FOR_GOOD, FOR_A_WHILE = -1, -2


@rule("L1", Grade.MUST, LEAVE, What.END)
def sends_leave(moment: Moment) -> Verdict:
    """A member that is closed leaves the group, so that others need not wait for its session to expire."""
    member, app = moment.consumer, moment.application
    if app.closing_ms is None or moment.client.protocol != "consumer" or member.refusal:
        return None
    if (member.left is None and not member.is_member) or app.changed_ms - app.closing_ms > LONG_MS:
        return None
    return hold(
        member.left is not None, "a heartbeat with epoch -1 or -2", f"none in {seconds(moment.at_ms - app.closing_ms)}"
    )


@rule("L2", Grade.MUST, LEAVE, What.HEARTBEAT)
def is_silent_after_leave(moment: Moment) -> Verdict:
    """A member sends nothing after it has left, unless it rejoins or its leave got no response."""
    left = moment.consumer.left
    if left is None:
        return None
    epoch = moment.request.member_epoch
    is_repeat = epoch < 0 and not left.is_answered
    return hold(epoch == 0 or is_repeat, "no heartbeat, or a join with epoch 0", heartbeat(moment.request))


@rule("L3", Grade.SHOULD, "enable.auto.commit; ConsumerCoordinator.close", What.HEARTBEAT)
def commits_before_leave(moment: Moment) -> Verdict:
    """A member with auto-commit commits what it has read before it leaves."""
    member = moment.consumer
    if moment.request.member_epoch >= 0 or not moment.reads.commits or not member.is_member:
        return None
    if moment.application.closing_ms is None:
        return None
    open_ = moment.reads.list_uncommitted(moment.name_topics(member.owned))
    return hold(not open_, "a commit before", f"a leave with uncommitted offsets of {partitions(open_)}")


@rule("L4", Grade.SHOULD, "KIP-345; KIP-848, Static Membership", What.HEARTBEAT)
def static_for_a_while(moment: Moment) -> Verdict:
    """A static member that is closed leaves temporarily (epoch -2), so that its partitions wait for it."""
    if moment.request.member_epoch >= 0 or not moment.consumer.instance_id:
        return None
    return hold(moment.request.member_epoch == FOR_A_WHILE, "epoch -2", heartbeat(moment.request))


@rule("L5", Grade.MUST, "KIP-848, Static Membership", What.HEARTBEAT)
def temporary_leave_names_instance(moment: Moment) -> Verdict:
    """A temporary leave (epoch -2) has the instance id; it is refused without."""
    if moment.request.member_epoch != FOR_A_WHILE:
        return None
    return hold(
        moment.request.instance_id, f"instance id {moment.consumer.instance_id!r}", "epoch -2 without instance id"
    )


@rule("L6", Grade.SHOULD, "KIP-62; max.poll.interval.ms", What.HEARTBEAT, What.END)
def leaves_when_not_polled(moment: Moment) -> Verdict:
    """A member leaves the group when its application does not poll within max.poll.interval.ms."""
    app, member = moment.application, moment.consumer
    if app.paused_ms is None or not member.rebalance_timeout_ms:
        return None
    late_ms = moment.at_ms - app.paused_ms - member.rebalance_timeout_ms
    if moment.what is What.HEARTBEAT and moment.request.member_epoch < 0:
        return True if late_ms > -1_000 else None
    if not member.is_member or late_ms <= 1_000 + slack(member.rebalance_timeout_ms):
        return None
    return hold(
        False,
        f"a leave after {seconds(member.rebalance_timeout_ms)} without a poll",
        f"it is still a member {seconds(late_ms)} later",
    )


@rule("L7", Grade.SHOULD, "Consumer.close", What.END)
def close_ends(moment: Moment) -> Verdict:
    """A client that is closed terminates soon, whatever the coordinator does."""
    app = moment.application
    if app.closing_ms is None:
        return None
    ended_ms = app.closed_ms or app.exited_ms
    if ended_ms is None and moment.at_ms - app.closing_ms < CLOSE_MS:
        return None
    took_ms = (ended_ms or moment.at_ms) - app.closing_ms
    is_kept = ended_ms is not None and took_ms <= CLOSE_MS
    return hold(
        is_kept, f"an end within {seconds(CLOSE_MS)}", "none" if ended_ms is None else f"one after {seconds(took_ms)}"
    )


@rule("L8", Grade.MUST, LEAVE, What.HEARTBEAT)
def leaves_with_its_id(moment: Moment) -> Verdict:
    """A leave has the member id with which the member joined."""
    member = moment.consumer
    if moment.request.member_epoch >= 0 or not member.is_known:
        return None
    return hold(moment.request.member_id == member.member_id, member.member_id, moment.request.member_id)
