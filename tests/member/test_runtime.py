"""The embedded member on two threads: calls, callbacks, what goes wrong, and that no wake-up is ever lost.

No test looks at how long anything took. What may take for ever if a wake-up is lost runs under `within`, whose limit
is far above what a slow machine needs.
"""

from __future__ import annotations

import re
import runpy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from runtime_scene import FOR_EVER_MS, LIMIT_S, Noted, frantic, until_quiet, within

from fsm.errors import LocalProtocolError, RemoteProtocolError
from fsm.member.events import GroupMembershipOperation
from fsm.member.runtime.consumer_api import BackgroundFailed, SubscriptionPattern
from fsm.member.runtime.queues import ConsumerRebalanceListener, KafkaException
from fsm.member.runtime.threads import Consumer
from fsm.protocol.assignment import Partitions, TopicNames
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.messages import (
    TIMED_OUT,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    TransportFailure,
)
from fsm.tables.consumer_member import State
from fsm.testing.coordinator import ScriptedCoordinator

A, B = ("t", 0), ("t", 1)


def config(**settings: Any) -> ConsumerConfig:
    return ConsumerConfig("g", **settings)


def coordinator(*given: tuple[str, int], heartbeat_interval_ms: int = 2) -> ScriptedCoordinator:
    """A group over topic `t` whose member M is to have these partitions."""
    group = ScriptedCoordinator(["t"], heartbeat_interval_ms=heartbeat_interval_ms)
    group.give({"M": given})
    return group


def poll_until(consumer: Consumer, holds: Callable[[], bool]) -> None:
    """Polls until something holds."""

    def poll() -> None:
        while not holds():
            consumer.poll(timeout_ms=5)

    within(poll)


@contextmanager
def embedded(transport: Any, listener: Any = None, **settings: Any) -> Iterator[Consumer]:
    """A consumer subscribed to `t`, whatever happens closed in the end."""
    consumer = Consumer(config(**settings), transport, member_id="M")
    try:
        consumer.subscribe(["t"], listener)
        yield consumer
    finally:
        try:
            consumer.close(0)
        except (BackgroundFailed, KafkaException):
            assert not consumer._thread.is_alive()


def epochs(group: ScriptedCoordinator) -> list[int]:
    """The epochs of all heartbeats."""
    return [r.member_epoch for r in group.requests if isinstance(r, ConsumerGroupHeartbeatRequest)]


def test_readme_example() -> None:
    """The README's member joins, is given partitions, revokes, is fenced, rejoins and leaves."""
    ran: dict[str, Any] = {}
    within(lambda: ran.update(runpy.run_path(str(Path(__file__).parent / "example_embed.py"))))
    a, b = ("orders", 0), ("orders", 1)
    assert [(method, *given) for method, given in ran["called"] if given] == [
        ("assigned", a, b),
        ("revoked", b),
        ("lost", a),
        ("assigned", a),
        ("revoked", a),
    ]


# A life


def test_join_move_leave() -> None:
    """Two partitions are assigned, one is revoked, the other is revoked as the consumer closes."""
    group, listener = coordinator(A, B), Noted()
    with embedded(group, listener) as consumer:
        poll_until(consumer, lambda: group.get_owned() == {"M": (A, B)} and consumer.assignment() == (A, B))
        group.give({"M": (B,)})
        poll_until(consumer, lambda: group.get_owned() == {"M": (B,)})
        consumer.close()
    assert [called for called in listener.called if called[1]] == [
        ("assigned", (A, B)),
        ("revoked", (A,)),
        ("revoked", (B,)),
    ]
    assert (group.get_owned(), epochs(group)[0], epochs(group)[-1]) == ({}, 0, -1)


