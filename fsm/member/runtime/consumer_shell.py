"""`ConsumerMember`: one member, its two queues, and the loop that its runtime runs.

The runtime owns threads, sockets and clocks. It submits application events, passes in responses, calls `poll` after any
of them or when its time has come, sends the returned requests, and runs requested callbacks:

    member = ConsumerMember(ConsumerConfig("g"), member_id="...", now_ms=0)
    member.receive(CoordinatorFound(), now_ms)
    member.submit(TopicSubscriptionChangeEvent(("t",), listener=True))
    member.submit(AsyncPollEvent())
    result = member.poll(now_ms)                  # result.unsent_requests holds the joining heartbeat
    member.receive(Answered(request, response), now_ms)
    member.run_callbacks(listener, now_ms)        # raises the errors for the application

Source: `ConsumerNetworkThread.runOnce`, `AsyncKafkaConsumer.poll`, `.unsubscribe`, `.close`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fsm.member import events, inputs
from fsm.member.consumer.decisions import SILENT, list_recreated, may_collect, next_tick_ms
from fsm.member.consumer.state import Member, Origin, new_member
from fsm.member.consumer.step import step
from fsm.member.consumer.subscription import SubscriptionType
from fsm.member.dialect.choices import Choice
from fsm.member.dialect.dialect import Dialect
from fsm.member.dialect.dialect import dialect as release
from fsm.member.effects import (
    AssignmentUpdated,
    CallCompleted,
    CoordinatorForgotten,
    Enqueued,
    EpochUpdated,
    MemberEffect,
    MetadataNeeded,
    Notice,
    UnsentRequest,
)
from fsm.member.runtime import queues
from fsm.member.runtime.answers import check_answer, check_names
from fsm.member.runtime.shell import MemberShell
from fsm.member.runtime.trace import ConsumerTrace, TraceTo
from fsm.member.timers import NEVER, backoff_ms
from fsm.protocol.assignment import Partitions, TopicNames, partitions, without
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.messages import Offsets
from fsm.protocol.releases import LATEST
from fsm.trace import Kind

News = (
    inputs.Answered | inputs.CoordinatorFound | inputs.CoordinatorLost | inputs.MetadataUpdated | inputs.MetadataFailed
)

CLOSE_TICKET = 0
"""The ticket of the callback of close(), for which only close() waits."""

CALLBACK = -1
"""Stands for that callback where close() waits for a call; a call's number is positive."""


