"""How a member joins a consumer group, and how it leaves: KIP-848, KIP-1082, KIP-345."""

from __future__ import annotations

from fsm.kit.check import Grade, Verdict, heartbeat, hold, partitions, rule, seconds, slack
from fsm.kit.client_history import Moment, What
from fsm.kit.consumer_member import RETRIABLE
from fsm.protocol.error_codes import ErrorCode

HEARTBEAT_API = "KIP-848, ConsumerGroupHeartbeat API"


@rule("J1", Grade.MUST, "KIP-1082", What.HEARTBEAT)
def own_id(moment: Moment) -> Verdict:
    """A member joins with a member id that it generated itself."""
    if moment.request.member_epoch or not moment.exchange or moment.exchange.version < 1:
        return None
    return hold(moment.request.member_id, "a member id, made by the client", "no member id")


@rule("J2", Grade.MUST, HEARTBEAT_API, What.HEARTBEAT)
def owns_nothing(moment: Moment) -> Verdict:
    """A joining member reports an empty list of owned partitions, not null."""
    if moment.request.member_epoch:
        return None
    owned = moment.request.topic_partitions
    return hold(
        owned == (), "an empty list of owned partitions", "null" if owned is None else heartbeat(moment.request)
    )


@rule("J3", Grade.MUST, HEARTBEAT_API, What.HEARTBEAT)
def rebalance_timeout(moment: Moment) -> Verdict:
    """A joining member sends its rebalance timeout."""
    if moment.request.member_epoch:
        return None
    timeout_ms = moment.request.rebalance_timeout_ms
    return hold(timeout_ms > 0, "a rebalance timeout of more than 0 ms", timeout_ms)


@rule("J4", Grade.MUST, HEARTBEAT_API, What.HEARTBEAT)
def subscription(moment: Moment) -> Verdict:
    """A joining member sends its subscription: topic names or a regular expression."""
    request = moment.request
    if request.member_epoch:
        return None
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex
    return hold(subscribes, "topic names or a pattern", "neither")


@rule("J5", Grade.SHOULD, "KIP-1082", What.HEARTBEAT)
def one_id(moment: Moment) -> Verdict:
    """A member keeps its member id for the lifetime of its process."""
    member, exchange = moment.consumer, moment.exchange
    if exchange is None or exchange.connection not in member.connections:
        return None
    return hold(moment.request.member_id == member.member_id, member.member_id, moment.request.member_id)


@rule("J6", Grade.MUST, "KIP-848, Member Lifecycle", What.HEARTBEAT)
def joins_with_cause(moment: Moment) -> Verdict:
    """A member keeps its epoch; it rejoins with epoch 0 only after it was fenced, has left, or missed a response."""
    member = moment.consumer
    if not member.is_member or not member.is_settled or moment.is_open:
        return None
    if _is_restarted(moment):
        return None
    return hold(moment.request.member_epoch, f"epoch {member.epoch}, as received", "epoch 0: it rejoins without cause")


@rule("J7", Grade.SHOULD, "KIP-848, Member Lifecycle", What.HEARTBEAT)
def keeps_epoch_when_refused(moment: Moment) -> Verdict:
    """A member keeps its epoch after a retriable error: it is still a member."""
    member = moment.consumer
    if not member.is_member or member.refusal.code not in RETRIABLE:
        return None
    got = f"epoch 0 after {member.refusal.code.name}"
    return hold(moment.request.member_epoch, f"epoch {member.epoch}, as received", got)


@rule("J8", Grade.NOTE, "KIP-848; ConsumerHeartbeatRequestManager", What.HEARTBEAT)
def rack_at_join(moment: Moment) -> Verdict:
    """A member sends its rack only when it joins."""
    if moment.request.rack_id is None:
        return None
    return hold(moment.request.member_epoch == 0, "no rack", f"rack {moment.request.rack_id!r} again")


