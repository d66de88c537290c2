"""What a client tells its application, where the application says what it hears: ConsumerRebalanceListener."""

from __future__ import annotations

from fsm.kit.application import partitions_of
from fsm.kit.check import Grade, Verdict, hold, partitions, rule, seconds
from fsm.kit.client_history import Moment, What

LISTENER = "ConsumerRebalanceListener"
SETTLED_MS = 1_500.0
SOON_MS = 3_000.0


@rule("A1", Grade.MUST, LISTENER + ".onPartitionsLost", What.HEARTBEAT)
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


@rule("A2", Grade.SHOULD, LISTENER + ".onPartitionsLost", What.APPLICATION)
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
    if fatal is None or not app.noted_ms > 0:
        return None
    if app.error_ms >= fatal.at_ms - SETTLED_MS or (app.exited_ms is not None and app.closing_ms is None):
        return True
    return hold(False, f"an error about {fatal.code.name}", f"none for {seconds(moment.at_ms - fatal.at_ms)}")


@rule("A4", Grade.SHOULD, LISTENER + ".onPartitionsLost", What.END)
def gets_lost_callback_after_fatal_error(moment: Moment) -> Verdict:
    """An application gets a callback for its partitions when its client fails with a fatal error."""
    fatal, app = moment.consumer.fatal, moment.application
    if fatal is None or not app.reports_callbacks or not app.lost_by_fence:
        return None
    left = app.lost_by_fence & app.unreleased
    return hold(not left, "a lost or revoked callback", f"none for {partitions(left)}")


@rule("A5", Grade.MUST, LISTENER, What.APPLICATION)
def calls_back_in_order(moment: Moment) -> Verdict:
    """Assigned callbacks name only partitions not yet held; revoked and lost callbacks, only those that are held."""
    app, event, named = moment.application, moment.about.get("ev"), partitions_of(moment.about)
    if event == "assign":
        return hold(not named & app.holding, "only new partitions", f"{partitions(named & app.holding)} again")
    if event == "revoke" and app.reports_callbacks:
        return hold(named <= app.holding, "only partitions that it holds", f"also {partitions(named - app.holding)}")
    return None


@rule("A6", Grade.MUST, LISTENER, What.HEARTBEAT)
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


@rule("A7", Grade.SHOULD, LISTENER + ".onPartitionsRevoked", What.HEARTBEAT)
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