class ConsumerMember(MemberShell[UnsentRequest, TopicNames]):
    """A consumer's membership in its group; embed one per consumer and never share it between threads unlocked."""

    answered = inputs.Answered

    def __init__(
        self,
        config: ConsumerConfig,
        *,
        member_id: str,
        now_ms: int,
        dialect: Dialect | str = LATEST,
        trace: TraceTo | None = None,
        trace_offset_ms: int = 0,
    ) -> None:
        """`trace` is a file, or a function for each record; with the offset `now_ms` becomes epoch milliseconds."""
        rules = release(dialect) if isinstance(dialect, str) else dialect
        self.member: Member = new_member(config, member_id, rules, now_ms)
        super().__init__(config, None if trace is None else ConsumerTrace(trace, self.member, trace_offset_ms, now_ms))
        self.assignment: Partitions = ()
        """The application's own record of its assignment."""
        self.generation = -1
        """The application's record of its last positive epoch; -1 if it never had one."""
        self._closing: Iterator[int] | None = None
        self._awaiting = 0
        self._close_deadline_ms = NEVER
        self.observe: Callable[[inputs.MemberInput, tuple[MemberEffect, ...]], None] | None = None
        """Called after each step of the member with its input and its result; for traces and pictures."""
        self.stepped_from = self.member
        """The member before the step of the current call of `observe`."""

    # What a runtime has to know

    @property
    def member_id(self) -> str:
        """Constant for the life of the consumer."""
        return self.member.member_id

    @property
    def member_epoch(self) -> int:
        return self.member.epoch

    @property
    def seeks_coordinator(self) -> bool:
        """Whether no coordinator is known and close() has not begun."""
        return not self.closed and not self.member.client.coordinator_known and not self.member.leaving.closing

    @property
    def is_subscribed(self) -> bool:
        return self.member.subscription.kind is not SubscriptionType.NONE

    @property
    def owned(self) -> Partitions:
        return self.member.ownership.owned

    def fetchable(self, *, checked: bool) -> Partitions:
        """Partitions that may be fetched, as far as the membership is concerned."""
        if not may_collect(self.member, checked=checked):
            return ()
        fetchable, recreated = self.member.ownership.fetchable(self.member.subscription), list_recreated(self.member)
        return tuple(p for p in fetchable if p[0] not in recreated) if recreated else fetchable

    def backoff_ms(self, attempts: int, jitter: float) -> int:
        return backoff_ms(self.config, self.member.settings.choices, attempts, jitter)

    # What the application does

    def report(self, event: events.ApplicationEvent, now_ms: int) -> int:
        """Adds an event of a pass over background events; returns the number of an `ApplyAssignmentEvent`'s call, else
        0. The driver of `fsm.member.runtime.queues.process` waits only for such a call.
        """
        if isinstance(event, events.ConsumerRebalanceListenerCallbackCompletedEvent) and event.ticket == CLOSE_TICKET:
            self._awaiting = 0
            return 0
        if self._ends_at_once(event):
            self._step(event, now_ms)
            return 0
        call = self.submit(event)
        if isinstance(event, events.ApplyAssignmentEvent):
            return call
        del self._waiting[call]
        return 0

    def _ends_at_once(self, event: events.ApplicationEvent) -> bool:
        """Whether the application's thread does the background's work, bypassing the queue (H18)."""
        if self.closed or not isinstance(event, events.ConsumerRebalanceListenerCallbackCompletedEvent):
            return False
        if Choice.UNHEARD_AT_ONCE not in self.member.settings.choices:
            return False
        assigns = any(a.ticket == event.ticket and a.origin is Origin.RUN_ASSIGNED for a in self.member.awaited)
        return assigns and (not self.member.subscription.listener or event.error == queues.SKIPPED)

    def next_background_event(self) -> events.BackgroundEvent | None:
        event = super().next_background_event()
        asks_member = Choice.CLOSE_ASKS_MEMBER in self.member.settings.choices
        if asks_member and isinstance(event, events.PartitionsRemovedEvent):  # before the callback for them
            self.assignment = without(self.assignment, event.partitions)
        return event

    def run_callbacks(
        self, listener: queues.ConsumerRebalanceListener | None, now_ms: int, *, unsubscribing: bool = False
    ) -> queues.Outcome:
        """The application's pass over its queue, on one thread: applies assignments, runs callbacks, reports their end.

        Raises `KafkaException` with the first error, after every event was processed; the others are its notes, for
        the caller to log. An interrupt out of a callback comes out once the end of that callback is reported; what is
        still in the queue waits for the next pass.
        """
        taken = filter(None, (self.next_background_event() for _ in range(len(self._background))))
        running = queues.process(taken, listener=listener is not None, unsubscribing=unsubscribing)
        answer: events.KafkaError | None = None
        interrupt: BaseException | None = None
        while True:
            try:
                asked = running.send(answer)
            except StopIteration as done:
                outcome: queues.Outcome = done.value
                break
            if isinstance(asked, queues.InvokeListener):
                answer, interrupt = self._invoke(listener, asked, now_ms)
                continue
            answer = self._do(asked, now_ms)
            if interrupt is not None:
                raise interrupt
        first = outcome.to_throw(unsubscribing=unsubscribing)
        if first is not None:
            thrown = queues.KafkaException(first)
            for error in outcome.others:
                thrown.add_note(f"and later in the same pass: {error.name}: {error.message}")
            raise thrown
        return outcome

    def _invoke(
        self, listener: queues.ConsumerRebalanceListener | None, asked: queues.InvokeListener, now_ms: int
    ) -> tuple[events.KafkaError | None, BaseException | None]:
        """Runs a callback; returns its exception as the application will see it, and the interrupt, if it was one."""
        trace = None if listener is None else self.trace
        if trace is not None:
            trace.begin_callback(asked, now_ms)
        raised = queues.invoke(listener, asked)
        error = None if raised is None else queues.callback_error(raised)
        if trace is not None:
            trace.end_callback(asked, error, now_ms)
        return error, None if isinstance(raised, Exception) else raised

    def _do(self, event: events.ApplicationEvent, now_ms: int) -> events.KafkaError | None:
        """Adds an event of a pass; for an assignment to be applied, waits for the end of it."""
        call = self.report(event, now_ms)
        if not call:
            return None
        self._drain(now_ms)
        done = self._completed.get(call)
        return None if done is None else done.error

    # What the background thread does

    def receive(self, news: News, now_ms: int) -> None:
        """Takes an input from the network. Raises `RemoteProtocolError` for an invalid one."""
        if type(news) is inputs.Answered:
            check_answer(news.request.body, news.answer, self.list_names)
        elif type(news) is inputs.MetadataUpdated:
            check_names(news.names)
        self._step(news, now_ms)

    def list_names(self) -> TopicNames:
        return self.member.client.metadata

    def learn(self, metadata: TopicNames, now_ms: int) -> bool:
        """Takes topic names by id; returns whether they have changed."""
        if metadata == self.member.client.metadata and not self.member.client.metadata_moved:
            return False
        self.receive(inputs.MetadataUpdated(metadata), now_ms)
        return True

    def fail_metadata(self, error: events.KafkaError, now_ms: int) -> None:
        self.receive(inputs.MetadataFailed(error), now_ms)

    def _turn(self, now_ms: int, tick: inputs.Tick) -> None:
        """The application queue, commits, heartbeat, reconciliation; close() goes on before and after."""
        if self._closing is not None:
            self._close_on(now_ms)
        if not self.closed:
            self._drain(now_ms)
            self._step(tick, now_ms)
            if self._closing is not None:
                self._close_on(now_ms)

    def _step(self, given: inputs.MemberInput, now_ms: int) -> None:
        before = self.member
        self.member, effects = step(before, given, now_ms)
        if self.trace is not None:
            self.trace.step(before, given, effects, self.member, now_ms)
        if self.observe is not None:
            self.stepped_from = before
            self.observe(given, effects)
        for effect in effects:
            self._take(effect)

    def _take(self, effect: MemberEffect) -> None:
        match effect:
            case UnsentRequest():
                self._requests.append(effect)
            case CallCompleted(call=call, error=error):
                name, _ = self._waiting.get(call, ("", NEVER))
                if error is None and name == events.UnsubscribeEvent.__name__:  # the application's record loses only
                    self.generation = -1  # its generation (H20)
                    self._note(None, Kind.UNSUBSCRIBED)
                self._complete(effect)
            case Enqueued(event=event):
                if self._closing is None:  # close() ignores answers once it has begun
                    self._background.append(event)
            case CoordinatorForgotten():
                self._coordinator_needed = True
            case MetadataNeeded():
                self._metadata_needed = True
            case AssignmentUpdated(partitions=assigned):
                self.assignment = assigned
            case EpochUpdated(epoch=int(epoch)):
                self.generation = epoch
        if isinstance(effect, Notice):
            self._notices.append(effect)

    def _next_ms(self, now_ms: int) -> int:
        closing = self._close_deadline_ms if self._closing is not None and self._awaiting > 0 else NEVER
        return min(next_tick_ms(self.member, now_ms), closing)

    # Close

    @property
    def _is_closing(self) -> bool:
        return self._closing is not None

    def _begin_close(
        self, now_ms: int, operation: events.GroupMembershipOperation, timeout_ms: int, consumed: Offsets | None
    ) -> None:
        """Begins close(). It takes at most the smaller of `timeout_ms` and the request timeout, plus the time of the
        callback, which no timeout interrupts.
        """
        self._note(now_ms, Kind.CLOSE_BEGIN)
        self._close_deadline_ms = now_ms + min(timeout_ms, self.member.settings.config.request_timeout_ms)
        self._closing = self._close(operation, self.member.auto_commit.consumed if consumed is None else consumed)
        self._close_on(now_ms)

    def _close(self, operation: events.GroupMembershipOperation, positions: Offsets) -> Iterator[int]:
        """The steps of close(); yields the number of the call that it waits for."""
        consumed = tuple((p, offset) for p, offset in positions if p in self.member.ownership.owned)
        if self.member.settings.config.enable_auto_commit and consumed:
            yield self.submit(events.SyncCommitEvent(consumed), self._close_deadline_ms)
        yield from self._end_membership(operation)

    def _end_membership(self, operation: events.GroupMembershipOperation) -> Iterator[int]:
        self.submit(events.CommitOnCloseEvent())
        self.submit(events.StopFindCoordinatorOnCloseEvent())
        last = self._last_callback(tuple(self._background))
        self._background.clear()
        if last.partitions and self.member.subscription.listener:
            self._background.append(last)
            yield CALLBACK
        yield from self._leave(operation)

    def _leave(self, operation: events.GroupMembershipOperation) -> Iterator[int]:
        yield self.submit(events.LeaveGroupOnCloseEvent(operation=operation), self._close_deadline_ms)

    def _last_callback(self, unheard: tuple[events.BackgroundEvent, ...]) -> events.PartitionsRemovedEvent:
        """The last callback of close(): by the application's record, or by notices that it has not received yet."""
        if Choice.CLOSE_ASKS_MEMBER not in self.member.settings.choices:
            method = events.ListenerMethod.REVOKED if self.generation > 0 else events.ListenerMethod.LOST
            return events.PartitionsRemovedEvent(CLOSE_TICKET, method, self.assignment)
        belongs = self.member.epoch > 0 and self.member.state not in SILENT
        removed = (p for event in unheard if isinstance(event, events.PartitionsRemovedEvent) for p in event.partitions)
        method = events.ListenerMethod.REVOKED if belongs else events.ListenerMethod.LOST
        return events.PartitionsRemovedEvent(CLOSE_TICKET, method, partitions((*self.assignment, *removed)))

    def _close_on(self, now_ms: int) -> None:
        """Continues close() until it has to wait; after its deadline it waits for no call."""
        while self._closing is not None:
            if self._awaiting == CALLBACK:
                return
            waits = self._awaiting and self._awaiting not in self._completed
            if waits and now_ms < self._close_deadline_ms:
                return
            self._awaiting = next(self._closing, 0)
            if not self._awaiting:
                self._shut_down(now_ms)
            elif self._awaiting != CALLBACK:
                self._drain(now_ms)

    def _shut_down(self, now_ms: int) -> None:
        self._drain(now_ms)
        self._step(inputs.CloseFlush(), now_ms)
        for awaited in self.member.awaited:
            failed = "the callback was still open when the consumer closed"
            self._step(events.ConsumerRebalanceListenerCallbackCompletedEvent(awaited.ticket, failed), now_ms)
        self._closing, self.closed = None, True
        self._background.clear()
        self._fail_overdue(now_ms)
        self._note(now_ms, Kind.CLOSE_END)
