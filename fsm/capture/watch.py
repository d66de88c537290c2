"""The contents of a capture's output: totals, groups and news. No clock, no output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fsm.capture.groups import Group, Groups
from fsm.protocol.messages import APIS
from fsm.render.wording import clock, many, name
from fsm.wire.exchange import Exchange, Note

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
            return [f"{clock(round(seen.at_ms))} connection {seen.about.get('connection', '?')}: {name(_why(seen))}"]
        self.exchanges[seen.api] += 1
        self.unanswered += not seen.is_answered
        if why := _unread(seen):
            self.opaque[f"{seen.api} v{seen.version} ({why})"] += 1
        at_ms = seen.at_ms if seen.answered_ms is None else seen.answered_ms
        return [f"{clock(round(at_ms))} {name(news)}" for news in self.groups.take(seen)]

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


def _why(note: Note) -> str:
    return f"{note.event}: {note.about.get('why', '')}"


def _unread(exchange: Exchange) -> str:
    """Why an exchange is opaque; empty if it is not."""
    api = APIS.get(exchange.api)
    if not api or not api.oldest <= exchange.version <= api.newest:
        return "not known here"
    is_read = exchange.request is not None and (exchange.response is not None or not exchange.is_answered)
    return "" if is_read else "too large or not readable"


def _rank(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))
