"""The members of a classic group, and what follows from all of them.

`ClassicMembers` is a value. What a coordinator asks of the whole group at every join - which protocols all support,
how many joins are parked, who has an instance id - is counted as members come, change and go, so that no join walks
the group.

Source: section 5 of the coordinator reference; `ClassicGroup` and `ClassicGroupMember` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fsm.coordinator.by_id import ById
from fsm.coordinator.election import preferred
from fsm.coordinator.frozen import Counts, FrozenMap, counted
from fsm.coordinator.hash_order import map_order, string_hash
from fsm.coordinator.records import ClassicProtocol


class Parked(NamedTuple):
    """A request that is answered in a later step."""

    token: int
    version: int


@dataclass(frozen=True, slots=True)
class ClassicGroupMember:
    """A member: what it said when it joined, what it was assigned, and what it waits for."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]
    """In the order of its preference."""
    assignment: bytes = b""
    is_new: bool = False
    """Until its first join is answered: its session may expire although it waits."""
    join: Parked | None = None
    sync: Parked | None = None

    @property
    def is_excused(self) -> bool:
        """Whether it cannot be expected to send heartbeats, because it waits for an answer."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def supports(self, protocol: str | None) -> bool:
        """Whether the protocol is one of its own."""
        for name, _ in self.protocols:  # noqa: SIM110  # every join asks every member, and `any` takes twice as long
            if name == protocol:
                return True
        return False

    def metadata(self, protocol: str | None) -> bytes:
        """What it said under this protocol. Raises `KeyError` where it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise KeyError(protocol)


Offer = tuple[str, ...]
"""Names of protocols in the order of a member's preference."""

Change = tuple[ClassicGroupMember | None, ClassicGroupMember | None]
"""A member before and after; None where it is not there."""

_NOBODY: FrozenMap[str, ClassicGroupMember] = FrozenMap()
_NO_STATIC: FrozenMap[str, str] = FrozenMap()
_NO_OFFERS: Counts[Offer] = FrozenMap()
_NO_TIMEOUTS: Counts[int] = FrozenMap()


@dataclass(frozen=True, eq=False)
class ClassicMembers(ById[ClassicGroupMember]):
    """Members by id. What is counted follows from the members and is no part of the value."""

    by_id: FrozenMap[str, ClassicGroupMember] = _NOBODY
    static: FrozenMap[str, str] = _NO_STATIC
    """Member ids by instance id."""
    offers: Counts[Offer] = _NO_OFFERS
    """Members by the protocols that they list."""
    rebalance_timeouts_ms: Counts[int] = _NO_TIMEOUTS
    """Members by their rebalance timeout."""
    joins: int = 0
    """How many joins are parked."""
    syncs: int = 0
    """How many syncs are parked."""

    @classmethod
    def of(cls, members: Iterable[ClassicGroupMember]) -> ClassicMembers:
        """These members, in this order."""
        return cls().merged({member.member_id: member for member in members})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClassicMembers) and self.by_id == other.by_id

    def __hash__(self) -> int:
        return hash(self.by_id)

    def in_order(self) -> Iterator[ClassicGroupMember]:
        """Members as the coordinator walks its map of them."""
        return (self.by_id[member_id] for member_id in map_order(self.by_id, string_hash))

    def set(self, member: ClassicGroupMember) -> ClassicMembers:
        """With this member, new or in place of the one with its id."""
        return self.merged({member.member_id: member})

    def merged(self, members: Mapping[str, ClassicGroupMember]) -> ClassicMembers:
        """With all these members, by their ids."""
        return self._recounted(self.by_id.merged(members), [(self.by_id.get(i), new) for i, new in members.items()])

    def without(self, *member_ids: str) -> ClassicMembers:
        """Without these members; itself where it has none of them."""
        gone = [self.by_id[member_id] for member_id in dict.fromkeys(member_ids) if member_id in self.by_id]
        if not gone:
            return self
        return self._recounted(self.by_id.without(*member_ids), [(old, None) for old in gone])

    def _recounted(self, by_id: FrozenMap[str, ClassicGroupMember], changes: Iterable[Change]) -> ClassicMembers:
        moved = [(old, new) for old, new in changes if old is not new]
        before = [old for old, _ in moved if old is not None]
        after = [new for _, new in moved if new is not None]
        return ClassicMembers(
            by_id,
            _renamed(self.static, before, after),
            counted(self.offers, map(_offer, before), map(_offer, after)),
            counted(self.rebalance_timeouts_ms, map(_timeout_ms, before), map(_timeout_ms, after)),
            self.joins + _joins(after) - _joins(before),
            self.syncs + _syncs(after) - _syncs(before),
        )

    def are_all_supporting(self, protocol: str | None) -> bool:
        """Whether the protocol is one of everybody's."""
        return all(protocol in offer for offer in self.offers)

    def elected_protocol(self) -> str | None:
        """Each member votes for the first of its protocols that all support; most votes win. None: there is none."""
        candidates = {name for offer in self.offers for name in offer if self.are_all_supporting(name)}
        votes: dict[str, int] = {}
        for offer, members in self.offers.items():
            vote = next((name for name in offer if name in candidates), None)
            if vote is not None:
                votes[vote] = votes.get(vote, 0) + members
        if sum(count == max(votes.values()) for count in votes.values()) < 2:
            return preferred(votes)
        return preferred({name: votes[name] for name in self._walked(votes)})

    def _walked(self, votes: Iterable[str]) -> list[str]:
        """Protocols that members vote for, as the coordinator walks its map of them: who votes first decides a tie."""
        known = set(votes)
        firsts = (next((name for name, _ in member.protocols if name in known), None) for member in self.in_order())
        return map_order((name for name in firsts if name is not None), string_hash)


def _offer(member: ClassicGroupMember) -> Offer:
    return tuple(name for name, _ in member.protocols)


def _timeout_ms(member: ClassicGroupMember) -> int:
    return member.rebalance_timeout_ms


def _joins(members: Iterable[ClassicGroupMember]) -> int:
    return sum(member.join is not None for member in members)


def _syncs(members: Iterable[ClassicGroupMember]) -> int:
    return sum(member.sync is not None for member in members)


def _renamed(
    static: FrozenMap[str, str], before: Iterable[ClassicGroupMember], after: Iterable[ClassicGroupMember]
) -> FrozenMap[str, str]:
    """Who has which instance id afterwards."""
    given = {member.instance_id: member.member_id for member in after if member.instance_id is not None}
    lost = [m.instance_id for m in before if m.instance_id is not None and static.get(m.instance_id) == m.member_id]
    return static.without(*(instance_id for instance_id in lost if instance_id not in given)).merged(given)


NOBODY = ClassicMembers()
