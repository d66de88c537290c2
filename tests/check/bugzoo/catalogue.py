"""The zoo as `bugs.yaml` lists it, and what each planted bug comes to."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from bugzoo import (  # noqa: F401  # what they plant
    classic_generations,
    classic_groups,
    classic_rounds,
    connect_workers,
    consumer_members,
    coordinators,
    other_implementations,
)
from bugzoo.planting import around, broker_settings, planted
from fsm.check import Limits, Verdict, check
from fsm.check.catalog import make_model
from fsm.check.verdict import Violation

FILE = Path(__file__).with_name("bugs.yaml")
ENDS = ("caught", "unseen")
"""Caught by a model; or unseen by any such model, and why."""
ROOM = Limits(max_states=3_000_000)


class Counterexample(NamedTuple):
    """The shortest one."""

    property: str
    disturbances: int
    steps: int


def bugs() -> list[dict[str, Any]]:
    """Every entry."""
    found: list[dict[str, Any]] = yaml.load(FILE.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    return found


def caught() -> dict[str, dict[str, Any]]:
    """How each bug that is planted is caught, by its id."""
    return {bug["id"]: bug["caught"] for bug in bugs() if "caught" in bug}


def explore(bug: str | None, how: dict[str, Any]) -> Verdict:
    """The verdict on a model with a bug in it, or on the model as it is."""
    with ExitStack() as stack:
        if bug is not None:
            stack.enter_context(planted(bug))
        stack.enter_context(around(how, bug))
        stack.enter_context(broker_settings(how.get("settings", {})))
        model = make_model(how["model"], **how["options"])
        if how.get("timers") == "none" and model.goal is not None:
            model = replace(model, goal=replace(model.goal, by=()), replay=None)
        return check(
            model,
            disturb=how.get("disturb", ()),
            disturbances=how.get("disturbances", 0),
            known=how.get("known", ()),
            properties=[how["asked"]] if "asked" in how else (),
            limits=replace(ROOM, max_states=how.get("room", ROOM.max_states)),
        )


def _name(one: Violation) -> str:
    return one.property.partition(";")[0]


def shortest(verdict: Verdict) -> Counterexample | None:
    """The first counterexample of a verdict."""
    for one in verdict.violations:
        steps = len(one.path) if one.doomed_at is None else one.doomed_at
        return Counterexample(_name(one), one.disturbances, steps)
    return None
