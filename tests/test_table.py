"""The kernel: what a table says, and every defect it refuses, by its words."""

import copy
import pickle

import pytest

from fsm.errors import FsmError, IllegalTransition, InputError, TableError
from fsm.table import Cell, Ignore, Kind, Row, Symbol, Table, each, ignore, row


class State(Symbol):
    OUT = "Not in the group."
    JOINING = "Asks to join."
    STABLE = "In the group."
    LEAVING = "Says goodbye."
    DEAD = "Over."


class Event(Symbol):
    JOIN = "The application subscribes."
    JOINED = "The coordinator accepts."
    LEAVE = "The application leaves."
    KILL = "The process ends."


class Effect(Symbol):
    SEND = "Send a heartbeat."
    RELEASE = "Give the partitions back."


class Stranger(Symbol):
    OTHER = "A member of an enum of another table."


S, E, F, X = State, Event, Effect, Stranger

LEAVE = row((S.JOINING, S.STABLE), E.LEAVE, F.RELEASE, S.LEAVING, F.SEND, S.OUT, clause="c2", note="in one go")
ROWS = (
    row(S.OUT, E.JOIN, S.JOINING, F.SEND, clause="c1"),
    row(S.JOINING, E.JOINED, S.STABLE),
    LEAVE,
    row((S.OUT, S.JOINING, S.STABLE), E.KILL, S.DEAD),
    row(S.STABLE, E.JOINED, F.SEND),
    row(S.STABLE, E.JOIN, S.STABLE),
    ignore((S.OUT, S.DEAD), (E.LEAVE, E.JOINED), why="late", clause="c3"),
)
MEMBER = Table(name="member", initial=S.OUT, terminal=(S.DEAD,), effects=Effect, rows=ROWS)


def member(*rows, **changes):
    """The member table with other rows or settings."""
    return Table(
        **{"name": "t", "initial": S.OUT, "terminal": (S.DEAD,), "effects": F, "rows": rows or ROWS, **changes}
    )


def problems(*rows, **changes):
    """What is wrong with the member table after these changes."""
    with pytest.raises(TableError) as caught:
        member(*rows, **changes)
    return caught.value.problems


# Symbols and lines.


def test_a_symbol_has_its_position_as_code_and_its_text_as_meaning():
    """Codes count from 0 in the order of the enum; two members with one text are two members."""

    class Twins(Symbol):
        A = "same"
        B = "same"

    assert [(s.code, s.meaning) for s in S][:2] == [(0, "Not in the group."), (1, "Asks to join.")]
    assert Twins.A is not Twins.B
    assert [t.code for t in Twins] == [0, 1]
    assert repr(S.OUT) == "State.OUT"


def test_a_symbol_survives_copying_and_pickling_as_itself():
    """Members stay identical, since machines compare them by identity."""
    assert pickle.loads(pickle.dumps(S.STABLE)) is S.STABLE  # noqa: S301
    assert copy.deepcopy((S.STABLE, E.JOIN)) == (S.STABLE, E.JOIN)


def test_row_each_and_ignore_build_lines():
    """One member or several stand on the left; `each` gives one row per state."""
    assert row(S.OUT, (E.JOIN, E.KILL), S.DEAD, note="n") == Row((S.OUT,), (E.JOIN, E.KILL), (S.DEAD,), "", "n")
    assert list(each((S.OUT, S.DEAD), E.JOIN, F.SEND, clause="c")) == [
        Row((S.OUT,), (E.JOIN,), (F.SEND,), "c"),
        Row((S.DEAD,), (E.JOIN,), (F.SEND,), "c"),
    ]
    assert ignore(S.OUT, iter([E.JOIN]), why="w") == Ignore((S.OUT,), (E.JOIN,), "w")


# What a table answers.


def test_a_row_with_a_path_gives_states_and_effects_in_order():
    """The cell holds the target, the effects, the states on the way, and both interleaved as written."""
    assert MEMBER.compiled[S.STABLE, E.LEAVE] == Cell(
        target=S.OUT,
        effects=(F.RELEASE, F.SEND),
        path=(S.LEAVING, S.OUT),
        steps=(F.RELEASE, S.LEAVING, F.SEND, S.OUT),
        source=LEAVE,
    )