@pytest.mark.parametrize("dialect", ["4.0.0", "4.1.2", "4.2.1", "4.3.1", "fixed", "document"])
def test_every_dialect_lives_on_threads(dialect: str) -> None:
    """Joins, moves, is fenced, comes back, unsubscribes, subscribes again and closes; callbacks alternate."""
    group, listener = coordinator(A, B), Noted()
    with Consumer(config(retry_backoff_ms=1), group, member_id="M", dialect=dialect) as consumer:
        consumer.subscribe(["t"], listener)
        poll_until(consumer, lambda: ("assigned", (A, B)) in listener.called)
        group.give({"M": (A,)})
        poll_until(consumer, lambda: group.get_owned() == {"M": (A,)})
        group.fence("M")
        poll_until(consumer, lambda: listener.called[-1] == ("assigned", (A,)))
        within(consumer.unsubscribe)
        consumer.subscribe(["t"], listener)
        poll_until(consumer, lambda: listener.called[-1] == ("assigned", (A,)))
        within(consumer.close)
    assert [called for called in listener.called if called[1]] == [
        ("assigned", (A, B)),
        ("revoked", (B,)),
        ("lost", (A,)),
        ("assigned", (A,)),
        ("revoked", (A,)),
        ("assigned", (A,)),
        ("revoked", (A,)),
    ]
    assert group.get_owned() == {}


def test_without_a_listener() -> None:
    """Partitions come and go; poll() says what may be fetched from."""
    group = coordinator(A, B)
    with embedded(group) as consumer:
        poll_until(consumer, lambda: consumer.poll(0) == (A, B))
        group.give({"M": (B,)})
        poll_until(consumer, lambda: consumer.poll(0) == (B,))


def test_polls_of_no_time_are_enough() -> None:
    """poll(0) never waits, and a loop of it gets a consumer into its group."""
    group, listener = coordinator(A), Noted()
    with embedded(group, listener) as consumer:

        def poll() -> None:
            while ("assigned", (A,)) not in listener.called:
                consumer.poll(0)

        within(poll)


def test_a_poll_ends_with_the_callback_it_ran() -> None:
    """A poll that could wait for an hour returns as soon as it ran callbacks."""
    group, listener = coordinator(A, heartbeat_interval_ms=FOR_EVER_MS), Noted()
    with embedded(group, listener) as consumer:
        within(lambda: consumer.poll(FOR_EVER_MS))
        assert listener.called == [("assigned", (A,))]


def test_fenced_member_rejoins() -> None:
    """What it held is lost, and it joins again by itself with the next poll."""
    group, listener = coordinator(A), Noted()
    with embedded(group, listener) as consumer:
        poll_until(consumer, lambda: consumer._background.member.member.state is State.STABLE)
        group.fence("M")
        poll_until(consumer, lambda: listener.called[-2:] == [("lost", (A,)), ("assigned", (A,))])
    assert epochs(group).count(0) == 2


def test_lost_is_revoked_where_a_listener_has_no_lost() -> None:
    """A listener without a lost callback hears of lost partitions through the revoked one, as in Kafka."""

    class Two(ConsumerRebalanceListener):
        def __init__(self) -> None:
            self.revoked: list[Partitions] = []

        def on_partitions_revoked(self, partitions: Partitions) -> None:
            self.revoked.append(partitions)

    group, listener = coordinator(A), Two()
    with embedded(group, listener) as consumer:
        poll_until(consumer, lambda: consumer._background.member.member.state is State.STABLE)
        group.fence("M")
        poll_until(consumer, lambda: listener.revoked == [(A,)])


def test_positions_are_committed_before_they_are_given_up() -> None:
    """What poll() was told of is committed before the revoked callback, and in close()."""
    group = coordinator(A, B)
    committed: list[dict[Any, int]] = []
    listener = Noted(lambda method, _: committed.append(dict(group.committed)) if method == "revoked" else None)
    with embedded(group, listener) as consumer:
        poll_until(consumer, lambda: group.get_owned() == {"M": (A, B)} and consumer.assignment() == (A, B))
        group.give({"M": (B,)})

        def poll() -> None:
            while group.get_owned() != {"M": (B,)}:
                consumer.poll(5, consumed=((A, 7), (B, 8)))

        within(poll)
        consumer.poll(0, consumed=((B, 9),))
        consumer.close()
    assert committed == [{A: 7, B: 8}, {A: 7, B: 9}]


def test_unsubscribe_leaves() -> None:
    """It returns with the partitions revoked and the leave sent; then there is nothing to poll for."""
    group, listener = coordinator(A), Noted()
    with embedded(group, listener) as consumer:
        poll_until(consumer, lambda: group.get_owned() == {"M": (A,)} and ("assigned", (A,)) in listener.called)
        within(consumer.unsubscribe)
        assert (listener.called[-1], group.get_owned(), consumer.assignment()) == (("revoked", (A,)), {}, ())
        with pytest.raises(LocalProtocolError, match="is not subscribed"):
            consumer.poll(0)
        consumer.subscribe(["t"], listener)
        poll_until(consumer, lambda: consumer.assignment() == (A,))


