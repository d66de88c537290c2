"""What members of a classic group own, commit and read, and what their leader assigns: KIP-429, KIP-814."""

from __future__ import annotations

from collections import Counter

from fsm.kit.application import Held
from fsm.kit.check import SLACK_MS, SOON_MS, Grade, Verdict, classic_rule, hold, partitions, seconds
from fsm.kit.classic_member import Stage, read_assignment, read_subscription
from fsm.kit.client_history import Moment, What

LEADER = "SyncGroup API; ConsumerPartitionAssignor"
PAUSE_MS = 2_000.0
"""A fetch that was under way as its sender joined may wait this long."""


@classic_rule("K5", Grade.MUST, LEADER, What.SYNC)
def leader_assigns_everyone(moment: Moment) -> Verdict:
    """The leader's SyncGroup has an assignment for every member of the JoinGroup response."""
    member = moment.classic
    if not member.leads or member.skips or not _is_of_this_generation(moment):
        return None
    given = {one.member_id for one in moment.request.assignments}
    missing = member.group.keys() - given
    return hold(not missing, f"{len(member.group)} assignments", f"none for {', '.join(sorted(missing))}")


@classic_rule("K6", Grade.MUST, LEADER, What.SYNC)
def follower_assigns_nothing(moment: Moment) -> Verdict:
    """The SyncGroup of a follower has no assignments."""
    if moment.classic.leads or not _is_of_this_generation(moment):
        return None
    return hold(not moment.request.assignments, "no assignments", f"{len(moment.request.assignments)}")


@classic_rule("K27", Grade.MUST, LEADER, What.SYNC)
def leader_gives_once(moment: Moment) -> Verdict:
    """The leader assigns no partition to two members."""
    given = _assignments(moment)
    if not given:
        return None
    counts = Counter(partition for one in given.values() for partition in one)
    twice = [partition for partition, count in counts.items() if count > 1]
    return hold(not twice, "each partition once", f"{partitions(twice)} twice")


@classic_rule("K28", Grade.MUST, LEADER, What.SYNC)
def leader_gives_what_is_wanted(moment: Moment) -> Verdict:
    """The leader assigns to a member only partitions of topics to which it subscribes."""
    given = _assignments(moment)
    if not given:
        return None
    extra = set()
    for member_id, found in given.items():
        wanted = read_subscription(moment.classic.group.get(member_id, b""))
        if wanted is not None:
            extra |= {partition for partition in found if partition[0] not in wanted.topics}
    return hold(not extra, "only topics that members subscribe to", partitions(extra))


@classic_rule("K29", Grade.MUST, "KIP-429", What.SYNC)
def leader_waits_for_revocation(moment: Moment) -> Verdict:
    """The leader of a cooperative group reassigns a partition only after its owner has given it up."""
    given = _assignments(moment)
    if not given or "cooperative" not in moment.classic.protocol.lower():
        return None
    owners: dict[tuple[str, int], str] = {}
    for member_id, metadata in sorted(moment.classic.group.items()):
        subscription = read_subscription(metadata)
        if subscription is not None and subscription.generation_id in (-1, moment.classic.generation - 1):
            owners.update(dict.fromkeys(subscription.owned_partitions, member_id))
    moved = {p for to, found in given.items() for p in found if owners.get(p, to) != to}
    return hold(
        not moved, "each partition stays with its owner until that gives it up", f"{partitions(moved)} moved at once"
    )


@classic_rule("K30", Grade.SHOULD, "KIP-814", What.SYNC)
def leader_skips(moment: Moment) -> Verdict:
    """A static leader whose JoinGroup response says to skip the assignment sends none."""
    member = moment.classic
    if not member.leads or not member.skips or not _is_of_this_generation(moment):
        return None
    return hold(not moment.request.assignments, "no assignments", f"{len(moment.request.assignments)}")


@classic_rule("K20", Grade.MUST, "OffsetCommit API", What.COMMIT)
def commits_current_generation(moment: Moment) -> Verdict:
    """A member commits with its current generation and member id."""
    member, request = moment.classic, moment.request
    if not member.is_member or moment.at_ms - member.generation_ms <= SLACK_MS:
        return None
    identity = (request.generation_id_or_member_epoch, request.member_id)
    is_kept = identity == (member.generation, member.member_id)
    return hold(
        is_kept,
        f"generation {member.generation} of {member.member_id}",
        f"{identity[0]} of {identity[1] or 'no member'}",
    )


