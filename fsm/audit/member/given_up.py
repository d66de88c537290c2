"""Heartbeats that one consumer instance abandoned, and the assigned callback that ran meanwhile."""

from __future__ import annotations

from fsm.audit.follower import Follower, Rows, on
from fsm.audit.limits import DEFAULT_REQUEST_TIMEOUT_MS
from fsm.audit.member.consumer_instance import ConsumerInstance
from fsm.audit.rows import At, GivenUp, Known
from fsm.trace import Kind, Partition


class GivenUpHeartbeats(Follower):
    """Yields a `GivenUp` when the callback that ran at the time has ended."""

    def __init__(self, consumer: ConsumerInstance) -> None:
        self.consumer = consumer
        self.assigning: tuple[Partition, ...] = ()
        self.waiting: list[At] = []

    def finish(self) -> Rows:
        return self._end(self.consumer.last.ts_ms)

    @on(Kind.HEARTBEAT_GIVEN_UP)
    def _give_up(self, known: Known) -> Rows:
        self.waiting.append(known.at)
        return () if self.assigning else self._end(known.at.ts_ms)

    @on(Kind.ASSIGN_BEGIN)
    def _begin(self, known: Known) -> None:
        self.assigning = known.record.partitions

    @on(Kind.ASSIGN_END, Kind.CALLBACK_FAILED)
    def _return(self, known: Known) -> Rows:
        return self._end(known.at.ts_ms)

    @on(Kind.TRANSITION)
    def _step(self, known: Known) -> Rows:
        """At INFO only a transition shows that the callback has returned; a new target does not."""
        return () if known.record.next_state == "RECONCILING" else self._end(known.at.ts_ms)

    def _end(self, end_ms: int) -> Rows:
        own = self.consumer
        assigning, waiting, self.assigning, self.waiting = self.assigning, self.waiting, (), []
        timeout_ms = own.setting_ms("request.timeout.ms") or DEFAULT_REQUEST_TIMEOUT_MS
        for at in waiting:
            yield GivenUp(own.group, own.member, at.ts_ms, assigning, end_ms, timeout_ms, at.place)