def test_no_topics_mean_unsubscribe() -> None:
    """subscribe([]) leaves the group."""
    group = coordinator(A)
    with embedded(group) as consumer:
        poll_until(consumer, lambda: group.get_owned() == {"M": (A,)})
        within(lambda: consumer.subscribe([]))
        assert group.get_owned() == {}


@pytest.mark.parametrize(
    ("to", "sent"),
    [
        (re.compile("[st]"), (("t",), None)),
        (re.compile("x"), ((), None)),
        (SubscriptionPattern("t.*"), ((), "t.*")),
        (("t", "u"), (("t", "u"), None)),
    ],
)
def test_kinds_of_subscriptions(to: Any, sent: tuple[Any, Any]) -> None:
    """Names are sent, a client's pattern as the names it matches, a coordinator's pattern as it is."""
    group = coordinator(A)
    with Consumer(config(), group, member_id="M") as consumer:
        # The pattern is matched against what is known; here the first metadata has come before the subscription.
        within(lambda: _until(lambda: bool(consumer._background.member.member.client.metadata)))
        consumer.subscribe(to)
        poll_until(consumer, lambda: bool(epochs(group)))
    joined = group.requests[0]
    assert isinstance(joined, ConsumerGroupHeartbeatRequest)
    assert (joined.subscribed_topic_names, joined.subscribed_topic_regex) == sent


def _until(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not holds():
        pause.wait(0.001)


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("t", "a list of topic names"),
        (["t", ""], "a list of topic names"),
        (re.compile("t", re.IGNORECASE), "write the flags"),
    ],
)
def test_what_cannot_be_subscribed_to(to: Any, message: str) -> None:
    """A text instead of a list, an empty name and flags that no broker would see are refused, with the remedy."""
    with Consumer(config(), coordinator(), member_id="M") as consumer, pytest.raises(LocalProtocolError, match=message):
        consumer.subscribe(to)


def test_subscriptions_exclude_each_other() -> None:
    """Topics and a pattern at once are refused as by Kafka, and the listener of before stays."""
    listener = Noted()
    with embedded(coordinator(A), listener) as consumer:
        with pytest.raises(KafkaException, match="subscribed in another way"):
            consumer.subscribe(re.compile("t"))
        poll_until(consumer, lambda: listener.called == [("assigned", (A,))])


def test_negative_timeouts() -> None:
    """A timeout below zero is a mistake of the caller; the consumer stays as it was."""
    with embedded(coordinator(A)) as consumer:
        with pytest.raises(LocalProtocolError, match="not be negative"):
            consumer.poll(-1)
        with pytest.raises(LocalProtocolError, match="not be negative"):
            consumer.close(-1)
        consumer.poll(0)


# Callbacks


def test_heartbeats_go_on_while_a_callback_runs() -> None:
    """A slow listener holds up nothing but its own thread."""
    group = coordinator(A)

    def slow(_method: str, _partitions: Partitions) -> None:
        seen = len(group.requests)
        _until(lambda: len(group.requests) >= seen + 5)

    listener = Noted(slow)
    with embedded(group, listener) as consumer:
        poll_until(consumer, lambda: listener.called[:1] == [("assigned", (A,))])
        assert len(epochs(group)) >= 6, "one heartbeat to join, and five within the callback"
        assert epochs(group).count(0) == 1


def test_a_raising_listener() -> None:
    """poll() throws with the listener's exception as the cause; the callback is called again by a later poll."""
    failures = [ValueError("no disk"), ValueError("still none")]

    def fail(method: str, _partitions: Partitions) -> None:
        if method == "assigned" and failures:
            raise failures.pop(0)

    listener = Noted(fail)
    with embedded(coordinator(A), listener) as consumer:
        for text in ("no disk", "still none"):
            with pytest.raises(KafkaException, match=text) as thrown:
                poll_until(consumer, lambda: False)
            assert isinstance(thrown.value.__cause__, ValueError)
        poll_until(consumer, lambda: len(listener.called) == 3)
        assert consumer.assignment() == (A,)


