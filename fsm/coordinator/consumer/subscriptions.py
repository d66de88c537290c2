"""Changes of subscriptions: new, dropped and resolved regular expressions, and the metadata of topics.

Source: KIP-848; `maybeUpdateRegularExpressions`, `onMetadataUpdate` and their neighbours in `GroupMetadataManager` of
apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fsm.coordinator.consumer.group_step import ConsumerGroupDraft, RegexChange, open_group
from fsm.coordinator.model.consumer_group import ConsumerGroup, GroupMember, Resolution
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.hash_order import fit_table, map_order, string_hash
from fsm.coordinator.model.step import Refused, Step
from fsm.coordinator.model.subscribed_metadata import subscribed_metadata
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.records import ResolvedRegularExpression
from fsm.protocol.topic_patterns import find_problem, select
from fsm.tables.consumer_group import Event

SHORTEST_REFRESH_MS = 10_000
"""The minimum time between two resolutions."""


def compare_regexes(draft: ConsumerGroupDraft, before: GroupMember, after: GroupMember) -> RegexChange:
    """The change of the member's regular expression; notes one without any subscriber left.

    Raises `Refused` for an invalid new one.
    """
    if before.pattern == after.pattern:
        return RegexChange.NONE
    subscribers = draft.stored.members.patterns
    if before.pattern and subscribers.get(before.pattern) == 1:
        draft.unused_patterns = (before.pattern,)
        draft.regexes = draft.regexes.without(before.pattern)
    if not after.pattern:
        bumps = Choice.CLEARED_REGEX_BUMPS in draft.context.dialect
        return RegexChange.RESOLVED if bumps else RegexChange.UNRESOLVED
    if after.pattern not in subscribers:
        if problem := find_problem(after.pattern):
            raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{after.pattern!r}: {problem}")
        return RegexChange.UNRESOLVED
    return RegexChange.RESOLVED if after.pattern in draft.stored.regexes else RegexChange.UNRESOLVED


def is_resolution_due(draft: ConsumerGroupDraft, topics_added_version: int) -> bool:
    """Whether the request starts a resolution of all the group's regular expressions.

    `topics_added_version` is the version of the last metadata image that brought new topics.
    """
    stored, now = draft.stored, draft.members.patterns
    if not now or stored.resolution is not None:
        return False
    is_new = any(pattern not in stored.members.patterns for pattern in now)
    if not (is_new or stored.members.patterns):
        return False
    first = next(iter(stored.list_resolved()), None)
    if first is None:
        return True
    age_ms = draft.context.now_ms - first.timestamp
    if age_ms <= SHORTEST_REFRESH_MS:
        return False
    by_age = Choice.REGEX_REFRESHED_BY_AGE in draft.context.dialect
    is_old = by_age and age_ms > draft.context.config.group_consumer_regex_refresh_interval_ms
    missing = len(now) != len(stored.regexes)
    return is_new or missing or is_old or first.version < topics_added_version


def find_deadlines_ms(group: ConsumerGroup, context: Context) -> tuple[int, ...]:
    """The instants from which a request starts a resolution: the minimum time is over, the last result is outdated."""
    first = next(iter(group.list_resolved()), None)
    if first is None:
        return ()
    lasts_ms = [SHORTEST_REFRESH_MS]
    if Choice.REGEX_REFRESHED_BY_AGE in context.dialect:
        lasts_ms.append(context.config.group_consumer_regex_refresh_interval_ms)
    return tuple(first.timestamp + ms + 1 for ms in lasts_ms)


def resolve(draft: ConsumerGroupDraft, requested_by: str) -> Resolution:
    """The result of the background task: every subscribed regular expression, matched against the current topics."""
    image, now_ms = draft.context.image, draft.context.now_ms
    found = ((p, select(p, image.topics)) for p in _task_order(draft))
    return Resolution(
        requested_by,
        tuple((p, ResolvedRegularExpression(topics, image.version, now_ms)) for p, topics in found),
    )


def _task_order(draft: ConsumerGroupDraft) -> list[str]:
    """The group's regular expressions in the order of the task's maps: a copy of the stored ones, then two more."""
    stored, now = draft.stored.members.patterns_in_order(), draft.members.patterns
    copied = [*(pattern for pattern in stored if pattern in now), *(p for p in now if p not in stored)]
    found = map_order(copied, string_hash, fit_table(len(stored)))
    for _ in range(2):
        found = map_order(found, string_hash, fit_table(len(found)))
    return found


def finish_resolution(group: ConsumerGroup, context: Context) -> Step[ConsumerGroup]:
    """The background task has ended: its result is a separate step, which never computes a target."""
    draft = open_group(replace(group, resolution=None), context)
    found = group.resolution.found if group.resolution else ()
    draft.resolved = {pattern: one for pattern, one in found if pattern in group.members.patterns}
    after = replace(group, regexes=group.regexes.merge(draft.resolved))
    draft.seen_metadata = subscribed_metadata(after.subscribed_names(), context)
    moved = any(_topics(group, pattern) != one.topics for pattern, one in draft.resolved.items())
    if moved or draft.seen_metadata != group.metadata:
        draft.take_group_row(Event.REGEX_RESULT_CHANGED)
        draft.metadata_due = False
    else:
        draft.take_group_row(Event.REGEX_RESULT_SAME)
    return draft.finish()


def _topics(group: ConsumerGroup, pattern: str) -> tuple[str, ...]:
    known = group.regexes.get(pattern)
    return known.topics if known else ()


def fail_resolution(group: ConsumerGroup, context: Context) -> Step[ConsumerGroup]:
    """The background task has failed: the next request may start it again."""
    draft = open_group(replace(group, resolution=None), context)
    draft.take_group_row(Event.REGEX_RESOLUTION_FAILED)
    return draft.finish()


def note_changed_topics(group: ConsumerGroup, names: Iterable[str], context: Context) -> ConsumerGroup:
    """The group after a metadata update that touched these topics."""
    if group.is_empty or group.subscribed_names().isdisjoint(names):
        return group
    draft = open_group(group, context)
    draft.take_group_row(Event.TOPICS_UPDATED)
    return draft.finish().state