def test_a_row_of_several_states_is_a_cell_in_each():
    """The same line is the source of the cells of all its states."""
    assert MEMBER.compiled[S.JOINING, E.LEAVE].source is LEAVE
    assert {s for (s, e), cell in MEMBER.compiled.items() if e is E.KILL} == {S.OUT, S.JOINING, S.STABLE}


def test_a_row_without_a_state_stays_and_a_row_to_itself_enters():
    """Both leave the machine where it is; only the second one enters the state again."""
    stay, again = MEMBER.compiled[S.STABLE, E.JOINED], MEMBER.compiled[S.STABLE, E.JOIN]
    assert (stay.target, stay.path, stay.effects) == (S.STABLE, (), (F.SEND,))
    assert (again.target, again.path, again.effects) == (S.STABLE, (S.STABLE,), ())


def test_an_ignored_event_is_a_cell_that_does_nothing():
    """Its reason and clause are those of the line."""
    cell = MEMBER.compiled[S.DEAD, E.LEAVE]
    assert cell == Cell(S.DEAD, (), (), (), Ignore((S.OUT, S.DEAD), (E.LEAVE, E.JOINED), "late", "c3"))
    assert cell.ignored
    assert not MEMBER.compiled[S.OUT, E.JOIN].ignored


def test_every_pair_is_of_one_of_three_kinds():
    """Rows, ignores and the rest, which is illegal."""
    assert MEMBER.kind(S.OUT, E.JOIN) is Kind.ROW
    assert MEMBER.kind(S.OUT, E.LEAVE) is Kind.IGNORE
    assert MEMBER.kind(S.DEAD, E.JOIN) is Kind.ILLEGAL


@pytest.mark.parametrize("look", [lambda c, s, e: c[s, e], lambda c, s, e: c.by_state[s][e]])
def test_an_illegal_event_says_machine_state_event_and_what_is_legal(look):
    """Both ways to step raise the same error, with the legal events in the order of their enum."""
    with pytest.raises(IllegalTransition) as caught:
        look(MEMBER.compiled, S.DEAD, E.KILL)
    assert str(caught.value) == "member: KILL is illegal in DEAD; legal there: JOINED, LEAVE"
    assert (caught.value.machine, caught.value.state, caught.value.event) == ("member", S.DEAD, E.KILL)
    assert caught.value.legal == (E.JOINED, E.LEAVE)
    assert isinstance(caught.value, FsmError)


@pytest.mark.parametrize("look", [lambda c, s, e: c[s, e], lambda c, s, e: c.by_state[s][e]])
def test_a_state_without_cells_says_that_nothing_is_legal(look):
    """A terminal state with no ignores has no event at all."""
    table = member(*ROWS[:-1])
    with pytest.raises(IllegalTransition, match=r"^t: JOIN is illegal in DEAD; legal there: no event at all$"):
        look(table.compiled, S.DEAD, E.JOIN)


@pytest.mark.parametrize(
    "error",
    [
        IllegalTransition("member", S.OUT, E.JOINED, (E.JOIN, E.KILL)),
        TableError("member", ("line 1: this", "line 2: that")),
        InputError("no such thing", "here.yaml:5", "try another"),
    ],
)
def test_errors_can_be_pickled(error):
    """Worker processes hand them back whole."""
    back = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def test_the_compiled_table_is_ordered_and_stays_as_it_is():
    """Cells come by state and event in the order of the enums, whatever the order of the lines."""
    pairs = list(MEMBER.compiled)
    assert pairs == sorted(pairs, key=lambda pair: (pair[0].code, pair[1].code))
    assert list(member(*reversed(ROWS)).compiled) == pairs
    assert MEMBER.compiled is MEMBER.compiled
    assert (MEMBER.compiled.name, MEMBER.compiled.initial, MEMBER.compiled.terminal) == ("member", S.OUT, (S.DEAD,))
    with pytest.raises(KeyError):
        dict(MEMBER.compiled)[S.DEAD, E.JOIN]
    assert (S.DEAD, E.JOIN) not in MEMBER.compiled


