"""The worked example: somebody else's prototype against the table of the design notes, and twelve planted mistakes."""

from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from fsm import testing
from fsm.table import Ignore
from fsm.tables.consumer_member_notes import TABLE
from fsm.testing.stateful import machine_from
from fsm.testing.tours import all_refusals, all_transitions
from fsm.testing.trial import Mismatch, follow

from . import prototype
from .adapter import PrototypeAdapter

CASES = all_transitions(TABLE, ignored=True)
REFUSALS = all_refusals(TABLE)

# fmt: off
PLANTED = [
    # mistake                     events until the tours find it, and random runs at most; events that show it
    (prototype.MissingRow,         8,   60,  4),
    (prototype.WrongTarget,        48,  60,  3),
    (prototype.LostEffect,         26,  60,  5),
    (prototype.ForgottenTimer,     10,  60,  4),
    (prototype.ReorderedQueue,     6,   60,  2),
    (prototype.EffectTwice,        41,  60,  4),
    (prototype.NotRestored,        151, 500, 1),
    (prototype.WrongInitial,       0,   0,   0),
    (prototype.IgnoredEventActs,   67,  100, 3),
    (prototype.StaleCallback,      40,  60,  4),
    (prototype.AcceptsAnything,    92,  500, 1),
    (prototype.SecondTime,         22,  60,  4),
]
# fmt: on
RUNS = settings(
    max_examples=40,
    stateful_step_count=30,
    database=None,
    phases=[Phase.generate],  # the shortest sequence is found without Hypothesis's own shrinking
)


def adapter_for(consumer):
    """The adapter of a ruined prototype: the same one, over another class."""
    return type(f"{consumer.__name__}Adapter", (PrototypeAdapter,), {"consumer_type": consumer})


def found_by_tours(adapter):
    """The mismatch, and the events sent until it: all cells, then refusals, then cells with failing effects."""
    sent = 0
    for tour, failures in ((CASES, False), (REFUSALS, False), (CASES, True)):
        for case in tour.cases:
            try:
                sent += follow(case, adapter, failures=failures)
            except Mismatch as mismatch:
                return mismatch, sent + mismatch.after
    return None, sent


@pytest.mark.parametrize("case", CASES.params())
def test_the_prototype_does_what_the_notes_say(case):
    """Every row and every ignored cell, in the fewest steps; effects fail first and change nothing."""
    assert follow(case, PrototypeAdapter, failures=True) >= len(case.moves)


@pytest.mark.parametrize("case", REFUSALS.params())
def test_the_prototype_refuses_what_cannot_happen(case):
    """In each state every event without a cell raises and changes nothing."""
    assert follow(case, PrototypeAdapter) == len(case.moves)


def test_hypothesis_finds_nothing_wrong_with_the_prototype():
    """Forty random runs take every row of the table and find no difference."""
    machine = machine_from(TABLE, PrototypeAdapter)
    run_state_machine_as_test(machine, settings=RUNS)
    assert machine.list_untaken() == []
    assert {cell.source.why for move, cell in TABLE.compiled.items() if cell.ignored and machine.taken[move]} == {
        line.why for line in TABLE.rows if isinstance(line, Ignore)
    }


@pytest.mark.parametrize(("consumer", "by_tours", "by_runs", "shortest"), PLANTED, ids=[p[0].__name__ for p in PLANTED])
def test_a_planted_mistake_is_found(consumer, by_tours, by_runs, shortest):
    """Tours need exactly so many events, random runs at most; both show it in the fewest events there are."""
    adapter = adapter_for(consumer)
    mismatch, sent = found_by_tours(adapter)
    assert mismatch is not None
    assert (sent, len(mismatch.actions)) == (by_tours, shortest)
    machine = machine_from(TABLE, adapter)
    with pytest.raises(Mismatch) as caught:
        run_state_machine_as_test(machine, settings=RUNS)
    assert machine.events_sent <= by_runs
    assert len(caught.value.actions) == shortest


def test_the_report_cites_the_table():
    """The events from the start, the row with its clause, what was expected and what was got."""
    mismatch, _ = found_by_tours(adapter_for(prototype.StaleCallback))
    assert str(mismatch) == REPORT


README = Path(testing.__file__).with_name("README.md")
REPORT = """\
consumer-member-notes: the implementation differs after 4 events
    1  in UNSUBSCRIBED  SUBSCRIBED
    2  in JOINING       JOIN_HEARTBEAT_SENT
    3  in STABLE        ASSIGNMENT_RECEIVED
    4  in RECONCILING   ABANDONED_STEP_ENDED
  table     RECONCILING on ABANDONED_STEP_ENDED: DROP_RECONCILIATION, RECONCILE \
[list: UNSUBSCRIBING, FENCED (how to cancel)]
  expected  state RECONCILING; effects DROP_RECONCILIATION, RECONCILE
  got       state ACK; effects HEARTBEAT_NOW"""


def test_the_documentation_shows_this_report():
    """The docstring of the package has the report word for word, further in; its README has it as it is."""
    assert f"```text\n{REPORT}\n```" in README.read_text(encoding="utf-8")
    shown = [line.strip() for line in (testing.__doc__ or "").splitlines()]
    lines = [line.strip() for line in REPORT.splitlines()]
    at = shown.index(lines[0])
    assert shown[at : at + len(lines)] == lines
