"""Walks that chance takes, and documents put together again."""

from __future__ import annotations

import random
from typing import Any

from fsm.check import Model, Walk

Document = dict[str, Any]


def stroll(model: Model, steps: int, seed: int = 1) -> list[int]:
    """A path of so many steps, or to where nothing may happen; one in ten is any step, the others are undisturbed."""
    chance, walk = random.Random(seed), Walk(model)  # noqa: S311
    for _ in range(steps):
        options = walk.options()
        free = [at for at, one in enumerate(options) if not one.disturbance]
        if not options:
            break
        walk.choose(chance.choice(free if free and chance.random() < 0.9 else range(len(options))))
    return list(walk.indices)


def add(position: Document, delta: Document) -> Document:
    """The position after a delta."""
    return {
        **delta,
        "components": {**position["components"], **delta["components"]},
        "wires": {**position["wires"], **delta["wires"]},
    }


def check_whole(session: Any) -> None:
    """Deltas, one after the other, come to the positions that are told as a whole."""
    opening = session.opening()
    position, count = opening["start"], opening["length"]
    steps = []
    while len(steps) < count:
        steps += session.steps(len(steps), 7)["steps"]
    assert len(steps) == count
    for number, step in enumerate(steps, 1):
        position = add(position, step["delta"])
        assert ("position" in step) == (number % 200 == 0)
        assert step.get("position", position) == position
        if number % 13 == 0 or number == count:
            assert session.steps(number, 1)["position"] == position
    lanes = {one["name"]: one["tables"] for one in opening["components"]}
    assert lanes.keys() == position["components"].keys()
    for name, component in position["components"].items():
        for cell in component["cells"]:
            assert cell["table"] in lanes[name]
            assert cell["state"] in opening["states"][cell["table"]]
