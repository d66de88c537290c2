"""The groups as seen on the wire: members, epochs, numbers of partitions, and errors.

A pure fold: `Groups.take` gets one exchange after the other and returns the news, as lines. What happened
before the capture began, or elsewhere, is not known here.

Source: KIP-848 (epochs, leave with -1 and -2), KIP-345 (static members).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from fsm.errors import FsmError
from fsm.protocol.consumer_protocol import decode_assignment
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.json_form import error_name
from fsm.wire.exchange import Exchange

MOST_GROUPS, MOST_MEMBERS = 1_000, 10_000
"""The maximal numbers of groups, and of members of one group; further ones are not shown."""
REMOVED = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}
"""Errors after which the receiver is no member."""
ROUTINE = {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS}
"""Errors that are part of the normal protocol."""


@dataclass
class Member:
    """A member according to its last exchanges."""

    client_id: str
    epoch: int
    """Member epoch, or generation."""
    partitions: int | None = None
    """How many partitions it has been assigned; None if no response contained an assignment."""
    beat_ms: float = 0.0
    """The time of its last exchange, in epoch milliseconds."""
    errors: int = 0
    last_error: str = ""


@dataclass
class Group:
    """One group."""

    protocol: str
    """`consumer`, or the protocol type of a classic group."""
    members: dict[str, Member] = field(default_factory=dict)
    epoch: int = 0
    """The highest epoch or generation in a response."""
    errors: int = 0
    refused: set[tuple[str, str]] = field(default_factory=set)
    """Clients that are no members and were refused, with the reason: each is reported once."""


class Groups:
    """All groups of a capture."""

    def __init__(self) -> None:
        self.found: dict[str, Group] = {}

    def take(self, exchange: Exchange) -> list[str]:
        """Adds an exchange; returns the news in it, one line each, without time."""
        read = _READERS.get(exchange.api)
        if read is None or exchange.request is None or exchange.response is None:
            return []
        return [f"{exchange.request.group_id}: {news}" for news in read(self, exchange)]

    def _group(self, exchange: Exchange, protocol: str) -> Group:
        name = exchange.request.group_id
        known = self.found.get(name)
        if known is None:
            known = Group(protocol)
            if len(self.found) < MOST_GROUPS:
                self.found[name] = known
        if protocol:
            known.protocol = protocol
        return known

    def _beat(self, exchange: Exchange) -> Iterator[str]:
        request, response = exchange.request, exchange.response
        group = self._group(exchange, "consumer")
        member_id = response.member_id or request.member_id
        if response.error_code:
            yield from _refuse(group, member_id, exchange)
        elif request.member_epoch < 0:
            how = "left" if request.member_epoch == -1 else "left for a while, its instance is kept"
            yield from _leave(group, member_id, exchange, how)
        else:
            assigned = response.assignment
            count = None if assigned is None else sum(len(partitions) for _, partitions in assigned)
            yield from _note_answer(group, member_id, exchange, response.member_epoch, count)

    def _join(self, exchange: Exchange) -> Iterator[str]:
        request, response = exchange.request, exchange.response
        group = self._group(exchange, request.protocol_type)
        if response.error_code:
            yield from _refuse(group, request.member_id, exchange)
        else:
            yield from _note_answer(group, response.member_id, exchange, response.generation_id, None)

    def _sync(self, exchange: Exchange) -> Iterator[str]:
        request, response = exchange.request, exchange.response
        group = self._group(exchange, "")
        if response.error_code:
            yield from _refuse(group, request.member_id, exchange)
            return
        try:
            count = len(decode_assignment(response.assignment).partitions) if response.assignment else 0
        except FsmError:
            count = None
        yield from _note_answer(group, request.member_id, exchange, request.generation_id, count)

    def _classic_beat(self, exchange: Exchange) -> Iterator[str]:
        request, group = exchange.request, self._group(exchange, "")
        if exchange.response.error_code:
            yield from _refuse(group, request.member_id, exchange)
        else:
            yield from _note_answer(group, request.member_id, exchange, request.generation_id, None)

    def _leave(self, exchange: Exchange) -> Iterator[str]:
        group = self._group(exchange, "")
        if exchange.response.error_code:
            yield from _refuse(group, exchange.request.member_id, exchange)
            return
        gone = [(one.member_id, one.group_instance_id) for one in exchange.request.members]
        for member_id, instance in gone or [(exchange.request.member_id, None)]:
            yield from _leave(group, member_id or f"instance {instance}", exchange, "left")

    def _commit(self, exchange: Exchange) -> Iterator[str]:
        codes = {one.error_code for topic in exchange.response.topics for one in topic.partitions}
        if codes - {ErrorCode.NONE}:
            group = self._group(exchange, "")
            yield from _refuse(group, exchange.request.member_id, exchange, max(codes))


_READERS: Mapping[str, Callable[[Groups, Exchange], Iterator[str]]] = {
    "ConsumerGroupHeartbeat": Groups._beat,
    "JoinGroup": Groups._join,
    "SyncGroup": Groups._sync,
    "Heartbeat": Groups._classic_beat,
    "LeaveGroup": Groups._leave,
    "OffsetCommit": Groups._commit,
}


def _note_answer(group: Group, member_id: str, exchange: Exchange, epoch: int, partitions: int | None) -> Iterator[str]:
    """Notes a successful response to a member."""
    member = group.members.get(member_id)
    is_new = member is None
    if member is None:
        member = Member(exchange.client_id or "", epoch)
        if len(group.members) < MOST_MEMBERS:
            group.members[member_id] = member
    moved = is_new or member.epoch != epoch
    given = partitions is not None and partitions != member.partitions
    member.epoch, member.beat_ms = epoch, exchange.at_ms
    member.partitions = partitions if partitions is not None else member.partitions
    group.epoch = max(group.epoch, epoch)
    if moved or given:
        has = "" if member.partitions is None else f", {member.partitions} assigned"
        yield f"{_name(member, member_id)} {'joined' if is_new else 'is'} at epoch {epoch}{has}"


def _refuse(group: Group, member_id: str, exchange: Exchange, code: ErrorCode | None = None) -> Iterator[str]:
    """Notes an error response to a member, or to a client that joins."""
    code = exchange.response.error_code if code is None else code
    error = str(error_name(code))
    member = group.members.get(member_id)
    if member:
        member.beat_ms = exchange.at_ms
    if code in ROUTINE:
        return
    group.errors += 1
    name = exchange.client_id or member_id
    if member is None:
        if (name, error) not in group.refused and len(group.refused) < MOST_MEMBERS:
            group.refused.add((name, error))
            yield f"{name}: {exchange.api} is refused: {error}"
        return
    is_news = member.last_error != error or code in REMOVED
    member.errors, member.last_error = member.errors + 1, error
    if code in REMOVED:
        del group.members[member_id]
        yield f"{_name(member, member_id)} is no member any more: {error}"
    elif is_news:
        yield f"{_name(member, member_id)}: {exchange.api} is refused: {error}"


def _leave(group: Group, member_id: str, exchange: Exchange, how: str) -> Iterator[str]:
    member = group.members.pop(member_id, None)
    yield f"{_name(member, member_id) if member else exchange.client_id or member_id} {how}"


def _name(member: Member, member_id: str) -> str:
    return f"{member.client_id or '?'} ({member_id[:8]})"