def test_an_interrupted_callback_stalls_nothing() -> None:
    """Ctrl-C in a callback comes out of poll() as it is; the member has heard of the callback's end and goes on."""
    interrupts = [KeyboardInterrupt()]

    def interrupt(_method: str, _partitions: Partitions) -> None:
        if interrupts:
            raise interrupts.pop()

    group, listener = coordinator(A), Noted(interrupt)
    with embedded(group, listener) as consumer:
        with pytest.raises(KeyboardInterrupt):
            poll_until(consumer, lambda: False)
        poll_until(consumer, lambda: len(listener.called) == 2)
        poll_until(consumer, lambda: consumer._background.member.member.state is State.STABLE)


def test_a_callback_may_use_its_consumer() -> None:
    """unsubscribe() inside the assigned callback revokes and leaves; the poll around it ends."""
    group = coordinator(A)
    listener = Noted(lambda method, _: consumer.unsubscribe() if method == "assigned" else None)
    with Consumer(config(), group, member_id="M") as consumer:
        consumer.subscribe(["t"], listener)
        within(lambda: consumer.poll(FOR_EVER_MS))
        assert (listener.called, group.get_owned()) == ([("assigned", (A,)), ("revoked", (A,))], {})


# Close


@pytest.mark.parametrize("method", ["assigned", "revoked", "lost"])
def test_close_inside_a_callback(method: str) -> None:
    """The consumer is closed when that call returns, the last callback included; the poll around it ends quietly."""
    group = coordinator(A)
    listener = Noted(lambda called, _: consumer.close() if called == method else None)
    consumer = Consumer(config(), group, member_id="M")
    consumer.subscribe(["t"], listener)

    def live() -> None:
        while not consumer._api.closing:
            consumer.poll(5)
            if consumer._api.closing or consumer._background.member.member.state is not State.STABLE:
                continue
            if method == "lost":
                group.fence("M")
            else:
                group.give({"M": ()})

    within(live)
    assert (consumer._thread.is_alive(), group.get_owned()) == (False, {})
    with pytest.raises(LocalProtocolError, match="closed"):
        consumer.poll(0)


def test_close_from_another_thread() -> None:
    """Only one thread at a time may use a consumer; the other one is told so, and can wake it."""
    refused: list[str] = []

    def other() -> None:
        for use in (consumer.close, consumer.unsubscribe, lambda: consumer.poll(0)):
            with pytest.raises(LocalProtocolError) as thrown:
                use()
            refused.append(str(thrown.value))

    listener = Noted(lambda *_: within(other))
    with embedded(coordinator(A, heartbeat_interval_ms=FOR_EVER_MS), listener) as consumer:
        within(lambda: consumer.poll(FOR_EVER_MS))
        assert refused == ["a consumer is used by one thread at a time; other threads call wakeup()"] * len(
            listener.called * 3
        )
        assert listener.called == [("assigned", (A,))]


def test_close_twice_and_use_after() -> None:
    """Closing again is nothing; everything else says that the consumer is closed."""
    consumer = Consumer(config(), coordinator(A), member_id="M")
    consumer.close()
    consumer.close(0)
    for use in (
        consumer.assignment,
        consumer.unsubscribe,
        lambda: consumer.poll(0),
        lambda: consumer.subscribe(["t"]),
    ):
        with pytest.raises(LocalProtocolError, match="closed"):
            use()
    assert not consumer._thread.is_alive()


def test_close_without_time_still_calls_back_and_leaves() -> None:
    """close(0) waits for no answer; its callback runs, and its leave is sent."""
    group, listener = coordinator(A), Noted()
    with embedded(group, listener) as consumer:
        poll_until(consumer, lambda: ("assigned", (A,)) in listener.called)
        within(lambda: consumer.close(0))
        assert listener.called[-1] == ("revoked", (A,))
        within(lambda: _until(lambda: not group.get_owned()))
    assert epochs(group)[-1] == -1


