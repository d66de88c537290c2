"""The positions of a client: those of its fetches, and the offsets that it committed and requested.

Partitions are by name where the name of a topic is known, else by its id, so that requests of all versions compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fsm.kit.application import NEVER_MS
from fsm.protocol.assignment import TopicPartition
from fsm.protocol.error_codes import ErrorCode
from fsm.serve.faults import topic_of
from fsm.wire.exchange import Exchange


class Refused(NamedTuple):
    """A request about offsets that was refused for some partitions."""

    code: ErrorCode
    at_ms: float
    partitions: frozenset[TopicPartition]


NOT_REFUSED = Refused(ErrorCode.NONE, NEVER_MS, frozenset())


@dataclass(slots=True)
class Reads:
    """The known offsets of a client."""

    position: dict[TopicPartition, int] = field(default_factory=dict)
    """The position of its last fetch."""
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    start: dict[TopicPartition, int] = field(default_factory=dict)
    """The committed offset that it received, until it fetches or commits."""
    unknown: frozenset[TopicPartition] = frozenset()
    """Partitions for which it received an error instead of the committed offset."""
    commits: bool = False
    """Whether it ever committed."""
    refused_commit: Refused = NOT_REFUSED
    refused_fetch: Refused = NOT_REFUSED

    def fetch(self, exchange: Exchange, names: Mapping[str, str]) -> None:
        """Takes a Fetch request."""
        for partition, offset in read_fetch(exchange.request, names).items():
            self.position[partition] = offset
            self.start.pop(partition, None)

    def commit(self, exchange: Exchange, names: Mapping[str, str]) -> None:
        """Takes the response to a commit."""
        self.commits = True
        asked = read_commit(exchange.request, names)
        codes = {
            (topic_of(topic, names), one.partition_index): one.error_code
            for topic in exchange.response.topics
            for one in topic.partitions
        }
        refused = frozenset(p for p, code in codes.items() if code is not ErrorCode.NONE)
        self.refused_commit = NOT_REFUSED
        if refused:
            self.refused_commit = Refused(codes[min(refused)], exchange.ended_ms, refused)
        for partition in asked.keys() - refused:
            self.committed[partition] = asked[partition]
            self.start.pop(partition, None)

    def learn(self, exchange: Exchange, names: Mapping[str, str]) -> None:
        """Takes a response with committed offsets."""
        found, codes = read_offsets(exchange.response, names)
        asked = read_offset_fetch(exchange.request, names)
        refused = frozenset(codes) | (asked - found.keys() if group_error(exchange.response) else frozenset())
        self.unknown = (self.unknown - found.keys()) | refused
        known = {p: offset for p, offset in found.items() if offset >= 0 and p not in refused}
        # A fetch from there may be in flight: its records are read, and the next one begins after them.
        self.start.update((p, offset) for p, offset in known.items() if self.position.get(p) != offset)
        self.refused_fetch = NOT_REFUSED
        if refused:
            code = next(iter(codes.values()), group_error(exchange.response))
            self.refused_fetch = Refused(code, exchange.ended_ms, refused)

    def list_uncommitted(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Partitions whose position is beyond the committed offset."""
        return sorted(p for p in partitions if self.position.get(p, 0) > max(self.committed.get(p, -1), 0))


def read_fetch(request: Any, names: Mapping[str, str]) -> dict[TopicPartition, int]:
    """The partitions of a Fetch, and from where each is read."""
    return {(topic_of(t, names), one.partition): one.fetch_offset for t in request.topics for one in t.partitions}


def read_commit(request: Any, names: Mapping[str, str]) -> dict[TopicPartition, int]:
    """The partitions of an OffsetCommit and their offsets."""
    return {
        (topic_of(t, names), one.partition_index): one.committed_offset for t in request.topics for one in t.partitions
    }


def read_offset_fetch(request: Any, names: Mapping[str, str]) -> frozenset[TopicPartition]:
    """The partitions of an OffsetFetch; empty if it requests all."""
    parts = request.groups or (request,)
    return frozenset((topic_of(t, names), p) for one in parts for t in one.topics or () for p in t.partition_indexes)


def read_offsets(
    response: Any, names: Mapping[str, str]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, ErrorCode]]:
    """The offset of each partition, and the error of each that has one."""
    ones = [
        ((topic_of(topic, names), one.partition_index), one)
        for part in (response.groups or (response,))
        for topic in part.topics
        for one in topic.partitions
    ]
    codes = {p: one.error_code for p, one in ones if one.error_code is not ErrorCode.NONE}
    return {p: one.committed_offset for p, one in ones if p not in codes}, codes


def group_error(response: Any) -> ErrorCode:
    """Why a whole OffsetFetch was refused."""
    parts = response.groups or (response,)
    return next((one.error_code for one in parts if one.error_code is not ErrorCode.NONE), ErrorCode.NONE)
