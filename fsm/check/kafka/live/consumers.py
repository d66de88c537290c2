"""The live consumers of a replay, with their own clocks, call numbers and generators."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from fsm.check.kafka.application import (
    CLOSE_NOW,
    CLOSE_OVER,
    ENDED,
    GOES_ON_AFTER,
    INTERRUPT,
    INTERRUPTED,
    PASSES,
    RAISED,
    RAISES,
    TURNS,
    App,
    is_tried_again,
    list_used_after,
    positions,
)
from fsm.check.kafka.classic.member import CALLBACK_INTERRUPTED, SESSION_OVER, ClassicModel
from fsm.check.kafka.classic.shell import interrupt, list_pending
from fsm.check.kafka.classic.shell import observe as observe_classic
from fsm.check.kafka.consumer.member import FIND, FOUND, ConsumerModel, MemberModel, id_of, list_fetched
from fsm.check.kafka.consumer.shell import observe
from fsm.check.kafka.descriptions import Seen
from fsm.member.classic.state import ClassicConfig
from fsm.member.effects import CallCompleted
from fsm.member.events import KafkaError, SyncCommitEvent, UnsubscribeEvent
from fsm.member.runtime.classic_shell import ClassicConsumerMember
from fsm.member.runtime.consumer_shell import ConsumerMember
from fsm.member.runtime.queues import InvokeListener, Pass, process
from fsm.member.runtime.shell import MemberShell
from fsm.member.runtime.trace import TraceTo
from fsm.protocol.assignment import Partitions, among, partitions, without

REQUEST_TIMEOUT_MS = 30_000
AUTO_COMMIT_MS = 5_000
LONG_MS = 1_000_000_000
"""A timer that expires only if the path says so."""


T = TypeVar("T", bound="LiveMember")


class Sent:
    """The send times of requests in flight."""

    def __init__(self) -> None:
        self._many = 0
        self._known: dict[int, tuple[Any, str, int]] = {}
        """Each request with its name and time, by its identity, which is unique while it is kept here."""

    def note(self, under_way: Iterable[Any], now_ms: int) -> list[tuple[Any, str, int]]:
        """The requests in flight, each with its name and the time when it was first seen."""
        before, self._known = self._known, {}
        for order in under_way:
            known = before.get(id(order))
            self._many += known is None
            self._known[id(order)] = known or (order, f"request {self._many}", now_ms)
        return list(self._known.values())


class Abandoned:
    """The requests that a client has abandoned and a broker has not handled, each with its connection."""

    def __init__(self) -> None:
        self.connection = 0
        """The number of the client's connection; another one follows when it abandons a request."""
        self._orders: list[tuple[int, Any]] = []

    def add(self, orders: Iterable[Any]) -> None:
        """Adds requests of the connection, which is closed, even without one."""
        self._orders += [(self.connection, order) for order in orders]
        self.connection += 1

    def take(self, is_it: Callable[[Any], bool]) -> tuple[int, Any] | None:
        """The connection of a request, and the request, which now arrives; None if there is none like it."""
        at = next((i for i, (_, order) in enumerate(self._orders) if is_it(order)), None)
        return None if at is None else self._orders.pop(at)


