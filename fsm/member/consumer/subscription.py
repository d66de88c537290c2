"""A consumer's subscription, which members of one process share, and its owned partitions.

Source: `SubscriptionState`. Partitions carry two flags here, both of which stop fetching: pending revocation, and
pending the assigned callback. Positions, pauses and buffers belong to the fetcher.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from fsm.member import events
from fsm.protocol.assignment import Partitions, among, partitions, without


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
    """The last subscription of the application."""

    kind: SubscriptionType = SubscriptionType.NONE
    topics: tuple[str, ...] = ()
    """Sorted names: those subscribed to, or those that the client's pattern matches."""
    pattern: str | None = None
    """The client's pattern."""
    regex: str | None = None
    """The coordinator's pattern; stays registered after unsubscribe(), without effect."""
    listener: bool = False
    """Whether a listener is registered; stays so after unsubscribe()."""

    def clear(self) -> Subscription:
        """After unsubscribe(): no topics; the listener and the coordinator's pattern stay registered."""
        return share(Subscription(regex=self.regex, listener=self.listener))


NOT_SUBSCRIBED = Subscription()


class Ownership(NamedTuple):
    """The owned partitions, and those of them that must not be fetched."""

    owned: Partitions = ()
    pending_revocation: Partitions = ()
    pending_on_assigned: Partitions = ()

    def fetchable(self, subscription: Subscription) -> Partitions:
        """Owned partitions that records may come from, as far as the membership is concerned."""
        blocked = {*self.pending_revocation, *self.pending_on_assigned}
        subscribed = subscription.topics if subscription.kind is SubscriptionType.AUTO_TOPICS else None
        return tuple(p for p in self.owned if p not in blocked and (subscribed is None or p[0] in subscribed))

    def own(self, owned: Partitions) -> Ownership:
        """Replaces the owned set; partitions owned before keep their flags."""
        if not owned:
            return OWNS_NOTHING
        return self._replace(
            owned=owned,
            pending_revocation=among(self.pending_revocation, owned),
            pending_on_assigned=among(self.pending_on_assigned, owned),
        )

    def mark_revoked(self, revoked: Partitions) -> Ownership:
        """Flags those of `revoked` that are owned."""
        if not revoked:
            return self
        marked = partitions((*self.pending_revocation, *among(revoked, self.owned)))
        return self._replace(pending_revocation=marked)

    def mark_added(self, added: Partitions) -> Ownership:
        """Flags those of `added` that are owned."""
        if not added:
            return self
        marked = partitions((*self.pending_on_assigned, *among(added, self.owned)))
        return self._replace(pending_on_assigned=marked)

    def enable(self, assigned: Partitions) -> Ownership:
        """Clears the flag of `mark_added` on `assigned`."""
        if not self.pending_on_assigned:
            return self
        enabled = set(assigned)
        return self._replace(pending_on_assigned=tuple(p for p in self.pending_on_assigned if p not in enabled))

    def keep(self, kept: Partitions) -> Ownership:
        """Clears the flag of `mark_revoked` on `kept`."""
        if not self.pending_revocation:
            return self
        return self._replace(pending_revocation=without(self.pending_revocation, kept))


OWNS_NOTHING = Ownership()

Subscribe = (
    events.TopicSubscriptionChangeEvent
    | events.TopicPatternSubscriptionChangeEvent
    | events.TopicRe2JPatternSubscriptionChangeEvent
    | events.AssignmentChangeEvent
)

KINDS: dict[type[events.ApplicationEvent], SubscriptionType] = {
    events.TopicSubscriptionChangeEvent: SubscriptionType.AUTO_TOPICS,
    events.TopicPatternSubscriptionChangeEvent: SubscriptionType.AUTO_PATTERN,
    events.TopicRe2JPatternSubscriptionChangeEvent: SubscriptionType.AUTO_PATTERN_RE2J,
    events.AssignmentChangeEvent: SubscriptionType.USER_ASSIGNED,
}


def fits(subscription: Subscription, event: Subscribe) -> bool:
    """Whether the subscription may change as the event requests: the types exclude each other."""
    return subscription.kind in (SubscriptionType.NONE, KINDS[type(event)])


def subscribe(subscription: Subscription, event: Subscribe, known_topics: Iterable[str]) -> Subscription:
    """The subscription after subscribe() or assign(); the pattern of the client is matched against `known_topics`."""
    changed = subscription._replace(kind=KINDS[type(event)])
    match event:
        case events.TopicSubscriptionChangeEvent(topics=topics, listener=listener):
            changed = changed._replace(topics=tuple(sorted(set(topics))), listener=listener)
        case events.TopicPatternSubscriptionChangeEvent(pattern=pattern, listener=listener):
            changed = match_pattern(changed._replace(pattern=pattern, listener=listener), known_topics)
        case events.TopicRe2JPatternSubscriptionChangeEvent(pattern=pattern, listener=listener):
            changed = changed._replace(regex=pattern, listener=listener)
    return share(changed)


def match_pattern(subscription: Subscription, known_topics: Iterable[str]) -> Subscription:
    """Matches the client's pattern again: it must match the whole name."""
    pattern = re.compile(subscription.pattern or "")
    return share(subscription._replace(topics=tuple(sorted(t for t in set(known_topics) if pattern.fullmatch(t)))))


@lru_cache(maxsize=1_024)
def share(subscription: Subscription) -> Subscription:
    """The first of equal subscriptions, so that members of one process share it."""
    return subscription