def test_close_outlasts_a_slow_callback() -> None:
    """The timeout of close() does not cut a callback short, and the leave comes after it."""
    group = coordinator(A)
    during: list[bool] = []

    def slow(method: str, _partitions: Partitions) -> None:
        if method == "revoked":
            threading.Event().wait(0.05)
            during.append(-1 in epochs(group))

    listener = Noted(slow)
    with embedded(group, listener) as consumer:
        poll_until(consumer, lambda: ("assigned", (A,)) in listener.called)
        within(lambda: consumer.close(1))
        within(lambda: _until(lambda: not group.get_owned()))
    assert during == [False]


def test_close_reports_a_raising_listener_and_leaves_all_the_same() -> None:
    """The first error comes out when everything was done."""

    def fail(method: str, _partitions: Partitions) -> None:
        if method == "revoked":
            raise ValueError("no disk")

    group, listener = coordinator(A), Noted(fail)
    with embedded(group, listener) as consumer:
        poll_until(consumer, lambda: group.get_owned() == {"M": (A,)} and ("assigned", (A,)) in listener.called)
        with pytest.raises(KafkaException, match=r"closed, but not without an error.*no disk") as thrown:
            consumer.close()
        assert isinstance(thrown.value.__cause__, ValueError)
        consumer.close()
    assert (group.get_owned(), consumer._thread.is_alive()) == ({}, False)


def test_remain_in_group_as_a_static_member() -> None:
    """A static member keeps its place: -2, not -1."""
    group = coordinator(A)
    consumer = Consumer(config(group_instance_id="i"), group, member_id="M")
    consumer.subscribe(["t"])
    poll_until(consumer, lambda: group.get_owned() == {"M": (A,)})
    consumer.close(operation=GroupMembershipOperation.REMAIN_IN_GROUP)
    assert epochs(group)[-1] == -2


def test_an_exception_in_the_block_closes_the_consumer() -> None:
    """Leaving the `with` block by an exception leaves the group; the exception comes through."""
    group = coordinator(A)
    with pytest.raises(ZeroDivisionError), Consumer(config(), group, member_id="M") as consumer:  # noqa: PT012
        consumer.subscribe(["t"])
        poll_until(consumer, lambda: group.get_owned() == {"M": (A,)})
        raise ZeroDivisionError
    assert group.get_owned() == {}


# The transport


class Broken(ScriptedCoordinator):
    """A coordinator with a line that breaks: `breaks` is called at each use of it and may raise."""

    def __init__(self, breaks: Callable[[str], None]) -> None:
        super().__init__(["t"], heartbeat_interval_ms=2)
        self.breaks = breaks
        self.give({"M": (A,)})

    def find_coordinator(self, on_coordinator_found: Any) -> None:
        self.breaks("find")
        super().find_coordinator(on_coordinator_found)

    def update_metadata(self, on_metadata: Any) -> None:
        self.breaks("metadata")
        super().update_metadata(on_metadata)

    def send(self, request: Any, on_response: Any) -> None:
        self.breaks("send")
        super().send(request, on_response)


@pytest.mark.parametrize("where", ["find", "metadata", "send"])
def test_a_connection_that_breaks_is_tried_again(where: str) -> None:
    """An OSError of the transport is a failed request: after a backoff the next one gets through."""
    failures = [ConnectionRefusedError(), TimeoutError(), BrokenPipeError()]

    def breaks(used: str) -> None:
        if used == where and failures:
            raise failures.pop()

    with embedded(Broken(breaks), retry_backoff_ms=1, retry_backoff_max_ms=2) as consumer:
        poll_until(consumer, lambda: consumer.assignment() == (A,))
        assert failures == []


@pytest.mark.parametrize("where", ["find", "metadata", "send"])
def test_a_bug_of_the_transport_ends_the_consumer_loudly(where: str) -> None:
    """Any other exception ends the background thread: the next call raises it, and so does close(), once."""

    def breaks(used: str) -> None:
        if used == where:
            raise ZeroDivisionError("bug")

    consumer = Consumer(config(), Broken(breaks), member_id="M")

    def use() -> None:
        consumer.subscribe(["t"])
        poll_until(consumer, lambda: False)

    with pytest.raises(BackgroundFailed, match="ZeroDivisionError: bug") as thrown:
        use()
    assert isinstance(thrown.value.__cause__, ZeroDivisionError)
    for call in (lambda: consumer.poll(0), consumer.unsubscribe, consumer.assignment, consumer.close):
        with pytest.raises(BackgroundFailed):
            call()
    consumer.close()
    assert not consumer._thread.is_alive()


