"""The engine: the same states as a naive search, the shortest counterexamples, and one line for a bad model."""

from __future__ import annotations

import ast
import inspect
import tracemalloc
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from naive_search import Naive
from walkers import walker

from fsm.check import (
    Choice,
    Component,
    Disk,
    Disturbance,
    Fault,
    Goal,
    Limits,
    Memo,
    Model,
    Notification,
    PairProperty,
    Property,
    Received,
    Step,
    Undelivered,
    Verdict,
    View,
    Wire,
    check,
)
from fsm.check.examples import lock as lock_module
from fsm.check.examples import two_phase_commit as commit_module
from fsm.check.examples.lock import lock
from fsm.check.examples.two_phase_commit import two_phase_commit
from fsm.check.kafka.consumer.group import consumer_group
from fsm.check.search import DEADLOCK, Search
from fsm.check.store import Packing
from fsm.errors import InputError


def talkers(*disturbances: Disturbance, reorders: bool = False, at_most: int = 16) -> Model:
    """One sends three numbers, and each again that it is told is not delivered; the other adds up what it hears."""

    def choices(state: int) -> Iterable[Choice]:
        if state < 3:
            yield Choice("speaks")
        yield Choice("falls silent", disturbance="crash")

    def speak(state: int, given: Any) -> Step:
        if isinstance(given, Undelivered):
            return Step(state, [("hears", given.message)])
        if given == "falls silent":
            return Step(9, hangs_up=True)
        return Step(state + 1, [("hears", state)])

    def hear(state: tuple[int, ...], given: Any) -> Step:
        if isinstance(given, Received):
            return Step((*state, 10 * given.message if given.late else given.message)[-4:])
        return Step((*state, -1)[-4:])

    speaker = Component("speaks", 0, choices, speak)
    hearer = Component("hears", (), lambda _: (), hear)
    wire = Wire("speaks", "hears", disturbances, reorders, at_most)
    return Model("talkers", [speaker, hearer], [wire], disturbances=["crash"])


def states_of(model: Model, kinds: Iterable[str] = (), most: int = 0) -> Search:
    return Search(model, frozenset(kinds), most, every=True).run()


def costs_of(search: Search) -> list[int]:
    return [search.cost_of(at) for at in range(search.states.size)]


@pytest.mark.parametrize("notification", list(Notification))
@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("reorders", [False, True])
@pytest.mark.parametrize("most", [0, 1, 2])
def test_the_states_are_those_of_a_naive_search(
    notification: Notification, fault: Fault, reorders: bool, most: int
) -> None:
    """Each wire, each fault, whoever is told: as many states at each cost."""
    model = talkers(Disturbance("harm", fault, notification), reorders=reorders)
    kinds = frozenset(("harm", "crash"))
    found, naive = states_of(model, kinds, most), Naive(model, kinds, most)
    costs = costs_of(found)
    assert sorted(costs) == sorted(naive.cost.values())
    assert len(costs) >= 8


@pytest.mark.parametrize(
    ("model", "kinds", "most", "states"),
    [
        (two_phase_commit(3), (), 0, 288),
        pytest.param(two_phase_commit(5), (), 0, 8_832, marks=pytest.mark.deep),
        (two_phase_commit(4), ("lose",), 2, None),
        (lock(), ("expire",), 3, None),
        pytest.param(consumer_group(1, {"foo": 1}), ("late", "lose"), 2, None, marks=pytest.mark.deep),
    ],
)
@pytest.mark.loop(2)
def test_real_models_have_the_states_of_a_naive_search(
    model: Model, kinds: tuple[str, ...], most: int, states: int | None
) -> None:
    """Protocols with several wires between many components, the production classes among them.

    288 and 8,832 are what the test of Stateright's examples/2pc.rs counts with three and five managers.
    """
    naive = Naive(model, frozenset(kinds), most)
    found = states_of(model, kinds, most)
    assert found.states.size == len(naive.cost)
    assert states is None or found.states.size == states


@pytest.mark.parametrize("example", [lock_module, commit_module])
def test_an_example_takes_forty_lines(example: ModuleType) -> None:
    """Without docstrings, imports and blank lines."""
    text = inspect.getsource(example)
    skipped = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    assert sum(bool(line.strip()) for at, line in enumerate(text.splitlines(), 1) if at not in skipped) <= 40


