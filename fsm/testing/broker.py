"""A broker for tests of Kafka clients: our coordinator on a socket of loopback, in this process, within milliseconds.

    def test_a_listener_hears_of_fencing(broker):
        consumer = make_consumer(broker.bootstrap)
        ...
        broker.refuse("FENCED_MEMBER_EPOCH", api="ConsumerGroupHeartbeat")
        broker.wait_until(lambda: lost, each=lambda: consumer.poll(0.1))

The fixture `broker` comes with the pytest plugin of this package; `@pytest.mark.broker(topics={"foo": 4}, ...)`
configures it. It runs in real time; `skip` expires timers of the broker without waiting for them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Self, TypeVar

from fsm.coordinator.model.dialect import dialect as known_dialect
from fsm.errors import FsmError
from fsm.protocol.assignment import TopicPartition
from fsm.protocol.messages import DescribedConsumerGroup, DescribedGroup
from fsm.serve.brokers import Brokers
from fsm.serve.cluster import Served
from fsm.serve.edge import Edge, now_ms
from fsm.serve.faults import Do, Rule, make_rule
from fsm.wire.exchange import Exchange, Note

QUICK: Mapping[str, str] = {
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
}
"""Settings that make tests quick; the test's own override them. librdkafka abandons a heartbeat after its interval."""
START_S = 60.0
MOST_SEEN = 100_000
"""The maximum number of exchanges and notes kept, the latest ones."""
T = TypeVar("T")