def test_a_thread_that_dies_ends_the_wait_for_it() -> None:
    """A poll that waits for an hour, and an unsubscribe() that waits for its leave, hear of the death at once."""
    lives = threading.Event()

    def breaks(used: str) -> None:
        if used == "send":
            lives.wait(LIMIT_S)
            raise ZeroDivisionError("bug")

    for wait in (lambda consumer: consumer.poll(FOR_EVER_MS), lambda consumer: consumer.unsubscribe()):
        lives.clear()
        with embedded(Broken(breaks)) as consumer:
            consumer.poll(0)
            timer = threading.Timer(0.05, lives.set)
            timer.start()
            with pytest.raises(BackgroundFailed):
                within(lambda wait=wait, consumer=consumer: wait(consumer))
            timer.join()


def test_a_dead_consumer_still_calls_back_at_close() -> None:
    """close() after the background died runs the revoked callback, then tells of the death."""
    dies = threading.Event()

    def breaks(used: str) -> None:
        if used == "send" and dies.is_set():
            raise ZeroDivisionError("bug")

    listener = Noted()
    with embedded(Broken(breaks), listener) as consumer:
        poll_until(consumer, lambda: ("assigned", (A,)) in listener.called)
        dies.set()
        within(lambda: _until(lambda: not consumer._thread.is_alive()))
        with pytest.raises(BackgroundFailed):
            consumer.close()
        assert listener.called[-1] == ("revoked", (A,))


def test_the_block_keeps_its_own_exception() -> None:
    """`with` does not hide what the block raised behind the death of the background."""

    def breaks(_used: str) -> None:
        raise ZeroDivisionError("bug")

    with pytest.raises(KeyError), Consumer(config(), Broken(breaks), member_id="M") as consumer:  # noqa: PT012
        within(lambda: _until(lambda: not consumer._thread.is_alive()))
        raise KeyError
    with pytest.raises(BackgroundFailed), Consumer(config(), Broken(breaks), member_id="M") as consumer:
        within(lambda: _until(lambda: not consumer._thread.is_alive()))


class Silent(ScriptedCoordinator):
    """A coordinator that keeps the first `keeps` answers to heartbeats to itself, for the test to hand out."""

    def __init__(self, keeps: int) -> None:
        super().__init__(["t"], heartbeat_interval_ms=2)
        self.keeps = keeps
        self.kept: list[Callable[[], None]] = []
        self.give({"M": (A,)})

    def send(self, request: Any, on_response: Any) -> None:
        if len(self.kept) < self.keeps:
            self.kept.append(lambda: on_response(ConsumerGroupHeartbeatResponse(77, 1, ())))
        else:
            super().send(request, on_response)


def test_an_answer_that_never_comes() -> None:
    """The request is given up after the request timeout and made again; its late answer is passed over."""
    group = Silent(keeps=2)
    with embedded(group, request_timeout_ms=20, retry_backoff_ms=1, retry_backoff_max_ms=2) as consumer:
        poll_until(consumer, lambda: consumer.assignment() == (A,))
        for late in group.kept:
            late()
            late()
        poll_until(consumer, lambda: len(group.requests) > 10)
        assert (len(group.kept), consumer.assignment()) == (2, (A,))
    assert 77 not in epochs(group)


def test_an_answer_from_another_thread() -> None:
    """A transport may answer whenever and wherever it likes."""

    class Later(ScriptedCoordinator):
        def send(self, request: Any, on_response: Any) -> None:
            threading.Thread(target=super().send, args=(request, on_response)).start()

    group = Later(["t"], heartbeat_interval_ms=2)
    group.give({"M": (A,)})
    listener = Noted()
    with embedded(group, listener) as consumer:
        poll_until(consumer, lambda: ("assigned", (A,)) in listener.called)


def test_an_answer_that_answers_something_else() -> None:
    """It ends the consumer: the transport mixes up its requests."""

    class Mixed(ScriptedCoordinator):
        def send(self, request: Any, on_response: Any) -> None:
            on_response(OffsetCommitResponse() if not isinstance(request, OffsetCommitRequest) else TIMED_OUT)

    with embedded(Mixed(["t"])) as consumer:
        with pytest.raises(BackgroundFailed) as thrown:
            poll_until(consumer, lambda: False)
        assert isinstance(thrown.value.__cause__, RemoteProtocolError)


