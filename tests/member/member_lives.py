"""A consumer member and a world that does anything to it, for random walks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from random import Random
from typing import Any

from fsm.member.consumer.invariants import INVARIANTS, Status, Watch
from fsm.member.consumer.state import new_member
from fsm.member.consumer.step import Step, step
from fsm.member.dialect.dialect import Dialect
from fsm.member.effects import CallCompleted, Enqueued, MemberEffect, Purpose, UnsentRequest
from fsm.member.events import (
    OUTDATED,
    ApplyAssignmentEvent,
    AssignmentChangeEvent,
    AsyncPollEvent,
    BackgroundEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    GroupMembershipOperation,
    KafkaError,
    LeaveGroupOnCloseEvent,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
    TopicPatternSubscriptionChangeEvent,
    TopicRe2JPatternSubscriptionChangeEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.member.inputs import (
    Answered,
    CloseFlush,
    CoordinatorFound,
    CoordinatorLost,
    MemberInput,
    MetadataFailed,
    MetadataUpdated,
    Tick,
)
from fsm.protocol.assignment import TopicNames, topic_partitions
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DISCONNECTED,
    TIMED_OUT,
    UNSUPPORTED_VERSION,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OffsetCommitResponse,
    commit_results,
)
from fsm.table import Cell, Symbol
from fsm.tables.consumer_member import State

NAMES = {"A": "a", "B": "b", "C": "c"}
ERRORS = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNRELEASED_INSTANCE_ID,
)
COMMIT_ERRORS = (ErrorCode.NONE, ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Watched:
    """The cells of a dialect's table, counting which are asked for."""

    def __init__(self, rules: Dialect, seen: Counter[tuple[Symbol, Symbol]]) -> None:
        self.by_state = {state: self.Of(state, cells, seen) for state, cells in rules.cells.by_state.items()}

    class Of(dict[Symbol, Cell]):
        def __init__(self, state: Symbol, cells: Mapping[Symbol, Cell], seen: Counter[tuple[Symbol, Symbol]]) -> None:
            super().__init__(cells)
            self.state, self.seen, self.cells = state, seen, cells

        def __getitem__(self, event: Symbol) -> Cell:
            self.seen[self.state, event] += 1
            return self.cells[event]