def test_states_are_those_of_the_table_in_the_order_of_the_enum():
    """States that are only passed through count; alphabet and lines are complete."""
    assert MEMBER.states == MEMBER.leaves() == MEMBER.all_states() == tuple(S)
    assert MEMBER.alphabet == tuple(E)
    assert [line for _, line in MEMBER.lines()] == list(ROWS)


def test_counts_count_lines_and_cells():
    """States, events and effects; lines of both kinds; cells of all three, which fill the grid."""
    assert MEMBER.counts() == {
        "states": 5,
        "events": 4,
        "effects": 2,
        "rows": 6,
        "ignores": 1,
        "row_cells": 9,
        "ignored_cells": 4,
        "illegal_cells": 7,
    }


def test_columns_are_the_cells_as_integers():
    """Targets by state and event, kinds beside them, and each hop with the events that cause it."""
    columns = MEMBER.columns
    assert columns.states == ("OUT", "JOINING", "STABLE", "LEAVING", "DEAD")
    assert columns.events == ("JOIN", "JOINED", "LEAVE", "KILL")
    # fmt: off
    assert list(columns.target) == [
         1,  0,  0,  4,
        -1,  2,  0,  4,
         2,  2,  0,  4,
        -1, -1, -1, -1,
        -1,  4,  4, -1,
    ]
    assert list(columns.kind) == [
        2, 1, 1, 2,
        0, 2, 2, 2,
        2, 2, 2, 2,
        0, 0, 0, 0,
        0, 1, 1, 0,
    ]
    # fmt: on
    assert columns.edges == (
        (0, 1, (0,)),
        (0, 4, (3,)),
        (1, 2, (1,)),
        (1, 3, (2,)),
        (1, 4, (3,)),
        (2, 2, (0,)),
        (2, 3, (2,)),
        (2, 4, (3,)),
        (3, 0, (2,)),
    )
    assert (columns.target.typecode, columns.kind.typecode) == ("h", "b")


def test_events_may_be_given_and_are_found_otherwise():
    """Without `events` the enum is that of the first event on any line."""
    assert member().event_type is E
    assert member(events=E).event_type is E


def test_settings_may_be_single_members_and_iterators():
    """One terminal state needs no tuple, and rows may come from a generator."""
    table = member(terminal=S.DEAD, rows=iter(ROWS))
    assert (table.terminal, table.rows) == ((S.DEAD,), ROWS)


# Nested tables.


class Deep(Symbol):
    OUT = "Outside."
    IN = "Holds a table."
    IDLE = "The first inside."
    BUSY = "Holds a table itself."
    FETCHING = "The first, two levels down."
    STORING = "Two levels down."
    END = "Over."


D = Deep
INNERMOST = Table(
    name="innermost",
    initial=D.FETCHING,
    exits=(D.IDLE,),
    events=Event,
    rows=(row(D.FETCHING, E.JOIN, D.STORING), row(D.STORING, E.JOIN, D.IDLE), ignore(D.STORING, E.LEAVE, why="busy")),
)
INNER = Table(
    name="inner",
    initial=D.IDLE,
    part=True,
    events=Event,
    nested={D.BUSY: INNERMOST},
    rows=(row(D.IDLE, E.JOIN, D.BUSY), row(D.BUSY, E.JOINED, D.IDLE)),
)
OUTER_ROWS = (
    row(D.OUT, E.JOIN, D.IN),
    row(D.OUT, E.JOINED, D.STORING),
    row(D.IN, E.LEAVE, D.OUT),
    row(D.IN, E.KILL, D.END),
    row(D.IN, E.JOINED, D.IN),
    ignore(D.END, E.KILL, why="over"),
)
OUTER = Table(name="outer", initial=D.OUT, terminal=(D.END,), nested={D.IN: INNER}, rows=OUTER_ROWS)


def test_nested_tables_are_flattened_to_their_leaves():
    """A machine is in a leaf; holders come before what they hold, and are no states to be in."""
    assert OUTER.all_states() == (D.OUT, D.IN, D.IDLE, D.BUSY, D.FETCHING, D.STORING, D.END)
    assert OUTER.states == (D.OUT, D.IN, D.END)
    assert OUTER.leaves() == (D.OUT, D.IDLE, D.FETCHING, D.STORING, D.END)
    assert OUTER.columns.states == ("OUT", "IDLE", "FETCHING", "STORING", "END")


