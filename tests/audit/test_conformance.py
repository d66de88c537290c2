"""Records of our own machines: one for each event, judged as one row of the table."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import structlog

from fsm.audit.conformance import find_illegal_transitions
from fsm.audit.findings import FindingKind
from fsm.audit.local import Options, audit_files
from fsm.audit.rows import NOWHERE, ObservedTransition
from fsm.logs import formats
from fsm.machine import bind
from fsm.tables.consumer_member import TABLE, Event, State
from fsm.trace import as_trace

TRACE = tuple(f for f in formats() if f.name == "trace")


class Member:
    """A model that obeys everything by doing nothing."""

    def on_effect(self, *_args: object, **_kwargs: object) -> None:
        """Takes every order."""


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """The trace of bound members, one for each row of the table: each goes the shortest way there and takes the row."""
    path = tmp_path_factory.mktemp("walked") / "members.jsonl"
    clock = iter(range(1_000_000, 9_000_000, 1000))
    sent = 0
    with path.open("w", encoding="utf-8") as out:
        logger = structlog.wrap_logger(structlog.WriteLogger(out), processors=[as_trace])
        for number, events in enumerate(_ways()):
            model = Member()
            own = logger.bind(client_id=f"orders-{number}")
            bind(TABLE, model, logger=own, group="orders", member=f"m-{number}", now_ms=clock.__next__)
            for event in events:
                getattr(model, event.name.lower())()
            sent += len(events)
    return path, sent


def _ways() -> Iterator[list[Event]]:
    """The shortest events to each row, and the row's own."""
    ways: dict[State, list[Event]] = {TABLE.compiled.initial: []}
    for state in ways_in_order(ways):
        for event, cell in TABLE.compiled.by_state[state].items():
            if not cell.ignored:
                yield [*ways[state], event]


def ways_in_order(ways: dict[State, list[Event]]) -> list[State]:
    """Every state that can be reached, nearest first; fills in how."""
    found = list(ways)
    for state in found:
        for event, cell in TABLE.compiled.by_state[state].items():
            if cell.target not in ways:
                ways[cell.target] = [*ways[state], event]
                found.append(cell.target)
    return found


def judged(path):
    result = audit_files([path], Options(formats=TRACE))
    return result, [f.summary for f in result.findings if f.kind is FindingKind.ILLEGAL_TRANSITION]


def test_a_bound_machine_writes_what_the_audit_finds_legal(walked):
    """Rows that stay, and rows that pass through several states, are legal steps; every event gave one."""
    path, sent = walked
    result, illegal = judged(path)
    assert illegal == []
    assert len(result.transitions) == sent > 200
    stays = [h for h in result.transitions if h.state == h.next_state]
    singles = {(TABLE.columns.states[a], TABLE.columns.states[b]) for a, b, _ in TABLE.columns.edges}
    passes = [h for h in result.transitions if (h.state, h.next_state) not in singles and h not in stays]
    assert stays
    assert passes


def test_a_row_that_leads_elsewhere_is_found(walked, tmp_path):
    """The target of one record is forged: the event is legal there, the target is not."""
    path, _ = walked
    lines = path.read_text().splitlines()
    record = json.loads(lines[-1])
    forged = next(s.name for s in TABLE.leaves() if s.name != record["next_state"])
    lines[-1] = json.dumps({**record, "next_state": forged})
    (tmp_path / "forged.jsonl").write_text("\n".join(lines) + "\n")
    _, illegal = judged(tmp_path / "forged.jsonl")
    assert any(f"to {forged} on {record['event']}" in text for text in illegal)


def hop(state: str, next_state: str, event: str = "") -> ObservedTransition:
    return ObservedTransition("g", "m", TABLE.name, state, next_state, event, 0, None, "", NOWHERE)


def test_only_steps_without_event_are_judged_as_single_hops():
    """A row through two states is no single hop; a single hop by the wrong event is no row."""
    state, event, target = next(
        (s, e, c.target) for (s, e), c in TABLE.compiled.items() if len(c.path) > 1 and not c.ignored
    )
    through = (state.name, target.name)
    assert list(find_illegal_transitions([hop(*through, event=event.name)])) == []
    other = next(e for e in TABLE.event_type if TABLE.compiled.get((state, e), (None,))[0] is not target)
    (wrong,) = find_illegal_transitions([hop(*through, event=other.name)])
    assert wrong.summary.startswith(f"m went from {state.name} to {target.name} on {other.name}")
    (unknown,) = find_illegal_transitions([hop("STABLE", "STABLE", event="NO_SUCH_EVENT")])
    assert unknown.kind is FindingKind.ILLEGAL_TRANSITION


def test_an_event_that_stays_is_legal_only_where_a_row_says_so():
    """Without an event a step from a state to itself is none of this table's."""
    state, event = next((s, e) for (s, e), c in TABLE.compiled.items() if c.target is s and not c.ignored)
    assert list(find_illegal_transitions([hop(state.name, state.name, event=event.name)])) == []
    (none,) = find_illegal_transitions([hop("STABLE", "STABLE")])
    assert "went from STABLE to STABLE" in none.summary
