"""When a member of a consumer group sends heartbeats, and what they say: KIP-848."""

from __future__ import annotations

from itertools import pairwise

from fsm.kit.check import BACKOFF_MS, SLACK_MS, SOON_MS, Grade, Verdict, heartbeat, hold, rule, seconds, slack
from fsm.kit.client_history import Doubt, Moment, What
from fsm.kit.consumer_member import DELTA, RETRIABLE, flat
from fsm.protocol.error_codes import ErrorCode
from fsm.serve.faults import is_full

HEARTBEAT_API = "KIP-848, ConsumerGroupHeartbeat API"
INTERVAL = "KIP-848, ConsumerGroupHeartbeatResponse.HeartbeatIntervalMs"


def _gap_ms(moment: Moment) -> float | None:
    """Time since the answer to the last heartbeat, where nothing went wrong meanwhile."""
    member = moment.consumer
    if not member.is_member or not member.is_settled or not member.interval_ms or moment.is_open:
        return None
    if member.throttled_until_ms > member.answered_ms or moment.request.member_epoch <= 0:
        return None
    return moment.at_ms - member.answered_ms


def _has_news(moment: Moment) -> bool:
    request = moment.request
    fields = (request.topic_partitions, request.subscribed_topic_names, request.subscribed_topic_regex)
    return any(value is not None for value in fields)


@rule("H1", Grade.SHOULD, INTERVAL, What.HEARTBEAT)
def not_too_early(moment: Moment) -> Verdict:
    """A member with nothing to report waits for the heartbeat interval that the coordinator has set."""
    member = moment.consumer
    if _gap_ms(moment) is None or _has_news(moment) or member.sent is None:
        return None
    if moment.at_ms - member.throttled_until_ms < member.interval_ms:
        return None
    gap_ms = moment.at_ms - member.sent.at_ms
    shortest_ms = min(member.interval_ms, member.first_interval_ms)
    is_kept = gap_ms >= shortest_ms - slack(shortest_ms)
    expected = f"{seconds(member.interval_ms)} between heartbeats"
    return hold(is_kept, expected, f"{heartbeat(moment.request)} after {seconds(gap_ms)}")


@rule("H2", Grade.SHOULD, INTERVAL, What.HEARTBEAT)
def not_too_late(moment: Moment) -> Verdict:
    """A member sends its next heartbeat no later than the heartbeat interval."""
    gap_ms, interval_ms = _gap_ms(moment), moment.consumer.interval_ms
    if gap_ms is None or gap_ms >= moment.client.around.session_ms:
        return None
    is_kept = gap_ms <= interval_ms + slack(interval_ms)
    return hold(is_kept, f"a heartbeat every {seconds(interval_ms)}", f"one after {seconds(gap_ms)}")


@rule("H3", Grade.MUST, "KIP-848, group.consumer.session.timeout.ms", What.HEARTBEAT, What.END)
def not_silent(moment: Moment) -> Verdict:
    """A member never lets a whole session timeout pass without a heartbeat: the coordinator would remove it."""
    member, session_ms = moment.consumer, moment.client.around.session_ms
    if not member.is_member or member.sent is None:
        return None
    if member.refusal.code and member.refusal.code not in RETRIABLE:
        return None  # it may well be told for good
    gap_ms = moment.silent_until_ms - member.sent.at_ms
    return hold(
        gap_ms < session_ms, f"a heartbeat within the session of {seconds(session_ms)}", f"none for {seconds(gap_ms)}"
    )


@rule("H4", Grade.MUST, "KIP-848; HeartbeatRequestState", What.HEARTBEAT)
def one_in_flight(moment: Moment) -> Verdict:
    """A member waits for the response to a heartbeat before it sends the next one, except to leave."""
    member, exchange = moment.consumer, moment.exchange
    if member.sent is None or exchange is None or moment.request.member_epoch < 0 or member.left is not None:
        return None
    if moment.is_open and member.sent.connection != exchange.connection:
        return None  # the other connection may have been given up, which its broker learns late
    if not moment.is_open or member.sent.connection in moment.client.around.closed:
        return True
    waited_ms = moment.at_ms - member.sent.at_ms
    return hold(
        False,
        "no heartbeat while the last one has no response",
        f"{heartbeat(moment.request)} after {seconds(waited_ms)}",
    )


@rule("H5", Grade.MUST, HEARTBEAT_API, What.HEARTBEAT)
def sends_last_epoch(moment: Moment) -> Verdict:
    """A member sends the epoch that it received last."""
    member, epoch = moment.consumer, moment.request.member_epoch
    if not member.is_member or epoch <= 0 or moment.doubt or moment.is_open:
        return None
    return hold(epoch == member.epoch, f"epoch {member.epoch}", f"epoch {epoch}")