@rule("S1", Grade.SHOULD, HEARTBEAT_API, What.HEARTBEAT)
def sends_changed_topics(moment: Moment) -> Verdict:
    """A member sends a changed subscription at the latest in its next heartbeat."""
    app, request, member = moment.application, moment.request, moment.consumer
    if app.wanted_ms is None or not member.is_member or request.member_epoch < 0:
        return None
    names = frozenset(request.subscribed_topic_names or ())
    late_ms = moment.at_ms - app.wanted_ms
    if names == app.wanted:
        return True
    expected = f"topics {', '.join(sorted(app.wanted))}"
    is_late = late_ms > member.interval_ms + 1_000 and not app.callback
    return hold(False, expected, f"{heartbeat(request)}, {seconds(late_ms)} later") if is_late else None


@rule("S2", Grade.SHOULD, "KIP-848, Member Lifecycle; Consumer.unsubscribe", What.HEARTBEAT, What.END)
def leaves_when_unsubscribed(moment: Moment) -> Verdict:
    """A member leaves the group when its application unsubscribes."""
    app, member = moment.application, moment.consumer
    if app.unsubscribed_ms is None:
        return None
    late_ms = moment.at_ms - max(app.unsubscribed_ms, app.changed_ms)
    is_late = late_ms > member.interval_ms + slack(member.interval_ms)
    if moment.what is What.HEARTBEAT and moment.request.member_epoch < 0:
        return hold(not is_late, "a leave (epoch -1 or -2)", f"one after {seconds(late_ms)}")
    if not member.is_member or not is_late or app.callback:
        return None
    return hold(False, "a leave (epoch -1 or -2)", f"none for {seconds(late_ms)}")


@rule("E3", Grade.MUST, "KIP-1082", What.HEARTBEAT)
def repeats_join(moment: Moment) -> Verdict:
    """A member whose join got no response joins again with the same member id."""
    member, request = moment.consumer, moment.request
    if moment.doubt is None or member.sent is None or member.sent.request.member_epoch or _is_restarted(moment):
        return None
    if request.member_epoch < 0:
        return None
    is_same = request.member_epoch == 0 and request.member_id == member.member_id
    return hold(is_same, f"epoch 0 of member {member.member_id}", f"{heartbeat(request)} of member {request.member_id}")


@rule("E10", Grade.SHOULD, "AbstractHeartbeatRequestManager.onErrorResponse", What.HEARTBEAT, What.END)
def silent_after_fatal(moment: Moment) -> Verdict:
    """A member sends no heartbeats after a fatal error."""
    code = moment.consumer.fatal.code
    if code in (ErrorCode.NONE, ErrorCode.FENCED_INSTANCE_ID):
        return None
    if moment.what is What.END or moment.request.member_epoch < 0:
        return True
    return hold(_is_restarted(moment), f"no heartbeat after {code.name}", heartbeat(moment.request))


@rule("E11", Grade.MUST, "KIP-345; KIP-848, Static Membership", What.HEARTBEAT, What.END)
def silent_after_fenced_instance(moment: Moment) -> Verdict:
    """A static member sends no heartbeats after another process took its instance id (FENCED_INSTANCE_ID)."""
    if moment.consumer.fatal.code is not ErrorCode.FENCED_INSTANCE_ID:
        return None
    if moment.what is What.END or moment.request.member_epoch < 0:
        return True
    return hold(_is_restarted(moment), "silence after FENCED_INSTANCE_ID", heartbeat(moment.request))


def _is_restarted(moment: Moment) -> bool:
    """Whether another process joins under this client id, as far as that can be seen."""
    member, exchange = moment.consumer, moment.exchange
    if exchange is None or moment.request.member_epoch:
        return False
    is_other = moment.request.member_id != member.member_id and exchange.connection not in member.connections
    return is_other and moment.client.is_restarted()


LEAVE = "KIP-848, Member Lifecycle"
CLOSE_MS = 10_000.0
LONG_MS = 3_000.0
"""A callback that takes longer may use up the time that a client has for its close."""
FOR_GOOD, FOR_A_WHILE = -1, -2


@rule("L1", Grade.MUST, LEAVE, What.END)
def sends_leave(moment: Moment) -> Verdict:
    """A member that is closed leaves the group, so that others need not wait for its session to expire."""
    member, app = moment.consumer, moment.application
    if app.closing_ms is None or moment.client.protocol != "consumer" or member.refusal.code:
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
