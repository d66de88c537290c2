"""What tests of hazards and dialects share: a member told step by step, and one embedded in a shell."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fsm.member.consumer.state import new_member
from fsm.member.consumer.step import step
from fsm.member.dialect.dialect import DIALECTS, Dialect, dialect
from fsm.member.effects import CallCompleted, Enqueued, MemberEffect, UnsentRequest
from fsm.member.events import (
    ApplyAssignmentEvent,
    AsyncPollEvent,
    BackgroundEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
    TopicSubscriptionChangeEvent,
)
from fsm.member.inputs import Answered, CoordinatorFound, MetadataUpdated, Tick
from fsm.member.runtime.consumer_shell import ConsumerMember
from fsm.protocol.assignment import Partitions, TopicNames, topic_partitions
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from fsm.protocol.releases import LATEST
from fsm.tables.consumer_member import State

sys.path.insert(0, str(Path(__file__).parent))  # modules that the tests of this folder share are found by their names


class Story:
    """A member, driven step by step; partitions are those of topic t, by their numbers."""

    def __init__(self, release: Dialect | str = "4.4.0", *, listener: bool = True, **settings: Any) -> None:
        settings.setdefault("enable_auto_commit", False)
        rules = dialect(release) if isinstance(release, str) else release
        self.now_ms, self.listener = 0, listener
        self.member = new_member(ConsumerConfig("g", **settings), "M", rules, 0)
        self.background: list[BackgroundEvent] = []
        self.asked: list[UnsentRequest] = []
        self.do(CoordinatorFound())
        self.do(MetadataUpdated(TopicNames({"T": "t"})))

    def do(self, given: Any) -> tuple[MemberEffect, ...]:
        self.member, effects = step(self.member, given, self.now_ms)
        self.background += [e.event for e in effects if isinstance(e, Enqueued)]
        self.asked += [e for e in effects if isinstance(e, UnsentRequest)]
        return effects

    @property
    def state(self) -> State:
        return self.member.state

    @property
    def owned(self) -> list[int]:
        return [number for _, number in self.member.ownership.owned]

    @property
    def fetchable(self) -> list[int]:
        return [number for _, number in self.member.ownership.fetchable(self.member.subscription)]

    def subscribe(self, *topics: str) -> None:
        self.do(TopicSubscriptionChangeEvent(topics or ("t",), self.listener))
        self.poll()

    def poll(self) -> tuple[MemberEffect, ...]:
        return self.do(AsyncPollEvent())

    def tick(self, after_ms: int = 0) -> tuple[MemberEffect, ...]:
        self.now_ms += after_ms
        return self.do(Tick())

    def beat(self) -> None:
        """The next heartbeat on the interval."""
        self.tick(after_ms=1_200)

    @property
    def sent(self) -> ConsumerGroupHeartbeatRequest:
        """The last heartbeat."""
        body = self.asked[-1].body
        assert isinstance(body, ConsumerGroupHeartbeatRequest)
        return body

    def answer(self, *numbers: int, epoch: int = 1, code: ErrorCode = ErrorCode.NONE, to: int = -1) -> Any:
        """A response with these partitions as target."""
        assigned = topic_partitions({"T": numbers})
        return self.do(
            Answered(self.asked[to], ConsumerGroupHeartbeatResponse(epoch, 1_000, assigned, error_code=code))
        )

    def acknowledged(self, epoch: int = 1, to: int = -1) -> None:
        self.do(Answered(self.asked[to], ConsumerGroupHeartbeatResponse(epoch, 1_000)))

    def take(self, error: str | None = None) -> BackgroundEvent:
        """The application takes the next background event, and its callback ends so."""
        event = self.background.pop(0)
        assert isinstance(event, PartitionsAssignedEvent | PartitionsRemovedEvent)
        if isinstance(event, PartitionsAssignedEvent) and event.apply:
            effects = self.do(ApplyAssignmentEvent(event.ticket, event.full, event.added))
            self.refused = [e.error.name for e in effects if isinstance(e, CallCompleted) and e.error is not None]
        self.do(ConsumerRebalanceListenerCallbackCompletedEvent(event.ticket, error))
        return event

    def settle(self) -> None:
        """Polls, callbacks and heartbeats until nothing is left to reconcile."""
        for _ in range(4):
            self.poll()
            while self.background:
                self.take()
            self.tick()
            if self.member.heartbeat_in_flight:
                self.acknowledged()

    def join(self, *numbers: int) -> None:
        """Subscribes, joins and reconciles until it is stable."""
        self.subscribe()
        self.tick()
        self.answer(*numbers)
        self.poll()
        while self.background:
            self.take()
        self.tick()
        self.acknowledged()
        assert (self.state, self.owned) == (State.STABLE, list(numbers))


class Listener:
    """Takes note of its calls."""

    def __init__(self) -> None:
        self.called: list[tuple[str, Partitions]] = []
        self.during: Callable[[], None] = lambda: None

    def on_partitions_assigned(self, partitions: Partitions) -> None:
        self.called.append(("assigned", partitions))

    def on_partitions_revoked(self, partitions: Partitions) -> None:
        self.called.append(("revoked", partitions))
        self.during()

    def on_partitions_lost(self, partitions: Partitions) -> None:
        self.called.append(("lost", partitions))


class Embedded:
    """A consumer that owns partitions 0 and 1 of t, with the heartbeat of its acknowledgement answered."""

    def __init__(self, dialect: str, *, listens: bool = True, **settings: Any) -> None:
        config = ConsumerConfig("g", **{"enable_auto_commit": False} | settings)
        self.consumer = ConsumerMember(config, member_id="M", now_ms=0, dialect=dialect)
        self.listener, self.listens = Listener(), listens
        self.consumer.receive(CoordinatorFound(), 0)
        self.consumer.receive(MetadataUpdated(TopicNames({"T": "t"})), 0)
        self.consumer.submit(TopicSubscriptionChangeEvent(("t",), listener=listens))
        self.consumer.submit(AsyncPollEvent())
        self.turn(0, topic_partitions({"T": (0, 1)}))
        self.consumer.submit(AsyncPollEvent())
        early = self.consumer.poll(0).unsent_requests
        self.run_callbacks(0)
        self.turn(0, early=early)

    def turn(self, now_ms: int, assigned: Any = None, early: tuple[UnsentRequest, ...] = ()) -> None:
        """One turn of the loop, and the answer to the one heartbeat that is sent in it or was just before."""
        (request,) = (*early, *self.consumer.poll(now_ms).unsent_requests)
        self.consumer.receive(Answered(request, ConsumerGroupHeartbeatResponse(1, 1_000, assigned)), now_ms)

    def run_callbacks(self, now_ms: int, *, unsubscribing: bool = False) -> None:
        self.consumer.run_callbacks(self.listener if self.listens else None, now_ms, unsubscribing=unsubscribing)


@pytest.fixture
def story() -> type[Story]:
    """Tells of a member."""
    return Story


@pytest.fixture
def embedded() -> type[Embedded]:
    """Embeds a member."""
    return Embedded


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`@pytest.mark.hazard("4.0.0", "4.0.2")`: from that release to that one, or to the latest where none is named.

    Every other dialect is without it.
    """
    marked = metafunc.definition.get_closest_marker("hazard")
    if marked is None:
        return
    first, last = (DIALECTS.index(name) for name in (*marked.args, LATEST)[:2])
    names = [name for name in DIALECTS if name not in marked.kwargs.get("without", ())]
    cases = [(name, first <= DIALECTS.index(name) <= last) for name in names]
    metafunc.parametrize(("name", "has"), cases, ids=[f"{name}-{'has' if has else 'without'}" for name, has in cases])