def test_going_to_a_holder_enters_its_first_state_and_going_inside_enters_that_one():
    """At any depth, from outside, from inside and from a nested table."""
    assert OUTER.compiled[D.OUT, E.JOIN].path == (D.IDLE,)
    assert OUTER.compiled[D.OUT, E.JOINED].target is D.STORING
    assert OUTER.compiled[D.IDLE, E.JOIN].target is D.FETCHING
    assert OUTER.compiled[D.IDLE, E.JOINED].path == (D.IDLE,)


def test_the_innermost_cell_comes_first():
    """A row or an ignore inside overrules the holder's; what the inside does not know is the holder's."""
    assert OUTER.compiled[D.STORING, E.LEAVE].ignored
    assert OUTER.compiled[D.FETCHING, E.LEAVE].target is D.OUT
    assert OUTER.compiled[D.STORING, E.JOINED].source is INNER.rows[1]
    assert OUTER.compiled[D.IDLE, E.JOINED].source is OUTER_ROWS[4]
    assert OUTER.compiled[D.STORING, E.JOIN].target is D.IDLE


def test_counts_and_lines_include_what_is_nested():
    """Lines of nested tables come after those of their holder, each with its table."""
    assert [table.name for table, _ in OUTER.lines()] == ["outer"] * 6 + ["inner"] * 2 + ["innermost"] * 3
    assert OUTER.counts() == {
        "states": 5, "events": 4, "effects": 0, "rows": 9, "ignores": 2,
        "row_cells": 13, "ignored_cells": 2, "illegal_cells": 5,
    }  # fmt: skip


def test_a_nested_table_by_itself_has_its_exits_as_last_states():
    """A drawing or a tour of the part shows where it is left to."""
    assert INNERMOST.columns.states == ("FETCHING", "STORING", "IDLE")
    assert INNERMOST.columns.edges == ((0, 1, (0,)), (1, 2, (0,)))


def nested_problems(table=INNER, **changes):
    """What is wrong with the outer table around this inner one."""
    given = {"name": "o", "initial": D.OUT, "terminal": (D.END,), "rows": OUTER_ROWS, "nested": {D.IN: table}}
    with pytest.raises(TableError) as caught:
        Table(**{**given, **changes})
    return caught.value.problems


def inner(name="i", **changes):
    """The inner table with changes."""
    given = {"initial": D.IDLE, "part": True, "events": Event, "rows": INNER.rows, "nested": INNER.nested}
    return Table(**{"name": name, **given, **changes})


def test_a_nested_table_leaves_only_to_states_of_its_holder():
    """An exit that the holder's table does not have is named."""
    stray = inner(exits=(D.END,), rows=(*INNER.rows, row(D.IDLE, E.LEAVE, D.END)))
    rows = tuple(r for r in OUTER_ROWS if D.END not in (*getattr(r, "steps", ()), *r.states))
    assert nested_problems(stray, terminal=(), rows=rows) == (
        "nested table 'i' exits to Deep.END, which is not a state here",
    )


def test_a_nested_table_shares_the_enums_of_its_holder():
    """Another State, Event or Effect enum is refused."""
    other_states = Table(
        name="s", initial=S.JOINING, part=True, events=E, rows=(row(S.JOINING, E.JOIN, S.STABLE),)
    )  # fmt: skip
    assert nested_problems(other_states)[0] == "nested table 's' uses another State enum"

    class Others(Symbol):
        GO = "An event of another enum."

    other_events = Table(name="e", initial=D.IDLE, part=True, rows=(row(D.IDLE, Others.GO, D.BUSY),))
    assert nested_problems(other_events) == ("nested table 'e' uses another Event enum",)
    assert nested_problems(inner(effects=Effect)) == ("nested table 'i' uses another Effect enum",)


def test_a_state_belongs_to_one_nested_table_and_has_its_rows_there():
    """Held twice, or given rows in the holder's table, it is named."""
    assert nested_problems(nested={D.IN: INNER, D.OUT: inner("twin")})[:2] == (
        "IDLE belongs to more than one nested table",
        "BUSY belongs to more than one nested table",
    )
    assert nested_problems(rows=(*OUTER_ROWS, row(D.IDLE, E.LEAVE, D.OUT))) == (
        "IDLE belongs to a nested table; give its rows there",
    )


