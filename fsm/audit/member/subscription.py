"""The subscriptions and rebalances of one consumer instance.

An instance whose start was not logged is taken as subscribed to the topics of its partitions. A rebalance begins with
its first line (a new assignment to reconcile, a join, a revocation, a loss) and ends when the member has its
assignment, has left, or is closed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fsm.audit.follower import Rows, on
from fsm.audit.limits import REORDER_MS
from fsm.audit.member.consumer_instance import InstanceFollower
from fsm.audit.member.each_partition import partition_count
from fsm.audit.rows import At, Known, MemberRebalance, Subscription
from fsm.trace import Kind

_Subscribed = tuple[str, str]
"""(topic, pattern); one of them is empty."""
_CHANGES = frozenset(
    {Kind.ASSIGN_BEGIN, Kind.REVOKE_END, Kind.JOINING, Kind.LOST_BEGIN, Kind.OWNED, Kind.ADDED, Kind.DROPPED}
)
"""Kinds after which the owned partitions may have changed."""


@dataclass
class Subscriptions(InstanceFollower):
    every = True

    given_up_ms: dict[str, int] = field(default_factory=dict)
    """For a client that does not print its subscription: since when it owns no partition of a topic any more."""
    open: dict[_Subscribed, At] = field(default_factory=dict)
    is_logged: bool = False
    stale: set[_Subscribed] = field(default_factory=set)
    """Subscribed topics that are missing so far in the list that is being read."""
    stale_ms: int = 0
    listed_ms: dict[_Subscribed, int] = field(default_factory=dict)
    """When each topic was last in a list."""

    def see(self, known: Known) -> Rows:
        settled = not self.stale and self.consumer.facts.logs_subscription
        return super().see(known) if settled else self._see(known)

    def _see(self, known: Known) -> Rows:
        if self.stale and known.at.ts_ms - self.stale_ms > REORDER_MS:
            yield from self._close_stale()
        yield from super().see(known)
        if not self.consumer.facts.logs_subscription and known.record.kind in _CHANGES:
            yield from self._infer(known)

    def _infer(self, known: Known) -> Rows:
        """It is subscribed to the topics it owns, until an assignment without partitions of the topic."""
        record, at = known.record, known.at
        owned = {topic for topic, _ in self.owned.partitions}
        assigned = record.kind is Kind.ASSIGN_BEGIN or (record.kind is Kind.OWNED and bool(record.full))
        for topic in sorted({topic for topic, _ in self.open} - owned):
            if assigned and topic in self.given_up_ms:
                yield self._end_one((topic, ""), self.given_up_ms.pop(topic))
            else:
                self.given_up_ms.setdefault(topic, at.ts_ms)
        for topic in sorted(owned):
            self.given_up_ms.pop(topic, None)
            self.open.setdefault((topic, ""), at)

    def finish(self) -> Rows:
        return self._end(self.consumer.last.ts_ms)

    def _end(self, ts_ms: int) -> Rows:
        """Ends all subscriptions, now or at the begin of the close."""
        closing_ms = self.consumer.closing_ms
        ts_ms = ts_ms if closing_ms is None else min(ts_ms, closing_ms)
        for subscribed in list(self.open):
            yield self._end_one(subscribed, self.given_up_ms.get(subscribed[0], ts_ms))

    @on(Kind.SUBSCRIBED)
    def _subscribe(self, known: Known) -> Rows:
        record, at = known.record, known.at
        self.is_logged = True
        new: list[_Subscribed] = [(topic, "") for topic in record.topics]
        if record.detail:
            beginning = self.consumer.facts.pattern_matches_beginning
            new.append(("", f"(?:{record.detail}).*" if beginning else record.detail))
        if not new:
            return  # topics follow, on lines of their own
        for subscribed in [old for old in self.open if old not in new]:
            yield self._end_one(subscribed, at.ts_ms)
        for subscribed in new:
            self.open.setdefault(subscribed, at)

    @on(Kind.EFFECTIVE_TOPICS)
    def _list(self, known: Known) -> None:
        """Topics that match the subscription: an empty record, then one record per topic."""
        topics, at = known.record.topics, known.at
        for topic in topics:
            self.stale.discard((topic, ""))
            self.listed_ms[topic, ""] = at.ts_ms
            self.open.setdefault((topic, ""), at)
        if not topics:
            self.is_logged = True
            self.stale_ms = at.ts_ms
            listed = {key for key, ts_ms in self.listed_ms.items() if at.ts_ms - ts_ms <= REORDER_MS}
            self.stale = {key for key in self.open if key[0]} - listed

    def _close_stale(self) -> Rows:
        """Ends the subscription to topics that are not in the new list."""
        stale, self.stale = self.stale, set()
        for subscribed in sorted(stale & self.open.keys()):
            self.listed_ms.pop(subscribed, None)
            yield self._end_one(subscribed, self.stale_ms)

    @on(Kind.UNSUBSCRIBED, Kind.CLOSE_END, Kind.FATAL)
    def _stop(self, known: Known) -> Rows:
        self.is_logged = self.is_logged or known.record.kind is Kind.UNSUBSCRIBED
        return self._end(known.at.ts_ms)

    @on(Kind.FENCED, Kind.ERROR)
    def _on_fenced(self, known: Known) -> Rows | None:
        """Another process has this instance id: fatal for the application, though a classic client would continue."""
        return self._end(known.at.ts_ms) if known.record.detail == "FENCED_INSTANCE_ID" else None

    @on(Kind.ASSIGN_BEGIN, Kind.ADDED, Kind.REVOKE_BEGIN, Kind.LOST_BEGIN)
    def _own(self, known: Known) -> None:
        """Infers topics of an instance whose subscription was not logged."""
        if not self.is_logged and not self.consumer.whole_start:
            for topic in sorted({topic for topic, _ in known.record.partitions}):
                self.open.setdefault((topic, ""), self.consumer.start)

    def _end_one(self, subscribed: _Subscribed, end_ms: int) -> Subscription:
        start_ms, place, _ = self.open.pop(subscribed)
        consumer = self.consumer
        return Subscription(consumer.group, consumer.member, *subscribed, start_ms, max(start_ms, end_ms), place)


# -- rebalances ---------------------------------------------------------------------------------------------


@dataclass
class Rebalances(InstanceFollower):
    open: MemberRebalance | None = None
    answered_epoch: int | None = None
    """The epoch of the coordinator's last response."""

    def finish(self) -> Rows:
        return self._end(self.consumer.last.ts_ms)

    def _end(self, end_ms: int) -> Rows:
        rebalance, self.open = self.open, None
        if rebalance is not None:
            timeout_ms = self.consumer.rebalance_timeout_ms
            yield replace(rebalance, end_ms=max(end_ms, rebalance.start_ms), timeout_ms=timeout_ms)

    def _begin(self, known: Known, cause: str = "", *, added: int = 0, removed: int = 0) -> MemberRebalance:
        """Begins a rebalance, or continues the one that has begun."""
        (ts_ms, place, _), epoch, one = known.at, known.record.epoch, self.open
        if one is None:
            one = MemberRebalance(self.consumer.group, self.consumer.member, ts_ms, ts_ms, None, 0, 0, cause, place)
            self.consumer.turn_ms = ts_ms
        epoch = one.epoch if epoch is None else epoch
        self.open = replace(one, epoch=epoch, added=one.added + added, removed=one.removed + removed)
        return self.open

    @on(Kind.RECONCILING)
    def _reconcile(self, known: Known) -> None:
        rebalance = self._begin(known)
        if self.consumer.facts.epoch_before_assignment:
            self.open = replace(rebalance, epoch=self.answered_epoch)

    @on(Kind.HEARTBEAT_OK)
    def _answer(self, known: Known) -> None:
        self.answered_epoch = known.record.epoch

    @on(Kind.JOINING)
    def _join(self, known: Known) -> None:
        self._begin(known, "joined")

    @on(Kind.JOINED)
    def _on_joined(self, known: Known) -> None:
        if self.open is not None:
            self.open = replace(self.open, epoch=known.record.epoch)

    @on(Kind.REVOKE_BEGIN)
    def _revoke(self, known: Known) -> None:
        leaves = self.consumer.closing_ms is not None
        self._begin(known, "left" if leaves else "", removed=partition_count(known.record))

    @on(Kind.LOST_BEGIN)
    def _lose(self, known: Known) -> None:
        self._begin(known, "lost", removed=partition_count(known.record))

    @on(Kind.ASSIGN_BEGIN)
    def _assign(self, known: Known) -> Rows:
        self._begin(known, added=partition_count(known.record))
        return self._end(known.at.ts_ms)

    @on(Kind.OWNED)
    def _own(self, known: Known) -> Rows | None:
        """The assignment of a client without callbacks."""
        if self.consumer.facts.names_each_partition or not known.record.full:
            return None
        return self._assign(known)

    @on(Kind.TRANSITION)
    def _transition(self, known: Known) -> Rows | None:
        if known.record.next_state == "RECONCILING":
            self._begin(known)
        return self._stop(known) if known.record.next_state in ("STABLE", "FATAL", "UNSUBSCRIBED") else None

    @on(Kind.LEFT, Kind.CLOSE_END)
    def _stop(self, known: Known) -> Rows:
        return self._end(known.at.ts_ms)
