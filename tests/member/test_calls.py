"""The calls of an embedded member on one thread, with a clock of literal times: what is hard to time with two."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import structlog

from fsm.errors import LocalProtocolError
from fsm.member.events import ApplyAssignmentEvent, ErrorEvent, GroupMembershipOperation, KafkaError
from fsm.member.runtime.background import Background
from fsm.member.runtime.consumer_api import ApiCall, ConsumerApi, Wait, check_listener
from fsm.member.runtime.consumer_shell import ConsumerMember
from fsm.member.runtime.queues import ConsumerRebalanceListener, KafkaException
from fsm.member.runtime.threads import Consumer
from fsm.member.runtime.trace import warn
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OffsetCommitRequest,
)
from fsm.tables.consumer_member import State
from fsm.testing.coordinator import ScriptedCoordinator

A, B = ("t", 0), ("t", 1)


class OneThread:
    """A runtime whose time passes only while a call waits; `busy` keeps the background from doing anything."""

    def __init__(self, transport: Any, **settings: Any) -> None:
        self.now_ms = 0
        self.busy = False
        self.waits: list[int] = []
        self.woken = False
        member = ConsumerMember(ConsumerConfig("g", **settings), member_id="M", now_ms=0)
        self.background = Background(member, transport, jitter=lambda: 0.0, wake=self.wake)
        self.calls = ConsumerApi(self.background, lambda: self.now_ms, self.wake)

    @property
    def state(self) -> State:
        return self.background.member.member.state

    def wake(self) -> None:
        self.woken = True

    def run(self, call: ApiCall[Any], interrupt_at: Callable[[], bool] = lambda: False) -> Any:
        """A call to its end; where it waits, the background works off everything, or else time passes."""
        sent: BaseException | None = None
        while True:
            try:
                asked = call.send(sent)
            except StopIteration as done:
                return done.value
            sent = None
            if not isinstance(asked, Wait):
                getattr(self.calls.listener, asked.method.value)(asked.partitions)
            elif interrupt_at():
                sent = KeyboardInterrupt()
            else:
                self.sleep(asked.until_ms)

    def sleep(self, until_ms: int) -> None:
        due_ms = until_ms if self.busy or self.woken else min(until_ms, self.background.next_turn_ms)
        if self.busy or not self.woken:
            self.waits.append(due_ms)
            self.now_ms = max(self.now_ms, due_ms)
        if not self.busy:
            self.woken = False
            self.background.turn(self.now_ms)
            self.background.send_outbox()


class Silent:
    """A listener that is content."""

    def __init__(self) -> None:
        self.assigned: list[Any] = []

    def on_partitions_assigned(self, partitions: Any) -> None:
        self.assigned.append(partitions)

    def on_partitions_revoked(self, partitions: Any) -> None:
        pass

    on_partitions_lost = on_partitions_revoked


def joined(group: ScriptedCoordinator, listener: Any = None, **settings: Any) -> OneThread:
    """A member that is stable with A."""
    group.give({"M": (A,)})
    app = OneThread(group, **settings)
    app.run(app.calls.subscribe(["t"], listener))
    while app.state is not State.STABLE:
        app.run(app.calls.poll(10, ()))
    return app


def test_a_long_poll_renews_the_poll_timer() -> None:
    """One poll of ten minutes outlives a poll interval of one: it polls again inside, as Kafka's does."""
    app = joined(ScriptedCoordinator(["t"]), max_poll_interval_ms=60_000, enable_auto_commit=False)
    app.run(app.calls.poll(600_000, ()))
    assert (app.state, app.now_ms >= 600_000) == (State.STABLE, True)


def test_a_long_poll_commits_at_its_interval() -> None:
    """Under auto-commit a poll of a minute commits every five seconds."""
    group = ScriptedCoordinator(["t"])
    app = joined(group)
    app.run(app.calls.poll(60_000, ((A, 7),)))
    commits = [r for r in group.requests if isinstance(r, OffsetCommitRequest)]
    assert 10 <= len(commits) <= 13
    assert commits[0].offsets == ((A, 7),)


