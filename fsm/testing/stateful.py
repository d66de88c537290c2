"""A Hypothesis state machine that drives an implementation at random, with a table as the oracle; and all tests that a
table has for an implementation, as one class that pytest collects.

    TestMyMember = machine_from(TABLE, MyAdapter).TestCase
    TestDoor = suite_from("door.yaml", DoorAdapter)     # or a Table, or FILE.py:NAME

Uniform random events leave a state of ten rows before its rare ones come up. Here each run has a plan, an order of all
cells that it draws once, and mostly goes the shortest way to the first cell of the plan that it has not taken yet; so a
few runs see the whole table. In the same way it has illegal events refused, if the adapter says what they raise, and
effects fail, if it can make them. Events at random come between, for what depends on history. A run depends on nothing
but its draws, so it replays and shrinks.

`machine.taken` counts how often each cell was taken over all runs, `machine.list_untaken()` names the rows never taken.

The class tests every row and every ignored cell, every event that must be refused (if the adapter has `refuses`), and
random paths. A failure shows the same as `follow`: the shortest sequence of events after which the two differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar
from zlib import crc32

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from fsm.table import Symbol, Table
from fsm.tables.files import find_table
from fsm.testing.tours import Case, Move, all_refusals, all_transitions, ways_from
from fsm.testing.trial import Action, Adapter, Mismatch, Trial, follow, shorten

Goal = tuple[Symbol, Action]
"""Something to try in a state."""
T = TypeVar("T")
_BATCH = 8
"""New cells taken in one step of Hypothesis, which costs more than many events."""


class DrivenByTable(RuleBasedStateMachine):
    """Made by `machine_from`, which gives it its table and its implementation."""

    table: ClassVar[Table]
    adapter: ClassVar[Callable[[], Adapter]]
    taken: ClassVar[Counter[Move]]
    """How often each cell was taken in any run of this class, ignored ones included."""
    events_sent: ClassVar[int]
    """Events sent to implementations by the runs of this class until the first mismatch, that one included."""
    _shortest: ClassVar[Mismatch | None]
    _ways: ClassVar[dict[Symbol, dict[Symbol, tuple[Move, ...]]]]

    @classmethod
    def list_untaken(cls) -> list[Move]:
        """Rows that no run has taken."""
        rows = (Move(*pair) for pair, cell in cls.table.compiled.items() if not cell.ignored)
        return [move for move in rows if not cls.taken[move]]

    def __init__(self) -> None:
        super().__init__()
        self._trial = self._fresh()
        self._tried: set[Goal] = set()
        self._cells, self._refusals, self._failures = self._goals()

    @initialize(plan=st.integers(0, 0xFFFF))
    def a_plan(self, plan: int) -> None:
        """An order of all goals: their checksums with the number drawn."""
        for goals in (self._cells, self._refusals, self._failures):
            goals.sort(key=lambda goal: crc32(f"{plan}/{goal[0].name}/{goal[1].event.name}".encode()))

    @precondition(lambda self: self._are_left(self._cells))
    @rule()
    def a_batch_of_new_cells(self) -> None:
        """Takes the next rows or ignored cells of the plan that this run has not taken.

        The first run that Hypothesis makes is the simplest: the rule without arguments whose name comes first, which
        is this one, again and again. So that run takes every cell there is, if it may make enough steps.
        """
        for _ in range(_BATCH):
            if self._are_left(self._cells):
                self._toward(self._cells)

    @precondition(lambda self: self._are_left(self._refusals))
    @rule()
    def an_illegal_event(self) -> None:
        """Sends an event where it has no cell: it must be refused and change nothing."""
        self._toward(self._refusals)

    @precondition(lambda self: self._are_left(self._failures))
    @rule()
    def a_failing_effect(self) -> None:
        """Sends an event whose first effect fails: the state must be what it was."""
        self._toward(self._failures)

    @precondition(lambda self: self._list_handled())
    @rule(data=st.data())
    def any_event(self, data: st.DataObject) -> None:
        """Sends an event that the table has a cell for, whether it was taken or not."""
        self._do(Action(data.draw(st.sampled_from(self._list_handled()), label="event")))

    @precondition(lambda self: not self._are_left(self._cells))
    @rule()
    def a_fresh_start(self) -> None:
        """Begins with a fresh implementation, once every cell was taken."""
        self._renew()

    def teardown(self) -> None:
        """Closes the implementation."""
        self._trial.close()

    def _goals(self) -> tuple[list[Goal], list[Goal], list[Goal]]:
        cells = self.table.compiled
        states = self._near(cells.initial)
        pairs = [(state, event) for state in states for event in self.table.alphabet]
        legal = [(state, Action(event)) for state, event in pairs if (state, event) in cells]
        illegal = [(state, Action(event)) for state, event in pairs if (state, event) not in cells]
        failing = [(state, Action(action.event, failing=True)) for state, action in legal]
        able = self._trial.may
        return legal, [g for g in illegal if able(g[1], g[0])], [g for g in failing if able(g[1], g[0])]

    def _are_left(self, goals: Sequence[Goal]) -> bool:
        return any(goal not in self._tried for goal in goals)

    def _toward(self, goals: Sequence[Goal]) -> None:
        """The shortest way to the first goal left, with a fresh implementation where no way leads there any more."""
        state, action = next(goal for goal in goals if goal not in self._tried)
        if state not in self._near(self._trial.state):
            self._renew()
        for move in self._near(self._trial.state)[state]:
            self._do(Action(move.event))
        self._do(action)

    def _list_handled(self) -> list[Symbol]:
        return list(self.table.compiled.by_state.get(self._trial.state, ()))

    def _near(self, state: Symbol) -> dict[Symbol, tuple[Move, ...]]:
        if state not in self._ways:
            self._ways[state] = ways_from(self.table, state)
        return self._ways[state]

    def _do(self, action: Action) -> None:
        state = self._trial.state
        if type(self)._shortest is None:
            type(self).events_sent += 1
        self._check(lambda: self._trial.do(action))
        self._tried.add((state, action))
        if not action.failing and (state, action.event) in self.table.compiled:
            self.taken[Move(state, action.event)] += 1

    def _renew(self) -> None:
        self._trial.close()
        self._trial = self._fresh()

    def _fresh(self) -> Trial:
        return self._check(lambda: Trial(self.table, type(self).adapter))

    def _check(self, attempt: Callable[[], T]) -> T:
        """Does it; a mismatch is raised from here, without context, so that all are one failure to Hypothesis."""
        try:
            return attempt()
        except Mismatch as mismatch:
            found = self._best(mismatch)
        raise Mismatch(found.table, found.actions, found.expected, found.got) from found.__cause__

    def _best(self, found: Mismatch) -> Mismatch:
        """The shortest sequence known so far; Hypothesis shrinks its own, so this is searched for few times only."""
        best = type(self)._shortest
        if best is None or len(found.actions) < len(best.actions):
            best = type(self)._shortest = shorten(found, type(self).adapter)
        return best


def machine_from(table: Table, adapter: Callable[[], Adapter]) -> type[DrivenByTable]:
    """A state machine for `adapter`, a subclass of `Adapter` or any function that makes one.

    Its `TestCase` is a test for pytest and unittest; `TestCase.settings` takes Hypothesis settings. A failing run
    raises `Mismatch` with the shortest sequence found.
    """
    members: dict[str, Any] = {
        "table": table,
        "adapter": staticmethod(adapter),
        "taken": Counter(),
        "events_sent": 0,
        "_shortest": None,
        "_ways": {},
        "__doc__": f"Drives {getattr(adapter, '__name__', adapter)} with {table.name} as the oracle.",
    }
    name = "".join(word.capitalize() for word in table.name.replace("_", "-").split("-")) + "Machine"
    return type(name, (DrivenByTable,), members)


def suite_from(table: Table | str, adapter: type[Adapter]) -> type[Any]:
    """The test class, for a name that pytest collects; a file is looked up relative to pytest's working directory.

    Raises `InputError` for a name that is no table.
    """
    import pytest  # noqa: PLC0415  # machines need only Hypothesis

    known = table if isinstance(table, Table) else find_table(table)

    class TestsOfTable:
        @pytest.mark.parametrize("case", all_transitions(known, ignored=True).params())
        def test_takes_every_row(self, case: Case) -> None:
            follow(case, adapter)

        if adapter.refuses:

            @pytest.mark.parametrize("case", all_refusals(known).params())
            def test_refuses_what_is_illegal(self, case: Case) -> None:
                follow(case, adapter)

        TestAtRandom = machine_from(known, adapter).TestCase

    return TestsOfTable
