"""The verdicts on recorded Connect clusters, in the shape in which their observer writes them.

The observer is the connector itself: it says from inside its threads where every unit really ran. A file is a list of
scenarios with `begin` in epoch seconds; a unit is `A` for the instance of connector A and `A-0` for its task 0.

A worker that stands still shows in its log by the heartbeats that are missing, and a worker prints heartbeats at DEBUG
only: at INFO a log that is silent for want of news looks the same. Such verdicts count as not visible there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fsm.audit.findings import FindingKind
from fsm.trace import Partition

RAN_TWICE, NOT_RUNNING = "ran_twice_at_once", "not_running"
NOTHING = ["nothing wrong with the clients"]
SURE_S, MAYBE_S = 2.4, 1.6
"""A unit that ran nowhere for longer must be found; one between the two may be."""
FROZEN = "its worker is frozen"
HIDDEN_AT_INFO = "at INFO no heartbeats are printed, and one who stands still looks like one who has no news"


class StatedVerdict(NamedTuple):
    """One verdict: kind, seconds since the begin, unit, and whether it must be found."""

    kind: FindingKind
    start_s: float
    end_s: float
    unit: Partition
    counts: bool
    hidden: str = ""
    """Why these logs cannot show it; empty where they can."""


def by_scenario(data: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The scenarios by name, with begin and summary where the judge of consumers looks for them."""
    return {
        each["scenario"]: {
            **each,
            "t0": each["begin"],
            "summary": NOTHING if _is_quiet(each) else each.get("wrong"),
        }
        for each in data
    }


def _is_quiet(scenario: Mapping[str, Any]) -> bool:
    """Nothing ran wrong, and the logs tell of nothing but workers that catch up with a new config."""
    return not scenario.get("wrong") and set(scenario.get("log_event_counts", ())) <= {"config_behind"}


def list_stated(scenario: Mapping[str, Any]) -> Iterator[StatedVerdict]:
    """What was wrong in one scenario. What its user paused or stopped, and short times, may be found or not."""
    for one in scenario[RAN_TWICE]:
        yield StatedVerdict(FindingKind.RAN_TWICE, one["frm"], one["to"], unit(one["unit"]), True)
    for one in scenario[NOT_RUNNING]:
        by_user = "by user" in one["why"]
        if by_user or one["seconds"] > MAYBE_S:
            counts = one["seconds"] > SURE_S and not by_user
            hidden = HIDDEN_AT_INFO if one["why"] == FROZEN and scenario.get("level") == "info" else ""
            yield StatedVerdict(FindingKind.UNASSIGNED_WORK, one["frm"], one["to"], unit(one["unit"]), counts, hidden)


def unit(text: str) -> Partition:
    """The unit of a name: a connector is its instance, number -1.

    >>> unit("my-sink"), unit("A-0")
    (('my-sink', -1), ('A', 0))
    """
    match = re.fullmatch(r"(.+)-(\d+)", text)
    return (match[1], int(match[2])) if match else (text, -1)
