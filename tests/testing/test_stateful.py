"""The Hypothesis machine: it replays, goes where it has not been, and reports one failure."""

import unittest

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from fsm.tables import find
from fsm.testing.stateful import DrivenByTable, machine_from
from fsm.testing.trial import Adapter, Mismatch

TABLE = find("consumer-member")
SETTINGS = settings(max_examples=10, stateful_step_count=50, database=None, phases=[Phase.generate])


class Compiled(Adapter):
    """The compiled table as an implementation, which is right by definition; noted is how many were made and closed."""

    open = 0

    def __init__(self):
        self.now = TABLE.compiled.initial
        type(self).open += 1

    def send(self, event):
        cell = TABLE.compiled[self.now, event]
        self.now = cell.target
        return cell.effects

    def state(self):
        return self.now

    def close(self):
        type(self).open -= 1


def test_the_first_run_takes_every_row():
    """One run of 50 steps takes all 193 rows and all 39 ignored cells of the member, each event counted once."""
    machine = machine_from(TABLE, Compiled)
    run_state_machine_as_test(machine, settings=settings(SETTINGS, max_examples=1))
    assert machine.list_untaken() == []
    assert len(machine.taken) == 193 + 39
    assert machine.events_sent == machine.taken.total() < 1_000


@pytest.mark.parametrize("number", [1, 2])
def test_later_runs_take_other_ways(number):
    """Ten runs of ten steps do not all begin alike: there are many orders of rows, whatever the seed."""
    ways = []

    class Noting(Compiled):
        def __init__(self):
            super().__init__()
            ways.append([])

        def send(self, event):
            ways[-1].append(event)
            return super().send(event)

    short = settings(SETTINGS, max_examples=10, stateful_step_count=10)
    run_state_machine_as_test(seed(number)(machine_from(TABLE, Noting)), settings=short)
    assert len({tuple(way[:20]) for way in ways if len(way) >= 20}) >= 5


def test_every_implementation_is_closed():
    """As many are closed as were made, fresh starts and failing runs included."""

    class Wrong(Compiled):
        open = 0

        def state(self):
            return "STABLE" if self.now is not TABLE.compiled.initial else self.now

    Compiled.open = 0
    run_state_machine_as_test(machine_from(TABLE, Compiled), settings=SETTINGS)
    with pytest.raises(Mismatch):
        run_state_machine_as_test(machine_from(TABLE, Wrong), settings=SETTINGS)
    assert (Compiled.open, Wrong.open) == (0, 0)


def test_all_differences_are_one_failure():
    """An implementation wrong in three ways, one of them an exception, gives one mismatch, not a group of failures."""

    class Wrong(Compiled):
        def send(self, event):
            if event.name == "ERR_RETRY":
                raise RuntimeError("unexpected")
            effects = super().send(event)
            if event.name == "POLL_LATE":
                self.now = TABLE.compiled.initial
            return effects[1:] if event.name == "SUBSCRIBE" else effects

    everything = settings(SETTINGS, phases=[Phase.generate, Phase.shrink])
    with pytest.raises(Mismatch) as caught:
        run_state_machine_as_test(machine_from(TABLE, Wrong), settings=everything)
    assert len(caught.value.actions) == 1


def test_its_test_case_runs_under_unittest_and_pytest():
    """`TestCase` is what test runners look for; its name tells the table."""
    machine = machine_from(TABLE, Compiled)
    assert issubclass(machine, DrivenByTable)
    assert issubclass(machine.TestCase, unittest.TestCase)
    assert machine.__name__ == "ConsumerMemberMachine"
    machine.TestCase.settings = settings(SETTINGS, max_examples=3)
    result = unittest.TestResult()
    machine.TestCase("runTest").run(result)
    assert (result.testsRun, result.failures, result.errors) == (1, [], [])


def test_machines_of_one_table_do_not_share_what_they_took():
    """Counts belong to the machine that was made, not to the class behind it."""
    first, second = machine_from(TABLE, Compiled), machine_from(TABLE, Compiled)
    run_state_machine_as_test(first, settings=settings(SETTINGS, max_examples=1))
    assert first.taken
    assert not second.taken
    assert len(second.list_untaken()) == 193