class LiveMember:
    """A consumer with its own clock, its application and its connection."""

    def __init__(self, shell: MemberShell[Any, Any], model: MemberModel, now_ms: int, life: int) -> None:
        """`life` is the number of the process of the consumer."""
        self.shell, self.name, self.setting, self.now_ms, self.life = shell, model.name, model.setting, now_ms, life
        self._metadata = model.metadata
        self.shell.find_coordinator(now_ms)
        self.shell.learn(self._metadata(()), now_ms)
        self.app, self.call, self.commit_call = App.IDLE, 0, 0
        self.running: Pass | None = None
        self.asked: InvokeListener | None = None
        self.asked_for_coordinator = self.is_interrupted = False
        self.close_due_ms = 0
        self.using: Partitions = ()
        self.out: list[Any] = []
        self.late = Abandoned()
        self.back: list[tuple[Any, Any]] = []
        self.sent = Sent()

    def hand_over(self, after: T) -> T:
        """Passes the requests in flight to the next process of the same consumer, as late ones."""
        self.late.add(self.out)
        after.late = self.late
        return after

    @abstractmethod
    def next_life(self) -> LiveMember:
        """Starts another process of the same consumer."""

    @property
    @abstractmethod
    def seen(self) -> Seen:
        """The parts of its state that it shares with the model."""

    @property
    @abstractmethod
    def heartbeat_due_ms(self) -> int:
        """When it sends its next heartbeat."""

    @property
    @abstractmethod
    def poll_due_ms(self) -> int:
        """The deadline of the next poll."""

    @property
    def is_member(self) -> bool:
        """Whether it has an epoch."""
        return False

    @property
    def poll_wanted_ms(self) -> int:
        """The instant from which a poll makes progress."""
        return 0

    def timers(self) -> dict[str, int]:
        """When each of its timers expires, by its own clock; request timeouts included."""
        waits = self.sent.note((*self.out, *(order for order, _ in self.back)), self.now_ms)
        due_ms = {name: at_ms + REQUEST_TIMEOUT_MS for _, name, at_ms in waits}
        return {"heartbeat": self.heartbeat_due_ms, "poll": self.poll_due_ms, **due_ms}

    def act(self, what: str) -> None:
        """Takes a step: a choice, or the end of a request."""
        self.now_ms += 1
        if what == "is killed":
            self._end(App.DEAD)
            return
        if what == "hangs in its callback":
            self.app = App.HUNG
            return
        self._let_pass(what)
        self._hand_in(what)
        self._turn()
        if what in PASSES:
            self.is_interrupted = what == INTERRUPTED
            self._pass()
        if self.app is App.LEAVING and not self.call and self.asked is None:
            self.app = App.LEFT
        if self.shell.closed:
            self.app, self.using = App.CLOSED, ()
        elif self.app is App.RUNNING and self.asked is None and what in PASSES:
            self.using = partitions((*self.using, *self.shell.fetchable(checked=True)))

    def _let_pass(self, what: str) -> None:
        due_ms = {
            "polls": self.poll_wanted_ms,
            CLOSE_OVER: self.close_due_ms,
            "heartbeat interval is over": self.heartbeat_due_ms,
            "poll timer runs out": self.poll_due_ms,
            "backoff of its commit is over": self.commit_ready_ms,
        }
        self.now_ms = max(self.now_ms, due_ms.get(what, 0))

    def _hand_in(self, what: str) -> None:
        match what:
            case "subscribes" | "subscribes otherwise":
                self.app = App.RUNNING
                self.shell.submit(self.setting.subscribe(what))
            case str() if what in ("polls", INTERRUPTED):
                self.shell.submit(self.setting.polls(self.using))
            case "unsubscribes":
                self.app = App.LEAVING
                self.call = self.shell.submit(UnsubscribeEvent())
            case "commits" | "commits and waits" | "commits again":
                self.commit_call = self.shell.submit(SyncCommitEvent(positions(self.using)))
                self.app = App.RUNNING if what == "commits" else App.COMMITTING
            case str() if what in ("closes", CLOSE_NOW):
                self.app, self.close_due_ms = App.CLOSING, self.now_ms + LONG_MS
                self.shell.close(self.now_ms, timeout_ms=0 if what == CLOSE_NOW else LONG_MS)
            case "returns from its callback":
                self._end_callback()
            case str() if what == RAISES:
                self._end_callback(RAISED)

    def _end(self, app: App) -> None:
        """Ends its process; its requests in flight become late."""
        self.late.add(self.out)
        self.out, self.back, self.app, self.using = [], [], app, ()

    @property
    def commit_ready_ms(self) -> int:
        """When it may retry a commit."""
        return 0

    def learn(self, changes: Sequence[str]) -> None:
        if self.app not in ENDED:
            self.shell.learn(self._metadata(changes), self.now_ms)
            self.act("")

    def end(self, order: Any, answer: Any) -> None:
        """Ends a request with its response, or abandons it."""
        if self.app in ENDED:
            return
        if order == FIND:
            self.asked_for_coordinator = False
            if answer == FOUND:
                self.shell.find_coordinator(self.now_ms + 1)
        else:
            self.shell.receive_answer(order, answer, 0.0, self.now_ms + 1)
        self.act("")

    def _turn(self) -> None:
        for _ in range(TURNS):
            result = self.shell.poll(self.now_ms)
            self.out += result.unsent_requests
            if self.call in {done.call for done in result.completed_calls}:
                self.call = 0
            self._end_commit(result.completed_calls)
            if self.shell.seeks_coordinator and self.setting.searches:
                self.out += [] if self.asked_for_coordinator else [FIND]
                self.asked_for_coordinator = True
                return
            if self.shell.seeks_coordinator:
                self.shell.find_coordinator(self.now_ms)
            elif result.time_until_next_poll_ms > 0:
                return

    def _end_commit(self, completed: Iterable[CallCompleted]) -> None:
        ended = next((one for one in completed if one.call == self.commit_call), None)
        if self.app is App.COMMITTING and ended is not None:
            again = is_tried_again(ended.error, is_member=self.is_member)
            self.app = App.RETRYING if again else App.RUNNING

    def _end_callback(self, raised: KafkaError | None = None) -> None:
        if self.asked is None:
            return
        over, self.asked = self.asked, None
        if self.shell.trace is not None:
            self.shell.trace.end_callback(over, raised, self.now_ms)
        self.using = list_used_after(over, self.using, raised)
        self._process(raised)

    def _pass(self) -> None:
        """Continues to process background events, or begins to."""
        if self.running is None:
            events = iter(self.shell.next_background_event, None)
            self.running = process(events, listener=True, unsubscribing=self.app is App.LEAVING)
            self._process()
        self._turn()

    def _process(self, answer: KafkaError | None = None) -> None:
        while self.running is not None and self.asked is None:
            try:
                asked = self.running.send(answer)
            except StopIteration as done:
                self.running, first = None, done.value.first
                if first is not None and first.name not in GOES_ON_AFTER:
                    self._end(App.CRASHED)
                return
            if isinstance(asked, InvokeListener):
                self.asked = asked
                if self.shell.trace is not None:
                    self.shell.trace.begin_callback(asked, self.now_ms)
                return
            call = self.shell.report(asked, self.now_ms)
            answer = None
            if call:
                result = self.shell.poll(self.now_ms)
                self.out += result.unsent_requests
                answer = next((one.error for one in result.completed_calls if one.call == call), None)
                answer = INTERRUPT if self.is_interrupted else answer


