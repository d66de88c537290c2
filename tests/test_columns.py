"""A population of machines at once: each is where its table has it, by itself."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from fsm import FsmError, IllegalSteps, Row, Symbol, Table, row
from fsm.columns import BLOCK
from fsm.tables import ALL, consumer_member

TABLE = consumer_member.TABLE
COLUMNS = TABLE.columns


def drawn(table: Table, count: int, *, legal: bool) -> tuple[np.ndarray, np.ndarray]:
    """States and events of so many machines."""
    target = np.frombuffer(table.columns.target, np.int16)
    known = np.flatnonzero(target >= 0) if legal else np.arange(len(target))
    states, events = divmod(np.random.default_rng(7).choice(known, count), len(table.columns.events))
    return states.astype(np.int16), events.astype(np.int16)


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
def test_each_machine_does_what_its_table_says(table: Table) -> None:
    """Every cell of every table, whatever kind it is of: the next state and the effects, or that it is illegal."""
    columns, states, events = table.columns, (*table.leaves(), *table.exits), table.alphabet
    pairs = [(s, e) for s in states for e in events]
    at = np.array([states.index(s) for s, _ in pairs], np.int16)
    causes = np.array([events.index(e) for _, e in pairs], np.int16)
    cells = [table.compiled.get(pair) for pair in pairs]
    orders = [columns.orders[i] for i in columns.order(at, causes)]
    assert orders == [() if cell is None else tuple(e.name for e in cell.effects) for cell in cells]
    after = at.copy()
    with pytest.raises(IllegalSteps) as refused:
        columns.step(at, causes, out=after)
    assert list(refused.value.positions) == [i for i, cell in enumerate(cells) if cell is None]
    expected = [s if cell is None else cell.target for (s, _), cell in zip(pairs, cells, strict=True)]
    assert [states[i] for i in after] == expected


def test_a_population_larger_than_a_block_is_stepped_in_place_or_not() -> None:
    """The same states, wherever they are written."""
    states, events = drawn(TABLE, 2 * BLOCK + 17, legal=True)
    expected = np.frombuffer(COLUMNS.target, np.int16)[states.astype(np.int64) * len(COLUMNS.events) + events]
    before = states.copy()
    assert np.array_equal(COLUMNS.step(states, events), expected)
    assert np.array_equal(states, before)
    assert COLUMNS.step(states, events, out=states) is states
    assert np.array_equal(states, expected)


def test_illegal_events_leave_their_machines_where_they_are_and_the_others_move() -> None:
    """In every block; the first is named."""
    states, events = drawn(TABLE, 3 * BLOCK, legal=False)
    target = np.frombuffer(COLUMNS.target, np.int16)[states.astype(np.int64) * len(COLUMNS.events) + events]
    before = states.copy()
    with pytest.raises(IllegalSteps, match=r"have no cell for their event; the first one is number") as refused:
        COLUMNS.step(states, events, out=states)
    bad = refused.value.positions
    assert np.array_equal(bad, np.flatnonzero(target < 0))
    assert np.array_equal(states, np.where(target < 0, before, target))
    first = f"number {bad[0]}: {COLUMNS.events[events[bad[0]]]} is illegal in {COLUMNS.states[before[bad[0]]]}"
    assert str(refused.value).endswith(first)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)  # noqa: S301  # our own


def test_machines_begin_in_the_initial_state() -> None:
    """And can be none at all."""
    states = COLUMNS.start(3)
    assert [COLUMNS.states[code] for code in states] == [TABLE.compiled.initial.name] * 3
    assert len(COLUMNS.step(COLUMNS.start(0), COLUMNS.start(0))) == 0


@pytest.mark.parametrize(
    ("states", "events", "message"),
    [
        ([0, 10], [0, 0], "no state has the code 10; they go from 0 to 9"),
        ([0, -1], [0, 0], "no state has the code -1"),
        ([0, 0], [0, 48], "no event has the code 48; they go from 0 to 47"),
        ([0, 0], [0, 1 << 16], "no event has the code 32767"),
        ([0, 0], [0], "2 states and 1 events"),
        ([0.0], [0], "one row of integers, not float64"),
        ([[0]], [[0]], "one row of integers"),
    ],
)  # fmt: skip
def test_codes_that_there_are_not_are_refused(states: list[object], events: list[object], message: str) -> None:
    """Whatever their type; nothing is written."""
    out = COLUMNS.start(len(states))
    with pytest.raises(FsmError, match="consumer-member: ") as refused:
        COLUMNS.step(np.array(states), np.array(events), out=out)
    assert message in str(refused.value)
    assert np.array_equal(out, COLUMNS.start(len(states)))


def test_a_table_with_more_cells_than_16_bits_can_count_is_stepped_too() -> None:
    """200 states and 200 events."""
    state = Symbol("State", [(f"S{i}", "") for i in range(200)])  # type: ignore[call-arg]
    event = Symbol("Event", [(f"E{i}", "") for i in range(200)])  # type: ignore[call-arg]
    members, causes = list(state), list(event)  # type: ignore[call-overload]
    rows: list[Row] = [row(s, causes, members[(i + 1) % 200]) for i, s in enumerate(members)]
    columns = Table(name="ring", initial=members[0], rows=tuple(rows)).columns
    last = np.array([199, 198], np.int16)
    assert list(columns.step(last, last)) == [0, 199]