def test_states_are_met_in_the_order_of_disturbances_and_steps() -> None:
    """So a counterexample is the shortest one."""
    found = states_of(two_phase_commit(3), ("lose",), 2)
    depth = np.zeros(found.states.size, int)
    for at in range(1, found.states.size):
        depth[at] = depth[found.parent.view[at, 0]] + 1
    order = list(zip(costs_of(found), depth.tolist(), strict=True))
    assert order == sorted(order)


def test_a_manager_that_counts_wrong_is_caught_by_the_shortest_path() -> None:
    """Two of three prepare, the third aborts: seven steps, no disturbance."""
    verdict = check(two_phase_commit(3, counts_to=2))
    assert verdict.word == "violated"
    (found,) = verdict.violations
    assert (found.property, found.disturbances, len(found.path)) == ("all agree", 0, 7)
    assert [step.actor for step in found.path].count("manager") == 3
    assert (
        found.path[-1].state in ({f"resource-{i}": "committed"} for i in (1, 2, 3)) or "aborts" in found.path[-1].action
    )


def test_two_phase_commit_holds_until_a_message_is_lost() -> None:
    """Then somebody waits for ever: a deadlock, and the goal out of reach."""
    assert check(two_phase_commit(3)).word == "holds"
    verdict = check(two_phase_commit(3), disturb=["lose"], disturbances=1, every=True)
    assert {one.property for one in verdict.violations} == {"no deadlock", "everybody decides"}
    assert all(one.disturbances == 1 for one in verdict.violations)


def test_a_lease_that_ends_needs_a_fence() -> None:
    """The old holder writes after the new one; the fenced store passes it over."""
    assert check(lock()).word == "holds"
    (found,) = check(lock(), disturb=["expire"], disturbances=1).violations
    assert (found.property, found.disturbances) == ("writes come in the order of the lock", 1)
    assert check(lock(fenced=True), disturb=["expire"], disturbances=3).word == "holds"


# -- liveness ---------------------------------------------------------------------------------------------------


def doomed(model: Model, **options: Any) -> Verdict:
    return check(model, every=True, **options)


def test_a_cycle_without_a_way_out_is_no_progress() -> None:
    """Something happens for ever, and the goal is out of reach from the moment the cycle is entered."""
    (found,) = doomed(walker({"a": "bz", "b": "c", "c": "d", "d": "b"})).violations
    assert (found.property, found.doomed_at) == ("z is reached", 1)
    assert [step.action for step in found.path] == ["to b", "to c", "to d"]


def test_a_cycle_with_a_way_out_is_left_at_last() -> None:
    """Strong fairness: what is possible again and again happens."""
    assert doomed(walker({"a": "b", "b": "c", "c": "az"})).word == "holds"


def test_a_way_out_that_is_a_disturbance_does_not_count() -> None:
    """Nobody may wait for one; for a timer that runs out, one may."""
    assert doomed(walker({"a": "b", "b": "bz"}, bz="luck")).word == "violated"
    assert doomed(walker({"a": "b", "b": "bz"}, bz="timer")).word == "holds"


def test_what_a_timer_leads_to_is_explored_even_where_no_disturbance_is_left() -> None:
    """The states behind it are not counted as met, and a dead end behind it is one."""
    edges = {"a": "bz", "b": "b" + "c", "c": "d", "d": "z"}
    verdict = doomed(walker(edges, bc="timer"))
    assert (verdict.word, verdict.states) == ("holds", 3)
    assert doomed(walker(edges | {"d": "d"}, bc="timer")).word == "violated"


def test_a_step_that_a_full_wire_hides_matters_only_where_nothing_else_leads_to_the_goal(tmp_path: Path) -> None:
    """In memory and on disk: it is not known where it leads."""
    edges = {"a": "bc", "b": "cz", "c": "z"}
    timers = {"bz": "timer", "cz": "timer"}
    cases = [
        (edges, timers, "holds"),
        (edges, timers | {"cz": "luck"}, "violated"),
        ({"a": "b", "b": "z"}, timers, "stopped"),
    ]
    for number, (graph, kinds, expected) in enumerate(cases):
        model = walker(graph, hidden=["bz"], **kinds)
        verdicts = [check(model), check(model, disk=Disk(Memo(tmp_path / f"{number}", "one")))]
        assert [one.word for one in verdicts] == [expected] * 2


