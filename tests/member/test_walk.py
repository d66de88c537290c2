"""A consumer member led at random: every invariant after every step, every row of its table taken.

The walker is an application, a network and a coordinator that do anything at any time: callbacks fail, answers are
late, lost or of another membership, metadata resolves late, the coordinator goes away. Seeds make it repeatable.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import settings as given_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from member_lives import ACTIONS, Life, Watched

from fsm.member.consumer.invariants import INVARIANTS, Invariant, Status, Watch, find_broken_at_rest
from fsm.member.consumer.predicates import ObservedStep, Outstanding
from fsm.member.consumer.state import Member
from fsm.member.consumer.step import Step
from fsm.member.dialect.choices import Choice
from fsm.member.dialect.dialect import DIALECTS, DOCUMENT, FIXED, Dialect, choices_of, custom, dialect
from fsm.member.inputs import (
    MemberInput,
)
from fsm.member.timers import IDLE
from fsm.protocol.assignment import topic_partitions
from fsm.table import Symbol
from fsm.tables.consumer_member import State

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
@pytest.mark.loop(28)
def test_what_holds_always_holds_in_a_walk(name: str, kind: dict[str, bool]) -> None:
    """No step is refused, and no invariant that holds always is ever broken, in any dialect."""
    walk(dialect(name), 600, seed=7, **kind)


@pytest.mark.parametrize("choice", [c for c in Choice if c.since in (FIXED, DOCUMENT)], ids=lambda c: c.name)
def test_choices_stand_alone(choice: Choice) -> None:
    """Each choice beside the releases works by itself, on the latest release and with it left out of its dialect."""
    for rules in (custom("one", choices_of("4.4.0") | {choice}), custom("less", choices_of(choice.since) - {choice})):
        walk(rules, 600, seed=13, listener=True, auto_commit=True, static=False)


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
    """STABLE when sent means STABLE without an epoch, a way out of FATAL that it is not for good; subscribe() joins."""
    broken = Counter[str]()
    for kind in KINDS:
        broken += walk(dialect("document"), 1_500, seed=3, **kind)
    assert {"I06", "I18", "I36"} <= set(broken) <= {"I06", "I09b", "I18", "I26", "I36"}


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
@pytest.mark.loop(4)
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
        assert find_broken_at_rest(life.member) == ()
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
