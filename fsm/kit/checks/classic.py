"""How a member of a classic group joins, stays and leaves: KIP-62, KIP-394, KIP-345."""

from __future__ import annotations

from fsm.kit.check import BACKOFF_MS, SLACK_MS, SOON_MS, Grade, Verdict, classic_rule, hold, seconds, slack
from fsm.kit.classic_member import Stage, identity, read_subscription
from fsm.kit.client_history import CLASSIC, Moment, What
from fsm.protocol.error_codes import ErrorCode

JOINING = "JoinGroup API; AbstractCoordinator"
AT_ONCE_MS = 1_000.0
HOT, WINDOW_MS = 3, 200.0


@classic_rule("K1", Grade.MUST, "KIP-394", What.JOIN)
def no_id_of_its_own(moment: Moment) -> Verdict:
    """A member joins without a member id, or with the one that the coordinator gave it."""
    member, member_id = moment.classic, moment.request.member_id
    if member.given_id or (member.join is None and member_id):
        return None if member.given_id else hold(False, "no member id", member_id)
    allowed = {"", member.member_id, *member.earlier_ids}
    return hold(member_id in allowed, member.member_id or "no member id", member_id)


@classic_rule("K2", Grade.MUST, "KIP-394", What.JOIN)
def joins_with_given_id(moment: Moment) -> Verdict:
    """A member rejoins after MEMBER_ID_REQUIRED with the member id of that response."""
    given = moment.classic.given_id
    if not given or moment.classic.refusal.code is not ErrorCode.MEMBER_ID_REQUIRED:
        return None
    return hold(moment.request.member_id == given, given, moment.request.member_id or "no member id")


@classic_rule("K3", Grade.MUST, "SyncGroup API", What.SYNC)
def syncs_current_generation(moment: Moment) -> Verdict:
    """A SyncGroup has the generation and the member id of the JoinGroup response."""
    return _is_of_generation(moment) if moment.classic.is_member else None


@classic_rule("K4", Grade.MUST, JOINING, What.SYNC, What.JOIN, What.BEAT, What.END)
def syncs(moment: Moment) -> Verdict:
    """A member that has joined requests its assignment with SyncGroup."""
    member = moment.classic
    if member.stage is not Stage.JOINED:
        return None
    if moment.what is What.SYNC:
        return True
    sent = member.sent
    if sent is not None and sent.api == What.SYNC.value:
        return None
    waited_ms = moment.at_ms - member.generation_ms
    is_late = (
        waited_ms > (AT_ONCE_MS if moment.what is What.JOIN else SOON_MS)
        and moment.application.exited_ms is None
        and not moment.application.callback
    )
    return hold(False, "SyncGroup", f"none for {seconds(waited_ms)}") if is_late else None


@classic_rule("K7", Grade.MUST, "Heartbeat API", What.BEAT)
def heartbeats_current_generation(moment: Moment) -> Verdict:
    """A Heartbeat has the generation and the member id of the JoinGroup response."""
    member = moment.classic
    if not member.is_member or moment.at_ms - member.generation_ms <= SLACK_MS:
        return None
    return _is_of_generation(moment)


def _is_of_generation(moment: Moment) -> Verdict:
    """Whether the request has the generation and the member id of the JoinGroup response."""
    member, request = moment.classic, moment.request
    is_kept = (request.generation_id, request.member_id) == (member.generation, member.member_id)
    expected = f"generation {member.generation} of {member.member_id}"
    return hold(is_kept, expected, f"{request.generation_id} of {request.member_id}")


@classic_rule("K8", Grade.MUST, "KIP-62, session.timeout.ms", What.BEAT, What.JOIN, What.LEAVE, What.END)
def not_silent(moment: Moment) -> Verdict:
    """A member never lets a whole session timeout pass without a request."""
    member = moment.classic
    if not member.is_member or member.sent is None or not member.session_ms:
        return None
    gap_ms = moment.silent_until_ms - max(member.sent.ended_ms, member.committed_ms)
    return hold(
        gap_ms < member.session_ms, f"a request within {seconds(member.session_ms)}", f"none for {seconds(gap_ms)}"
    )


