"""The two queues of a consumer, told as the design notes draw them: who calls whom, in order.

U is the user, PAC the consumer in the application's thread, CRL the listener, BEQ and AEQ the two queues; BG is the
background thread, which the notes leave out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from fsm.member.effects import Transition
from fsm.member.events import (
    ApplicationEvent,
    ApplyAssignmentEvent,
    AsyncPollEvent,
    BackgroundEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    ErrorEvent,
    KafkaError,
    ListenerMethod,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.member.inputs import Answered, CoordinatorFound, MetadataUpdated
from fsm.member.runtime.consumer_api import Pass
from fsm.member.runtime.consumer_shell import ConsumerMember
from fsm.member.runtime.queues import (
    InvokeListener,
    KafkaException,
    Outcome,
    process,
)
from fsm.protocol.assignment import Partitions, TopicNames
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatResponse

A, B = ("t", 0), ("t", 1)


class Diagram:
    """A consumer of one thread that writes down every arrow of a poll()."""

    def __init__(self, *, listener: bool, throws: str = "") -> None:
        self.listener, self.throws = listener, throws
        self.arrows: list[str] = []
        self.member = ConsumerMember(
            ConsumerConfig("g", enable_auto_commit=False), member_id="M", now_ms=0, dialect="4.4.0"
        )
        self.member.receive(CoordinatorFound(), 0)
        self.member.receive(MetadataUpdated(TopicNames({"T": "t"})), 0)
        self.member.submit(TopicSubscriptionChangeEvent(("t",), listener))
        self.member.submit(AsyncPollEvent())
        self.request = self.member.poll(0).unsent_requests[0]

    def target(self, *numbers: int) -> None:
        """The coordinator names a target, and the background thread reconciles as far as it can alone."""
        assigned = (("T", numbers),) if numbers else ()
        self.member.receive(Answered(self.request, ConsumerGroupHeartbeatResponse(1, 1_000, assigned)), 1)
        self.member.submit(AsyncPollEvent())
        self.turn()

    def turn(self) -> None:
        """The background thread turns its loop until it has nothing to do."""
        while True:
            result = self.member.poll(2)
            self.arrows += [
                f"BG: {n.source.name} to {n.target.name}" for n in result.notices if isinstance(n, Transition)
            ]
            if result.time_until_next_poll_ms > 0:
                return

    def poll(self) -> Outcome:
        """U -> PAC: poll(), with every arrow of its pass over background events."""
        self.arrows = ["U -> PAC: poll"]
        taken: list[BackgroundEvent] = []
        self.arrows.append("PAC -> BEQ: poll")
        while (event := self.member.next_background_event()) is not None:
            taken.append(event)
        passing = process(taken, listener=self.listener)
        answer: KafkaError | None = None
        while True:
            try:
                asked = passing.send(answer)
            except StopIteration as done:
                self.arrows.append("PAC -> U: return")
                outcome: Outcome = done.value
                return outcome
            answer = self.call(asked) if isinstance(asked, InvokeListener) else self.add(asked)

    def call(self, asked: InvokeListener) -> KafkaError | None:
        self.arrows.append(f"PAC -> CRL: {asked.method.value} {shown(asked.partitions)}")
        if asked.method.value == self.throws:
            self.arrows.append("CRL -> PAC: throws")
            return KafkaError("KafkaException", "the rebalance listener raised")
        return None

    def add(self, event: ApplicationEvent) -> None:
        self.arrows.append(f"PAC -> AEQ: add {describe(event)}")
        self.member.submit(event)
        self.turn()


def shown(these: Partitions) -> str:
    return "[" + ", ".join(f"{topic}-{number}" for topic, number in these) + "]"


def describe(event: ApplicationEvent) -> str:
    match event:
        case ConsumerRebalanceListenerCallbackCompletedEvent(error=None):
            return "callback completed"
        case ConsumerRebalanceListenerCallbackCompletedEvent(error=error):
            return f"callback completed with {error!r}"
        case ApplyAssignmentEvent(full=full):
            return f"apply assignment {shown(full)}"
    raise AssertionError(event)


def test_assign_with_a_listener() -> None:
    """poll() takes the assigned event, applies it, runs the callback and reports its end, which acknowledges."""
    consumer = Diagram(listener=True)
    consumer.target(0, 1)
    assert consumer.poll() == Outcome()
    assert consumer.arrows == [
        "U -> PAC: poll",
        "PAC -> BEQ: poll",
        "PAC -> AEQ: add apply assignment [t-0, t-1]",
        "PAC -> CRL: on_partitions_assigned [t-0, t-1]",
        "PAC -> AEQ: add callback completed",
        "BG: RECONCILING to ACKNOWLEDGING",
        "BG: ACKNOWLEDGING to STABLE",
        "PAC -> U: return",
    ]


def test_assign_without_a_listener() -> None:
    """Without a listener the assignment is applied and its end reported; nothing is called."""
    consumer = Diagram(listener=False)
    consumer.target(0, 1)
    consumer.poll()
    assert consumer.arrows == [
        "U -> PAC: poll",
        "PAC -> BEQ: poll",
        "PAC -> AEQ: add apply assignment [t-0, t-1]",
        "PAC -> AEQ: add callback completed",
        "BG: RECONCILING to ACKNOWLEDGING",
        "BG: ACKNOWLEDGING to STABLE",
        "PAC -> U: return",
    ]


def test_assign_with_a_listener_that_raises() -> None:
    """The end is reported with the error, poll() has it to throw, and the run begins anew."""
    consumer = Diagram(listener=True, throws="on_partitions_assigned")
    consumer.target(0)
    assert consumer.poll().first == KafkaError("KafkaException", "the rebalance listener raised")
    assert consumer.arrows == [
        "U -> PAC: poll",
        "PAC -> BEQ: poll",
        "PAC -> AEQ: add apply assignment [t-0]",
        "PAC -> CRL: on_partitions_assigned [t-0]",
        "CRL -> PAC: throws",
        "PAC -> AEQ: add callback completed with 'the rebalance listener raised'",
        "PAC -> U: return",
    ]
    assert consumer.member.fetchable(checked=True) == ()


def settled(*, listener: bool, throws: str = "") -> Diagram:
    """A consumer that owns two partitions and is about to lose the second."""
    consumer = Diagram(listener=listener)
    consumer.target(0, 1)
    consumer.poll()
    consumer.throws = throws
    consumer.target(0)
    return consumer


def test_revoke_with_a_listener() -> None:
    """poll() takes the revoke event, runs the listener, adds the revoked event; only the next poll() is assigned."""
    consumer = settled(listener=True)
    consumer.poll()
    assert consumer.arrows == [
        "U -> PAC: poll",
        "PAC -> BEQ: poll",
        "PAC -> CRL: on_partitions_revoked [t-1]",
        "PAC -> AEQ: add callback completed",
        "PAC -> U: return",
    ]
    consumer.poll()
    assert consumer.arrows == [
        "U -> PAC: poll",
        "PAC -> BEQ: poll",
        "PAC -> AEQ: add apply assignment [t-0]",
        "PAC -> CRL: on_partitions_assigned []",
        "PAC -> AEQ: add callback completed",
        "BG: RECONCILING to ACKNOWLEDGING",
        "BG: ACKNOWLEDGING to STABLE",
        "PAC -> U: return",
    ]


def test_revoke_without_a_listener() -> None:
    """Nobody is asked: what is left is applied at once."""
    consumer = settled(listener=False)
    consumer.poll()
    assert consumer.arrows == [
        "U -> PAC: poll",
        "PAC -> BEQ: poll",
        "PAC -> AEQ: add apply assignment [t-0]",
        "PAC -> AEQ: add callback completed",
        "BG: RECONCILING to ACKNOWLEDGING",
        "BG: ACKNOWLEDGING to STABLE",
        "PAC -> U: return",
    ]


def test_revoke_with_a_listener_that_raises() -> None:
    """The run fails, nothing is assigned, and the next poll asks for the same callback again."""
    consumer = settled(listener=True, throws="on_partitions_revoked")
    assert consumer.poll().first is not None
    assert consumer.arrows == [
        "U -> PAC: poll",
        "PAC -> BEQ: poll",
        "PAC -> CRL: on_partitions_revoked [t-1]",
        "CRL -> PAC: throws",
        "PAC -> AEQ: add callback completed with 'the rebalance listener raised'",
        "PAC -> U: return",
    ]
    assert consumer.member.member.ownership.owned == (A, B)
    consumer.member.submit(AsyncPollEvent())
    consumer.turn()
    consumer.poll()
    assert consumer.arrows[2] == "PAC -> CRL: on_partitions_revoked [t-1]"


# One pass by itself

ASSIGNED = PartitionsAssignedEvent(2, (A,), (A,))
LOST = PartitionsRemovedEvent(1, ListenerMethod.LOST, (B,))
WRONG = ErrorEvent(KafkaError("TOPIC_AUTHORIZATION_FAILED", "t"))


def passed(
    events: list[BackgroundEvent], answer: Callable[[object], KafkaError | None], **how: bool
) -> tuple[list[object], Outcome]:
    asked: list[object] = []
    passing = process(events, **how)  # type: ignore[arg-type]
    given: KafkaError | None = None
    while True:
        try:
            asked.append(passing.send(given))
        except StopIteration as done:
            return asked, done.value
        given = answer(asked[-1])


def test_first_error_is_thrown_and_the_others_are_kept() -> None:
    """Every event is processed; the first error comes first, the others are for the log."""
    threw = KafkaError("KafkaException", "lost threw")
    asked, outcome = passed(
        [WRONG, LOST, WRONG], lambda a: threw if isinstance(a, InvokeListener) else None, listener=True
    )
    assert outcome == Outcome(WRONG.error, (threw, WRONG.error))
    assert asked == [
        InvokeListener(ListenerMethod.LOST, (B,)),
        ConsumerRebalanceListenerCallbackCompletedEvent(1, "lost threw"),
    ]


def test_later_errors_of_a_pass_are_logged() -> None:
    """A runtime throws the first error with its cause when the pass is over, and writes the others to the log."""
    ran, cause = Pass(), ValueError("no disk")
    ran.add(Outcome(KafkaError("KafkaException", "lost threw")), cause)
    ran.add(Outcome(WRONG.error), None)
    with capture_logs() as logged, pytest.raises(KafkaException, match="lost threw") as thrown:
        ran.throw()
    assert thrown.value.__cause__ is cause
    assert [(line["log_level"], line["error"], line["reason"]) for line in logged] == [
        ("warning", "TOPIC_AUTHORIZATION_FAILED", "t")
    ]


def test_later_errors_of_a_pass_on_one_thread_are_notes(embedded: Any) -> None:
    """Without a runtime the exception brings the others along: revoked and then lost raise in one pass."""
    consumer = embedded("4.4.0")
    consumer.turn(1_200, (("T", (0,)),))
    consumer.consumer.submit(AsyncPollEvent())
    (request,) = consumer.consumer.poll(2_400).unsent_requests
    fenced = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH)
    consumer.consumer.receive(Answered(request, fenced), 2_401)
    left = [ValueError("first"), ValueError("second")]

    def fail(_partitions: Partitions) -> None:
        raise left.pop(0)

    consumer.listener.on_partitions_revoked = consumer.listener.on_partitions_lost = fail
    with pytest.raises(KafkaException, match="listener raised: first") as thrown:
        consumer.run_callbacks(2_402)
    assert thrown.value.__notes__ == [
        "and later in the same pass: KafkaException: the rebalance listener raised: second"
    ]
    assert left == []


def test_assignment_that_cannot_be_applied_calls_nobody() -> None:
    """The run is told that it failed, and poll() throws."""
    refused = KafkaError("IllegalStateException", "assigned by hand")
    asked, outcome = passed(
        [ASSIGNED], lambda a: refused if isinstance(a, ApplyAssignmentEvent) else None, listener=True
    )
    assert asked == [
        ApplyAssignmentEvent(2, (A,), (A,)),
        ConsumerRebalanceListenerCallbackCompletedEvent(2, "assigned by hand"),
    ]
    assert outcome.first == refused


def test_unsubscribing_skips_assignments_but_not_releases() -> None:
    """While unsubscribe() waits, an assignment is failed without being applied; a lost callback runs."""
    asked, outcome = passed([ASSIGNED, LOST], lambda _a: None, listener=True, unsubscribing=True)
    assert asked == [
        ConsumerRebalanceListenerCallbackCompletedEvent(2, "not applied: the application unsubscribes"),
        InvokeListener(ListenerMethod.LOST, (B,)),
        ConsumerRebalanceListenerCallbackCompletedEvent(1, None),
    ]
    assert outcome == Outcome()


def test_assignment_applied_already_is_only_called_back() -> None:
    """Before 4.3 the background has applied it: the application only runs its callback."""
    applied = PartitionsAssignedEvent(2, (A,), (), apply=False)
    asked, _ = passed([applied], lambda _a: None, listener=True)
    assert asked == [
        InvokeListener(ListenerMethod.ASSIGNED, ()),
        ConsumerRebalanceListenerCallbackCompletedEvent(2, None),
    ]


# Queues and deadlines


def waiting(*calls: tuple[ApplicationEvent, int]) -> ConsumerMember:
    """A member with calls in its queue, each with the instant until which it may take."""
    member = ConsumerMember(ConsumerConfig("g", enable_auto_commit=False), member_id="M", now_ms=0)
    for event, deadline_ms in calls:
        member.submit(event, deadline_ms)
    return member


def test_events_are_taken_in_their_order() -> None:
    """A turn takes what is in the application queue, first in, first out; what is added meanwhile waits."""
    member, seen = waiting((AsyncPollEvent(), 100), (UnsubscribeEvent(), 100)), []

    def observe(given: Any, _effects: Any) -> None:
        seen.append(type(given).__name__)
        if len(seen) == 1:
            member.submit(AsyncPollEvent())

    member.observe = observe
    assert member.poll(0).time_until_next_poll_ms == 0
    assert seen == ["AsyncPollEvent", "UnsubscribeEvent", "Tick"]
    member.poll(0)
    assert seen[3:] == ["AsyncPollEvent", "Tick"]


def test_an_overdue_call_fails() -> None:
    """At its deadline a call fails, saying how late it is; its end after that is told to nobody."""
    member = stable_but_leaving(until_ms=100)
    assert member.poll(99).time_until_next_poll_ms == 1
    assert member.poll(99).completed_calls == ()
    (failed,) = member.poll(130).completed_calls
    assert failed.error == KafkaError("TimeoutException", "UnsubscribeEvent had until 100 ms, and it is 130 ms")
    released = member.next_background_event()
    assert isinstance(released, PartitionsRemovedEvent)
    member.report(ConsumerRebalanceListenerCallbackCompletedEvent(released.ticket), 131)
    assert member.poll(131).completed_calls == ()


def stable_but_leaving(until_ms: int) -> ConsumerMember:
    """A member whose unsubscribe() waits for the revoked callback until an instant."""
    consumer = Diagram(listener=True)
    consumer.target(0)
    consumer.poll()
    consumer.member.submit(UnsubscribeEvent(), until_ms)
    consumer.turn()
    return consumer.member


def test_close_fails_every_call_that_is_left() -> None:
    """What is still open at close fails, in the order of the calls."""
    member = stable_but_leaving(until_ms=1_000)
    member.close(2)
    member.run_callbacks(None, 3)
    while not member.closed:
        result = member.poll(60_000)
    calls = [done.call for done in result.completed_calls]
    assert calls == sorted(calls)
    assert "UnsubscribeEvent was still open when the consumer closed" in [
        c.error and c.error.message for c in result.completed_calls
    ]


@pytest.mark.parametrize("listener", [True, False])
def test_nothing_to_process_asks_nothing(listener: bool) -> None:
    """An empty queue makes an empty pass."""
    assert passed([], lambda _a: None, listener=listener) == ([], Outcome())