def test_a_target_reaches_a_poll_that_waits() -> None:
    """Under auto-commit only a poll may reconcile: one that waits for a minute does so when the target comes."""
    group, listener = ScriptedCoordinator(["t"]), Silent()
    app = joined(group, listener, auto_commit_interval_ms=50_000)
    begun_ms = app.now_ms
    group.give({"M": (A, B)})
    app.run(app.calls.poll(60_000, ()))
    assert listener.assigned == [(A,), (B,)]
    assert app.now_ms - begun_ms <= 5_000, "the next heartbeat brings the target"


def test_a_long_poll_sleeps() -> None:
    """Ten quiet minutes are some two hundred wakes: for heartbeats each five seconds, and for the poll timer."""
    app = joined(ScriptedCoordinator(["t"]), enable_auto_commit=False)
    app.waits.clear()
    app.run(app.calls.poll(600_000, ()))
    assert 120 <= len(app.waits) <= 260


def test_a_metadata_change_reaches_a_poll_that_waits() -> None:
    """A topic that appears while poll() waits is matched against the client's pattern and subscribed to."""
    group = ScriptedCoordinator(["t"])
    app = OneThread(group)
    learnt: list[Any] = []
    update = group.update_metadata
    group.update_metadata = lambda answer: (learnt.append(answer), update(answer))[0]  # type: ignore[method-assign]
    app.run(app.calls.subscribe(re.compile("t.*"), None))
    app.run(app.calls.poll(1_000, ()))
    learnt[0](ScriptedCoordinator(["t", "t2"]).names)
    app.run(app.calls.poll(10_000, ()))
    names = [r.subscribed_topic_names for r in group.requests if isinstance(r, ConsumerGroupHeartbeatRequest)]
    assert [n for n in names if n is not None] == [("t",), ("t", "t2")]


def test_interrupted_while_the_assignment_is_applied() -> None:
    """Ctrl-C between assignment and callback: the run ends as failed, and a later poll does it again."""
    group, listener = ScriptedCoordinator(["t"]), Silent()
    group.give({"M": (A,)})
    app = OneThread(group)
    app.run(app.calls.subscribe(["t"], listener))

    def applying() -> bool:
        return any(isinstance(event, ApplyAssignmentEvent) for event in app.background.member._application)

    with pytest.raises(KeyboardInterrupt):
        app.run(app.calls.poll(60_000, ()), interrupt_at=applying)
    assert listener.assigned == []
    while app.state is not State.STABLE:
        app.run(app.calls.poll(1_000, ()))
    assert (app.background.member.member.awaited, app.calls.assignment()) == ((), (A,))


@pytest.mark.parametrize("name", ["GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"])
def test_unsubscribe_passes_over_errors_of_authorization(name: str) -> None:
    """poll() throws them; unsubscribe() leaves all the same, and any other error comes out of it."""

    def queued(error: str) -> OneThread:
        app = joined(ScriptedCoordinator(["t"]))
        app.background.member._background.append(ErrorEvent(KafkaError(error)))
        return app

    with pytest.raises(KafkaException, match=name):
        (app := queued(name)).run(app.calls.poll(0, ()))
    app = queued(name)
    app.run(app.calls.unsubscribe())
    assert app.state is State.UNSUBSCRIBED
    app = queued("INVALID_TOPIC_EXCEPTION")
    with pytest.raises(KafkaException, match="INVALID_TOPIC_EXCEPTION"):
        app.run(app.calls.unsubscribe())
    member = queued(name).background.member
    assert member.run_callbacks(None, 0, unsubscribing=True).first == KafkaError(name)


def test_a_busy_background_costs_a_call_its_deadline_and_no_more() -> None:
    """subscribe() against a background that is stuck is done by the application itself when its time is over."""
    app = OneThread(ScriptedCoordinator(["t"]), default_api_timeout_ms=500)
    app.busy = True
    app.run(app.calls.subscribe(["t"], None))
    assert (app.now_ms, app.background.member.member.subscription.topics) == (500, ("t",))


def test_close_waits_for_the_commit_until_its_deadline() -> None:
    """A commit that is never answered costs close() its timeout; then it leaves all the same."""

    class NoCommits(ScriptedCoordinator):
        def send(self, request: Any, on_response: Any) -> None:
            if not isinstance(request, OffsetCommitRequest):
                super().send(request, on_response)

    group = NoCommits(["t"])
    app = joined(group)
    app.run(app.calls.poll(0, ((A, 7),)))
    begun_ms = app.now_ms
    app.background.ended = False

    def end() -> bool:
        app.background.ended = app.background.member.closed
        return False

    app.run(app.calls.close(2_000, GroupMembershipOperation.DEFAULT, None), interrupt_at=end)
    app.background.send_outbox()
    assert (app.now_ms - begun_ms, group.get_owned()) == (2_000, {})