@rule("H6", Grade.SHOULD, HEARTBEAT_API, What.HEARTBEAT)
def only_what_changed(moment: Moment) -> Verdict:
    """A heartbeat has the rebalance timeout, the subscription and the assignor only if they have changed."""
    request, member = moment.request, moment.consumer
    if request.member_epoch <= 0 or not member.is_settled or _has_lost_connection(moment):
        return None
    again = [name for name in DELTA if getattr(request, name) not in (None, -1) and _is_same(moment, name)]
    return hold(not again, "only what has changed", f"{', '.join(again)} again")


def _has_lost_connection(moment: Moment) -> bool:
    """Whether a heartbeat may have been under way that no broker saw."""
    sent = moment.consumer.sent
    return sent is not None and sent.connection in moment.client.around.closed


def _is_same(moment: Moment, name: str) -> bool:
    accepted, now = moment.consumer.accepted.get(name), getattr(moment.request, name)
    if isinstance(now, tuple) and isinstance(accepted, tuple):
        return sorted(now) == sorted(accepted)
    return bool(accepted == now)


@rule("H7", Grade.SHOULD, HEARTBEAT_API, What.HEARTBEAT)
def owned_once(moment: Moment) -> Verdict:
    """A heartbeat does not repeat owned partitions that the coordinator has already accepted."""
    request, member = moment.request, moment.consumer
    if request.member_epoch <= 0 or not member.is_settled or _has_lost_connection(moment):
        return None
    accepted = member.accepted.get("topic_partitions")
    if request.topic_partitions is None or not accepted:
        return True
    is_again = flat(request.topic_partitions) == flat(accepted) and member.target_ms <= member.reported_ms
    return hold(not is_again, "owned partitions only if they have changed", f"{heartbeat(request)}, as before")


@rule("H8", Grade.MUST, INTERVAL, What.HEARTBEAT)
def follows_interval(moment: Moment) -> Verdict:
    """A member adopts a heartbeat interval that the coordinator has changed."""
    member = moment.consumer
    gap_ms = _gap_ms(moment)
    if gap_ms is None or _has_news(moment) or member.interval_ms == member.first_interval_ms or member.sent is None:
        return None
    interval_ms, since_ms = member.interval_ms, moment.at_ms - member.sent.at_ms
    is_early, is_late = since_ms < interval_ms - slack(interval_ms), gap_ms > interval_ms + slack(interval_ms)
    if is_early and member.interval_since_ms >= member.answered_ms:
        return None  # its timer ran already when it was told
    expected = f"a heartbeat every {seconds(interval_ms)}"
    return hold(not is_early and not is_late, expected, f"one after {seconds(since_ms)}")


@rule("H9", Grade.SHOULD, "KIP-219", What.HEARTBEAT)
def obeys_throttle(moment: Moment) -> Verdict:
    """A throttled client sends nothing until the throttle time has passed."""
    until_ms = moment.consumer.throttled_until_ms
    if moment.consumer.sent is None or until_ms <= moment.consumer.answered_ms or moment.request.member_epoch < 0:
        return None
    early_ms = until_ms - moment.at_ms
    return hold(
        early_ms <= SLACK_MS, "no heartbeat until the throttle time has passed", f"one {seconds(early_ms)} earlier"
    )


ERRORS = "KIP-848, Error codes"
HOT, WINDOW_MS = 10, 1_000.0
"""More refused heartbeats in this time are a hot loop."""


def _full_after(moment: Moment, doubt: Doubt) -> Verdict:
    request, member = moment.request, moment.consumer
    if moment.doubt is not doubt or request.member_epoch <= 0 or not member.is_member:
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
    if refusal.code is not code or refusal.request.member_epoch < 0:
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
    if member.refusal.code is not code or moment.request.member_epoch < 0:
        return None
    searches = member.searched or moment.searches_at_once
    return hold(searches, "FindCoordinator before the next heartbeat", f"{heartbeat(moment.request)} without one")


@rule("E8", Grade.SHOULD, "KIP-580; retry.backoff.ms", What.HEARTBEAT)
def backs_off(moment: Moment) -> Verdict:
    """A member backs off before it retries a heartbeat that failed with a retriable error."""
    refusal = moment.consumer.refusal
    if refusal.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or moment.request.member_epoch < 0:
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
    if moment.doubt is None or not member.is_member or epoch < 0:
        return None
    return hold(epoch in (0, member.epoch), f"epoch {member.epoch}", f"epoch {epoch}")


@rule("E14", Grade.SHOULD, "KIP-848, Member Lifecycle", What.HEARTBEAT)
def stays_after_doubt(moment: Moment) -> Verdict:
    """A member that missed a response keeps its membership."""
    member, epoch = moment.consumer, moment.request.member_epoch
    if moment.doubt is None or not member.is_member or epoch < 0:
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