class LiveBroker:
    """Brokers in their own thread. A context manager; its methods may be called from any thread."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        dialect: str = "4.4",
        settings: Mapping[str, str] | None = None,
        brokers: int = 1,
        records_a_second: float = 0.0,
        seed: int = 1,
    ) -> None:
        """By default one broker with the topic `foo` of four partitions. Raises `InputError` for invalid options."""
        served = Served(
            {"foo": 4} if topics is None else dict(topics),
            known_dialect(dialect).name,
            {**QUICK, **(settings or {})},
            brokers,
            records_a_second,
        )
        self._skipped_ms = 0.0
        self._seen: deque[Exchange | Note] = deque(maxlen=MOST_SEEN)
        self._brokers = Brokers(served, self._now_ms(), Random(seed), rules=[], on_event=self._seen.append)  # noqa: S311
        self._edge = Edge(self._brokers, clock=self._now_ms)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fsm broker", daemon=True)
        self.port = 0
        """The port of the first broker."""

    def __enter__(self) -> Self:
        self._thread.start()
        starting = asyncio.run_coroutine_threadsafe(self._edge.start(), self._loop)
        self.port = starting.result(START_S)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._edge.stop(), self._loop).result(START_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_S)
        self._loop.close()

    @property
    def bootstrap(self) -> str:
        """The value for `bootstrap.servers` of clients."""
        return f"127.0.0.1:{self.port}"

    # Faults. Conditions are those of a file of rules: api, client, group, member, epoch, full, partition, version, nth,
    # times, after_ms, name; `times="always"`. Each raises `InputError` for a condition that is invalid or never
    # matches.

    def refuse(self, error: str, **conditions: Any) -> Rule:
        """The next matching request is answered with this error."""
        return self._add(Do.REFUSE, error, conditions)

    def lose(self, **conditions: Any) -> Rule:
        """It is handled, its answer is lost, and the connection is closed."""
        return self._add(Do.LOSE, None, conditions)

    def mute(self, **conditions: Any) -> Rule:
        """It is handled and never answered; the connection stays open and answers nothing more."""
        return self._add(Do.MUTE, None, conditions)

    def swallow(self, **conditions: Any) -> Rule:
        """It is neither handled nor answered; the connection stays open and answers nothing more."""
        return self._add(Do.SWALLOW, None, conditions)

    def delay(self, ms: int, **conditions: Any) -> Rule:
        """It is handled with this delay."""
        return self._add(Do.DELAY, ms, conditions)

    def delay_answer(self, ms: int, **conditions: Any) -> Rule:
        """It is handled at once and answered with this delay."""
        return self._add(Do.DELAY_ANSWER, ms, conditions)

    def close(self, **conditions: Any) -> Rule:
        """It is not handled, and the connection is closed."""
        return self._add(Do.CLOSE, None, conditions)

    def duplicate(self, **conditions: Any) -> Rule:
        """It is handled twice; the second answer is lost."""
        return self._add(Do.DUPLICATE, None, conditions)

    def throttle(self, ms: int, **conditions: Any) -> Rule:
        """Its answer has this throttle time, and the connection answers nothing until then."""
        return self._add(Do.THROTTLE, ms, conditions)

    def rewrite(self, fields: Mapping[str, Any], **conditions: Any) -> Rule:
        """Fields of its answer are replaced; `api` has to be given."""
        return self._add(Do.REWRITE, fields, conditions)

    def expire_before(self, **conditions: Any) -> Rule:
        """Before it is handled, the session of its member ends."""
        return self._add(Do.EXPIRE, None, conditions)

    def move_before(self, **conditions: Any) -> Rule:
        """Before it is handled, its group moves to another coordinator, or to the same one, which reloads it."""
        return self._add(Do.MOVE, None, conditions)

    def pause_before(self, ms: int, **conditions: Any) -> Rule:
        """Before it is handled, every broker pauses for this long."""
        return self._add(Do.PAUSE, ms, conditions)

    def _add(self, do: Do, value: Any, conditions: Mapping[str, Any]) -> Rule:
        rule = make_rule(do, value, **conditions)
        self._call(lambda: self._brokers.rules.append(rule))
        return rule

    def heal(self) -> None:
        """Removes all faults."""
        self._call(self._brokers.rules.clear)

    # Events

    def expire(self, group_id: str, member_id: str) -> None:
        """Ends the session of this member."""
        self._do(lambda: self._brokers.expire(group_id, member_id, self._now_ms()))

    def move(self, group_id: str, broker: int | None = None) -> None:
        """Moves the group's coordinator to this broker, or to the next one. Raises `InputError` for an
        unknown broker.
        """
        self._do(lambda: self._brokers.move(group_id, broker, self._now_ms()))

    def pause(self, ms: float) -> None:
        """Pauses every broker for this long."""
        self._do(lambda: self._brokers.pause(ms, self._now_ms()))

    def skip(self, ms: float) -> None:
        """Moves the brokers' clock ahead: every timer that is due by then expires."""

        def jump() -> None:
            self._skipped_ms += ms
            self._edge.advance()

        self._call(jump)

    def change_topic(self, name: str, partitions: int) -> None:
        """Creates or extends a topic, or deletes it for 0 partitions. Raises `InputError` for an impossible change."""
        self._do(lambda: self._brokers.change_topic(name, partitions, self._now_ms()))

    # Queries

    def exchanges(self, api: str | None = None, client: str | None = None) -> list[Exchange]:
        """The exchanges so far: of this API, by this client id."""
        found = (one for one in [*self._seen] if isinstance(one, Exchange))
        return [one for one in found if api in (None, one.api) and client in (None, one.client_id)]

    def notes(self, event: str) -> list[Note]:
        """The notes of this kind so far: `connected`, `disconnected`, `removed`, `moved`, `topics`."""
        return [one for one in [*self._seen] if isinstance(one, Note) and one.event == event]

    def describe(self, group_id: str) -> DescribedConsumerGroup | DescribedGroup | None:
        """The group as in the describe APIs; None for an unknown group."""
        return self._call(lambda: self._brokers.cluster.coordinators.describe(group_id, self._now_ms()))

    def get_assignment(self, group_id: str) -> dict[str, tuple[TopicPartition, ...]]:
        """The partitions of each member of a consumer group, by member id; empty for an unknown group."""
        found = self.describe(group_id)
        if not isinstance(found, DescribedConsumerGroup):
            return {}
        return {
            member.member_id: tuple((one.topic_name, p) for one in member.assignment for p in one.partitions)
            for member in found.members
        }

    def wait_until(
        self, condition: Callable[[], T], timeout_s: float = 60.0, each: Callable[[], object] | None = None
    ) -> T:
        """Waits until the condition returns a true value, and returns that.

        Calls `each` between two checks, for example to poll a consumer. Raises `TimeoutError`.
        """
        until = time.monotonic() + timeout_s
        while True:
            found = condition()
            if found:
                return found
            if time.monotonic() > until:
                raise TimeoutError(
                    f"the condition did not hold within {timeout_s:g} s; the last exchanges: {self._tail()}"
                )
            if each is None:
                time.sleep(0.01)
            else:
                each()

    def _tail(self) -> str:
        return "; ".join(f"{one.client_id} {one.api} {one.fault}".strip() for one in self.exchanges()[-5:]) or "none"

    def _now_ms(self) -> float:
        return now_ms() + self._skipped_ms

    def _do(self, act: Callable[[], Any]) -> None:
        self._call(lambda: self._edge.carry_out(act() or ()))

    def _call(self, act: Callable[[], T]) -> T:
        """Runs a call in the brokers' thread, and returns its result or raises its exception."""
        if not self._thread.is_alive():
            raise FsmError("the broker is not running: use it as a context manager")

        async def run() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(START_S)
