"""A run as its clients' logs would tell it, and the truth beside, so that an audit can be judged."""

from __future__ import annotations

from typing import Any

from fsm.cluster.cluster import STARTED_MS
from fsm.simulate.outcome import Outcome, Truth
from fsm.simulate.writing import write_deed


def trace_lines(truth: Truth) -> str:
    """The records of all clients as JSON lines, as their clocks have it: `fsm audit --format trace` reads them."""
    records = sorted(truth.records, key=lambda one: one.ts_ms)
    return "".join(record.to_json() + "\n" for record in records)


def truth_document(outcome: Outcome, truth: Truth) -> dict[str, Any]:
    """What was done and what came of it; instants are epoch milliseconds, as in the trace."""
    held, gaps, doubles = ([_on_clocks(one) for one in kind] for kind in (truth.held, truth.gaps, truth.doubles))
    return {
        "deployment": outcome.deployment,
        "seed": outcome.seed,
        "started_ms": STARTED_MS,
        "faults": [{"at_ms": deed.at_ms + STARTED_MS, **write_deed(deed)} for deed in outcome.deeds],
        "held": held,
        "without_owner": gaps,
        "two_users": doubles,
    }


def _on_clocks(one: dict[str, Any]) -> dict[str, Any]:
    """With instants as clocks say them."""
    return {key: value + STARTED_MS if key.endswith("_ms") else value for key, value in one.items()}