class LiveConsumer(LiveMember):
    """A consumer of KIP-848."""

    shell: ConsumerMember

    def __init__(
        self, model: ConsumerModel, now_ms: int, max_poll_interval_ms: int, trace: TraceTo | None, *, life: int = 0
    ) -> None:
        self.model, self._made_of = model, (max_poll_interval_ms, trace)
        interval_ms = LONG_MS if max_poll_interval_ms == LONG_MS else AUTO_COMMIT_MS
        config = model.setting.config(model.name, max_poll_interval_ms, LONG_MS, interval_ms)
        member_id = id_of(model.name, life)
        shell = ConsumerMember(config, member_id=member_id, now_ms=now_ms, dialect=model.dialect, trace=trace)
        super().__init__(shell, model, now_ms, life)

    def next_life(self) -> LiveConsumer:
        return LiveConsumer(self.model, self.now_ms, *self._made_of, life=self.life + 1)

    @property
    def commit_ready_ms(self) -> int:
        commit = self.shell.member.commit
        return 0 if commit is None else commit.request.ready_ms

    def act(self, what: str) -> None:
        """Takes a step; a long auto-commit interval ends at once, because heartbeats would be due meanwhile."""
        member = self.shell.member
        if what == "auto-commit interval is over" and self._made_of[0] == LONG_MS:
            self.shell.member = replace(member, auto_commit=replace(member.auto_commit, due_ms=self.now_ms))
        super().act(what)
        if self.setting.fewer:
            self.using = list_fetched(self.shell.member, self.using)

    def timers(self) -> dict[str, int]:
        found = super().timers()
        if self.commit_ready_ms > self.now_ms:
            found["commit"] = self.commit_ready_ms
        if self.setting.commits:
            found["auto-commit"] = self.shell.member.auto_commit.due_ms
        return found

    @property
    def seen(self) -> Seen:
        return observe(self.app, self.shell.member, self.using)

    @property
    def is_member(self) -> bool:
        return self.shell.member.epoch > 0

    @property
    def heartbeat_due_ms(self) -> int:
        return max(self.shell.member.heartbeat_due_ms, self.shell.member.heartbeat_ready_ms)

    @property
    def poll_due_ms(self) -> int:
        return self.shell.member.poll_due_ms


class LiveClassic(LiveMember):
    """A consumer of the classic protocol."""

    shell: ClassicConsumerMember

    def __init__(
        self,
        model: ClassicModel,
        now_ms: int,
        config: ClassicConfig | None = None,
        trace: TraceTo | None = None,
        *,
        life: int = 0,
    ) -> None:
        self.model, self.config, self.trace = model, config or model.config, trace
        shell = ClassicConsumerMember(self.config, trace=trace, now_ms=now_ms)
        super().__init__(shell, model, now_ms, life)
        self.pending: Partitions = ()

    def next_life(self) -> LiveClassic:
        return LiveClassic(self.model, self.now_ms, self.config, self.trace, life=self.life + 1)

    @property
    def seen(self) -> Seen:
        return observe_classic(self.app, self.shell.member, self.using)

    @property
    def heartbeat_due_ms(self) -> int:
        return self.shell.member.heartbeats.heartbeat_due_ms

    @property
    def poll_due_ms(self) -> int:
        return self.shell.member.heartbeats.poll_due_ms

    @property
    def poll_wanted_ms(self) -> int:
        member = self.shell.member
        retries = (member.commit and member.commit.retry_due_ms, member.closing and member.closing.retry_due_ms)
        return max(member.retry_due_ms, *(at_ms or 0 for at_ms in retries))

    def act(self, what: str) -> None:
        """Carries out an action; a closing consumer does not poll, so its commit is retried here.

        The deadline of close() and the session end at once, because heartbeats would be due meanwhile.
        """
        member, what = self.shell.member, self.model.find_end(what)
        if self.app is App.CLOSING:
            self.now_ms = max(self.now_ms, self.poll_wanted_ms)
        if what == CLOSE_OVER and member.closing is not None:
            self.close_due_ms = self.now_ms
            self.shell.member = replace(member, closing=replace(member.closing, due_ms=self.now_ms))
        if what == CALLBACK_INTERRUPTED:
            self.shell.member, self.asked, self.running = interrupt(member), None, None
            self.pending = list_pending(self.shell.member)
        if what == SESSION_OVER:
            self.shell.member = replace(member, heartbeats=replace(member.heartbeats, session_due_ms=self.now_ms))
        super().act(what)
        if self.app is App.RUNNING:
            self.pending = among(self.shell.member.owned, self.pending)
            self.using = without(among(self.shell.member.owned, self.using), self.pending)