@classic_rule("K9", Grade.NOTE, "heartbeat.interval.ms", What.BEAT)
def beats_often(moment: Moment) -> Verdict:
    """A member sends three heartbeats per session timeout, so that two may be lost."""
    member = moment.classic
    if member.stage is not Stage.STABLE or member.sent is None or member.sent.api != What.BEAT.value:
        return None
    third_ms = member.session_ms / 3
    gap_ms = moment.at_ms - member.sent.at_ms
    return hold(gap_ms <= third_ms + slack(third_ms), f"one every {seconds(third_ms)}", f"one after {seconds(gap_ms)}")


@classic_rule("K10", Grade.MUST, "KIP-62; REBALANCE_IN_PROGRESS", What.JOIN, What.BEAT, What.END)
def rejoins(moment: Moment) -> Verdict:
    """A member that learns of a rebalance rejoins before its rebalance timeout or session timeout expires."""
    member, app = moment.classic, moment.application
    if member.rebalance_asked_ms is None or (member.left is not None and app.closing_ms is None):
        return None
    if app.paused_ms is not None or app.callback or app.exited_ms is not None:
        return None
    until_ms = min(moment.at_ms, app.closing_ms or moment.at_ms)
    waited_ms = until_ms - max(member.rebalance_asked_ms, app.last_change_before(until_ms))
    limit_ms = SOON_MS if app.reports_callbacks else member.rebalance_ms
    if moment.what is What.JOIN:
        return hold(waited_ms <= limit_ms + slack(limit_ms), "JoinGroup soon", f"one after {seconds(waited_ms)}")
    if waited_ms <= limit_ms + slack(limit_ms):
        return None
    return hold(False, "JoinGroup", f"none for {seconds(waited_ms)}")


@classic_rule("K11", Grade.SHOULD, "Heartbeat API", What.BEAT)
def no_burst_of_beats(moment: Moment) -> Verdict:
    """A member that learns of a rebalance does not send heartbeats back to back."""
    if moment.classic.rebalance_asked_ms is None:
        return None
    recent = [at_ms for at_ms in moment.classic.beats_since if moment.at_ms - at_ms < WINDOW_MS]
    return hold(len(recent) < HOT, "heartbeats at their interval", f"{len(recent) + 1} in {WINDOW_MS:.0f} ms")


@classic_rule("K12", Grade.SHOULD, "ILLEGAL_GENERATION; AbstractCoordinator", What.JOIN)
def keeps_its_id(moment: Moment) -> Verdict:
    """A member rejoins after ILLEGAL_GENERATION with its member id."""
    member = moment.classic
    if member.refusal.code is not ErrorCode.ILLEGAL_GENERATION or not member.member_id:
        return None
    return hold(
        moment.request.member_id == member.member_id, member.member_id, moment.request.member_id or "no member id"
    )


@classic_rule("K13", Grade.MUST, "UNKNOWN_MEMBER_ID; AbstractCoordinator", What.JOIN)
def forgets_its_id(moment: Moment) -> Verdict:
    """A member rejoins after UNKNOWN_MEMBER_ID without a member id."""
    refusal = moment.classic.refusal
    if refusal.code is not ErrorCode.UNKNOWN_MEMBER_ID:
        return None
    return hold(moment.request.member_id != identity(refusal.request), "no member id", moment.request.member_id)


@classic_rule("K14", Grade.MUST, "NOT_COORDINATOR; AbstractCoordinator", What.JOIN, What.SYNC, What.BEAT)
def searches_when_moved(moment: Moment) -> Verdict:
    """A member looks up the coordinator again after NOT_COORDINATOR."""
    member = moment.classic
    if member.refusal.code is not ErrorCode.NOT_COORDINATOR:
        return None
    searches = member.searched or moment.searches_at_once
    return hold(searches, "FindCoordinator before the next request", f"{moment.what.value} without one")


@classic_rule("K15", Grade.SHOULD, "KIP-580; retry.backoff.ms", What.JOIN, What.SYNC, What.BEAT)
def backs_off(moment: Moment) -> Verdict:
    """A member backs off before it retries a request that failed with a retriable error."""
    refusal = moment.classic.refusal
    if refusal.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return None
    waited_ms = moment.at_ms - refusal.at_ms
    return hold(waited_ms >= BACKOFF_MS, "a backoff of about 100 ms", f"{moment.what.value} after {waited_ms:.0f} ms")


