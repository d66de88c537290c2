"""Random small models of every kind of component, wire, property and goal."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any
from zlib import crc32

import numpy as np

from fsm.check import (
    Choice,
    Component,
    Disturbance,
    Fault,
    Goal,
    Model,
    Notification,
    PairProperty,
    Property,
    Step,
    View,
    Wire,
)

KINDS = ("by", "k1", "k2", "w1", "w2")


def chance(*about: Any) -> Random:
    """The same for the same things."""
    return Random(crc32(repr(about).encode()))  # noqa: S311


def component(seed: int, name: str, receivers: list[str], states: int) -> Component:
    """One whose choices and steps are random, and the same each time."""

    def choices(state: int) -> Iterable[Choice]:
        drawn = chance(seed, name, state)
        for number in range(drawn.choice([0, 1, 1, 2])):
            kind = drawn.choice(["", "", "", "k1", "k2", "by"])
            yield Choice(f"{number}{kind}", None, kind, drawn.choice(["", "even"]) if kind[:1] == "k" else "")

    def step(state: int, given: Any) -> Step:
        drawn = chance(seed, name, state, type(given).__name__, given)
        if drawn.random() < 0.01:
            raise ValueError("no")
        sends = [(drawn.choice(receivers), drawn.choice("mn")) for _ in range(drawn.choice([0, 0, 1, 1, 2]))]
        broken = ["b"] if drawn.random() < 0.03 else []
        return Step(drawn.randrange(states), sends if receivers else [], broken, drawn.random() < 0.08)

    if not receivers:
        receivers = ["nobody"]
        steps = step

        def step(state: int, given: Any) -> Step:
            return steps(state, given)._replace(sends=[])

    return Component(name, 0, choices, step, {"s": int})


def random_model(seed: int) -> Model:
    """Up to four components and wires of every policy; properties, hazards and goals that some states meet."""
    drawn = chance(seed)
    names = [f"c{i}" for i in range(drawn.randint(1, 4))]
    states, most = drawn.randint(2, 3), drawn.randint(2, 6)
    ends = [(one, other) for one in names for other in names if one != other or drawn.random() < 0.2]
    drawn.shuffle(ends)
    wires = []
    for sender, receiver in ends[: drawn.randint(0, 4)]:
        faults = [
            Disturbance(drawn.choice(KINDS[3:]), fault, drawn.choice(list(Notification)))
            for fault in Fault
            if drawn.random() < 0.4
        ]
        shown = {"late": lambda queue: len(queue.late)}
        wires.append(Wire(sender, receiver, faults, drawn.random() < 0.4, drawn.randint(1, 3), shown, waits=True))
    weights = {name: drawn.randint(0, 3) for name in names}
    wanted = drawn.randrange(states)

    def light(view: View) -> Any:
        found = sum(weights[name] * view.of(name, "s") for name in names)
        return found + sum(view.on(wire.sender, wire.receiver) for wire in wires) != most + 2

    def hazard(view: View) -> Any:
        found = sum(view.of(name, "s") for name in names)
        return found + sum(2 * view.on(wire.sender, wire.receiver, "late") for wire in wires) == 4

    def goal(view: View) -> Any:
        return np.all([view.of(name, "s") == wanted for name in names[:2]], axis=0)

    properties: list[Property | PairProperty] = [Property("light", light)]
    if len(names) > 1:
        properties.append(PairProperty("apart", *names[:2], lambda one, other: (one, other) != (1, states - 1)))
    return Model(
        f"random {seed}",
        [component(seed, a, [wire.receiver for wire in wires if wire.sender == a], states) for a in names],
        wires,
        properties,
        Goal("goal", goal, ("by",) if drawn.random() < 0.6 else ()),
        {"even": lambda view: (view.of(names[0], "s") + view.of(names[-1], "s")) % 2 == 0},
        {"H": hazard},
        KINDS,
    )
