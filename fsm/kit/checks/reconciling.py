"""How a member of a consumer group comes from one assignment to the next (KIP-848), and what its application hears.

An application hears of it where its client says so: ConsumerRebalanceListener.
"""

from __future__ import annotations

from fsm.kit.application import Callback, partitions_of
from fsm.kit.check import Grade, Verdict, hold, partitions, rule, seconds, slack
from fsm.kit.client_history import Moment, What
from fsm.kit.consumer_member import Owned, flat

RECONCILIATION = "KIP-848, Reconciliation of the group"
LISTENER = "KIP-848; ConsumerRebalanceListener"


def _read_owned(moment: Moment) -> Owned | None:
    """What this heartbeat says that the member owns; None where it says nothing, joins or leaves."""
    reported = moment.request.topic_partitions
    return None if reported is None or moment.request.member_epoch <= 0 else flat(reported)


@rule("R1", Grade.MUST, RECONCILIATION, What.HEARTBEAT)
def owns_what_it_was_given(moment: Moment) -> Verdict:
    """A member owns only partitions that were assigned to it."""
    member, now = moment.consumer, _read_owned(moment)
    if now is None or not member.is_known or not member.is_member:
        return None
    extra = now - member.owned - member.offered - member.given_up.keys()
    return hold(not extra, "only assigned partitions", f"it also owns {partitions(moment.name_topics(extra))}")


@rule("R2", Grade.MUST, RECONCILIATION, What.HEARTBEAT, What.END)
def acknowledges(moment: Moment) -> Verdict:
    """A member acknowledges its assignment once its callbacks have returned."""
    member, app = moment.consumer, moment.application
    if member.target is None or not member.is_member or _is_leaving(moment):
        return None
    missing = member.target - member.owned - _list_unresolved(moment)
    if not missing or not member.owned <= member.target:
        return True if not missing and member.target else None
    if moment.what is What.HEARTBEAT and missing <= (_read_owned(moment) or frozenset()):
        return True
    since_ms = max(member.target_ms, member.owned_ms)
    if app.reports_callbacks:
        since_ms = max(since_ms, app.changed_ms)
        limit_ms = 2 * member.interval_ms + 2_000
    else:
        limit_ms = member.rebalance_timeout_ms + slack(member.rebalance_timeout_ms)
    if app.callback or app.paused_ms or moment.at_ms - since_ms <= limit_ms:
        return None
    expected = f"{partitions(moment.name_topics(missing))} among the owned partitions"
    return hold(False, expected, f"no acknowledgement for {seconds(moment.at_ms - member.target_ms)}")


@rule("R3", Grade.MUST, RECONCILIATION, What.HEARTBEAT)
def nothing_comes_back(moment: Moment) -> Verdict:
    """A member does not own a partition again that it gave up, unless it is assigned again."""
    member, now = moment.consumer, _read_owned(moment)
    if now is None or not member.given_up:
        return None
    back = (now & member.given_up.keys()) - member.offered
    return hold(
        not back, "partitions that were given up are not owned", f"it owns {partitions(moment.name_topics(back))} again"
    )


@rule("R4", Grade.MUST, "KIP-848, RebalanceTimeoutMs", What.HEARTBEAT, What.END)
def revokes_in_time(moment: Moment) -> Verdict:
    """A member revokes partitions within its rebalance timeout."""
    member, app = moment.consumer, moment.application
    if member.target is None or not member.is_member or _is_leaving(moment):
        return None
    kept = member.owned - member.target
    now = _read_owned(moment) if moment.what is What.HEARTBEAT else None
    if not kept:
        return None
    if now is not None and not kept & now:
        return True
    limit_ms = member.rebalance_timeout_ms + slack(member.rebalance_timeout_ms)
    late_ms = moment.at_ms - max(member.target_ms, app.changed_ms if app.reports_callbacks else 0)
    if app.reports_callbacks:
        limit_ms = min(limit_ms, 2 * member.interval_ms + 2_000)
    if app.callback or app.paused_ms or late_ms <= limit_ms:
        return None
    return hold(False, f"{partitions(moment.name_topics(kept))} given up", f"still owned after {seconds(late_ms)}")


@rule("R5", Grade.SHOULD, LISTENER, What.APPLICATION)
def beats_in_callbacks(moment: Moment) -> Verdict:
    """A member sends heartbeats while a callback of its application runs."""
    app, member = moment.application, moment.consumer
    if moment.about.get("ev") not in ("assigned", "revoked") or app.callback is None or member.sent is None:
        return None
    ran_ms, silent_ms = moment.at_ms - app.callback.since_ms, moment.at_ms - member.sent.at_ms
    if not member.is_member or not member.interval_ms or ran_ms <= member.interval_ms + 2 * slack(member.interval_ms):
        return None
    is_kept = silent_ms <= member.interval_ms + slack(member.interval_ms)
    expected = f"a heartbeat every {seconds(member.interval_ms)} of the callback's {seconds(ran_ms)}"
    return hold(is_kept, expected, f"none for {seconds(silent_ms)}")


