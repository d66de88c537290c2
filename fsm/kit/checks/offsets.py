"""What a member of a consumer group commits, and from where it reads: KIP-848, KIP-447."""

from __future__ import annotations

from fsm.kit.check import BACKOFF_MS, SLACK_MS, SOON_MS, Grade, Verdict, hold, partitions, rule, seconds
from fsm.kit.client_history import Moment, What
from fsm.kit.positions import read_offset_fetch
from fsm.protocol.assignment import TopicPartition
from fsm.protocol.error_codes import ErrorCode

COMMIT = "KIP-848, OffsetCommit API"
OFFSETS = "KIP-848, OffsetFetch API"
FETCHES = "KIP-848, Reconciliation of the group"
BY_MEMBER_SINCE = 9


def _list_assigned(moment: Moment) -> frozenset[TopicPartition]:
    """What the member has or is to get."""
    return moment.name_topics(moment.consumer.owned | moment.consumer.offered | (moment.consumer.target or frozenset()))


def _find_given_up(moment: Moment) -> dict[TopicPartition, float]:
    names = moment.client.around.names
    return {(names.get(topic, topic), number): at for (topic, number), at in moment.consumer.given_up.items()}


def _is_current(moment: Moment, epoch: int) -> bool:
    member = moment.consumer
    return epoch == member.epoch or (epoch == member.earlier_epoch and moment.at_ms - member.epoch_ms <= SLACK_MS)


@rule("C1", Grade.MUST, COMMIT, What.COMMIT)
def commits_at_its_epoch(moment: Moment) -> Verdict:
    """A member commits with its current epoch."""
    if not moment.consumer.is_member or moment.doubt:
        return None
    epoch = moment.request.generation_id_or_member_epoch
    return hold(_is_current(moment, epoch), f"epoch {moment.consumer.epoch}", f"epoch {epoch}")


@rule("C2", Grade.MUST, COMMIT, What.COMMIT)
def commits_what_it_owns(moment: Moment) -> Verdict:
    """A member commits only offsets of partitions that it owns."""
    member = moment.consumer
    if not member.is_member or not member.is_known:
        return None
    late = {p for p, at in _find_given_up(moment).items() if moment.at_ms - at <= SLACK_MS}
    extra = moment.committed.keys() - _list_assigned(moment) - late
    return hold(not extra, "only partitions that it owns", f"also {partitions(extra)}")


@rule("C3", Grade.SHOULD, COMMIT, What.COMMIT)
def commits_in_this_version(moment: Moment) -> Verdict:
    """A member commits with OffsetCommit version 9 or later, which supports member epochs."""
    version = moment.exchange.version if moment.exchange else 0
    return hold(version >= BY_MEMBER_SINCE, f"version {BY_MEMBER_SINCE} or later", f"version {version}")


@rule("C4", Grade.NOTE, COMMIT, What.COMMIT, What.END)
def repeats_stale_commit(moment: Moment) -> Verdict:
    """A member retries a commit that failed with STALE_MEMBER_EPOCH, with its current epoch."""
    refused = moment.reads.refused_commit
    if refused.code is not ErrorCode.STALE_MEMBER_EPOCH:
        return None
    if moment.what is What.COMMIT:
        return hold(moment.at_ms - refused.at_ms <= SOON_MS, "the commit again", "a different one, much later")
    return hold(False, "the commit again", f"nothing for {seconds(moment.at_ms - refused.at_ms)}")


@rule("C5", Grade.MUST, COMMIT, What.COMMIT)
def no_commit_outside(moment: Moment) -> Verdict:
    """A client that is no longer a member does not commit as a member."""
    member = moment.consumer
    if member.is_member or not member.is_known or moment.at_ms - member.out_ms <= SLACK_MS:
        return None
    epoch = moment.request.generation_id_or_member_epoch
    return hold(epoch < 0, "no commit, or one without epoch", f"epoch {epoch} while it is not a member")


@rule("C6", Grade.SHOULD, OFFSETS, What.OFFSETS)
def offsets_as_member(moment: Moment) -> Verdict:
    """A member fetches committed offsets with its member id, so that the coordinator can refuse a stale epoch."""
    if not moment.consumer.is_member:
        return None
    is_named = all(group.member_id for group in moment.request.groups) and moment.request.groups
    return hold(is_named, f"member {moment.consumer.member_id}", "no member id")


@rule("C7", Grade.MUST, OFFSETS, What.OFFSETS)
def offsets_at_its_epoch(moment: Moment) -> Verdict:
    """A member fetches committed offsets with its current epoch, or without member id and epoch."""
    if not moment.consumer.is_member or moment.doubt:
        return None
    epochs = [group.member_epoch for group in moment.request.groups if group.member_id]
    if not epochs:
        return None
    return hold(all(_is_current(moment, one) for one in epochs), f"epoch {moment.consumer.epoch}", f"epoch {epochs[0]}")


@rule("C8", Grade.MUST, "KIP-447, UNSTABLE_OFFSET_COMMIT", What.FETCH, What.OFFSETS)
def waits_for_offsets(moment: Moment) -> Verdict:
    """A member whose OffsetFetch failed does not read the partition before it knows its committed offset."""
    unknown = moment.reads.unknown
    if not unknown:
        return None
    if moment.what is What.OFFSETS:
        return True
    early = unknown & moment.fetched.keys()
    return hold(not early, "no fetch before the offset is known", f"a fetch of {partitions(early)}")