@classic_rule("K21", Grade.MUST, "OffsetCommit API", What.COMMIT)
def commits_what_it_owns(moment: Moment) -> Verdict:
    """A member commits only offsets of partitions that were assigned to it."""
    member = moment.classic
    if member.stage is not Stage.STABLE or moment.at_ms - member.assignment_ms <= SLACK_MS:
        return None
    extra = moment.committed.keys() - member.assignment
    return hold(not extra, "only partitions that it owns", f"also {partitions(extra)}")


@classic_rule("K22", Grade.MUST, "Fetch API", What.FETCH)
def fetches_what_it_owns(moment: Moment) -> Verdict:
    """A member reads only partitions that were assigned to it."""
    member, asked = moment.classic, moment.fetched
    if member.stage is not Stage.STABLE or not asked or moment.at_ms - member.assignment_ms <= SLACK_MS:
        return None
    extra = asked.keys() - member.assignment
    return hold(not extra, "only assigned partitions", f"it also reads {partitions(extra)}")


@classic_rule("K23", Grade.MUST, "KIP-429", What.JOIN)
def claims_what_it_owns(moment: Moment) -> Verdict:
    """A joining member reports as owned only partitions that were assigned to it."""
    member = moment.classic
    claimed = _read_claim(moment)
    if claimed is None or member.join is None:
        return None
    extra = claimed - member.assignment
    return hold(not extra, "only assigned partitions", f"it reports {partitions(extra)}")


@classic_rule("K24", Grade.MUST, "KIP-429", What.JOIN, What.END)
def rejoins_after_revocation(moment: Moment) -> Verdict:
    """A cooperative member rejoins after it gave up partitions, so that others get them."""
    member, app = moment.classic, moment.application
    if not member.surrender or app.callback:
        return None
    until_ms = min(moment.at_ms, app.closing_ms or moment.at_ms, app.exited_ms or moment.at_ms)
    waited_ms = until_ms - max(member.assignment_ms, app.last_change_before(until_ms))
    limit_ms = SOON_MS if app.reports_callbacks else member.rebalance_ms
    if moment.what is What.JOIN:
        return True
    return None if waited_ms <= limit_ms else hold(False, "JoinGroup", f"none for {seconds(waited_ms)}")


@classic_rule("K33", Grade.NOTE, "KIP-429; eager rebalancing", What.FETCH)
def eager_member_pauses(moment: Moment) -> Verdict:
    """An eager member does not read while it rejoins: it has given up all partitions."""
    member = moment.classic
    if member.cooperates or member.stage is not Stage.JOINING or member.join is None:
        return None
    since_ms = moment.at_ms - member.join.at_ms
    asked = moment.fetched
    if since_ms <= PAUSE_MS or not asked:
        return None
    return hold(False, "no fetch before the new assignment", f"it reads {partitions(asked)}")


@classic_rule("K34", Grade.MUST, "UNKNOWN_MEMBER_ID; AbstractCoordinator", What.FETCH)
def does_not_fetch_outside(moment: Moment) -> Verdict:
    """A client that has left the group, or that the coordinator does not know, does not read."""
    member = moment.classic
    if member.stage is not Stage.OUT or member.join is None or moment.at_ms - member.out_ms <= SLACK_MS:
        return None
    asked = moment.fetched
    return hold(False, "no fetch", f"it reads {partitions(asked)}") if asked else None


def _is_of_this_generation(moment: Moment) -> bool:
    return moment.classic.is_member and moment.request.generation_id == moment.classic.generation


def _assignments(moment: Moment) -> dict[str, Held]:
    """What the leader gives to each member."""
    if not moment.classic.leads or not _is_of_this_generation(moment):
        return {}
    return {one.member_id: read_assignment(one.assignment) for one in moment.request.assignments}


def _read_claim(moment: Moment) -> Held | None:
    """What a JoinGroup says that its sender owns."""
    read = [read_subscription(one.metadata) for one in moment.request.protocols]
    found = [one for one in read if one is not None]
    return frozenset(p for one in found for p in one.owned_partitions) if found else None
