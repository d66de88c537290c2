"""What a client tells its application, where the application says what it hears: ConsumerRebalanceListener."""

from __future__ import annotations

from fsm.kit.application import partitions_of
from fsm.kit.check import Grade, Verdict, hold, rule
from fsm.kit.client_history import Moment, What
from fsm.kit.wording import partitions, seconds

LISTENER = "ConsumerRebalanceListener"
SETTLED_MS = 1_500.0
SOON_MS = 3_000.0


@rule("A1", Grade.MUST, LISTENER + ".onPartitionsLost", What.HEARTBEAT)
def gets_lost_callback(moment: Moment) -> Verdict:
    """An application whose client was fenced hears that its partitions are gone before it is given others."""
    member, app = moment.consumer, moment.application
    if not app.reports_callbacks or not app.lost_by_fence or moment.request.member_epoch <= 0 or not member.is_member:
        return None
    if moment.request.topic_partitions is None:
        return None
    return hold(
        not app.lost_by_fence & app.unreleased, "lost, or revoked", f"nothing of {partitions(app.lost_by_fence)}"
    )


@rule("A2", Grade.SHOULD, LISTENER + ".onPartitionsLost", What.APPLICATION)
def lost_not_revoked(moment: Moment) -> Verdict:
    """What a fence took away is told as lost, not as revoked: there is nothing to commit any more."""
    event = moment.about.get("ev")
    if event not in ("lost", "revoke") or moment.consumer.fenced_ms is None or not moment.application.lost_by_fence:
        return None
    return hold(event == "lost", "lost", "revoked")


@rule("A3", Grade.SHOULD, "AbstractHeartbeatRequestManager.onErrorResponse", What.END)
def gets_fatal_error(moment: Moment) -> Verdict:
    """An application hears of an error that its client cannot cure."""
    fatal, app = moment.consumer.fatal, moment.application
    if fatal is None or not app.noted_ms > 0:
        return None
    if app.error_ms >= fatal.at_ms - SETTLED_MS or (app.exited_ms is not None and app.closing_ms is None):
        return True
    return hold(False, f"an error about {fatal.code.name}", f"none for {seconds(moment.at_ms - fatal.at_ms)}")


@rule("A4", Grade.SHOULD, LISTENER + ".onPartitionsLost", What.END)
def gets_lost_callback_after_fatal_error(moment: Moment) -> Verdict:
    """An application hears that its partitions are gone when its client has met an error that it cannot cure."""
    fatal, app = moment.consumer.fatal, moment.application
    if fatal is None or not app.reports_callbacks or not app.lost_by_fence:
        return None
    left = app.lost_by_fence & app.unreleased
    return hold(not left, "lost, or revoked", f"nothing of {partitions(left)}")


@rule("A5", Grade.MUST, LISTENER, What.APPLICATION)
def calls_back_in_order(moment: Moment) -> Verdict:
    """An application is given only what it does not hold, and asked back only what it holds."""
    app, event, named = moment.application, moment.about.get("ev"), partitions_of(moment.about)
    if event == "assign":
        return hold(not named & app.holding, "only new partitions", f"{partitions(named & app.holding)} once more")
    if event == "revoke" and app.reports_callbacks:
        return hold(named <= app.holding, "only what it holds", f"{partitions(named - app.holding)}, too")
    return None


@rule("A6", Grade.MUST, LISTENER, What.HEARTBEAT)
def holds_what_is_owned(moment: Moment) -> Verdict:
    """What an application holds is what its client says it owns, once all is settled."""
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
    return hold(not differ, f"{partitions(owned)} with the application", got)


@rule("A7", Grade.SHOULD, LISTENER + ".onPartitionsRevoked", What.HEARTBEAT)
def revokes_before_leave(moment: Moment) -> Verdict:
    """An application hears that its partitions are revoked before its client says goodbye."""
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
    return hold(not unreported, "revoked callbacks before", f"it still holds {partitions(unreported)}")