@rule("C9", Grade.SHOULD, "KIP-447, UNSTABLE_OFFSET_COMMIT", What.OFFSETS, What.END)
def repeats_unstable_offsets(moment: Moment) -> Verdict:
    """A member retries OffsetFetch, after a backoff, if it failed with UNSTABLE_OFFSET_COMMIT."""
    return _repeats_offsets(moment, ErrorCode.UNSTABLE_OFFSET_COMMIT)


@rule("C10", Grade.SHOULD, OFFSETS, What.OFFSETS, What.END)
def repeats_stale_offsets(moment: Moment) -> Verdict:
    """A member retries OffsetFetch, after a backoff, if it failed with STALE_MEMBER_EPOCH."""
    return _repeats_offsets(moment, ErrorCode.STALE_MEMBER_EPOCH)


def _repeats_offsets(moment: Moment, code: ErrorCode) -> Verdict:
    refused = moment.reads.refused_fetch
    if refused.code is not code:
        return None
    if moment.what is What.END:
        waited_ms = (moment.application.closing_ms or moment.at_ms) - refused.at_ms
        return hold(waited_ms < SOON_MS, "OffsetFetch again", f"none for {seconds(waited_ms)}")
    waited_ms = moment.at_ms - refused.at_ms
    asked = read_offset_fetch(moment.request, moment.client.around.names)
    if asked and not asked & refused.partitions:
        return None
    return hold(waited_ms >= BACKOFF_MS, "a backoff of about 100 ms", f"OffsetFetch again after {waited_ms:.0f} ms")


@rule("C11", Grade.SHOULD, "KIP-447", What.OFFSETS)
def stable_offsets(moment: Moment) -> Verdict:
    """A member requires stable offsets, so that it waits for the pending commits of transactions."""
    return hold(moment.request.require_stable, "require_stable", "a request without it")


@rule("C12", Grade.NOTE, "OffsetCommitRequest.GroupInstanceId", What.COMMIT)
def commit_names_instance(moment: Moment) -> Verdict:
    """A static member sends its instance id when it commits."""
    instance_id = moment.consumer.instance_id
    if not instance_id or not moment.consumer.is_member:
        return None
    return hold(moment.request.group_instance_id == instance_id, instance_id, moment.request.group_instance_id)


@rule("F1", Grade.MUST, FETCHES, What.FETCH)
def fetches_what_it_was_given(moment: Moment) -> Verdict:
    """A member reads only partitions that were assigned to it."""
    member = moment.consumer
    if not member.is_member or not member.is_known:
        return None
    asked = moment.fetched
    extra = asked.keys() - _list_assigned(moment) - _find_given_up(moment).keys()
    return hold(not extra, "only assigned partitions", f"it also reads {partitions(extra)}") if asked else None


@rule("F2", Grade.MUST, FETCHES, What.FETCH)
def does_not_fetch_what_it_gave_up(moment: Moment) -> Verdict:
    """A member no longer reads partitions that it has given up."""
    gone = {p for p, at in _find_given_up(moment).items() if moment.at_ms - at > SLACK_MS}
    if not gone or not moment.consumer.is_member:
        return None
    still = gone & moment.fetched.keys()
    return hold(not still, "only what it owns", f"it still reads {partitions(still)}")


@rule("F3", Grade.MUST, "KIP-848, Member Lifecycle", What.FETCH)
def does_not_fetch_outside(moment: Moment) -> Verdict:
    """A client that is no longer a member does not read."""
    member = moment.consumer
    if member.is_member or not member.is_known or moment.at_ms - member.out_ms <= SLACK_MS:
        return None
    asked = moment.fetched
    return hold(False, "no fetch", f"it reads {partitions(asked)}") if asked else None


@rule("F4", Grade.MUST, "KIP-848, OffsetFetch API", What.FETCH)
def starts_at_committed_offset(moment: Moment) -> Verdict:
    """A member begins to read an assigned partition at its committed offset."""
    asked = moment.fetched
    begun = {p: (offset, moment.reads.start[p]) for p, offset in asked.items() if p in moment.reads.start}
    if not begun:
        return None
    wrong = {p: pair for p, pair in begun.items() if pair[0] != pair[1]}
    if not wrong:
        return True
    partition, (offset, start) = min(wrong.items())
    return hold(False, f"{partitions([partition])} from {start} on", f"from {offset} on")


@rule("F5", Grade.SHOULD, "SubscriptionState.markPendingRevocation", What.FETCH)
def does_not_fetch_what_it_revokes(moment: Moment) -> Verdict:
    """A member does not read partitions while their revoked callback runs: nobody may process what comes."""
    callback = moment.application.callback
    if callback is None or callback.name != "revoke" or moment.at_ms - callback.since_ms <= SLACK_MS:
        return None
    still = callback.partitions & moment.fetched.keys()
    return hold(not still, "no fetch of what is revoked", f"it still reads {partitions(still)}")