def test_no_state_is_doomed_because_memory_does_not_suffice() -> None:
    """For the search it does, for liveness it does not: the verdict is that it stopped."""

    def counter(name: str) -> Component:
        return Component(
            name, 0, lambda _: [Choice("up")], lambda s, _: Step((s + 1) % 100), {"at": lambda state: state}
        )

    goal = Goal("both are at 50", lambda view: (view.of("a", "at") == 50) & (view.of("b", "at") == 50))
    model = Model("counters", [counter("a"), counter("b")], goal=goal)
    need = Search(model).run().nbytes
    assert check(model, limits=Limits(max_memory=need - 1)).stopped
    assert check(model, limits=Limits(max_memory=need)).stopped == f"more than {need:,} bytes"
    assert check(model, limits=Limits(max_memory=2 * need)).word == "holds"


# -- properties ---------------------------------------------------------------------------------------------------


def test_a_pair_is_asked_once_for_each_distinct_pair() -> None:
    """And finds what columns find."""
    asked: list[tuple[str, str]] = []

    def apart(one: str, other: str) -> bool:
        asked.append((one, other))
        return {one, other} != {"committed", "aborted"}

    model = two_phase_commit(3, counts_to=2)
    pairs = [
        PairProperty(f"{a} and {b} agree", a, b, apart)
        for a, b in combinations([one.name for one in model.components[:3]], 2)
    ]
    verdict = check(replace(model, properties=[*pairs, *model.properties]), every=True)
    assert {one.property for one in verdict.violations} == {one.name for one in (*pairs, *model.properties)}
    assert {len(one.path) for one in verdict.violations} == {7}
    assert len(asked) <= 3 * 16


def test_a_known_hazard_is_cut_off_and_counted() -> None:
    """What lies behind it is not continued, and is no violation."""
    model = replace(
        two_phase_commit(3, counts_to=2),
        hazards={"H": lambda view: sum(view.of(f"resource-{i}", "committed") for i in (1, 2, 3)) > 0},
        goal=None,
    )
    verdict = check(model, known=["H"])
    assert verdict.word == "holds"
    assert verdict.cut["H"] > 0
    assert check(model).word == "violated"


def test_what_a_step_raises_is_a_counterexample() -> None:
    """With the path to it; the search goes on where it is asked to."""

    def step(state: int, _given: Any) -> Step:
        if state == 3:
            raise ValueError("too far")
        return Step(state + 1)

    model = Model("count", [Component("counter", 0, lambda s: [Choice("counts")] if s < 4 else (), step)])
    (found,) = check(model).violations
    assert (found.property, len(found.path)) == ("raises ValueError: too far", 4)


def test_a_broken_step_that_costs_more_comes_later() -> None:
    """A way without disturbances is the shorter one, however long."""

    def choices(_state: int) -> Iterable[Choice]:
        yield Choice("counts")
        yield Choice("jumps", disturbance="jump")

    def step(state: int, given: str) -> Step:
        return Step(min(state + 1, 6), broken=["far"] if given == "jumps" or state == 5 else [])

    model = Model("count", [Component("counter", 0, choices, step)], disturbances=["jump"])
    (found,) = check(model, disturb=["jump"], disturbances=1).violations
    assert (found.disturbances, len(found.path)) == (0, 6)


# -- keys and limits ------------------------------------------------------------------------------------------------


def test_keys_make_room_for_cells_that_grow() -> None:
    """Twenty-two components have two bits each at first; keys are made again as one needs more."""
    names = [f"c{i}" for i in range(21)]
    busy = Component("busy", 0, lambda s: [Choice("counts")] if s < 40 else (), lambda s, _: Step(s + 1))
    idle = [Component(name, 0, lambda _: (), lambda s, _: Step(s)) for name in names]
    found = states_of(Model("wide", [*idle, busy]))
    assert (found.states.size, found.exact) == (41, True)


