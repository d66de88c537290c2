"""Two-phase commit: a transaction manager, and resource managers that prepare or abort on their own.

    fsm check two-phase-commit --disturb lose --disturbances 2

Source: J. Gray and L. Lamport, Consensus on Transaction Commit, section 3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fsm.check.model import Choice, Component, Disturbance, Fault, Goal, Model, Property, Received, Step, View, Wire

MANAGER = "manager"


def two_phase_commit(managers: int = 3, *, counts_to: int = 0) -> Model:
    """The model; a manager that commits after some answers, `counts_to`, instead of all, is a bug to be found."""
    names = [f"resource-{i}" for i in range(1, managers + 1)]
    enough = counts_to or managers

    def resource_choices(state: str) -> Iterable[Choice]:
        return (Choice("prepares"), Choice("aborts")) if state == "working" else ()

    def resource_step(_state: str, given: Any) -> Step:
        if isinstance(given, Received):
            return Step(given.message)
        return Step("prepared", [(MANAGER, "prepared")]) if given == "prepares" else Step("aborted")

    def manager_choices(state: Any) -> Iterable[Choice]:
        if isinstance(state, frozenset):
            yield Choice("gives up")
            if len(state) >= enough:
                yield Choice("commits")

    def manager_step(state: Any, given: Any) -> Step:
        if isinstance(given, Received):
            return Step(state | {given.sender} if isinstance(state, frozenset) else state)
        decision = "committed" if given == "commits" else "aborted"
        return Step(decision, [(name, decision) for name in names])

    def agree(view: View) -> Any:
        committed, aborted = (sum(view.of(name, state) for name in names) > 0 for state in ("committed", "aborted"))
        return ~(committed & aborted)

    def has_decided(view: View) -> Any:
        return sum(view.of(name, "committed") + view.of(name, "aborted") for name in names) == managers

    features = {state: lambda now, state=state: int(now == state) for state in ("committed", "aborted")}
    resources = [Component(name, "working", resource_choices, resource_step, features) for name in names]
    manager = Component(MANAGER, frozenset(), manager_choices, manager_step, describe=_describe)
    lossy = (Disturbance("lose", Fault.LOSE),)
    wires = [wire for name in names for wire in (Wire(name, MANAGER, lossy), Wire(MANAGER, name, lossy))]
    return Model(
        f"two-phase commit of {managers}",
        [*resources, manager],
        wires,
        [Property("all agree", agree, "no resource manager commits where another one aborts")],
        Goal("everybody decides", has_decided, meaning="every resource manager eventually commits or aborts"),
        not_modelled=["a manager that fails"],
    )


def _describe(state: Any) -> str:
    return f"has heard of {', '.join(sorted(state)) or 'nobody'}" if isinstance(state, frozenset) else str(state)
