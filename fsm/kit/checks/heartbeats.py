"""When a member of a consumer group sends heartbeats, and what they say: KIP-848."""

from __future__ import annotations

from fsm.kit.check import SLACK_MS, Grade, Verdict, heartbeat, hold, rule, seconds, slack
from fsm.kit.client_history import Moment, What
from fsm.kit.consumer_member import DELTA, RETRIABLE, flat

HEARTBEAT_API = "KIP-848, ConsumerGroupHeartbeat API"
INTERVAL = "KIP-848, ConsumerGroupHeartbeatResponse.HeartbeatIntervalMs"


def _gap_ms(moment: Moment) -> float | None:
    """Time since the answer to the last heartbeat, where nothing went wrong meanwhile."""
    member = moment.consumer
    if not member.is_member or not member.is_settled or not member.interval_ms or member.is_open(moment.at_ms):
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
    if member.refusal is not None and member.refusal.code not in RETRIABLE:
        return None  # it may well be told for good
    until_ms = moment.at_ms
    if moment.what is What.END:
        app = moment.application
        until_ms = moment.at_ms if app.reports_callbacks and moment.client.is_running else moment.client.alive_ms
    gap_ms = until_ms - member.sent.at_ms
    return hold(
        gap_ms < session_ms, f"a heartbeat within the session of {seconds(session_ms)}", f"none for {seconds(gap_ms)}"
    )


@rule("H4", Grade.MUST, "KIP-848; HeartbeatRequestState", What.HEARTBEAT)
def one_in_flight(moment: Moment) -> Verdict:
    """A member waits for the response to a heartbeat before it sends the next one, except to leave."""
    member, exchange = moment.consumer, moment.exchange
    if member.sent is None or exchange is None or moment.request.member_epoch < 0 or member.left is not None:
        return None
    if member.is_open(moment.at_ms) and member.sent.connection != exchange.connection:
        return None  # the other connection may have been given up, which its broker learns late
    if not member.is_open(moment.at_ms) or member.sent.connection in moment.client.around.closed:
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
    if not member.is_member or epoch <= 0 or moment.client.doubt(moment.at_ms) or member.is_open(moment.at_ms):
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
