"""Which topics one member wants, from its subscription to the end of it.

A life whose beginning was not logged may own partitions of topics nobody saw it subscribe to; it wants those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fsm.audit.life import LIBRDKAFKA, Living
from fsm.audit.limits import REORDER_MS
from fsm.audit.rows import Place, Seen, Want
from fsm.trace import Kind

_Wish = tuple[str, str]
"""(topic, pattern); one of them is empty."""


class Wants:
    """Follows the subscription of one life."""

    def __init__(self, living: Living) -> None:
        self.living = living
        self.open: dict[_Wish, tuple[int, Place]] = {}
        self.subscribed = living.whole_start
        """The subscription is known."""
        self.stale: set[_Wish] = set()
        """Topics wanted before the list that is being read."""
        self.listed_ms: dict[_Wish, int] = {}
        """When each topic was last named by a list."""
        self.stale_ms = 0

    def see(self, seen: Seen) -> Iterator[Want]:
        """The wants that end with this record."""
        if self.stale and seen.record.ts_ms - self.stale_ms > REORDER_MS:
            yield from self._drop_stale()
        step = _STEPS.get(seen.record.kind)
        if step is not None:
            yield from step(self, seen)

    def end(self, ts_ms: int) -> Iterator[Want]:
        """Every want ends."""
        for wish in list(self.open):
            yield self._close(wish, ts_ms)

    def _subscribe(self, seen: Seen) -> Iterator[Want]:
        record, place = seen
        self.subscribed = True
        wishes: list[_Wish] = [(topic, "") for topic in record.topics]
        if record.detail:
            wishes.append(("", self._pattern(record.detail)))
        if not wishes:
            return  # topics follow, on lines of their own
        for wish in [w for w in self.open if w not in wishes]:
            yield self._close(wish, record.ts_ms)
        for wish in wishes:
            self.open.setdefault(wish, (record.ts_ms, place))

    def _pattern(self, text: str) -> str:
        """librdkafka looks for a match at the beginning of a name, Java for one of the whole name."""
        return f"(?:{text}).*" if self.living.client == LIBRDKAFKA else text

    def _mean(self, seen: Seen) -> Iterator[Want]:
        """Topics that the subscription means now, one record each after an empty one."""
        record, place = seen
        if record.topics:
            for topic in record.topics:
                self.stale.discard((topic, ""))
                self.listed_ms[topic, ""] = record.ts_ms
                self.open.setdefault((topic, ""), (record.ts_ms, place))
        else:
            self.subscribed = True
            self.stale_ms = record.ts_ms
            listed = {wish for wish, ts_ms in self.listed_ms.items() if record.ts_ms - ts_ms <= REORDER_MS}
            self.stale = {wish for wish in self.open if wish[0]} - listed
        return iter(())

    def _drop_stale(self) -> Iterator[Want]:
        """Topics that were not named again."""
        stale, self.stale = self.stale, set()
        for wish in sorted(stale & self.open.keys()):
            self.listed_ms.pop(wish, None)
            yield self._close(wish, self.stale_ms)

    def _unsubscribe(self, seen: Seen) -> Iterator[Want]:
        self.subscribed = True
        yield from self.end(seen.record.ts_ms)

    def _stop(self, seen: Seen) -> Iterator[Want]:
        yield from self.end(seen.record.ts_ms)

    def _fenced(self, seen: Seen) -> Iterator[Want]:
        """Another process has this instance id: fatal for the application, though a classic client would go on."""
        if seen.record.detail == "FENCED_INSTANCE_ID":
            yield from self.end(seen.record.ts_ms)

    def _hold(self, seen: Seen) -> Iterator[Want]:
        """Partitions in a life whose subscription nobody saw tell what it wants."""
        if not self.subscribed:
            for topic in sorted({topic for topic, _ in seen.record.partitions}):
                self.open.setdefault((topic, ""), (self.living.start_ms, self.living.start))
        return iter(())

    def _close(self, wish: _Wish, end_ms: int) -> Want:
        start_ms, place = self.open.pop(wish)
        topic, pattern = wish
        return Want(self.living.group, self.living.member, topic, pattern, start_ms, max(start_ms, end_ms), place)


_STEPS: dict[Kind, Callable[[Wants, Seen], Iterator[Want]]] = {
    Kind.SUBSCRIBED: Wants._subscribe,
    Kind.EFFECTIVE_TOPICS: Wants._mean,
    Kind.UNSUBSCRIBED: Wants._unsubscribe,
    Kind.CLOSE_BEGIN: Wants._stop,
    Kind.CLOSE_END: Wants._stop,
    Kind.FATAL: Wants._stop,
    Kind.FENCED: Wants._fenced,
    Kind.ERROR: Wants._fenced,
    Kind.ASSIGN_BEGIN: Wants._hold,
    Kind.ADDED: Wants._hold,
    Kind.REVOKE_BEGIN: Wants._hold,
    Kind.LOST_BEGIN: Wants._hold,
}
