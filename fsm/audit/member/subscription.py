"""What one consumer instance subscribes to, and the rebalances that it goes through.

An instance whose start was not logged may own partitions of topics that no line shows it to subscribe to; it is
subscribed to those. A rebalance begins with its first sign (a new assignment to reconcile, a join, a revocation, a
loss) and ends when the member has its assignment, has left, or is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fsm.audit.limits import REORDER_MS
from fsm.audit.member.consumer_instance import ConsumerInstance
from fsm.audit.member.librdkafka_ownership import partition_count
from fsm.audit.member.owned_partitions import OwnedPartitions
from fsm.audit.rows import MemberRebalance, Place, Seen, Subscription
from fsm.trace import Kind

_Subscribed = tuple[str, str]
"""(topic, pattern); one of them is empty."""
Subscriptions = Iterator[Subscription]


class SubscriptionTracker:
    def __init__(self, consumer: ConsumerInstance, owned: OwnedPartitions) -> None:
        self.consumer = consumer
        self.owned = owned
        self.given_up_ms: dict[str, int] = {}
        """Of a client that does not tell its subscription: topics of which it owns nothing any more, since when."""
        self.open: dict[_Subscribed, tuple[int, Place]] = {}
        self.known = consumer.whole_start
        """The subscription was logged."""
        self.stale: set[_Subscribed] = set()
        """Topics subscribed before the list that is being read."""
        self.stale_ms = 0
        self.listed_ms: dict[_Subscribed, int] = {}
        """When each topic was last named by a list."""

    def see(self, seen: Seen) -> Subscriptions:
        if self.stale and seen.record.ts_ms - self.stale_ms > REORDER_MS:
            yield from self._close_stale()
        if step := _SUBSCRIPTION_STEPS.get(seen.record.kind):
            yield from step(self, seen) or ()
        if not self.consumer.facts.tells_subscription and seen.record.kind in _CHANGES:
            yield from self._infer(seen)

    def _infer(self, seen: Seen) -> Subscriptions:
        """It wants the topics of what it owns; one that it gave up, no more if the next assignment has none of it."""
        record, place = seen
        owned = {topic for topic, _ in self.owned.partitions}
        assigned = record.kind is Kind.ASSIGN_BEGIN or (record.kind is Kind.OWNED and bool(record.full))
        for topic in sorted({topic for topic, _ in self.open} - owned):
            if assigned and topic in self.given_up_ms:
                yield self._end_one((topic, ""), self.given_up_ms.pop(topic))
            else:
                self.given_up_ms.setdefault(topic, record.ts_ms)
        for topic in sorted(owned):
            self.given_up_ms.pop(topic, None)
            self.open.setdefault((topic, ""), (record.ts_ms, place))

    def end(self, ts_ms: int) -> Subscriptions:
        """Nothing is wanted any more, since this moment or since the close began."""
        closing_ms = self.consumer.closing_ms
        ts_ms = ts_ms if closing_ms is None else min(ts_ms, closing_ms)
        for subscribed in list(self.open):
            yield self._end_one(subscribed, self.given_up_ms.get(subscribed[0], ts_ms))

    def _subscribe(self, seen: Seen) -> Subscriptions:
        record, place = seen
        self.known = True
        new: list[_Subscribed] = [(topic, "") for topic in record.topics]
        if record.detail:
            beginning = self.consumer.facts.pattern_matches_beginning
            new.append(("", f"(?:{record.detail}).*" if beginning else record.detail))
        if not new:
            return  # topics follow, on lines of their own
        for subscribed in [old for old in self.open if old not in new]:
            yield self._end_one(subscribed, record.ts_ms)
        for subscribed in new:
            self.open.setdefault(subscribed, (record.ts_ms, place))

    def _list(self, seen: Seen) -> None:
        """Topics that match the subscription now, one record each after an empty one."""
        record, place = seen
        if record.topics:
            for topic in record.topics:
                self.stale.discard((topic, ""))
                self.listed_ms[topic, ""] = record.ts_ms
                self.open.setdefault((topic, ""), (record.ts_ms, place))
        else:
            self.known = True
            self.stale_ms = record.ts_ms
            listed = {key for key, ts_ms in self.listed_ms.items() if record.ts_ms - ts_ms <= REORDER_MS}
            self.stale = {key for key in self.open if key[0]} - listed

    def _close_stale(self) -> Subscriptions:
        """Topics that were not named again."""
        stale, self.stale = self.stale, set()
        for subscribed in sorted(stale & self.open.keys()):
            self.listed_ms.pop(subscribed, None)
            yield self._end_one(subscribed, self.stale_ms)

    def _unsubscribe(self, seen: Seen) -> Subscriptions:
        self.known = True
        return self.end(seen.record.ts_ms)

    def _stop(self, seen: Seen) -> Subscriptions:
        return self.end(seen.record.ts_ms)

    def _fenced(self, seen: Seen) -> Subscriptions | None:
        """Another process has this instance id: fatal for the application, though a classic client would go on."""
        return self.end(seen.record.ts_ms) if seen.record.detail == "FENCED_INSTANCE_ID" else None

    def _own(self, seen: Seen) -> None:
        """Partitions of an instance whose subscription was not logged."""
        if not self.known:
            for topic in sorted({topic for topic, _ in seen.record.partitions}):
                self.open.setdefault((topic, ""), (self.consumer.start_ms, self.consumer.start))

    def _end_one(self, subscribed: _Subscribed, end_ms: int) -> Subscription:
        start_ms, place = self.open.pop(subscribed)
        consumer = self.consumer
        return Subscription(consumer.group, consumer.member, *subscribed, start_ms, max(start_ms, end_ms), place)


_CHANGES = frozenset(
    {Kind.ASSIGN_BEGIN, Kind.REVOKE_END, Kind.JOINING, Kind.LOST_BEGIN, Kind.OWNED, Kind.ADDED, Kind.DROPPED}
)
"""After these, what is owned may be something else."""
_SUBSCRIPTION_STEPS: dict[Kind, Callable[[SubscriptionTracker, Seen], Subscriptions | None]] = {
    Kind.SUBSCRIBED: SubscriptionTracker._subscribe,
    Kind.EFFECTIVE_TOPICS: SubscriptionTracker._list,
    Kind.UNSUBSCRIBED: SubscriptionTracker._unsubscribe,
    Kind.CLOSE_END: SubscriptionTracker._stop,
    Kind.FATAL: SubscriptionTracker._stop,
    Kind.FENCED: SubscriptionTracker._fenced,
    Kind.ERROR: SubscriptionTracker._fenced,
    Kind.ASSIGN_BEGIN: SubscriptionTracker._own,
    Kind.ADDED: SubscriptionTracker._own,
    Kind.REVOKE_BEGIN: SubscriptionTracker._own,
    Kind.LOST_BEGIN: SubscriptionTracker._own,
}


# -- rebalances ---------------------------------------------------------------------------------------------

Rebalances = Iterator[MemberRebalance]


@dataclass(slots=True)
class _Open:
    start_ms: int
    place: Place
    cause: str
    added: int = 0
    removed: int = 0
    epoch: int | None = None


class RebalanceTracker:
    def __init__(self, consumer: ConsumerInstance) -> None:
        self.consumer = consumer
        self.open: _Open | None = None
        self.answered_epoch: int | None = None
        """The epoch of the coordinator's last answer."""

    def see(self, seen: Seen) -> Rebalances:
        if step := _REBALANCE_STEPS.get(seen.record.kind):
            yield from step(self, seen) or ()

    def end(self, end_ms: int) -> Rebalances:
        rebalance, self.open = self.open, None
        if rebalance is not None:
            yield MemberRebalance(
                group=self.consumer.group,
                member=self.consumer.member,
                start_ms=rebalance.start_ms,
                end_ms=max(end_ms, rebalance.start_ms),
                epoch=rebalance.epoch,
                added=rebalance.added,
                removed=rebalance.removed,
                cause=rebalance.cause,
                place=rebalance.place,
                timeout_ms=self.consumer.rebalance_timeout_ms,
            )

    def _begin(self, seen: Seen, cause: str) -> _Open:
        if self.open is None:
            self.open = _Open(seen.record.ts_ms, seen.place, cause)
            self.consumer.turn_ms = seen.record.ts_ms
        if seen.record.epoch is not None:
            self.open.epoch = seen.record.epoch
        return self.open

    def _reconcile(self, seen: Seen) -> None:
        rebalance = self._begin(seen, "")
        if self.consumer.facts.epoch_before_assignment:
            rebalance.epoch = self.answered_epoch

    def _answer(self, seen: Seen) -> None:
        self.answered_epoch = seen.record.epoch

    def _join(self, seen: Seen) -> None:
        self._begin(seen, "joined")

    def _joined(self, seen: Seen) -> None:
        if self.open is not None:
            self.open.epoch = seen.record.epoch

    def _revoke(self, seen: Seen) -> None:
        leaves = self.consumer.closing_ms is not None
        self._begin(seen, "left" if leaves else "").removed += partition_count(seen.record)

    def _lose(self, seen: Seen) -> None:
        self._begin(seen, "lost").removed += partition_count(seen.record)

    def _assign(self, seen: Seen) -> Rebalances:
        self._begin(seen, "").added += partition_count(seen.record)
        return self.end(seen.record.ts_ms)

    def _own(self, seen: Seen) -> Rebalances | None:
        """A client without callbacks has its assignment."""
        if self.consumer.facts.names_each_partition or not seen.record.full:
            return None
        return self._assign(seen)

    def _transition(self, seen: Seen) -> Rebalances | None:
        if seen.record.next_state == "RECONCILING":
            self._begin(seen, "")
        return self._stop(seen) if seen.record.next_state in ("STABLE", "FATAL", "UNSUBSCRIBED") else None

    def _stop(self, seen: Seen) -> Rebalances:
        return self.end(seen.record.ts_ms)


_REBALANCE_STEPS: dict[Kind, Callable[[RebalanceTracker, Seen], Rebalances | None]] = {
    Kind.RECONCILING: RebalanceTracker._reconcile,
    Kind.JOINING: RebalanceTracker._join,
    Kind.JOINED: RebalanceTracker._joined,
    Kind.HEARTBEAT_OK: RebalanceTracker._answer,
    Kind.REVOKE_BEGIN: RebalanceTracker._revoke,
    Kind.LOST_BEGIN: RebalanceTracker._lose,
    Kind.ASSIGN_BEGIN: RebalanceTracker._assign,
    Kind.OWNED: RebalanceTracker._own,
    Kind.TRANSITION: RebalanceTracker._transition,
    Kind.LEFT: RebalanceTracker._stop,
    Kind.CLOSE_END: RebalanceTracker._stop,
}