def test_a_table_begins_in_a_state_of_its_own():
    """Neither in a state of a nested table nor in an exit."""
    assert nested_problems(initial=D.IDLE) == ("initial: IDLE is no state of this table itself",)
    with pytest.raises(TableError, match="initial: OUT is no state of this table itself"):
        inner(initial=D.OUT, exits=(D.OUT,), rows=(row(D.IDLE, E.JOIN, D.OUT),), nested={})


def test_terminal_states_hold_nothing_and_are_left_by_no_holder():
    """A terminal holder is refused, and so is a terminal state inside that a row of the holder leaves."""
    assert "IN is terminal and cannot hold a nested table" in nested_problems(terminal=(D.IN, D.END))
    final = inner(
        terminal=(D.BUSY,), nested={}, rows=(row(D.IDLE, E.JOIN, D.BUSY), ignore(D.BUSY, E.JOINED, why="over"))
    )
    assert nested_problems(final, rows=(*OUTER_ROWS[:1], *OUTER_ROWS[2:])) == (
        "BUSY is terminal, yet a row of the table that holds it leaves it",
        "state FETCHING is never used",
        "state STORING is never used",
    )


def test_what_depends_on_the_whole_is_checked_when_the_whole_is_built():
    """Inside, a state may be left by the holder only, or entered from outside only; unused ones are found outside."""
    part = inner(nested={}, rows=(row(D.IDLE, E.JOIN, D.FETCHING), row(D.BUSY, E.JOIN, D.IDLE)))
    assert nested_problems(part, rows=(*OUTER_ROWS[:1], *OUTER_ROWS[2:])) == (
        "BUSY cannot be reached from OUT",
        "state STORING is never used",
    )
    rows = (row(D.OUT, E.JOINED, D.BUSY), *OUTER_ROWS[:1], *OUTER_ROWS[2:])
    assert nested_problems(part, rows=rows) == ("state STORING is never used",)


# Defects of one table.


def test_a_table_without_rows_is_refused():
    """No line, or no line with an event, leaves nothing to say."""
    assert problems(rows=()) == ("has no rows that name an event",)
    assert problems(row(S.OUT, (), S.DEAD)) == ("has no rows that name an event",)


def test_a_line_without_states_or_events_is_refused():
    """Both sides of a line name something."""
    assert problems(*ROWS, row(S.OUT, ()), row((), E.JOIN)) == (
        "line 8 names no state or no event",
        "line 9 names no state or no event",
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (row(X.OTHER, E.JOIN, S.DEAD), "line 8: Stranger.OTHER is no state of this table"),
        (row(S.DEAD, X.OTHER, S.DEAD), "line 8: Stranger.OTHER is no event of this table"),
        (row(S.DEAD, S.OUT, S.DEAD), "line 8: State.OUT is no event of this table"),
        (row(S.DEAD, E.JOIN, X.OTHER), "line 8: Stranger.OTHER is neither a state nor an effect of this table"),
        (row(S.DEAD, E.JOIN, E.JOIN), "line 8: Event.JOIN is neither a state nor an effect of this table"),
        (ignore("OUT", E.JOIN, why="x"), "line 8: 'O' is no state of this table"),
        (ignore(S.DEAD, E.JOIN, why=" "), "line 8: an ignore needs a reason"),
    ],
)
def test_a_foreign_member_is_named_with_its_line(line, problem):
    """Members of other enums, plain texts and members in the wrong column are found; an ignore has a reason."""
    assert problems(*ROWS, line)[0] == problem


def test_a_foreign_terminal_exit_or_holder_is_named():
    """The settings beside the rows take states of the table only."""
    assert problems(terminal=(X.OTHER,), exits=(X.OTHER,), nested={X.OTHER: MEMBER}) == (
        "terminal: Stranger.OTHER is no state of this table",
        "exits: Stranger.OTHER is no state of this table",
        "nested: Stranger.OTHER is no state of this table",
    )


