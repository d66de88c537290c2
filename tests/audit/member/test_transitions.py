"""Transitions in order, held against the tables."""

from __future__ import annotations

import pytest

from fsm.audit.conformance import find_illegal_transitions
from fsm.audit.findings import Finding, FindingKind
from fsm.audit.rows import ObservedTransition
from fsm.trace import Kind

JOIN = [
    ("UNSUBSCRIBED", "JOINING"),
    ("JOINING", "RECONCILING"),
    ("RECONCILING", "ACKNOWLEDGING"),
    ("ACKNOWLEDGING", "STABLE"),
]


def write(log, steps, begin_ms=1000, files=("a.log",)):
    for i, (state, next_state) in enumerate(steps):
        log.step(begin_ms + 100 * i, state, next_state, file=files[i % len(files)])
    return log


def judged(log):
    return [f.summary for f in find_illegal_transitions(log.rows(ObservedTransition))]


def test_a_whole_life_is_legal_and_its_dwell_times_are_known(log):
    """The golden path, from the first state of the table."""
    write(log(0, Kind.STARTED), JOIN)
    assert judged(log) == []
    assert [hop.dwell_ms for hop in log.rows(ObservedTransition)] == [1000, 100, 100, 100]


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_line_breaks_the_chain(log, missing):
    """Whichever line is dropped, the one after it begins where the member was not."""
    write(log(0, Kind.STARTED), JOIN[:missing] + JOIN[missing + 1 :])
    assert len(judged(log)) == 1
    assert "lines are missing" in judged(log)[0]


def test_a_forged_state_is_illegal(log):
    """A hop that the table does not have."""
    write(log(0, Kind.STARTED), [JOIN[0], ("JOINING", "ACKNOWLEDGING")])
    assert judged(log) == ["c went from JOINING to ACKNOWLEDGING; the table consumer-member has no such step"]


def test_swapped_steps_are_found(log):
    """Two steps whose texts were exchanged: neither fits where it stands."""
    write(log(0, Kind.STARTED), [JOIN[1], JOIN[0], *JOIN[2:]])
    assert len(judged(log)) == 3


def test_a_log_that_begins_in_mid_life_is_not_judged_by_its_first_step(log):
    """Nobody knows where the member was."""
    write(log, JOIN[2:])
    assert judged(log) == []
    assert log.rows(ObservedTransition)[0].dwell_ms is None


def test_lines_of_one_moment_in_two_files_are_put_in_order(log):
    """A collector dealt the lines out to two files: the only order that makes a chain is taken."""
    log(0, Kind.STARTED)
    for i in (2, 0, 3, 1):
        log.step(1000, *JOIN[i], file="ab"[i % 2] + ".log")
    assert [(hop.state, hop.next_state) for hop in log.rows(ObservedTransition)] == JOIN
    assert judged(log) == []


def test_lines_of_one_moment_in_one_file_stay_as_they_are(log):
    """One thread writes them in order: another order means that somebody changed the file."""
    log(0, Kind.STARTED)
    for i in (0, 2, 1, 3):
        log.step(1000 + i, *JOIN[i])
    assert len(judged(log)) == 3


def test_a_missing_file_between_two_is_not_held_against_the_lines(log):
    """Rotation took a file away: the chain breaks between files, and that is no illegal step."""
    write(log(0, Kind.STARTED, file="a.2"), JOIN, files=("a.2",))
    write(log, [("RECONCILING", "ACKNOWLEDGING"), ("ACKNOWLEDGING", "STABLE")], begin_ms=9000, files=("a.log",))
    assert judged(log) == []


def test_a_source_that_tells_only_where_it_went(log):
    """Classic members print no state they come from: it is where they were."""
    log(0, Kind.STARTED)
    for i, state in enumerate(("PREPARING_REBALANCE", "COMPLETING_REBALANCE", "STABLE")):
        log(1000 + 100 * i, Kind.TRANSITION, machine="classic-member", next_state=state)
    assert [row.state for row in log.rows(ObservedTransition)] == [
        *("UNJOINED", "PREPARING_REBALANCE", "COMPLETING_REBALANCE")
    ]
    assert judged(log) == []


def test_a_machine_without_a_table_is_not_judged(log):
    """Only what a table says can be illegal."""
    log(0, Kind.STARTED)(1000, Kind.TRANSITION, machine="no-such", state="A", next_state="B")
    assert judged(log) == []


def test_a_closed_consumer_has_left(log):
    """The last line of the chain is missing where a consumer was closed while STABLE."""
    write(log(0, Kind.STARTED), JOIN)(5000, Kind.CLOSE_END)
    (found,) = log.rows(Finding)
    assert (found.kind, found.start_ms) == (FindingKind.ILLEGAL_TRANSITION, 5000)
    assert "STABLE" in found.summary


def test_rotated_files_are_in_order_though_they_meet_in_one_moment(log):
    """The step back to STABLE is missing; the rest would make a chain in another order."""
    log(0, Kind.STARTED, file="a.log.1")
    ring = [("STABLE", "RECONCILING"), ("RECONCILING", "ACKNOWLEDGING"), ("ACKNOWLEDGING", "STABLE")]
    write(log, JOIN, files=("a.log.1",))
    write(log, ring[:2], begin_ms=5000, files=("a.log.1",))
    for i, (state, next_state) in enumerate(ring):
        log.step(5110 + i, state, next_state, file="a.log.1" if i == 0 else "a.log")
    (found,) = judged(log)
    assert found.startswith("c was ACKNOWLEDGING and then left STABLE for RECONCILING; lines are missing")
