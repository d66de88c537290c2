"""Processes that took another one's place in a log though no line says that they started.

The lines of a start may be silenced or lost. A member id tells: a classic member gets a new one only after it gave up
the old one, and says so; a member of the consumer protocol chooses one when it is created and keeps it. Before it has
its id a new process subscribes; what stands since then is its own.
"""

from __future__ import annotations

from fsm.audit.conformance import initial
from fsm.audit.life import LIBRDKAFKA, Living
from fsm.audit.rows import NOWHERE, Place, Seen
from fsm.trace import Kind

CHOSEN_ID_LENGTH = 22
"""Characters of a member id that the client itself has chosen: a UUID in base64 (KIP-848)."""
_HELD = 64
"""Lines between a subscription and the id that are held; a member that prints more is no newcomer."""
_GIVES_UP = frozenset(
    {
        Kind.GENERATION_RESET,
        Kind.FENCED,
        Kind.ERROR,
        Kind.LOST_BEGIN,
        Kind.POLL_EXPIRED,
        Kind.LEAVE_BEGIN,
        Kind.LEAVE_SENT,
        Kind.LEFT,
        Kind.FATAL,
        Kind.UNSUBSCRIBED,
        Kind.CLOSE_BEGIN,
    }
)
"""After these a classic member may get another id."""
_JOINS = frozenset({Kind.JOINED, Kind.MEMBER_ID})
"""With these a classic member gets its id: whoever has another one elsewhere has none of its own."""
_BEGINS = frozenset({Kind.SUBSCRIBED, Kind.COORDINATOR_FOUND})
_OWNS = frozenset({Kind.ASSIGN_BEGIN, Kind.REVOKE_BEGIN, Kind.LOST_BEGIN, Kind.SYNCED})
"""No process without an id says that."""


class Newcomer:
    """Follows one life, up to the line that shows that it is over."""

    def __init__(self) -> None:
        self.given_up = False
        """The member may get another id."""
        self.first: list[Seen] = []
        """Lines since the last subscription, or since the coordinator was found, while none needs an id."""
        self.before: tuple[int, Place] = (0, NOWHERE)
        """The last line before those."""

    def note(self, seen: Seen, living: Living) -> None:
        """Takes a line of this life; `living` does not know it yet."""
        record = seen.record
        if record.kind is Kind.SUBSCRIBED or (record.kind in _BEGINS and not self.first):
            self.first, self.before = [seen], (living.last_ms, living.last)
        elif record.member_id or record.kind in _OWNS or len(self.first) == _HELD:
            self.first = []
        elif self.first:
            self.first.append(seen)
        if record.kind in _GIVES_UP:
            self.given_up = True
        elif record.kind is Kind.JOINED and record.member_id == living.member_id:
            self.given_up = False

    def shows(self, seen: Seen, living: Living) -> bool:
        """True where the line is another process's than those before it."""
        old, record = living.member_id, seen.record
        if not old or record.member_id in ("", old) or living.scattered or living.client == LIBRDKAFKA:
            return False
        if len(record.member_id) == CHOSEN_ID_LENGTH:
            return bool(record.state) and record.state == initial(record.machine)
        joins = record.kind in _JOINS or record.next_state == "COMPLETING_REBALANCE"
        return joins and not self.given_up
