"""The contents of a capture's output: totals, groups and news. No clock, no output.

Groups are as seen on the wire: members, epochs, numbers of partitions, and errors. They are a pure fold: `Groups.take`
gets one exchange after the other and returns the news, as lines. What happened before the capture began, or elsewhere,
is not known here.

Source: KIP-848 (epochs, leave with -1 and -2), KIP-345 (static members).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from fsm.errors import FsmError
from fsm.protocol.consumer_protocol import decode_assignment
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.json_form import error_name
from fsm.protocol.messages import APIS
from fsm.render.wording import clock, many, name
from fsm.wire.exchange import Exchange, Note

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
    protocol: str = ""
    """`consumer`, or the protocol type of a classic group, if known."""
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
        is_read = exchange.request is not None and exchange.response is not None
        if not is_read or exchange.api not in (*_READERS, "OffsetCommit"):
            return []
        return [f"{exchange.request.group_id}: {news}" for news in self._read(exchange)]

    def _read(self, exchange: Exchange) -> Iterator[str]:
        request, response = exchange.request, exchange.response
        if exchange.api == "OffsetCommit":
            codes = {one.error_code for topic in response.topics for one in topic.partitions}
            if codes - {ErrorCode.NONE}:
                yield from _refuse(self._find(request.group_id), request.member_id, exchange, max(codes))
            return
        group = self._find(request.group_id)
        if exchange.api == "ConsumerGroupHeartbeat":
            group.protocol = "consumer"
        elif exchange.api == "JoinGroup":
            group.protocol = request.protocol_type or group.protocol
        if response.error_code:
            yield from _refuse(group, request.member_id, exchange, response.error_code)
        else:
            yield from _READERS[exchange.api](group, exchange)

    def _find(self, name: str) -> Group:
        known = self.found.get(name)
        if known is None:
            known = Group()
            if len(self.found) < MOST_GROUPS:
                self.found[name] = known
        return known


def _beat(group: Group, exchange: Exchange) -> Iterator[str]:
    request, response = exchange.request, exchange.response
    member_id = response.member_id or request.member_id
    if request.member_epoch < 0:
        how = "left" if request.member_epoch == -1 else "left for a while, its instance is kept"
        yield from _leave(group, member_id, exchange, how)
    else:
        assigned = response.assignment
        count = None if assigned is None else sum(len(partitions) for _, partitions in assigned)
        yield from _note_answer(group, member_id, exchange, response.member_epoch, count)


def _join(group: Group, exchange: Exchange) -> Iterator[str]:
    response = exchange.response
    return _note_answer(group, response.member_id, exchange, response.generation_id, None)


def _sync(group: Group, exchange: Exchange) -> Iterator[str]:
    assignment = exchange.response.assignment
    try:
        count = len(decode_assignment(assignment).partitions) if assignment else 0
    except FsmError:
        count = None
    return _note_answer(group, exchange.request.member_id, exchange, exchange.request.generation_id, count)


def _classic_beat(group: Group, exchange: Exchange) -> Iterator[str]:
    return _note_answer(group, exchange.request.member_id, exchange, exchange.request.generation_id, None)


def _leave_group(group: Group, exchange: Exchange) -> Iterator[str]:
    gone = [(one.member_id, one.group_instance_id) for one in exchange.request.members]
    for member_id, instance in gone or [(exchange.request.member_id, None)]:
        yield from _leave(group, member_id or f"instance {instance}", exchange, "left")


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


def _refuse(group: Group, member_id: str, exchange: Exchange, code: ErrorCode) -> Iterator[str]:
    """Notes an error response to a member, or to a client that joins."""
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


_READERS: Mapping[str, Callable[[Group, Exchange], Iterator[str]]] = {
    "ConsumerGroupHeartbeat": _beat,
    "JoinGroup": _join,
    "SyncGroup": _sync,
    "Heartbeat": _classic_beat,
    "LeaveGroup": _leave_group,
}
"""What an answer without an error says of its group, by API."""


def _name(member: Member, member_id: str) -> str:
    return f"{member.client_id or '?'} ({member_id[:8]})"


TROUBLE = ("broken", "opaque", "unreachable", "unread", "lost", "problem")
"""The kinds of notes that are news."""
MOST_ROWS = 200
"""The maximal number of members in the table."""


class Watch:
    """Collects totals, groups and news from exchanges and notes."""

    def __init__(self) -> None:
        self.groups = Groups()
        self.exchanges: Counter[str] = Counter()
        """Counts of requests with and without a response, by API."""
        self.opaque: Counter[str] = Counter()
        """Counts of exchanges that could not be read, by API, version and reason."""
        self.notes: Counter[str] = Counter()
        self.unanswered = 0

    def take(self, seen: Exchange | Note) -> list[str]:
        """Adds an exchange or a note; returns its news, one line each."""
        if isinstance(seen, Note):
            self.notes[seen.event] += 1
            if seen.event not in TROUBLE:
                return []
            where, why = seen.about.get("connection", "?"), f"{seen.event}: {seen.about.get('why', '')}"
            return [f"{clock(round(seen.at_ms))} connection {where}: {name(why)}"]
        self.exchanges[seen.api] += 1
        self.unanswered += not seen.is_answered
        if why := _unread(seen):
            self.opaque[f"{seen.api} v{seen.version} ({why})"] += 1
        return [f"{clock(round(seen.ended_ms))} {name(news)}" for news in self.groups.take(seen)]

    @property
    def errors(self) -> int:
        """The number of error responses to group requests."""
        return sum(group.errors for group in self.groups.found.values())

    def summary(self) -> str:
        """The totals that the command prints at the end."""
        return "".join(f"{line}\n" for line in self._summary())

    def _summary(self) -> Iterator[str]:
        connections = many(self.notes["connected"], "connection")
        yield f"{many(self.exchanges.total(), 'exchange')} on {connections}, {self.unanswered} without an answer"
        yield from (f"  {count:8}  {api}" for api, count in _rank(self.exchanges))
        if self.opaque:
            yield f"{self.opaque.total()} opaque"
            yield from (f"  {count:8}  {what}" for what, count in _rank(self.opaque))
        yield f"{many(self.errors, 'error response')} in {many(len(self.groups.found), 'group')}"
        yield from (f"{many(self.notes[event], f'{event} connection')}" for event in TROUBLE[:3] if self.notes[event])
        if unread := self.notes["unread"]:
            yield f"{many(unread, 'unread answer')} that may name brokers"

    def table(self, now_ms: float, width: int = 100) -> str:
        """The groups and their members at this time, in lines that are not longer than the width."""
        return "".join(f"{line[:width]}\n" for line in self._table(now_ms))

    def _table(self, now_ms: float) -> Iterator[str]:
        totals = (
            f"{many(self.exchanges.total(), 'exchange')}, {self.opaque.total()} opaque, {many(self.errors, 'error')}"
        )
        yield f"{clock(round(now_ms))}  {totals}"
        left = MOST_ROWS
        for group_id, group in sorted(self.groups.found.items()):
            yield ""
            yield (
                f"{name(group_id)}  {name(group.protocol or 'classic')}  epoch {group.epoch}  "
                f"{many(len(group.members), 'member')}  {many(group.errors, 'error')}"
            )
            yield from _members(group, now_ms, left)
            left = max(0, left - len(group.members))


def _members(group: Group, now_ms: float, left: int) -> Iterator[str]:
    if group.members and left:
        yield f"  {'client':20}  {'member':24}  {'epoch':>6}  {'assigned':>8}  {'heard of':>9}  last error"
    shown = sorted(group.members.items(), key=lambda one: (one[1].client_id, one[0]))
    for member_id, member in shown[:left]:
        assigned = "?" if member.partitions is None else str(member.partitions)
        ago = f"{max(0.0, now_ms - member.beat_ms) / 1000:.1f} s"
        error = f"{name(member.last_error)} ({member.errors})" if member.errors else ""
        yield (
            f"  {name(member.client_id)[:20]:20}  {name(member_id)[:24]:24}  {member.epoch:6}  {assigned:>8}  "
            f"{ago:>9}  {error}".rstrip()
        )
    if len(shown) > left:
        yield f"  and {len(shown) - left} more"


def _unread(exchange: Exchange) -> str:
    """Why an exchange is opaque; empty if it is not."""
    api = APIS.get(exchange.api)
    if not api or not api.oldest <= exchange.version <= api.newest:
        return "not known here"
    is_read = exchange.request is not None and (exchange.response is not None or not exchange.is_answered)
    return "" if is_read else "too large or not readable"


def _rank(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))
