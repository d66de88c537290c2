"""What both tellings of a migration begin with: the topic, the group at rest, how its classic members rebalance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fsm.errors import InputError
from fsm.nodes import Node
from fsm.scenario.migration.view import Numbers, View
from fsm.scenario.shape import EACH, Maybe, Only, read
from fsm.scenario.steps import NOTHING

_NUMBERS = [int]
_TARGET = Maybe(Only({"epoch": int, "assignment": {EACH: _NUMBERS}}))
HEAD = {"meta": {"topic": str, "partitions": int, "classic_rebalance_protocol?": str}}
STEP: Mapping[str, Any] = {
    "id": str,
    "narrative?": str,
    "seed_issues?": [str],
    "stimulus": {
        "actor?": Maybe(str),
        "event": str,
        "protocol?": str,
        "epoch?": int,
        "generation?": int,
        "owned?": Maybe(_NUMBERS),
    },
    "expected": Only(
        {
            "group": Only({"type": str, "epoch?": int, "generation?": int}),
            "members": {EACH: Only({"protocol": str, "classic_state?": str})},
            "target": _TARGET,
            "current": {EACH: Only({"epoch": int, "owned": _NUMBERS, "revoking": _NUMBERS, "waiting": _NUMBERS})},
        },
        unread=("note",),
    ),
}
"""A step of the document's story."""


class Head(NamedTuple):
    """The group before anything happens to it."""

    topic: str
    partitions: int
    rebalance_protocol: str
    generation: int
    holds: Mapping[str, Numbers]


def read_head(document: Node) -> Head:
    """Reads it, with the first step of the story. Raises `InputError` with the line for anything else."""
    meta = read(document, HEAD)["meta"]
    steps = document.fields(list(document.mapping()), ("steps",))["steps"].items()
    if not steps:
        raise InputError("no steps", document.mapping()["steps"][1].where, "a story has at least one")
    first = read(steps[0], STEP)
    if first["stimulus"]["event"] != "initial" or "generation" not in first["expected"]["group"]:
        raise InputError("does not begin with a classic group at rest", steps[0].where, "event: initial")
    holds = {name: tuple(sorted(held["owned"])) for name, held in first["expected"]["current"].items()}
    protocol = meta.get("classic_rebalance_protocol", "eager")
    _check_numbers(holds, meta["partitions"], steps[0].where)
    return Head(meta["topic"], meta["partitions"], protocol, first["expected"]["group"]["generation"], holds)


def _check_numbers(holds: Mapping[str, Numbers], count: int, where: str) -> None:
    if not 0 < count <= 10_000:
        raise InputError(f"{count} partitions", where, "a topic of a story has 1 to 10000")
    held = sorted(number for numbers in holds.values() for number in numbers)
    if len(set(held)) < len(held) or (held and not 0 <= held[0] <= held[-1] < count):
        raise InputError("a partition is held twice, or does not exist", where)


def answer_fields(view: View, answer: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """The answer to a request as fields that can be compared."""
    for name, value in answer.items():
        yield f"answer.{name}", shown(view, value)


def shown(view: View, value: object) -> str:
    """A value of an answer."""
    if isinstance(value, tuple | list):
        return view.named(tuple(value))
    return NOTHING if value is None else str(value)
