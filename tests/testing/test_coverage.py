"""What a recorder notes, what it leaves alone, and what a report says."""

import io
import logging
from contextlib import suppress

import pytest
import structlog

from fsm.errors import FsmError, IllegalTransition
from fsm.machine import bind
from fsm.table import Compiled, StateCells, Symbol, Table, each, ignore, row, watch_cells
from fsm.tables import ALL
from fsm.testing import coverage
from fsm.testing.coverage import Recorder, from_json, merge, percent, report, shape_of, to_json
from fsm.testing.tours import all_refusals, all_states, all_transitions


class State(Symbol):
    OUT = "Outside."
    DOOR = "On the way."
    IN = "Inside."
    OVER = "Over."


class Event(Symbol):
    JOIN = "Asks to come in."
    WORK = "Has something to do."
    LEAVE = "Goes."
    KILL = "Ends."


class Effect(Symbol):
    SEND = "Sends."
    STORE = "Stores."


S, E, F = State, Event, Effect


def door():
    """A fresh table: two rows for two states, one that passes through a third, one that fails on demand."""
    return Table(
        name="door",
        initial=S.OUT,
        terminal=(S.OVER,),
        effects=Effect,
        rows=(
            row(S.OUT, E.JOIN, S.DOOR, F.SEND, S.IN, clause="1.1"),
            row(S.IN, E.WORK, F.STORE, F.SEND, clause="1.2"),
            row(S.IN, E.LEAVE, S.OUT),
            *each((S.DOOR,), (E.LEAVE, E.WORK), S.OUT, clause="never"),
            row((S.OUT, S.IN), E.KILL, S.OVER, clause="1.3"),
            ignore(S.OUT, (E.LEAVE, E.WORK), why="out already", clause="1.4"),
        ),
    )


class Model:
    """Obeys, or fails."""

    fails = False

    def on_effect(self, _effect):
        if self.fails:
            raise OSError


def taken(recorder):
    return {shape.name: sorted(pairs) for shape, pairs in recorder.coverage().items()}


def test_steps_of_both_forms_are_noted():
    """A pair asked of the table and an event asked of a state are the same thing; illegal ones are not taken."""
    table = door()
    with Recorder() as recorder:
        assert table.compiled[S.OUT, E.JOIN].target is S.IN
        assert table.compiled.by_state[S.IN][E.WORK].target is S.IN
        for illegal in ((S.OVER, E.JOIN), (S.IN, E.JOIN)):
            with pytest.raises(IllegalTransition):
                table.compiled[illegal]
        with pytest.raises(IllegalTransition, match="legal there: WORK, LEAVE, KILL"):
            table.compiled.by_state[S.IN][E.JOIN]
    assert taken(recorder) == {"door": [("IN", "WORK"), ("OUT", "JOIN")]}


@pytest.mark.parametrize("level", [logging.INFO, logging.ERROR], ids=["recording", "quiet"])
def test_a_bound_model_takes_what_it_did(level):
    """Each finished step, ignored events too, whatever is logged; a failed step and a refused event took nothing."""
    logger = structlog.wrap_logger(
        structlog.WriteLogger(io.StringIO()), wrapper_class=structlog.make_filtering_bound_logger(level)
    )
    with Recorder() as recorder:
        model = Model()
        bind(door(), model, logger=logger)
        model.leave()
        model.join()
        with pytest.raises(IllegalTransition):
            model.join()
        model.fails = True
        with pytest.raises(OSError):  # noqa: PT011
            model.work()
        model.kill()
    assert taken(recorder) == {"door": [("IN", "KILL"), ("OUT", "JOIN"), ("OUT", "LEAVE")]}


def test_reading_a_table_takes_nothing():
    """Neither building, counting and drawing a table nor planning its tours is a step."""
    with Recorder() as recorder:
        table = door()
        table.counts()
        assert table.columns.edges
        assert table.compiled.get((S.OUT, E.JOIN))
        for tour in (all_states(table), all_transitions(table), all_refusals(table)):
            assert str(tour)
        shape_of(table.compiled)
    assert recorder.coverage() == {}


