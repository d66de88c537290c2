"""Models that walk a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fsm.check import Choice, Component, Goal, Model, Step, Wire


def walker(edges: dict[str, str], start: str = "a", goal: str = "z", hidden: Sequence[str] = (), **kinds: str) -> Model:
    """One component that walks a graph: `edges` has the letters that each letter leads to.

    Edges have kinds of disturbances; those that are hidden send more than their wire has room for.
    """

    def choices(state: str) -> Iterable[Choice]:
        for there in edges.get(state, ""):
            yield Choice(f"to {there}", there, kinds.get(state + there, ""))

    def step(state: str, there: str) -> Step:
        return Step(there, [("sink", "x")] * 2 if state + there in hidden else [])

    one = Component("walker", start, choices, step, {"goal": lambda state: int(state == goal)})
    sink = Component("sink", 0, lambda _: (), lambda state, _: Step(state))
    by = ("timer",) if "timer" in kinds.values() else ()
    reached = Goal("z is reached", lambda view: view.of("walker", "goal") == 1, by)
    wires = [Wire("walker", "sink", at_most=1)] if hidden else []
    return Model(
        "walk", [one, *([sink] if hidden else [])], wires, goal=reached, disturbances=sorted(set(kinds.values()))
    )