def test_late_and_second_answers_are_passed_over() -> None:
    """An answer after the request timeout, and a second one, change nothing."""

    class Slow(ScriptedCoordinator):
        def __init__(self) -> None:
            super().__init__(["t"])
            self.answers: list[Any] = []

        def send(self, request: Any, on_response: Any) -> None:
            self.requests.append(request)
            self.answers.append(on_response)

    group = Slow()
    app = OneThread(group, request_timeout_ms=1_000)
    app.run(app.calls.subscribe(["t"], None))
    app.run(app.calls.poll(1_500, ()))
    assert len(group.answers) == 2
    group.answers[0](ConsumerGroupHeartbeatResponse(5, 1_000, ()))
    app.run(app.calls.poll(10, ()))
    assert (app.state, app.background.member.member.epoch) == (State.JOINING, 0)
    group.answers[1](ConsumerGroupHeartbeatResponse(6, 1_000))
    group.answers[1](ConsumerGroupHeartbeatResponse(7, 1_000))
    app.run(app.calls.poll(10, ()))
    assert app.background.member.member.epoch == 6


def test_arguments_are_looked_at_when_they_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    """What would do nothing, or fail later somewhere else, is refused in one line; a closed call goes to `logging`."""

    class Waiting(ConsumerRebalanceListener):
        async def on_partitions_assigned(self, partitions: Any) -> None: ...

        def on_partitions_revoked(self, partitions: Any) -> None: ...

    given: Any
    with pytest.raises(LocalProtocolError, match="the config is 'shop'; give a ConsumerConfig or a ClassicConfig"):
        Consumer("shop", ScriptedCoordinator(["t"]))  # type: ignore[call-overload]
    with pytest.raises(LocalProtocolError, match="the transport object has no find_coordinator, update_metadata, send"):
        Consumer(ConsumerConfig("g"), object())  # type: ignore[call-overload]
    with Consumer(ConsumerConfig("g"), ScriptedCoordinator(["t"])) as consumer:
        with pytest.raises(LocalProtocolError, match="Waiting has coroutines: on_partitions_assigned; only"):
            consumer.subscribe(["t"], Waiting())
        for given in ("t", None, [1], [""]):
            with pytest.raises(LocalProtocolError, match="subscribe to a list of topic names, not to"):
                consumer.subscribe(given)
        consumer.subscribe(["t"])
        for given in ({("t", 0): 3}, [1], (("t", 0),), ((("t", 0), -1),), ((("t", -1), 3),), ((("t", 0), 1 << 63),)):
            for call in (partial(consumer.poll, 0), consumer.commit_sync):
                with pytest.raises(LocalProtocolError, match=r"give a tuple of \(\(topic, partition\), offset\)"):
                    call(given)
    structlog.reset_defaults()  # a test that captured what was logged has configured it
    warn("it goes on", error="X")
    assert capsys.readouterr().out == ""


def test_a_listener_is_looked_at_when_it_is_given() -> None:
    """One that lacks a callback, or misspells it, is refused by subscribe(), not when the callback is due."""

    class Misspelt:
        def on_partitions_assigned(self, partitions: Any) -> None: ...

        def on_partition_revoked(self, partitions: Any) -> None: ...

        def on_partitions_lost(self, partitions: Any) -> None: ...

    class Short(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Any) -> None: ...

        def on_partitions_revoked(self, partitions: Any) -> None: ...

    with Consumer(ConsumerConfig("g"), ScriptedCoordinator(["t"])) as consumer:
        with pytest.raises(
            LocalProtocolError, match="the listener Misspelt has no on_partitions_revoked; inherit from"
        ):
            consumer.subscribe(["t"], Misspelt())  # type: ignore[arg-type]
        consumer.subscribe(["t"], Short())
    with pytest.raises(
        LocalProtocolError, match="has no on_partitions_revoked and no on_partitions_assigned and no on"
    ):
        check_listener(object(), may_await=True)
    check_listener(None, may_await=False)
