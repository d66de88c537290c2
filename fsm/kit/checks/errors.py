"""What a member of a consumer group does after errors and lost answers: KIP-848."""

from __future__ import annotations

from itertools import pairwise

from fsm.kit.check import Grade, Verdict, heartbeat, hold, rule, seconds
from fsm.kit.client_history import Doubt, Moment, What
from fsm.kit.consumer_member import is_full
from fsm.protocol.error_codes import ErrorCode

ERRORS = "KIP-848, Error codes"
SOON_MS = 3_000.0
HOT, WINDOW_MS = 10, 1_000.0
"""More refused heartbeats in this time are a hot loop."""
BACKOFF_MS = 40.0
"""Less than Kafka's `retry.backoff.ms` with its jitter."""


def _full_after(moment: Moment, doubt: Doubt) -> Verdict:
    request, member = moment.request, moment.consumer
    if moment.client.doubt(moment.at_ms) is not doubt or request.member_epoch <= 0 or not member.is_member:
        return None
    return hold(is_full(request), "a full heartbeat: timeout, subscription, owned partitions", heartbeat(request))


@rule("E1", Grade.MUST, "KIP-848; HeartbeatState.reset", What.HEARTBEAT)
def full_after_lost_answer(moment: Moment) -> Verdict:
    """A member whose connection closed before the response sends a full heartbeat: it may have missed an assignment."""
    return _full_after(moment, Doubt.LOST)


@rule("E2", Grade.MUST, "KIP-848; HeartbeatState.reset", What.HEARTBEAT)
def full_after_timeout(moment: Moment) -> Verdict:
    """A member whose heartbeat timed out sends a full heartbeat: it may have missed an assignment."""
    return _full_after(moment, Doubt.TIMED_OUT)


@rule("E4", Grade.MUST, ERRORS, What.HEARTBEAT)
def rejoins_when_fenced(moment: Moment) -> Verdict:
    """A member that was fenced (FENCED_MEMBER_EPOCH) rejoins with epoch 0."""
    return _rejoins_after(moment, ErrorCode.FENCED_MEMBER_EPOCH)


@rule("E5", Grade.MUST, ERRORS, What.HEARTBEAT)
def rejoins_when_unknown(moment: Moment) -> Verdict:
    """A member that the coordinator does not know (UNKNOWN_MEMBER_ID) rejoins with epoch 0."""
    return _rejoins_after(moment, ErrorCode.UNKNOWN_MEMBER_ID)


def _rejoins_after(moment: Moment, code: ErrorCode) -> Verdict:
    refusal = moment.consumer.refusal
    if refusal is None or refusal.code is not code or refusal.request.member_epoch < 0:
        return None
    return hold(moment.request.member_epoch <= 0, f"epoch 0 after {code.name}", heartbeat(moment.request))


@rule("E6", Grade.MUST, ERRORS, What.HEARTBEAT)
def searches_when_moved(moment: Moment) -> Verdict:
    """A member looks up the coordinator again after NOT_COORDINATOR."""
    return _searches_after(moment, ErrorCode.NOT_COORDINATOR)


@rule("E7", Grade.SHOULD, ERRORS, What.HEARTBEAT)
def searches_when_unavailable(moment: Moment) -> Verdict:
    """A member looks up the coordinator again after COORDINATOR_NOT_AVAILABLE."""
    return _searches_after(moment, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _searches_after(moment: Moment, code: ErrorCode) -> Verdict:
    member = moment.consumer
    if member.refusal is None or member.refusal.code is not code or moment.request.member_epoch < 0:
        return None
    searches = member.searched or moment.searches_at_once
    return hold(searches, "FindCoordinator before the next heartbeat", f"{heartbeat(moment.request)} without one")


@rule("E8", Grade.SHOULD, "KIP-580; retry.backoff.ms", What.HEARTBEAT)
def backs_off(moment: Moment) -> Verdict:
    """A member backs off before it retries a heartbeat that failed with a retriable error."""
    refusal = moment.consumer.refusal
    if refusal is None or refusal.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or moment.request.member_epoch < 0:
        return None
    waited_ms = moment.at_ms - refusal.at_ms
    return hold(
        waited_ms >= BACKOFF_MS, "a backoff of about 100 ms", f"{heartbeat(moment.request)} after {waited_ms:.0f} ms"
    )


@rule("E9", Grade.MUST, "KIP-580", What.HEARTBEAT)
def no_hot_loop(moment: Moment) -> Verdict:
    """A member does not flood the coordinator while its heartbeats are refused."""
    recent = [at_ms for at_ms in moment.consumer.refused_ms if moment.at_ms - at_ms < WINDOW_MS]
    if not recent:
        return None
    return hold(len(recent) <= HOT, f"at most {HOT} refused heartbeats a second", f"{len(recent)}")


@rule("E12", Grade.NOTE, "KIP-580; retry.backoff.max.ms", What.HEARTBEAT)
def backoff_grows(moment: Moment) -> Verdict:
    """A member increases its backoff from one refusal to the next."""
    times = [*moment.consumer.loading_ms[-4:], moment.at_ms]
    if len(times) < 5 or moment.request.member_epoch < 0:
        return None
    gaps = [later - earlier for earlier, later in pairwise(times)]
    text = ", ".join(f"{gap:.0f}" for gap in gaps)
    return hold(gaps[-1] > 1.3 * gaps[0], "an increasing backoff", f"waits of {text} ms")


@rule("E13", Grade.MUST, "KIP-848, Member Lifecycle", What.HEARTBEAT)
def epoch_after_doubt(moment: Moment) -> Verdict:
    """A member that missed a response continues with its last known epoch, or rejoins."""
    member, epoch = moment.consumer, moment.request.member_epoch
    if moment.client.doubt(moment.at_ms) is None or not member.is_member or epoch < 0:
        return None
    return hold(epoch in (0, member.epoch), f"epoch {member.epoch}", f"epoch {epoch}")


@rule("E14", Grade.SHOULD, "KIP-848, Member Lifecycle", What.HEARTBEAT)
def stays_after_doubt(moment: Moment) -> Verdict:
    """A member that missed a response keeps its membership."""
    member, epoch = moment.consumer, moment.request.member_epoch
    if moment.client.doubt(moment.at_ms) is None or not member.is_member or epoch < 0:
        return None
    return hold(epoch, f"epoch {member.epoch}", "epoch 0: it rejoins")


@rule("E15", Grade.MUST, "KIP-848, Member Lifecycle", What.HEARTBEAT, What.END)
def comes_back(moment: Moment) -> Verdict:
    """A member that was fenced rejoins promptly, unless its application prevents it."""
    member, app = moment.consumer, moment.application
    fenced_ms = member.fenced_ms
    if fenced_ms is None or not app.reports_callbacks:
        return None
    if moment.what is What.HEARTBEAT:
        return True if moment.request.member_epoch == 0 else None
    if member.left is not None and member.left.at_ms < (app.closing_ms or moment.at_ms):
        return None
    if app.paused_ms is not None or app.callback or app.unsubscribed_ms is not None:
        return None
    until_ms = min(app.closing_ms or moment.at_ms, app.exited_ms or moment.at_ms)
    waited_ms = until_ms - fenced_ms
    is_trying = member.sent is not None and member.sent.request.member_epoch == 0
    return (
        None if waited_ms < SOON_MS or is_trying else hold(False, "a join (epoch 0)", f"none for {seconds(waited_ms)}")
    )