@classic_rule("K16", Grade.MUST, "KIP-345; FENCED_INSTANCE_ID", What.JOIN, What.SYNC, What.BEAT, What.END)
def silent_after_fenced_instance(moment: Moment) -> Verdict:
    """A static member sends nothing after another process took its instance id (FENCED_INSTANCE_ID)."""
    if moment.classic.fatal.code is not ErrorCode.FENCED_INSTANCE_ID:
        return None
    return hold(moment.what is What.END, "no request after FENCED_INSTANCE_ID", moment.what.value)


@classic_rule("K17", Grade.SHOULD, "LeaveGroup API; Consumer.close", What.END)
def leaves(moment: Moment) -> Verdict:
    """A dynamic member that is closed leaves the group, so that others need not wait for its session to expire."""
    member, app = moment.classic, moment.application
    if app.closing_ms is None or moment.client.protocol != CLASSIC or member.instance_id or member.fatal.code:
        return None
    if member.left is None and not member.is_member:
        return None
    return hold(member.left is not None, "LeaveGroup", f"none in {seconds(moment.at_ms - app.closing_ms)}")


@classic_rule("K18", Grade.MUST, "KIP-345", What.LEAVE, What.END)
def static_stays(moment: Moment) -> Verdict:
    """A static member that is closed does not leave the group: its partitions wait for it."""
    member, app = moment.classic, moment.application
    if not member.instance_id or app.closing_ms is None:
        return None
    return hold(moment.what is What.END, "no LeaveGroup", "LeaveGroup")


@classic_rule("K19", Grade.MUST, "KIP-345", What.SYNC, What.BEAT)
def names_instance(moment: Moment) -> Verdict:
    """A static member sends its instance id in each SyncGroup and Heartbeat, so that it can be fenced."""
    instance_id = moment.classic.instance_id
    if not instance_id:
        return None
    return hold(moment.request.group_instance_id == instance_id, instance_id, moment.request.group_instance_id)


@classic_rule("K25", Grade.MUST, JOINING, What.JOIN)
def joins_with_all_fields(moment: Moment) -> Verdict:
    """A JoinGroup has a session timeout, a rebalance timeout, a protocol type, and assignors with a subscription."""
    request = moment.request
    if request.protocol_type != "consumer":
        return hold(request.protocol_type and request.protocols, "protocol type and protocols", request.protocol_type)
    unreadable = [one.name for one in request.protocols if read_subscription(one.metadata) is None]
    is_kept = (
        request.session_timeout_ms > 0 and request.rebalance_timeout_ms > 0 and request.protocols and not unreadable
    )
    timeouts = f"session {request.session_timeout_ms} ms, rebalance {request.rebalance_timeout_ms} ms"
    got = f"{timeouts}, {len(request.protocols)} assignors, unreadable: {', '.join(unreadable) or 'none'}"
    return hold(is_kept, "timeouts, and assignors with a subscription", got)


@classic_rule("K26", Grade.MUST, "LeaveGroup API", What.BEAT, What.SYNC, What.JOIN)
def silent_after_leave(moment: Moment) -> Verdict:
    """A member that has left does not use its member id again."""
    left = moment.classic.left
    if left is None:
        return None
    return hold(moment.request.member_id != identity(left.request), "no request of this member", moment.what.value)


@classic_rule("K31", Grade.SHOULD, JOINING, What.JOIN)
def one_join(moment: Moment) -> Verdict:
    """A member waits for the response to its JoinGroup before it sends another one."""
    join = moment.classic.join
    if join is None or moment.classic.stage is not Stage.JOINING:
        return None
    is_open = join.answered_ms is not None and join.answered_ms > moment.at_ms
    return hold(not is_open, "one JoinGroup", f"another one after {seconds(moment.at_ms - join.at_ms)}")


@classic_rule("K32", Grade.SHOULD, JOINING, What.JOIN, What.END)
def silent_after_fatal(moment: Moment) -> Verdict:
    """A member does not rejoin after a fatal error."""
    code = moment.classic.fatal.code
    if code in (ErrorCode.NONE, ErrorCode.FENCED_INSTANCE_ID):
        return None
    return hold(moment.what is What.END, f"no request after {code.name}", "JoinGroup")


@classic_rule("K35", Grade.MUST, "LeaveGroup API", What.LEAVE)
def leaves_with_its_id(moment: Moment) -> Verdict:
    """A LeaveGroup has the member id of its sender."""
    member = moment.classic
    if not member.member_id:
        return None
    return hold(identity(moment.request) == member.member_id, member.member_id, identity(moment.request))