def test_hashed_keys_are_told() -> None:
    """Where the numbers of cells do not fit side by side; the states are the same."""
    model = two_phase_commit(3)
    search = Search(model)
    search.packing = Packing(search.packing.bits, exact=False)
    assert search.run().states.size == states_of(model).states.size
    wide = [
        Component(f"c{i}", 0, lambda s: [Choice("goes")] if s < 1 else (), lambda s, _: Step(s + 1)) for i in range(66)
    ]
    verdict = check(Model("wide", wide), limits=Limits(max_states=3_000))
    assert (verdict.word, verdict.exact) == ("stopped", False)


def test_a_limit_stops_with_what_is_known() -> None:
    verdict = check(two_phase_commit(5), limits=Limits(max_states=500))
    assert (verdict.word, verdict.stopped) == ("stopped", "more than 500 states")
    assert verdict.states > 500
    assert check(two_phase_commit(5), limits=Limits(max_memory=1)).word == "stopped"


def test_a_few_large_states_reach_the_limit_of_memory() -> None:
    """Each is a hundred kilobytes longer than the one before."""
    grows = Component("grows", "", lambda _: [Choice("grows")], lambda s, _: Step(s + "x" * 100_000))
    found = check(Model("m", [grows]), limits=Limits(max_memory=10_000_000))
    assert (found.word, found.stopped) == ("stopped", "more than 10,000,000 bytes")
    assert found.states < 20


@pytest.mark.deep
def test_the_limit_of_memory_counts_objects_too() -> None:
    """Roughly: what Python says that a search took is within twice of it."""
    tracemalloc.start()
    try:
        search = Search(consumer_group(), frozenset(["late"]), 1, every=True).run()
        took = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert took / 2 < search.nbytes < 2 * took


def test_a_wire_that_is_full_is_counted() -> None:
    found = states_of(talkers(at_most=1))
    assert found.stopped
    assert found.states.size < states_of(talkers()).states.size


def test_the_same_model_gives_the_same_verdict() -> None:
    first, second = (check(lock(), disturb=["expire"], disturbances=1).document() for _ in range(2))
    assert first == second


# -- bad models -----------------------------------------------------------------------------------------------------


def impure() -> Component:
    seen: list[int] = []
    return Component("dice", 0, lambda _: [Choice("rolls")], lambda _, __: Step(seen.append(0) or len(seen)))  # type: ignore[func-returns-value]


def simple(**changes: Any) -> Component:
    given: dict[str, Any] = {"choices": lambda _: [Choice("goes")], "step": lambda s, _: Step(s)} | changes
    return Component("one", given.pop("start", 0), **given)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Model("m", []), "m: has no component"),
        (lambda: Model("m", [simple(), simple()]), "two components 'one'"),
        (lambda: Model("m", [simple()], [Wire("one", "two")]), "a wire to an unknown component: 'two'"),
        (lambda: Model("m", [simple()], [Wire("one", "one")] * 2), "two wires from 'one' to 'one'"),
        (
            lambda: Model("m", [simple()], (), [PairProperty("p", "one", "x", lambda *_: True)]),
            "an unknown component: 'x'",
        ),
        (lambda: Model("m", [impure()]), "dice: its step is not pure"),
        (lambda: Model("m", [simple(start=[])]), "one: a state cannot be hashed"),
        (lambda: Model("m", [simple(step=lambda s, _: s)]), "one: its step returned int; return a Step"),
        (
            lambda: Model("m", [simple(step=lambda s, _: Step(s, [("x", 1)]))]),
            "one: sends to 'x', to which it has no wire",
        ),
        (
            lambda: Model("m", [simple(choices=lambda _: [Choice("a", None, "b")])]),
            "one: unknown kind of disturbance: 'b'",
        ),
        (
            lambda: Model("m", [simple(choices=lambda _: [Choice("a", free_when="b")])]),
            "names an unknown condition: 'b'",
        ),
        (lambda: Model("m", [simple()], (), [Property("p", lambda v: v.of("one", "f") == 1)]), "unknown feature 'f'"),
        (
            lambda: Model("m", [simple()], (), [Property("p", lambda _: True)]),
            "m, p: did not return a truth value for each state",
        ),
    ],
)
def test_a_bad_model_is_one_line(make: Any, message: str) -> None:
    with pytest.raises(InputError) as refused:
        check(make())
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_names_that_there_are_not_are_refused() -> None:
    for options, message in (
        ({"disturb": ["x"], "disturbances": 1}, "unknown kind of disturbance: 'x'; choose from lose"),
        ({"known": ["nix"]}, "unknown hazard: 'nix'; choose from none"),
        ({"properties": ["x"]}, "unknown property 'x'; choose from all agree, no deadlock, everybody decides"),
    ):
        with pytest.raises(InputError) as refused:
            check(two_phase_commit(2), **options)  # type: ignore[arg-type]
        assert message in str(refused.value)