def test_errors_that_cannot_be_retried_come_out_of_poll() -> None:
    """A search that fails for good, and metadata that does, are thrown at the application; it may go on polling."""

    class Forbidden(ScriptedCoordinator):
        """Says no once, then no more."""

        def __init__(self, lookup: str) -> None:
            super().__init__(["t"], heartbeat_interval_ms=2)
            self.lookup = lookup
            self.give({"M": (A,)})

        def refused(self, lookup: str) -> bool:
            once, self.lookup = self.lookup == lookup, "" if self.lookup == lookup else self.lookup
            return once

        def find_coordinator(self, on_coordinator_found: Any) -> None:
            no = TransportFailure("GroupAuthorizationException", retriable=False)
            on_coordinator_found(no if self.refused("find") else None)

        def update_metadata(self, on_metadata: Any) -> None:
            no = TransportFailure("TopicAuthorizationException", retriable=False)
            on_metadata(no if self.refused("metadata") else self.names)

    for lookup, name in (("find", "GroupAuthorizationException"), ("metadata", "TopicAuthorizationException")):
        with embedded(Forbidden(lookup), retry_backoff_ms=1, retry_backoff_max_ms=2) as consumer:
            with pytest.raises(KafkaException, match=name):
                poll_until(consumer, lambda: False)
            poll_until(consumer, lambda consumer=consumer: consumer.assignment() == (A,))


def test_names_that_come_late() -> None:
    """A topic without a name is asked for again and again, and reconciled when its name is there."""
    late = threading.Event()

    class Nameless(ScriptedCoordinator):
        asked = 0

        def update_metadata(self, on_metadata: Any) -> None:
            self.asked += 1
            on_metadata(self.names if self.asked > 3 else TopicNames())
            if self.asked > 3:
                late.set()

    group = Nameless(["t"], heartbeat_interval_ms=FOR_EVER_MS)
    group.give({"M": (A,)})
    listener = Noted()
    with embedded(group, listener, retry_backoff_ms=1, retry_backoff_max_ms=2) as consumer:
        poll_until(consumer, lambda: listener.called[-1:] == [("assigned", (A,))])
        assert late.is_set()


def test_a_transport_that_hangs_holds_up_nobody_else() -> None:
    """While a request hangs in the transport, calls return in their time, close() included."""
    hangs = threading.Event()
    group = coordinator(A)
    group_send = group.send

    def send(request: Any, on_response: Any) -> None:
        hangs.wait(LIMIT_S)
        group_send(request, on_response)

    group.send = send  # type: ignore[method-assign]
    listener = Noted()
    consumer = Consumer(config(default_api_timeout_ms=20), group, member_id="M")
    consumer.subscribe(["t"], listener)

    def use() -> None:
        for _ in range(20):
            consumer.poll(1)
        assert consumer.assignment() == ()
        consumer.unsubscribe()
        consumer.close(10)

    within(use)
    assert consumer._thread.is_alive()
    hangs.set()
    consumer._thread.join(LIMIT_S)
    assert not consumer._thread.is_alive()


# No lost wake-up, no stall


class Mute(ScriptedCoordinator):
    """Never answers: only wake-ups of the application can move the background thread."""

    def find_coordinator(self, on_coordinator_found: Any) -> None:
        pass

    def update_metadata(self, on_metadata: Any) -> None:
        pass


def test_no_wake_up_is_lost() -> None:
    """4,000 round trips of subscribe() between two threads that otherwise sleep for an hour."""
    settings = config(request_timeout_ms=FOR_EVER_MS, default_api_timeout_ms=FOR_EVER_MS)
    with frantic(), Consumer(settings, Mute(["t"]), member_id="M") as consumer:

        def subscribe() -> None:
            for number in range(4_000):
                consumer.subscribe([f"t{number}"])

        within(subscribe)
        assert consumer._background.member.member.subscription.topics == ("t3999",)
        within(lambda: consumer.close(0))


