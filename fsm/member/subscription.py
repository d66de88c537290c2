"""What a consumer is subscribed to and what it owns.

Source: `SubscriptionState`. Partitions carry two flags here, both of which stop fetching: pending revocation, and
pending the assigned callback. Positions, pauses and buffers belong to the fetcher and are not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from fsm.kafka.assignment import Partitions, among, partitions, without
from fsm.kafka.events import (
    ApplicationEvent,
    AssignmentChangeEvent,
    TopicPatternSubscriptionChangeEvent,
    TopicRe2JPatternSubscriptionChangeEvent,
    TopicSubscriptionChangeEvent,
)


class SubscriptionType(Enum):
    """The four ways to get partitions; a consumer uses one at a time."""

    NONE = "nothing yet"
    AUTO_TOPICS = "topics by name, assigned by the group"
    AUTO_PATTERN = "topics by a pattern that the client matches, assigned by the group"
    AUTO_PATTERN_RE2J = "topics by a pattern that the coordinator matches, assigned by the group"
    USER_ASSIGNED = "partitions by the application's own choice"

    @property
    def is_auto(self) -> bool:
        """Whether the group assigns."""
        return self.name.startswith("AUTO_")

    __hash__ = object.__hash__


class Subscription(NamedTuple):
    """The subscription and what is owned under it."""

    kind: SubscriptionType = SubscriptionType.NONE
    topics: tuple[str, ...] = ()
    """Sorted names: those subscribed to, or those that the client's pattern matches."""
    pattern: str | None = None
    """The client's pattern."""
    regex: str | None = None
    """The coordinator's pattern; stays registered after unsubscribe(), without effect."""
    listener: bool = False
    """Whether a listener is registered; stays so after unsubscribe()."""
    owned: Partitions = ()
    pending_revocation: Partitions = ()
    pending_on_assigned: Partitions = ()

    @property
    def fetchable(self) -> Partitions:
        """Owned partitions that records may come from, as far as the membership is concerned."""
        blocked = {*self.pending_revocation, *self.pending_on_assigned}
        subscribed = self.topics if self.kind is SubscriptionType.AUTO_TOPICS else None
        return tuple(p for p in self.owned if p not in blocked and (subscribed is None or p[0] in subscribed))

    def own(self, owned: Partitions) -> Subscription:
        """The same under another owned set; partitions owned before keep their flags."""
        return self._replace(
            owned=owned,
            pending_revocation=among(self.pending_revocation, owned),
            pending_on_assigned=among(self.pending_on_assigned, owned),
        )

    def mark_revoked(self, revoked: Partitions) -> Subscription:
        """Flags those of `revoked` that are owned."""
        marked = partitions((*self.pending_revocation, *among(revoked, self.owned)))
        return self._replace(pending_revocation=marked)

    def mark_added(self, added: Partitions) -> Subscription:
        """Flags those of `added` that are owned."""
        marked = partitions((*self.pending_on_assigned, *among(added, self.owned)))
        return self._replace(pending_on_assigned=marked)

    def enable(self, assigned: Partitions) -> Subscription:
        """Clears the flag of `mark_added` on `assigned`."""
        enabled = set(assigned)
        return self._replace(pending_on_assigned=tuple(p for p in self.pending_on_assigned if p not in enabled))

    def keep(self, kept: Partitions) -> Subscription:
        """Clears the flag of `mark_revoked` on `kept`."""
        return self._replace(pending_revocation=without(self.pending_revocation, kept))

    def emptied(self) -> Subscription:
        """After unsubscribe(): no topics, nothing owned; the listener and the coordinator's pattern stay registered."""
        return Subscription(regex=self.regex, listener=self.listener)


NOT_SUBSCRIBED = Subscription()

Subscribe = (
    TopicSubscriptionChangeEvent
    | TopicPatternSubscriptionChangeEvent
    | TopicRe2JPatternSubscriptionChangeEvent
    | AssignmentChangeEvent
)

KINDS: dict[type[ApplicationEvent], SubscriptionType] = {
    TopicSubscriptionChangeEvent: SubscriptionType.AUTO_TOPICS,
    TopicPatternSubscriptionChangeEvent: SubscriptionType.AUTO_PATTERN,
    TopicRe2JPatternSubscriptionChangeEvent: SubscriptionType.AUTO_PATTERN_RE2J,
    AssignmentChangeEvent: SubscriptionType.USER_ASSIGNED,
}


def fits(subscription: Subscription, event: Subscribe) -> bool:
    """Whether the subscription may become what the event asks for: the types exclude each other."""
    return subscription.kind in (SubscriptionType.NONE, KINDS[type(event)])


def subscribed(subscription: Subscription, event: Subscribe, known_topics: Iterable[str]) -> Subscription:
    """The subscription after subscribe() or assign(); the pattern of the client is matched against `known_topics`."""
    changed = subscription._replace(kind=KINDS[type(event)])
    match event:
        case TopicSubscriptionChangeEvent(topics=topics, listener=listener):
            ordered = tuple(sorted(set(topics)))
            # Members of one process that ask for the same topics share them.
            return changed._replace(topics=topics if topics == ordered else ordered, listener=listener)
        case TopicPatternSubscriptionChangeEvent(pattern=pattern, listener=listener):
            return matched(changed._replace(pattern=pattern, listener=listener), known_topics)
        case TopicRe2JPatternSubscriptionChangeEvent(pattern=pattern, listener=listener):
            return changed._replace(regex=pattern, listener=listener)
        case AssignmentChangeEvent(partitions=chosen):
            return changed.own(partitions(chosen))


def matched(subscription: Subscription, known_topics: Iterable[str]) -> Subscription:
    """The topics of the client's pattern anew: those whose whole name it matches."""
    pattern = re.compile(subscription.pattern or "")
    return subscription._replace(topics=tuple(sorted(t for t in set(known_topics) if pattern.fullmatch(t))))