@rule("R6", Grade.MUST, LISTENER, What.HEARTBEAT)
def gives_up_after_callback(moment: Moment) -> Verdict:
    """A member gives up a partition only after the revoked callback of its application has returned."""
    now, app = _read_owned(moment), moment.application
    if now is None or not app.reports_callbacks:
        return None
    gone = moment.name_topics(moment.consumer.owned - now)
    if not gone:
        return None
    early = (gone & app.holding) - moment.list_noted("revoked", "lost")
    return hold(
        not early, "partitions given up after the revoked callback", f"{partitions(early)} given up before it returned"
    )


@rule("R7", Grade.SHOULD, LISTENER, What.HEARTBEAT)
def acknowledges_after_callback(moment: Moment) -> Verdict:
    """A member acknowledges new partitions only after the assigned callback of its application has returned."""
    now, app = _read_owned(moment), moment.application
    if now is None or not app.reports_callbacks:
        return None
    added = moment.name_topics(now - moment.consumer.owned)
    if not added:
        return None
    early = (added - app.holding | added & _read_callback(app.callback)) - moment.list_noted("assigned")
    return hold(
        not early,
        "an acknowledgement after the assigned callback",
        f"{partitions(early)} acknowledged before it returned",
    )


@rule("R8", Grade.MUST, RECONCILIATION + "; topics without a name yet", What.HEARTBEAT)
def owns_no_unknown_topic(moment: Moment) -> Verdict:
    """A member does not own partitions of a topic id that the brokers do not know."""
    now, unresolved = _read_owned(moment), _list_unresolved(moment)
    if now is None or not unresolved:
        return None
    return hold(not now & unresolved, "only topics with a known name", f"it owns {partitions(now & unresolved)}")


@rule("R9", Grade.SHOULD, "KAFKA-20145; ConsumerMembershipManager", What.HEARTBEAT, What.END)
def acknowledges_the_rest(moment: Moment) -> Verdict:
    """A member that was assigned an unknown topic id acknowledges the rest of its assignment."""
    member, unresolved = moment.consumer, _list_unresolved(moment)
    if not unresolved or member.target is None or not member.is_member:
        return None
    now = _read_owned(moment) if moment.what is What.HEARTBEAT else None
    rest = member.target - unresolved
    if now == rest or (member.owned == rest and member.reported_ms > member.target_ms):
        return True
    waited_ms = moment.at_ms - member.target_ms
    if waited_ms <= 2 * member.interval_ms + 1_000:
        return None
    return hold(False, f"{partitions(moment.name_topics(rest))} acknowledged", f"nothing for {seconds(waited_ms)}")


@rule("R10", Grade.SHOULD, "KIP-848; enable.auto.commit", What.HEARTBEAT)
def commits_before_giving_up(moment: Moment) -> Verdict:
    """A member with auto-commit commits what it has read of a partition before it gives the partition up."""
    now = _read_owned(moment)
    if now is None or not moment.reads.commits:
        return None
    gone = {p for p in moment.name_topics(moment.consumer.owned - now) if p[0] in moment.client.around.existing}
    if not gone:
        return None
    open_ = moment.reads.list_uncommitted(gone)
    return hold(not open_, "a commit before", f"{partitions(open_)} given up with uncommitted offsets")


@rule("R11", Grade.SHOULD, RECONCILIATION, What.HEARTBEAT)
def acknowledges_at_once(moment: Moment) -> Verdict:
    """A member acknowledges as soon as its callbacks have returned, not when the next heartbeat is due."""
    now, app, member = _read_owned(moment), moment.application, moment.consumer
    if now is None or now == member.owned or not app.reports_callbacks or app.callback or not member.is_settled:
        return None
    late_ms = moment.at_ms - max(app.changed_ms, member.target_ms, member.answered_ms)
    return hold(late_ms <= slack(0), "an acknowledgement at once", f"one after {seconds(late_ms)}")


def _is_leaving(moment: Moment) -> bool:
    return moment.application.closing_ms is not None or moment.consumer.left is not None


def _list_unresolved(moment: Moment) -> Owned:
    """The assigned partitions of topic ids that brokers do not know."""
    around = moment.client.around
    return frozenset(p for p in moment.consumer.target or () if around.is_unknown(p[0]))


def _read_callback(callback: Callback | None) -> Owned:
    """What the assigned callback that runs is about."""
    return callback.partitions if callback and callback.name == "assign" else frozenset()