def test_wakeup_ends_a_poll_each_time() -> None:
    """Of 500 polls without end, each is ended by one wakeup() of another thread, and raises for it."""
    woken = 0
    polls = threading.Semaphore(0)

    def wake() -> None:
        for _ in range(500):
            polls.acquire()
            consumer.wakeup()

    def poll() -> None:
        nonlocal woken
        for _ in range(500):
            polls.release()
            with pytest.raises(KafkaException, match="WakeupException"):
                consumer.poll(FOR_EVER_MS)
            woken += 1

    settings = config(request_timeout_ms=FOR_EVER_MS, enable_auto_commit=False, max_poll_interval_ms=FOR_EVER_MS)
    with frantic(), Consumer(settings, Mute(["t"]), member_id="M") as consumer:
        consumer.subscribe(["t"])
        waker = threading.Thread(target=wake, daemon=True)
        waker.start()
        within(poll)
        waker.join(LIMIT_S)
        within(lambda: consumer.close(0))
    assert woken == 500


def test_two_hundred_rebalances_of_one_member() -> None:
    """The target alternates as fast as it is reached; every revocation and assignment comes out of poll(), in turn."""
    group, listener = coordinator(A, heartbeat_interval_ms=1), Noted()
    with frantic(), embedded(group, listener, retry_backoff_ms=0) as consumer:
        for number in range(100):
            target = (A,) if number % 2 == 0 else (B,)
            group.give({"M": target})
            poll_until(consumer, lambda target=target: group.get_owned() == {"M": target})
    moves = [called for called in listener.called if called[1]]
    assert len(moves) == 200
    assert moves[:4] == [("assigned", (A,)), ("revoked", (A,)), ("assigned", (B,)), ("revoked", (B,))]
    assert [method for method, _ in moves] == ["assigned", "revoked"] * 100


def test_three_members_share_without_overlap() -> None:
    """Eight partitions go round among three members on six threads; no two own one at once, as their listeners see."""
    group = ScriptedCoordinator(["t"], heartbeat_interval_ms=1)
    owners: dict[tuple[str, int], str] = {}
    overlaps: list[object] = []
    rounds = 60
    done = threading.Event()

    def track(me: str) -> Callable[[str, Partitions], None]:
        def follow(method: str, given: Partitions) -> None:
            for partition in given:
                before = owners.setdefault(partition, me) if method == "assigned" else owners.pop(partition)
                if before != me:
                    overlaps.append((me, before, partition))

        return follow

    def live(me: str) -> None:
        with Consumer(config(retry_backoff_ms=0), group, member_id=me) as consumer:
            consumer.subscribe(["t"], Noted(track(me)))
            while not done.is_set():
                consumer.poll(2)

    def turn() -> None:
        for number in range(rounds):
            target = {f"M{k}": [("t", p) for p in range(8) if (p + number) % 3 == k] for k in range(3)}
            group.give(target)
            _until(lambda target=target: group.get_owned() == {m: tuple(sorted(given)) for m, given in target.items()})

    with frantic():
        members = [threading.Thread(target=live, args=(f"M{k}",), daemon=True) for k in range(3)]
        for member in members:
            member.start()
        try:
            within(turn)
        finally:
            done.set()
        for member in members:
            member.join(LIMIT_S)
    assert (overlaps, owners, group.get_owned()) == ([], {}, {})
    assert not any(member.is_alive() for member in members)


def test_opened_and_closed_again_and_again() -> None:
    """300 consumers begin and end, in every phase of joining; none leaves a thread or a membership behind."""
    group = coordinator(A, heartbeat_interval_ms=1)
    before = threading.active_count()

    def live() -> None:
        for number in range(300):
            with Consumer(config(), group, member_id="M") as consumer:
                consumer.subscribe(["t"], Noted())
                for _ in range(number % 7):
                    consumer.poll(number % 2)

    with frantic():
        within(live)
    assert (threading.active_count(), group.get_owned()) == (before, {})


def test_an_idle_background_sleeps() -> None:
    """A member with nothing to do until its next heartbeat does not turn its loop."""
    turns = 0

    def count() -> float:
        nonlocal turns
        turns += 1
        return 0.0

    group = coordinator(A, heartbeat_interval_ms=FOR_EVER_MS)
    with Consumer(config(), group, member_id="M", jitter=count) as consumer:
        consumer.subscribe(["t"])
        poll_until(consumer, lambda: consumer._background.member.member.state is State.STABLE)
        within(lambda: until_quiet(lambda: turns))