def test_a_view_knows_how_many_messages_are_under_way() -> None:
    def few(view: View) -> Any:
        return view.on("speaks", "hears") < 3

    (found,) = check(replace(talkers(), properties=[Property("few", few)])).violations
    assert [step.action for step in found.path] == ["speaks"] * 3


class Ping(NamedTuple):
    """As a tuple equal to another one."""

    to: str
    message: str


def test_inputs_of_different_types_are_different() -> None:
    """One and the same message, that comes or is given up, is two inputs; so are 1 and True."""
    inputs: list[Any] = []

    def step(state: int, given: Any) -> Step:
        inputs.append(type(given))
        return Step(min(state + 1, 3), [("b", "m")] if given == "asks" else [])

    lossy = (Disturbance("lose", Fault.LOSE, Notification.SENDER),)
    a = Component("a", 0, lambda s: [Choice("asks"), Choice("says", Ping("b", "m"))] if s < 2 else (), step)
    b = Component("b", 0, lambda _: (), lambda s, _: Step(s + 1, [("a", "m")]) if s < 2 else Step(s))
    model = Model(
        "m", [a, b], [Wire("a", "b", lossy), Wire("b", "a", (Disturbance("lose", Fault.LOSE, Notification.RECEIVER),))]
    )
    check(model, disturb=["lose"], disturbances=2, every=True)
    assert {Ping, Received, Undelivered} < set(inputs)


def test_a_short_broken_step_goes_before_a_long_one() -> None:
    """Both cost one disturbance; the longer way is met while the first layer is searched."""

    def choices(state: int) -> Iterable[Choice]:
        yield Choice("counts")
        if state in {0, 8}:
            yield Choice("jumps", disturbance="jump")

    def step(state: int, given: str) -> Step:
        return Step(min(state + 1, 9), broken=[f"far from {state}"] if given == "jumps" else [])

    model = Model("count", [Component("counter", 0, choices, step)], disturbances=["jump"])
    (found,) = check(model, disturb=["jump"], disturbances=1).violations
    assert (found.property, len(found.path)) == ("far from 0", 1)
    assert len(check(model, disturb=["jump"], disturbances=1, every=True).violations) == 2


def test_every_name_that_a_step_breaks_is_told() -> None:
    model = Model("m", [simple(step=lambda s, _: Step(s, broken=["one", "two"]))])
    assert {one.property for one in check(model, every=True).violations} == {"one", "two"}


def test_what_is_free_on_a_condition_costs_nothing_and_needs_no_kind() -> None:
    """As a session of one who is silent ends by itself."""
    choices = [Choice("ends", disturbance="expire", free_when="silent")]
    silent = {"silent": lambda view: view.of("one", "value") == 0}
    one = simple(choices=lambda s: choices if s < 2 else (), step=lambda s, _: Step(s + 1), features={"value": int})
    model = Model("m", [one], conditions=silent, disturbances=["expire"])
    assert check(model).states == 2
    assert check(model, disturb=["expire"], disturbances=1).states == 3


def test_a_full_wire_leaves_things_unknown() -> None:
    """Where its sender does not wait for room, nothing is said to hold."""

    def chatter(*, waits: bool) -> Model:
        a = simple(choices=lambda _: [Choice("says")], step=lambda s, _: Step(s, [("b", "m")]))
        b = Component("b", 0, lambda _: (), lambda s, _: Step(s))
        return Model("m", [a, b], [Wire("one", "b", at_most=2, waits=waits)])

    assert check(chatter(waits=True)).word == "holds"
    verdict = check(chatter(waits=False))
    assert (verdict.word, verdict.stopped) == ("stopped", "a wire that was full: give it more room (Wire.at_most)")


