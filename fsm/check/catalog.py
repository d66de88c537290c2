"""The shipped models by name, and the picture of a counterexample."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fsm.check.model import Model
from fsm.errors import InputError

SHIPPED = {
    "consumer-group": "fsm.check.kafka.consumer.group",
    "classic-group": "fsm.check.kafka.classic.group",
    "mixed-group": "fsm.check.kafka.mixed.group",
    "connect": "fsm.check.kafka.connect.cluster",
    "two-phase-commit": "fsm.check.examples.two_phase_commit",
    "lock": "fsm.check.examples.lock",
    "fenced-lock": "fsm.check.examples.lock",
}
"""Each with its module, in which a function of the same name makes it."""
PICTURES = ("late-request",)
"""Shipped pictures: the shortest path on which a late request consumes a grant."""


def options_of(name: str) -> Mapping[str, Any]:
    """The options of a model with their defaults. Raises `InputError` for an unknown model."""
    parameters = inspect.signature(_maker(name)).parameters
    return {option: one.default for option, one in parameters.items()}


def make_model(name: str, **options: Any) -> Model:
    """A shipped model. Raises `InputError` for an unknown model or option, or an invalid value."""
    require_numpy()
    known = options_of(name)
    for option in options:
        if option not in known:
            raise InputError(
                f"unknown option {option!r}", name, f"choose from {', '.join(known) or 'none: it has none'}"
            )
    model: Model = _maker(name)(**options)
    return replace(model, made_by={"check": name, **known, **options})


def _maker(name: str) -> Any:
    if name not in SHIPPED:
        raise InputError(f"unknown model {name!r}", "", f"choose from {', '.join(SHIPPED)}")
    return getattr(import_module(SHIPPED[name]), name.replace("-", "_"))


def require_numpy() -> None:
    """Raises `InputError` without numpy, which every search needs."""
    if find_spec("numpy") is None:
        raise InputError("numpy is not installed", "fsm check", "in a checkout: pip install '.[check]'")


def shipped_pictures() -> Iterator[tuple[str, bytes]]:
    """(file name, content) of each; takes a second of search."""
    from fsm.check.story import diagram  # noqa: PLC0415  # a search needs numpy
    from fsm.check.verdict import check  # noqa: PLC0415
    from fsm.render import sequence  # noqa: PLC0415

    verdict = check(make_model("consumer-group"), disturb=["late"], disturbances=1, properties=["the group settles"])
    drawing = diagram(verdict.violations[0])
    for suffix, draw in ((".svg", sequence.svg), (".mmd", sequence.mermaid), (".puml", sequence.plantuml)):
        yield f"{PICTURES[0]}{suffix}", draw(drawing).encode()
