"""Connect's assignor of 4.3.1, called directly with a virtual clock: every recorded round comes out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import pytest
from case_file import each

from fsm.connect.assignor.incremental import AS_GIVEN, Memory, Outcome, Round, assign
from fsm.connect.simulation.invariants import Computation, broken_in_round
from fsm.connect.units import list_configured, units_of

ONE_TEST_A_FILE = True

Line = Mapping[str, Any]


def reads(head: Any) -> bool:
    """Lines that are rounds of a run."""
    return isinstance(head, dict) and {"run", "round", "members", "config", "expect", "new_leader"} <= head.keys()


def cases(file: Any) -> Iterator[tuple[str, list[Line]]]:
    """One case a run: its rounds share the leader's memory."""
    lines = ((number, parsed(raw)) for number, raw in file.raw_lines())
    runs = groupby(lines, key=lambda found: found[1].get("run") if isinstance(found[1], dict) else None)
    return each(((f"{found[0][0]} and on", found) for found in (list(group) for _, group in runs)), run_of)


def parsed(raw: bytes) -> Line | ValueError:
    try:
        return json.loads(raw)  # type: ignore[no-any-return]
    except ValueError as problem:
        return problem


def run_of(found: list[tuple[str, Line | ValueError]]) -> Iterator[tuple[str, list[Line]]]:
    """Raises what was the matter with a line."""
    lines = []
    for _, line in found:
        if isinstance(line, ValueError):
            raise line
        lines.append(line)
    yield lines[0]["run"], lines


def round_of(line: Line) -> Round:
    return Round(
        now_ms=line["now_ms"],
        generation=line["generation"],
        configured=list_configured(line["config"]),
        owned={member["id"]: units_of(member["connectors"], member["tasks"]) for member in line["members"]},
        last_completed_generation=line["last_completed_generation"],
    )


def describe(outcome: Outcome) -> Mapping[str, Any]:
    """The outcome in the fields of a recording; the order of units and of candidates is not recorded."""
    workers = {
        worker: (sorted(outcome.assigned[worker]), sorted(outcome.revoked[worker])) for worker in outcome.assigned
    }
    memory = outcome.memory
    return {
        "delay_ms": outcome.delay_ms,
        "scheduled_rebalance_ms": memory.deadline_ms or 0,
        "candidates": sorted(memory.candidates),
        "workers": workers,
    }


def expected(line: Line) -> Mapping[str, Any]:
    workers = {
        worker: tuple(
            sorted(units_of(stated[f"{verb}_connectors"], stated[f"{verb}_tasks"])) for verb in ("assigned", "revoked")
        )
        for worker, stated in line["expect"]["workers"].items()
    }
    return {**line["expect"], "candidates": sorted(line["expect"]["candidates"]), "workers": workers}


def played(case: list[Line]) -> Iterator[tuple[Line, Computation]]:
    """The rounds of a run, each on the memory that the one before left."""
    memory = Memory()
    for line in case:
        before, round_ = Memory() if line["new_leader"] else memory, round_of(line)
        outcome = assign(before, round_, line["max_delay_ms"], order=AS_GIVEN)
        yield line, Computation(before, round_, outcome, line["max_delay_ms"])
        memory = outcome.memory


def test_every_round_of_a_run_comes_out(case: list[Line]) -> None:
    """Assigned, revoked, delay, deadline and candidates of every round are what Kafka's class gave."""
    for line, computation in played(case):
        assert describe(computation.outcome) == expected(line), f"round {line['round']}: {line['event']}"


@pytest.mark.our_copies
def test_the_invariants_hold_in_what_kafka_did(case: list[Line]) -> None:
    """They were found on other rounds: none of these breaks one."""
    assert [(line["round"], broken_in_round(computation)) for line, computation in played(case)] == [
        (line["round"], []) for line in case
    ]