class Incomparable:
    def __eq__(self, other: object) -> bool:
        return bool(1 / 0)

    def __hash__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"choices": lambda _: 1 / 0}, "one: <lambda> raises ZeroDivisionError"),
        ({"choices": lambda _: ["goes"]}, "one: its choices returned 'goes'; return Choices"),
        ({"features": {"f": lambda _: "x"}}, "feature 'f' of one: gives 'x', which is no integer of 64 bits"),
        ({"features": {"f": lambda _: 1 << 64}}, "gives 18446744073709551616, which is no integer"),
        ({"step": lambda s, _: Step(s, ["m"])}, "one: its step sends 'm'; give (receiver, message)"),
        ({"step": lambda s, _: Step(s, broken="oops")}, "one: its step breaks 'oops'; give names"),
        ({"step": lambda s, _: Step(s, broken=["x"]), "describe": lambda _: 1 / 0}, "one: <lambda> raises ZeroDiv"),
        ({"step": lambda s, _: Step(s + 1), "key": lambda _: 1}, "one: two states have the same key: 0 and 1"),
        ({"step": lambda *_: Step(Incomparable())}, "one: a state cannot be compared: ZeroDivisionError: "),
        ({"step": lambda *_: Step(0, [("one", [])])}, "one: sends to 'one', to which it has no wire"),
    ],
)
def test_what_a_model_does_wrong_is_one_line(changes: dict[str, Any], message: str) -> None:
    properties = [Property("p", lambda view: view.of("one", "f") == 0)] if "features" in changes else []
    with pytest.raises(InputError) as refused:
        check(Model("m", [simple(**changes)], (), properties))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_full_wire_that_hides_the_way_to_a_goal_is_told() -> None:
    """Also where only a step that liveness counts on fills it: what would come of that is not known."""
    ticks = Component("a", 0, lambda _: [Choice("ticks", disturbance="timer")], lambda s, _: Step(s, [("b", "x")] * 2))
    hears = Component("b", 0, lambda _: (), lambda _, __: Step(0), {"n": lambda s: s})
    goal = Goal("never", lambda view: view.of("b", "n") == 1, ("timer",))
    model = Model("full", [ticks, hears], [Wire("a", "b", at_most=1)], goal=goal, disturbances=["timer"])
    assert (check(model).word, check(model).stopped.partition(":")[0]) == ("stopped", "a wire that was full")


def test_a_kind_that_never_happened_is_told() -> None:
    verdict = check(consumer_group(1), disturb=["rejoin", "leave"], disturbances=1)
    assert verdict.never == ("rejoin",)


def test_a_pair_is_told_by_a_truth() -> None:
    one = Component("one", 0, lambda _: (), lambda s, _: Step(s))
    model = Model(
        "pair", [one, replace(one, name="other")], properties=[PairProperty("p", "one", "other", lambda *_: None)]
    )
    with pytest.raises(InputError, match="returned None; return True or False"):
        check(model)


def test_what_is_asked_can_be_chosen() -> None:
    """A property of states, an invariant of steps by its name or number, deadlocks without liveness, liveness."""

    def steps(state: int, _: object) -> Step:
        return Step(state + 1, broken=[("I1 one is never left", "I2 two is never left")[state]])

    names = "I1 one is never left", "I2 two is never left"
    one = Component("one", 0, lambda state: [Choice("goes")] if state < 2 else [], steps, {"at": lambda state: state})
    low = Property("low", lambda view: view.of("one", "at") < 2)
    back = Goal("it comes back", lambda view: view.of("one", "at") == 9)
    model = Model("chosen", [one], properties=[low], goal=back, asked_of_steps=names)

    def broken(*properties: str) -> list[str]:
        return sorted(one.property for one in check(model, properties=properties, every=True).violations)

    every = sorted([*names, "low", DEADLOCK, back.name])
    assert broken() == every
    assert broken("I2") == broken(names[1]) == [names[1]]
    assert broken("low", "I1") == [names[0], "low"]
    assert broken("low") == [*names, "low"]
    assert broken("I1", DEADLOCK) == [names[0], DEADLOCK]
    assert broken("I1", back.name) == sorted([names[0], back.name, DEADLOCK])
    assert check(model, properties=["I1", DEADLOCK]).checked == (DEADLOCK,)
    with pytest.raises(InputError, match="unknown property 'I3'"):
        broken("I3")
