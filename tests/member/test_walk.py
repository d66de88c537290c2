"""A consumer member led at random: every invariant after every step, every row of its table taken.

The walker is an application, a network and a coordinator that do anything at any time: callbacks fail, answers are
late, lost or of another membership, metadata resolves late, the coordinator goes away. Seeds make it repeatable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate, pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import settings as given_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from member_invariants import INVARIANTS, Invariant, Status, Watch, unrest
from member_predicates import ObservedStep, Outstanding

from fsm.member.consumer.state import Member, new_member
from fsm.member.consumer.step import Step, step
from fsm.member.dialect.choices import Choice
from fsm.member.dialect.dialect import DIALECTS, DOCUMENT, FIXED, Dialect, choices_of, custom, dialect
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
from fsm.member.timers import IDLE
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

KINDS = [
    {"listener": listener, "auto_commit": auto_commit, "static": static}
    for listener in (True, False)
    for auto_commit in (True, False)
    for static in (True, False)
]


def walk(rules: Dialect, steps: int, seed: int, **kind: bool) -> Counter[str]:
    """Lives one after the other; the invariants that were broken, by how often. One that always holds must not be."""
    random, broken, done = Random(seed), Counter[str](), 0  # noqa: S311  # a walk must repeat
    while done < steps:
        life = Life(rules, **kind)
        while life.steps < 400 and not (life.member.state is State.FATAL and random.random() < 0.01):
            life.act(random)
            for name, status, at, given in life.broken:
                assert status is not Status.HOLDS, f"{name} at step {at}, {given}"
                broken[name] += 1
            life.broken.clear()
        done += life.steps
    return broken


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: "-".join(name for name, on in k.items() if on) or "plain")
@pytest.mark.parametrize("name", ["4.0.0", "4.1.2", "4.2.1", "4.3.1", "4.4.0", "fixed", "document"])
def test_what_holds_always_holds_in_a_walk(name: str, kind: dict[str, bool]) -> None:
    """No step is refused, and no invariant that holds always is ever broken, in any dialect."""
    walk(dialect(name), 1_200, seed=7, **kind)


@pytest.mark.parametrize("choice", [c for c in Choice if c.since in (FIXED, DOCUMENT)], ids=lambda c: c.name)
def test_choices_stand_alone(choice: Choice) -> None:
    """Each choice beside the releases works by itself, on the latest release and with it left out of its dialect."""
    for spoken in (custom("one", choices_of("4.4.0") | {choice}), custom("less", choices_of(choice.since) - {choice})):
        walk(spoken, 600, seed=13, listener=True, auto_commit=True, static=False)


DIFFERENT = [name for name, before in pairwise(DIALECTS[::-1]) if choices_of(name) != choices_of(before)] + ["4.0.0"]
"""Dialects that differ: of releases with the same rules the first one, the latest dialect first."""

LONG = {"4.4.0", FIXED, DOCUMENT}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: "-".join(name for name, on in k.items() if on) or "plain")
@pytest.mark.parametrize("name", DIFFERENT)
def test_what_holds_always_holds_in_a_long_walk(name: str, kind: dict[str, bool]) -> None:
    """The same over a million steps of the latest release, of `fixed` and of `document`, and a million of the others.

    An eighth of them goes to each kind of member. Four million steps take some three minutes of one core.
    """
    walk(dialect(name), 125_000 if name in LONG else 20_000, seed=11, **kind)


@pytest.mark.parametrize("name", ["4.0.0", "4.4.0", "fixed", "document"])
def test_a_watch_asks_for_all_that_matters(name: str) -> None:
    """What it leaves out holds: states and effects that an invariant is not about, members that stay as they are."""

    class Everything(Watch):
        def __init__(self) -> None:
            super().__init__()
            self.unanswered, self.found = Outstanding(), 0

        def violations(self, before: Member, given: MemberInput, done: Step) -> tuple[Invariant, ...]:
            found = super().violations(before, given, done)
            at = ObservedStep(before, given, done, self.unanswered.after(given, done))
            assert found == tuple(i for i in INVARIANTS if not i.holds(at))
            self.found += len(found)
            return found

    random, found = Random(17), 0  # noqa: S311  # a walk must repeat
    for kind in KINDS:
        life = Life(dialect(name), **kind)
        life.watch = Everything()
        for _ in range(400):
            life.act(random)
        found += life.watch.found
    assert found > 0


def test_hazards_break_what_they_are_said_to() -> None:
    """Invariants that hazards violate are seen broken in a walk without failing callbacks."""
    broken = walk(dialect("4.4.0"), 20_000, seed=3, fail=False)
    assert {"I09b", "I09c", "I17", "I20", "I27"} <= set(broken)
    assert not {"I15"} & set(broken)


def test_nothing_breaks_in_the_fixed_dialect() -> None:
    """Failing callbacks and all: only what the coordinator does, and what a reset has to forget, is ever seen."""
    broken = Counter[str]()
    for kind in KINDS:
        broken += walk(dialect("fixed"), 1_500, seed=3, **kind)
    assert set(broken) <= {"I09b", "I26"}


def test_document_gives_up_what_its_rules_mean() -> None:
    """STABLE when sent means STABLE without an epoch, and a way out of FATAL means that it is not for good."""
    broken = Counter[str]()
    for kind in KINDS:
        broken += walk(dialect("document"), 1_500, seed=3, **kind)
    assert {"I06", "I18"} <= set(broken) <= {"I06", "I09b", "I18", "I26"}


def test_walk_takes_most_rows() -> None:
    """The walk goes nearly everywhere: seven in ten of all cells are looked at."""
    seen: Counter[tuple[Symbol, Symbol]] = Counter()
    rules = dialect("4.4.0")
    watched = Dialect("4.4.0", rules.choices, rules.table)
    watched.__dict__["cells"] = Watched(rules, seen)
    for seed, kind in enumerate(KINDS):
        walk(watched, 4_000, seed=seed, **kind)
    assert len(seen) >= 0.7 * len(rules.table.compiled)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: "-".join(name for name, on in k.items() if on) or "plain")
def test_everything_comes_to_rest_in_a_fair_world(kind: dict[str, bool]) -> None:
    """From wherever a walk has led, a member that is polled, answered and called back gets stable, or is out."""
    assert rest(dialect("4.4.0"), **kind)["STABLE"] >= 5


@pytest.mark.parametrize("name", ["fixed", "document"])
def test_subscribed_comes_to_be_stable_in_a_fair_world(name: str) -> None:
    """Without hazards nobody who is subscribed stays outside: stable, or ended for good."""
    for kind in KINDS:
        assert rest(dialect(name), lives=8, **kind)["UNSUBSCRIBED"] == 0


def rest(rules: Dialect, lives: int = 25, **kind: bool) -> Counter[str]:
    """Where walks of subscribed members end when everybody does what is asked; by how many."""
    rest = Counter[str]()
    for seed in range(lives):
        life, random = Life(rules, **kind), Random(seed)  # noqa: S311
        for _step in range(120):
            life.act(random)
        if life.member.commit is not None:
            life.member = replace(life.member, commit=replace(life.member.commit, request=IDLE))
        life.settle()
        if not life.member.subscription.kind.is_auto:
            continue
        rest[life.member.state.name] += 1
        assert unrest(life.member) == ()
        if life.member.state is State.STABLE:
            assert life.member.current.partitions == topic_partitions({"A": (0, 1), "B": (2,)})
    return rest


def test_same_seed_gives_the_same_walk() -> None:
    """Two walks of one seed end in equal members, which hash alike."""
    ends = []
    for _ in range(2):
        life, random = Life(dialect("4.4.0")), Random(5)  # noqa: S311
        for _step in range(300):
            life.act(random)
        ends.append(life.member)
    assert ends[0] == ends[1]
    assert hash(ends[0]) == hash(ends[1])


class Anything(RuleBasedStateMachine):
    """Hypothesis chooses what happens, and shrinks what breaks an invariant that holds."""

    @initialize(kind=st.sampled_from(KINDS), release=st.sampled_from(["4.0.0", "4.2.1", "4.4.0", "fixed", "document"]))
    def begin(self, kind: dict[str, bool], release: str) -> None:
        self.life = Life(dialect(release), **kind)

    @rule(action=st.sampled_from(tuple(ACTIONS)), random=st.randoms(use_true_random=False))
    def act(self, action: str, random: Random) -> None:
        getattr(self.life, action)(random)
        held = [broken for broken in self.life.broken if broken[1] is Status.HOLDS]
        assert held == []
        assert hash(self.life.member) == hash(replace(self.life.member))


TestAnything = Anything.TestCase
TestAnything.settings = given_settings(max_examples=40, stateful_step_count=60, deadline=None)
