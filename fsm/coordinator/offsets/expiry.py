"""Expiry of unused offsets, and of a group without members with the last of them.

Source: `OffsetMetadataManager.cleanupExpiredOffsets` and the expiration conditions of `ConsumerGroup` and
`ClassicGroup` of apache/kafka 4.4.
"""

from __future__ import annotations

from typing import NamedTuple

from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.groups import Group
from fsm.coordinator.offsets.deletion import end_of_group, is_subscribed
from fsm.coordinator.offsets.offsets import OfGroup, tombstones
from fsm.coordinator.offsets.transactions import NONE_OPEN, find_pending
from fsm.coordinator.offsets.transactions import OfGroup as OpenOnes
from fsm.protocol.consumer_protocol import PROTOCOL_TYPE
from fsm.protocol.records import OffsetCommit, Record
from fsm.tables.classic_group import State

MINUTE_MS = 60_000


class Expired(NamedTuple):
    """The expired offsets of one group."""

    records: tuple[Record, ...]
    ends: bool
    """Whether the group itself is deleted, too."""


def expire_offsets(group: Group, committed: OfGroup, context: Context, open_ones: OpenOnes = NONE_OPEN) -> Expired:
    """Expires old offsets, and with the last of them a group without members.

    An offset is kept while a transaction has another one pending for its partition, and a group while a transaction is
    open; before 4.0.1 not a group with only pending offsets (F26).
    """
    pending = find_pending(open_ones)
    old = [place for place, commit in committed.items() if _is_expired(group, place[0], commit, context)]
    gone = [place for place in old if place not in pending]
    keeps = open_ones and (committed or Choice.PENDING_OFFSETS_KEEP_GROUP in context.dialect)
    ends = len(gone) == len(committed) and group.is_empty and not keeps
    end = end_of_group(group, context) if ends else ()
    return Expired((*tombstones(group.group_id, gone), *end), ends)


def _is_expired(group: Group, topic: str, commit: OffsetCommit, context: Context) -> bool:
    since_ms = None if is_subscribed(group, topic) else _unused_since_ms(group, commit)
    retention_ms = context.config.offsets_retention_minutes * MINUTE_MS
    return since_ms is not None and context.now_ms - since_ms >= retention_ms


def _unused_since_ms(group: Group, commit: OffsetCommit) -> int | None:
    """The start of the retention time; None if the offset may be in use."""
    if isinstance(group, ConsumerGroup) or group.is_simple:
        return commit.commit_timestamp
    if group.is_empty:
        return group.state_since_ms if group.state_since_ms >= 0 else commit.commit_timestamp
    return commit.commit_timestamp if _is_readable(group) and group.state is State.STABLE else None


def _is_readable(group: ClassicGroup) -> bool:
    return group.protocol_type == PROTOCOL_TYPE and group.subscribed_topics is not None