REBALANCE_LISTENER = "ConsumerRebalanceListener"
SETTLED_MS = 1_500.0


@rule("A1", Grade.MUST, REBALANCE_LISTENER + ".onPartitionsLost", What.HEARTBEAT)
def gets_lost_callback(moment: Moment) -> Verdict:
    """The application of a fenced client gets a callback for its lost partitions before it is assigned others."""
    member, app = moment.consumer, moment.application
    if not app.reports_callbacks or not app.lost_by_fence or moment.request.member_epoch <= 0 or not member.is_member:
        return None
    if moment.request.topic_partitions is None:
        return None
    return hold(
        not app.lost_by_fence & app.unreleased,
        "a lost or revoked callback",
        f"none for {partitions(app.lost_by_fence)}",
    )


@rule("A2", Grade.SHOULD, REBALANCE_LISTENER + ".onPartitionsLost", What.APPLICATION)
def lost_not_revoked(moment: Moment) -> Verdict:
    """Partitions lost by fencing are reported as lost, not as revoked: they can no longer be committed."""
    event = moment.about.get("ev")
    if event not in ("lost", "revoke") or moment.consumer.fenced_ms is None or not moment.application.lost_by_fence:
        return None
    return hold(event == "lost", "lost", "revoked")


@rule("A3", Grade.SHOULD, "AbstractHeartbeatRequestManager.onErrorResponse", What.END)
def gets_fatal_error(moment: Moment) -> Verdict:
    """An application gets the errors that its client cannot recover from."""
    fatal, app = moment.consumer.fatal, moment.application
    if not fatal.code or not app.noted_ms > 0:
        return None
    if app.error_ms >= fatal.at_ms - SETTLED_MS or (app.exited_ms is not None and app.closing_ms is None):
        return True
    return hold(False, f"an error about {fatal.code.name}", f"none for {seconds(moment.at_ms - fatal.at_ms)}")


@rule("A4", Grade.SHOULD, REBALANCE_LISTENER + ".onPartitionsLost", What.END)
def gets_lost_callback_after_fatal_error(moment: Moment) -> Verdict:
    """An application gets a callback for its partitions when its client fails with a fatal error."""
    app = moment.application
    if not moment.consumer.fatal.code or not app.reports_callbacks or not app.lost_by_fence:
        return None
    left = app.lost_by_fence & app.unreleased
    return hold(not left, "a lost or revoked callback", f"none for {partitions(left)}")


@rule("A5", Grade.MUST, REBALANCE_LISTENER, What.APPLICATION)
def calls_back_in_order(moment: Moment) -> Verdict:
    """Assigned callbacks name only partitions not yet held; revoked and lost callbacks, only those that are held."""
    app, event, named = moment.application, moment.about.get("ev"), partitions_of(moment.about)
    if event == "assign":
        return hold(not named & app.holding, "only new partitions", f"{partitions(named & app.holding)} again")
    if event == "revoke" and app.reports_callbacks:
        return hold(named <= app.holding, "only partitions that it holds", f"also {partitions(named - app.holding)}")
    return None


@rule("A6", Grade.MUST, REBALANCE_LISTENER, What.HEARTBEAT)
def holds_what_is_owned(moment: Moment) -> Verdict:
    """Once the group has settled, the application holds the partitions that its client reports as owned."""
    member, app = moment.consumer, moment.application
    if not app.reports_callbacks or app.callback or not member.is_member or not member.is_settled:
        return None
    if moment.request.member_epoch <= 0 or app.changed_ms < 0:
        return None
    if moment.at_ms - max(member.owned_ms, member.target_ms, app.changed_ms) < SETTLED_MS or app.paused_ms is not None:
        return None
    if member.owned != member.target:
        return None
    owned = moment.name_topics(one for one in member.owned if not moment.client.around.is_unknown(one[0]))
    differ = owned ^ app.holding
    got = f"it holds {partitions(app.holding)}" if differ else ""
    return hold(not differ, f"it holds {partitions(owned)}", got)


@rule("A7", Grade.SHOULD, REBALANCE_LISTENER + ".onPartitionsRevoked", What.HEARTBEAT)
def revokes_before_leave(moment: Moment) -> Verdict:
    """An application gets a callback for its partitions before its client leaves."""
    app = moment.application
    if (
        moment.request.member_epoch >= 0
        or not app.reports_callbacks
        or not moment.consumer.is_member
        or app.paused_ms is not None
    ):
        return None
    if app.closing_ms is None and app.unsubscribed_ms is None:
        return None
    called = app.callback.partitions if app.callback else frozenset()
    unreported = app.holding - called - moment.list_noted("revoke", "revoked", "lost")
    return hold(not unreported, "a revoked callback before the leave", f"it still holds {partitions(unreported)}")
