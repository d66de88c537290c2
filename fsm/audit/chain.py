"""The chain of one machine's transitions: which hop follows which, and how long it stayed where.

Lines of one moment may stand in the wrong order (several threads, lines shuffled between files). So a
transition that does not continue the chain waits for `REORDER_MS`: if the missing link comes, it is put
before it. What then still does not fit begins a new chain, whose first hop has no `previous` state.

A source that tells only where a machine went (classic Java members) is taken to come from where it was.

Several machines of a member (librdkafka prints two) have a chain each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fsm.audit.life import Living
from fsm.audit.limits import REORDER_MS
from fsm.audit.rows import Hop, Seen


@dataclass(slots=True)
class _Link:
    state: str
    since_ms: int
    waiting: list[Seen] = field(default_factory=list)


class Chain:
    """Follows the transitions of one life."""

    def __init__(self, living: Living) -> None:
        self.living = living
        self.links: dict[str, _Link] = {}

    def see(self, seen: Seen) -> Iterator[Hop]:
        """Hops that are in order now; `seen` is a transition."""
        record = seen.record
        link = self.links.get(record.machine)
        if link is None:
            yield self._hop(seen, "", None)
            self.links[record.machine] = _Link(record.next_state, record.ts_ms)
            return
        link.waiting.append(seen)
        yield from self._continue(link)
        yield from self._overdue(link, record.ts_ms)

    def end(self) -> Iterator[Hop]:
        """Hops that were still waiting."""
        for link in self.links.values():
            yield from self._overdue(link, None)

    def state_since(self, machine: str) -> tuple[str, int] | None:
        """The state the machine is in and since when."""
        link = self.links.get(machine)
        return (link.state, link.since_ms) if link is not None else None

    def _continue(self, link: _Link) -> Iterator[Hop]:
        """Every waiting transition that fits, one after the other."""
        while fitting := next((w for w in link.waiting if w.record.state in ("", link.state)), None):
            link.waiting.remove(fitting)
            yield self._step(link, fitting)

    def _overdue(self, link: _Link, now_ms: int | None) -> Iterator[Hop]:
        """Waiting transitions for which no missing link came."""
        while link.waiting and (now_ms is None or now_ms - link.waiting[0].record.ts_ms > REORDER_MS):
            yield self._step(link, link.waiting.pop(0))
            yield from self._continue(link)

    def _step(self, link: _Link, seen: Seen) -> Hop:
        record = seen.record
        hop = self._hop(seen, link.state, max(0, record.ts_ms - link.since_ms))
        link.state, link.since_ms = record.next_state, record.ts_ms
        return hop

    def _hop(self, seen: Seen, previous: str, dwell_ms: int | None) -> Hop:
        record, place = seen
        return Hop(
            group=self.living.group,
            member=self.living.member,
            machine=record.machine,
            state=record.state or previous,
            next_state=record.next_state,
            event=record.event,
            ts_ms=record.ts_ms,
            dwell_ms=dwell_ms if record.state in ("", previous) else None,
            previous=previous,
            place=place,
        )
