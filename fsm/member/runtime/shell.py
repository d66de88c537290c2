"""`MemberShell`: a member of either protocol with its two queues and the loop that a runtime runs.

`fsm.member.runtime.background` and `fsm.member.runtime.consumer_api` know a member by this class alone;
`fsm.member.runtime.consumer_shell` has the one of KIP-848, `fsm.member.runtime.classic_shell` that of the classic
protocol. A call with a waiting caller ends when the member completes it, at its deadline, or at close.

Source: `ConsumerNetworkThread.runOnce`, `ApplicationEventHandler`, `BackgroundEventHandler`, `CompletableEventReaper`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from fsm.errors import LocalProtocolError
from fsm.member.classic.state import UnsentClassicRequest
from fsm.member.effects import CallCompleted, UnsentRequest
from fsm.member.events import ApplicationEvent, AsyncPollEvent, BackgroundEvent, GroupMembershipOperation, KafkaError
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.member.runtime.answers import QUICK_CHECKS, check_answer
from fsm.member.runtime.trace import MemberTrace
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.messages import Offsets
from fsm.trace import Kind

Sent = TypeVar("Sent", bound=UnsentRequest | UnsentClassicRequest)
"""A request to be sent: `UnsentRequest` or `UnsentClassicRequest`."""
Metadata = TypeVar("Metadata")
"""Topic metadata: `TopicNames`, or for a classic member, which may lead its group, `PartitionCounts`."""


class PollResult(NamedTuple, Generic[Sent]):
    """The result of a turn of the loop."""

    unsent_requests: tuple[Sent, ...]
    """To be sent to the coordinator, in order."""
    time_until_next_poll_ms: int
    """Call `poll` again after this time, or earlier when something happens."""
    completed_calls: tuple[CallCompleted, ...] = ()
    coordinator_needed: bool = False
    """The coordinator is unknown: find it, then pass in `CoordinatorFound`."""
    metadata_needed: bool = False
    """The metadata lacks topics: update it, then pass it in."""
    notices: tuple[Any, ...] = ()
    """Notices of the member, for logs and traces."""


class MemberShell(ABC, Generic[Sent, Metadata]):
    """A member, its queues and its loop; used by one thread at a time."""

    answered: ClassVar[type[Any]]
    """The type of input for an answer: a request, its answer, jitter."""

    def __init__(self, config: ConsumerConfig, trace: MemberTrace | None) -> None:
        self.config = config
        self.trace = trace
        self.closed = False
        """close() is over: the loop need not run any more."""
        self._application: deque[ApplicationEvent] = deque()
        self._background: deque[BackgroundEvent] = deque()
        self._calls = 0
        self._waiting: dict[int, tuple[str, int]] = {}
        """The calls with a waiting caller: what was called, and the deadline."""
        self._completed: dict[int, CallCompleted] = {}
        self._requests: list[Sent] = []
        self._notices: list[Any] = []
        self._coordinator_needed = self._metadata_needed = False

    # What a runtime has to know

    @property
    @abstractmethod
    def member_id(self) -> str:
        """Its member id; empty as long as it has none."""

    @property
    @abstractmethod
    def member_epoch(self) -> int:
        """The last epoch from its coordinator, or a classic member's generation; at most 0 outside the group."""

    @property
    @abstractmethod
    def seeks_coordinator(self) -> bool:
        """Whether the runtime must find a coordinator."""

    @property
    @abstractmethod
    def is_subscribed(self) -> bool:
        """Whether it has a subscription or assignment."""

    @property
    @abstractmethod
    def owned(self) -> Partitions:
        """The owned partitions."""

    @abstractmethod
    def fetchable(self, *, checked: bool) -> Partitions:
        """The fetchable partitions; `checked` if the current poll has made its attempt to reconcile."""

    @property
    def poll_wanted_ms(self) -> int:
        """The instant from which another poll of the application has an effect."""
        return NEVER

    @property
    def throws_next(self) -> bool:
        """Whether poll() throws a waiting error before it does anything else."""
        return False

    @abstractmethod
    def backoff_ms(self, attempts: int, jitter: float) -> int:
        """How long to wait after so many failures."""

    def timeout_ms(self, _request: object) -> int:
        """How long the answer to a request may take."""
        return self.config.request_timeout_ms

    # What the application does

    def submit(self, event: ApplicationEvent, deadline_ms: int = NEVER) -> int:
        """Adds to the application queue; returns the number under which the call will be reported as completed.

        Raises `LocalProtocolError` once the consumer is closed.
        """
        if self.closed:
            raise LocalProtocolError("the consumer is closed; create a new one")
        self._calls = call = self._calls + 1
        self._waiting[call] = type(event).__name__, deadline_ms
        numbered = AsyncPollEvent(event.consumed, call=call) if type(event) is AsyncPollEvent else None
        self._application.append(numbered or replace(event, call=call))
        return call

    @abstractmethod
    def report(self, event: ApplicationEvent, now_ms: int) -> int:
        """Adds an event of a pass over background events; returns the number of the call to wait for, or 0."""

    @property
    def pending_background_events(self) -> int:
        """How many events wait for the application."""
        return len(self._background)

    def next_background_event(self) -> BackgroundEvent | None:
        """The next event for the application, or None."""
        return self._background.popleft() if self._background else None

    def close(
        self,
        now_ms: int,
        *,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
        timeout_ms: int = 30_000,
        consumed: Offsets | None = None,
    ) -> None:
        """Begins to close: commit, the last callback, leave.

        Run the loop and the callbacks until `closed`. `consumed` are the application's positions, if they have changed
        since the last processed poll. Another call does nothing.
        """
        if not self.closed and not self._is_closing:
            self._begin_close(now_ms, operation, timeout_ms, consumed)

    @property
    @abstractmethod
    def _is_closing(self) -> bool:
        """Whether close() has begun."""

    @abstractmethod
    def _begin_close(
        self, now_ms: int, operation: GroupMembershipOperation, timeout_ms: int, consumed: Offsets | None
    ) -> None: ...

    # What the background does

    def receive_answer(self, order: Sent, answer: Any, jitter: float, now_ms: int) -> None:
        """Takes the answer to a request, or its failure.

        Raises `RemoteProtocolError` for an answer to no request or with invalid content; the member is then unchanged.
        """
        is_good = QUICK_CHECKS.get((type(order.body), type(answer)))
        if is_good is None or not is_good(answer):
            check_answer(order.body, answer, self.list_names)
        self._step(self.answered(order, answer, jitter), now_ms)

    def find_coordinator(self, now_ms: int) -> None:
        """Requests may be sent."""
        self._step(CoordinatorFound(), now_ms)

    def lose_coordinator(self, error: KafkaError, now_ms: int) -> None:
        """There is no coordinator any more; `error` is for the application."""
        self._step(CoordinatorLost(error), now_ms)

    def list_names(self) -> Mapping[str, str]:
        """The names of topics by id, as far as the member needs them."""
        return {}

    @abstractmethod
    def learn(self, metadata: Metadata, now_ms: int) -> bool:
        """Takes metadata; returns whether they are new."""

    @abstractmethod
    def fail_metadata(self, error: KafkaError, now_ms: int) -> None:
        """Fetching the metadata failed: the next poll fails."""

    def poll(self, now_ms: int, jitter: float = 0.0) -> PollResult[Sent]:
        """One turn of the loop: the application queue, timers, overdue calls.

        Once closed, a turn only returns the unsent requests of close().
        """
        self._turn(now_ms, Tick(jitter) if jitter else NO_JITTER)
        next_ms = self._fail_overdue(now_ms) if self._waiting else NEVER
        requests, self._requests = self._requests, []
        notices, self._notices = self._notices, []
        completed, self._completed = self._completed, {}
        coordinator_needed, self._coordinator_needed = self._coordinator_needed, False
        metadata_needed, self._metadata_needed = self._metadata_needed, False
        wait_ms = 0 if self._application else max(0, min(next_ms, self._next_ms(now_ms)) - now_ms)
        return PollResult(
            tuple(requests), wait_ms, tuple(completed.values()), coordinator_needed, metadata_needed, tuple(notices)
        )

    def _turn(self, now_ms: int, tick: Tick) -> None:
        """The application queue, then the tick."""
        if not self.closed:
            self._drain(now_ms)
            self._step(tick, now_ms)

    @abstractmethod
    def _step(self, given: Any, now_ms: int) -> None:
        """Takes one step of the member; its effects go into the queues and the next result."""

    @abstractmethod
    def _next_ms(self, now_ms: int) -> int:
        """The instant of the next turn that has an effect without input."""

    def _note(self, now_ms: int | None, kind: Kind) -> None:
        if self.trace is not None:
            self.trace.write(now_ms, kind, thread="app")

    def _drain(self, now_ms: int) -> None:
        """Processes the events now in the application queue, in order; later ones wait for the next turn."""
        for _ in range(len(self._application)):
            event = self._application.popleft()
            try:
                self._step(event, now_ms)
            except LocalProtocolError as refused:
                self._complete(CallCompleted(event.call, KafkaError("IllegalStateException", str(refused))))

    def _complete(self, done: CallCompleted) -> None:
        """Completes a call; if its caller no longer waits, only a failure is reported."""
        if self._waiting.pop(done.call, None) is not None or done.error is not None:
            self._completed[done.call] = done

    def _fail_overdue(self, now_ms: int) -> int:
        """Fails the calls past their deadline, once closed all calls; returns the next deadline."""
        next_ms, closed = NEVER, self.closed
        for call, (name, deadline_ms) in sorted(self._waiting.items()):
            if closed:
                text = f"{name} was still open when the consumer closed"
            elif now_ms >= deadline_ms:
                text = f"{name} had until {deadline_ms} ms, and it is {now_ms} ms"
            else:
                next_ms = min(next_ms, deadline_ms)
                continue
            self._complete(CallCompleted(call, KafkaError("TimeoutException", text)))
        return next_ms


NO_JITTER = Tick()