def test_without_a_recorder_a_step_is_a_plain_look_up():
    """Before and after, stepping is the dict's own method; in between it is ours."""
    plain = (Compiled.__getitem__, StateCells.__getitem__)
    assert plain == (dict.__getitem__, dict.__getitem__)
    with suppress(ZeroDivisionError), Recorder():
        assert Compiled.__getitem__ is not dict.__getitem__
        raise ZeroDivisionError
    assert (Compiled.__getitem__, StateCells.__getitem__) == plain


def test_a_recorder_notes_before_during_and_after_another_watch():
    """As the mutation score has it of a model that is explored in a test."""
    table, noted = door(), []
    with Recorder() as recorder:
        assert table.compiled[S.OUT, E.JOIN]
        with watch_cells(lambda _, *pair: noted.append(pair)):
            assert table.compiled.by_state[S.IN][E.WORK]
        assert table.compiled[S.OUT, E.KILL]
    assert noted == [(S.IN, E.WORK)]
    assert taken(recorder) == {"door": [("IN", "WORK"), ("OUT", "JOIN"), ("OUT", "KILL")]}


def test_one_recorder_runs_at_a_time():
    """A second one is refused, and does not stop the first."""
    table = door()
    with Recorder() as first:
        second = Recorder()
        with pytest.raises(FsmError, match="running already"):
            second.start()
        second.stop()
        assert table.compiled[S.OUT, E.KILL]
    assert taken(first) == {"door": [("OUT", "KILL")]}


def test_equal_tables_are_one_and_different_ones_of_a_name_are_two():
    """Two tables built alike share their cells in the report; another table of that name stands by itself."""
    other = Table(name="door", initial=S.OUT, terminal=(S.IN,), rows=(row(S.OUT, E.JOIN, S.IN),), part=True)
    with Recorder() as recorder:
        assert door().compiled[S.OUT, E.JOIN]
        assert door().compiled[S.OUT, E.KILL]
        assert other.compiled[S.OUT, E.JOIN]
    assert [len(pairs) for pairs in recorder.coverage().values()] == [2, 1]


def test_a_report_lists_what_was_never_taken():
    """States (the one passed through counts), cells in percent, rows with clause; the unreachable is left out."""
    with Recorder() as recorder:
        for pair in ((S.OUT, E.JOIN), (S.IN, E.KILL), (S.OUT, E.WORK)):
            assert door().compiled[pair]
    assert list(report(recorder.coverage())) == [
        "door: 4 of 4 states, 2 of 5 transitions (40.0 %), 1 of 2 ignored cells",
        "  never taken:",
        "    1.3  OUT on KILL (1 of 2 cells): OVER",
        "    1.2  IN on WORK: STORE, SEND",
        "    -    IN on LEAVE: OUT",
    ]


def test_a_table_that_was_taken_whole_has_nothing_to_list():
    """Every row of every table by its own tour: 100 percent and one line each."""
    with Recorder() as recorder:
        for table in ALL:
            for case in all_transitions(table).cases:
                for move in case.moves:
                    assert table.compiled[move]
    found = recorder.coverage()
    assert [shape.name for shape in found] == [table.name for table in ALL]
    assert {percent(shape, pairs) for shape, pairs in found.items()} == {100.0}
    assert len(list(report(found))) == len(ALL)


def test_states_and_events_that_miss_the_same_stand_together():
    """One line for all states that lack the same events of a row."""
    found = {shape_of(ALL[0].compiled): set()}
    lines = [line for line in report(found) if line.startswith("    M2 ")]
    assert len(lines) == 1
    assert "JOINING, RECONCILING, ACKNOWLEDGING, STABLE on ERR_FATAL: WIPE_SENT, " in lines[0]


def test_what_processes_took_is_put_together():
    """Through JSON and back, the sets of two recorders become their union."""
    recorders = []
    for pairs in (((S.OUT, E.JOIN),), ((S.OUT, E.JOIN), (S.IN, E.WORK))):
        with Recorder() as recorder:
            for pair in pairs:
                assert door().compiled[pair]
        recorders.append(recorder)
    whole: coverage.Coverage = {}
    for recorder in recorders:
        text = to_json(recorder.coverage())
        assert from_json(text) == recorder.coverage()
        merge(whole, from_json(text))
    assert whole == recorders[1].coverage()