def test_effects_need_their_enum():
    """A table that names no Effect enum orders nothing."""
    assert problems(effects=None)[0] == "line 1: Effect.SEND is neither a state nor an effect of this table"


def test_two_cells_for_one_pair_are_refused():
    """Rows and ignores share the grid; each repetition is named with the line before it."""
    again = ignore((S.OUT, S.STABLE), (E.JOIN, E.KILL), why="twice")
    assert problems(*ROWS, again) == (
        "line 8: OUT on JOIN has a cell already in line 1",
        "line 8: OUT on KILL has a cell already in line 4",
        "line 8: STABLE on JOIN has a cell already in line 6",
        "line 8: STABLE on KILL has a cell already in line 4",
    )
    assert problems(*ROWS, row((S.DEAD, S.DEAD), E.JOIN)) == ("line 8: DEAD on JOIN has a cell already in line 8",)


def test_a_terminal_state_is_never_left():
    """Neither by a row from it, nor on the way through it; staying in it is fine."""
    assert problems(*ROWS, row(S.DEAD, E.JOIN, S.OUT)) == ("line 8: leaves the terminal state DEAD",)
    assert problems(*ROWS, row(S.LEAVING, E.JOIN, S.DEAD, S.OUT)) == ("line 8: leaves the terminal state DEAD",)
    assert member(*ROWS, row(S.DEAD, E.JOIN, S.DEAD, F.SEND)).kind(S.DEAD, E.JOIN) is Kind.ROW


def test_an_exit_has_no_lines_of_its_own():
    """Rows and ignores of an exit stand in the holder's table."""
    problem = "line 7: DEAD is an exit; its rows stand in the holder's table"
    assert problems(*ROWS, exits=(S.DEAD,), terminal=()) == (problem,)


def test_a_state_that_cannot_be_reached_is_named():
    """States that only rows of unreachable states enter are unreachable too."""
    rows = (*ROWS[:2], row(S.LEAVING, E.LEAVE, F.RELEASE, S.OUT), *ROWS[3:])
    assert problems(*rows) == ("LEAVING cannot be reached from OUT",)


def test_passing_through_a_state_does_not_reach_what_lies_behind_it():
    """A machine never rests in a state that is only passed, so that state's own rows never fire."""
    rows = (
        row(S.OUT, E.JOIN, S.JOINING, S.STABLE, F.SEND, F.RELEASE),
        row(S.JOINING, E.JOINED, S.LEAVING),
        row((S.STABLE, S.LEAVING), (E.LEAVE, E.KILL), S.DEAD),
    )
    assert problems(*rows) == ("LEAVING cannot be reached from OUT",)
    assert member(*rows, row(S.STABLE, E.JOIN, S.JOINING)).compiled[S.JOINING, E.JOINED].target is S.LEAVING


def test_a_state_without_a_way_out_is_a_trap_unless_terminal():
    """Staying or entering itself is no way out; a state that is only passed through needs none."""
    assert problems(terminal=()) == ("DEAD is not terminal, yet no row leaves it",)
    circles = row(S.DEAD, E.JOIN, S.DEAD)
    assert problems(*ROWS, circles, terminal=()) == ("DEAD is not terminal, yet no row leaves it",)
    assert S.LEAVING in MEMBER.states


def test_members_that_nobody_uses_are_named():
    """An event, an effect or a state without a line is a gap or a leftover."""
    rows = (row(S.OUT, E.JOIN, S.JOINING), row(S.JOINING, E.KILL, S.DEAD))
    assert problems(*rows) == (
        "event JOINED is never used",
        "event LEAVE is never used",
        "effect SEND is never used",
        "effect RELEASE is never used",
        "state STABLE is never used",
        "state LEAVING is never used",
    )
    assert member(*rows, part=True, terminal=(S.DEAD,)).counts()["illegal_cells"] == 10


def test_a_table_error_lists_every_defect_on_one_line():
    """All problems in their order, with the name of the table."""
    with pytest.raises(TableError) as caught:
        member(*ROWS, ROWS[1], row(S.DEAD, E.KILL, S.OUT))
    assert caught.value.table == "t"
    assert str(caught.value) == (
        "table 't': line 8: JOINING on JOINED has a cell already in line 2; line 9: leaves the terminal state DEAD"
    )