class Life:
    """A member and a world that does anything to it, as `Random` decides."""

    def __init__(
        self,
        rules: Dialect,
        *,
        listener: bool = True,
        auto_commit: bool = True,
        static: bool = False,
        fail: bool = True,
    ) -> None:
        config = ConsumerConfig(
            "g", group_instance_id="i" if static else None, enable_auto_commit=auto_commit, max_poll_interval_ms=5_000
        )
        self.now_ms, self.listener, self.fail = 0, listener, fail
        self.member = new_member(config, "M", rules, 0)
        self.background: list[BackgroundEvent] = []
        self.asked: list[UnsentRequest] = []
        self.broken: list[tuple[str, Status, int, MemberInput]] = []
        self.steps = 0
        self.watch = Watch()
        self.status = {i.name: i.status_in(rules) for i in INVARIANTS}
        self.mood = MOODS["usual"]
        self.do(CoordinatorFound())
        self.do(MetadataUpdated(TopicNames(NAMES)))

    def do(self, given: MemberInput) -> tuple[MemberEffect, ...]:
        before = self.member
        done: Step = step(before, given, self.now_ms)
        self.member = done.member
        self.steps += 1
        for effect in done.effects:
            if isinstance(effect, Enqueued):
                self.background.append(effect.event)
            elif isinstance(effect, UnsentRequest):
                self.asked.append(effect)
        for i in self.watch.violations(before, given, done):
            self.broken.append((i.name, self.status[i.name], self.steps, given))
        return done.effects

    def act(self, random: Random) -> None:
        if random.random() < 0.02:
            self.mood = random.choice(tuple(MOODS.values()))
        action = random.choices(NAMES_OF_ACTIONS, cum_weights=self.mood.weights)[0]
        getattr(self, action)(random)

    # The loop and the application

    def tick(self, random: Random) -> None:
        self.now_ms += random.choice((0, 1, 50, 300, 1_000))
        self.do(Tick(random.uniform(-1, 1)))

    def wait(self, random: Random) -> None:
        self.now_ms += random.choice((2_000, 6_000))
        self.do(Tick())

    def poll(self, random: Random) -> None:
        owned = self.member.ownership.owned if random.random() < 0.5 else ()
        self.do(AsyncPollEvent(consumed=tuple((p, 1) for p in owned)))

    def take(self, random: Random) -> None:
        """The next background event, its callback well or not."""
        if not self.background:
            return
        event = self.background.pop(0)
        error = "listener threw" if self.fail and self.listener and random.random() < 0.15 else None
        if isinstance(event, PartitionsAssignedEvent) and event.apply:
            effects = self.do(ApplyAssignmentEvent(event.ticket, event.full, event.added))
            refused = next((e.error for e in effects if isinstance(e, CallCompleted) and e.error is not None), None)
            if refused is not None:
                error = None if refused == OUTDATED else refused.name
        if isinstance(event, PartitionsAssignedEvent | PartitionsRemovedEvent):
            self.do(ConsumerRebalanceListenerCallbackCompletedEvent(event.ticket, error))

    def subscribe(self, random: Random) -> None:
        topics = tuple(sorted(random.sample(sorted(NAMES.values()), random.randint(1, 3))))
        choice = random.random()
        if choice < 0.7:
            self.do(TopicSubscriptionChangeEvent(topics, self.listener, call=1))
        elif choice < 0.85:
            self.do(TopicRe2JPatternSubscriptionChangeEvent("[ab]", self.listener, call=1))
        else:
            self.do(TopicPatternSubscriptionChangeEvent("[ab]", self.listener, call=1))

    def assign(self, _random: Random) -> None:
        self.do(AssignmentChangeEvent((("a", 7),), call=1))

    def unsubscribe(self, _random: Random) -> None:
        self.do(UnsubscribeEvent(call=2))

    def close(self, random: Random) -> None:
        operation = random.choice(tuple(GroupMembershipOperation))
        self.do(LeaveGroupOnCloseEvent(operation=operation, call=3))

    def flush(self, _random: Random) -> None:
        self.do(CloseFlush())

    # The network

    def answer(self, random: Random) -> None:
        if not self.asked:
            return
        request = self.asked.pop(0 if random.random() < 0.7 else random.randrange(len(self.asked)))
        if not isinstance(request.body, ConsumerGroupHeartbeatRequest):
            code = random.choice(COMMIT_ERRORS)
            self.do(Answered(request, OffsetCommitResponse(commit_results(((("a", 0), code),))), random.uniform(-1, 1)))
            return
        self.do(Answered(request, self.response(request.body, random), random.uniform(-1, 1)))

    def response(self, body: ConsumerGroupHeartbeatRequest, random: Random) -> Any:
        if random.random() < 0.02:
            return ConsumerGroupHeartbeatResponse(-1, 0)
        if body.member_epoch < 0:
            code = random.choice((ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE, *ERRORS))
            return ConsumerGroupHeartbeatResponse(body.member_epoch, 0, error_code=code)
        if random.random() < self.mood.errors:
            return ConsumerGroupHeartbeatResponse(error_code=random.choice(ERRORS))
        ids = random.sample(sorted(NAMES), random.randint(0, 3))
        assigned = topic_partitions({i: random.sample(range(3), random.randint(1, 3)) for i in ids})
        given = assigned if body.member_epoch == 0 or random.random() < 0.4 else None
        if body.member_epoch == 0 and random.random() < 0.03:
            given = None
        if given is not None and random.random() < 0.25 and not self.member.target.is_none:
            given = self.member.target.partitions
        return ConsumerGroupHeartbeatResponse(max(body.member_epoch, 1) + random.randint(0, 1), 1_000, given)

    def lose(self, random: Random) -> None:
        if self.asked:
            failure = random.choice((DISCONNECTED, TIMED_OUT, TIMED_OUT, UNSUPPORTED_VERSION))
            self.do(Answered(self.asked.pop(0), failure))

    def coordinator(self, random: Random) -> None:
        error = KafkaError("GROUP_AUTHORIZATION_FAILED") if random.random() < 0.2 else None
        self.do(CoordinatorFound() if random.random() < 0.7 else CoordinatorLost(error))

    def metadata(self, random: Random) -> None:
        if random.random() < 0.05:
            self.do(MetadataFailed(KafkaError("INVALID_TOPIC_EXCEPTION")))
        known = random.sample(sorted(NAMES), random.randint(1, 3))
        self.do(MetadataUpdated(TopicNames({i: NAMES[i] for i in known})))

    def settle(self) -> None:
        """Everybody does what is asked: the application polls, callbacks end well, the coordinator keeps its target."""
        target = topic_partitions({"A": (0, 1), "B": (2,)})
        self.do(MetadataUpdated(TopicNames(NAMES)))
        self.asked.clear()
        self.do(CoordinatorFound())
        body, number = ConsumerGroupHeartbeatRequest("g", "M", 0), self.member.heartbeat_number
        under_way = UnsentRequest(body, Purpose.HEARTBEAT, number=number)
        self.do(Answered(under_way, TIMED_OUT))
        for _ in range(40):
            self.now_ms += 1_200
            self.do(CoordinatorFound())
            if self.member.subscription.kind.is_auto:
                self.do(AsyncPollEvent())
            self.fail = False
            while self.background:
                self.take(Random(0))  # noqa: S311
            self.do(Tick())
            self.do(Tick())
            for request in self.asked:
                self.do(Answered(request, self.kind_answer(request, target)))
            self.asked.clear()

    def kind_answer(self, request: UnsentRequest, target: Any) -> Any:
        body = request.body
        if not isinstance(body, ConsumerGroupHeartbeatRequest):
            return OffsetCommitResponse()
        if body.member_epoch < 0 and self.member.state is State.UNSUBSCRIBED:
            return ConsumerGroupHeartbeatResponse(body.member_epoch, 0)
        return ConsumerGroupHeartbeatResponse(max(1, body.member_epoch), 1_000, target)


ACTIONS = {
    "tick": 30, "poll": 25, "take": 20, "answer": 25, "wait": 1, "subscribe": 3, "assign": 0.2, "unsubscribe": 1,
    "close": 0.4, "flush": 0.2, "lose": 0.7, "coordinator": 2, "metadata": 1.5,
}  # fmt: skip
"""What happens, by how often."""
NAMES_OF_ACTIONS = tuple(ACTIONS)


class Mood:
    """How much more or less often than usual things happen, and how often the coordinator answers with an error."""

    def __init__(self, errors: float = 0.04, **times: float) -> None:
        self.errors = errors
        self.weights = tuple(accumulate(often * times.get(action, 1) for action, often in ACTIONS.items()))


MOODS = {
    "usual": Mood(),
    "application asleep": Mood(take=0.03, poll=0.3, wait=4),
    "application in its listener": Mood(take=0.02, unsubscribe=3, subscribe=3),
    "coordinator slow": Mood(answer=0.1, tick=2, unsubscribe=3, close=3),
    "coordinator wrong": Mood(errors=0.4),
    "everybody leaves": Mood(unsubscribe=10, close=10, take=0.2, answer=0.4, errors=0.2),
}
"""Times in which some things happen more and others less: rare rows need several rare things in a row."""
