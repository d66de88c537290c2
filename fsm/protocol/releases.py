"""The known releases of Kafka, shared by members and coordinator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from fsm.errors import InputError

Choice = TypeVar("Choice")

RELEASES = ("4.0.0", "4.0.1", "4.0.2", "4.1.0", "4.1.1", "4.1.2", "4.2.0", "4.2.1", "4.3.0", "4.3.1", "4.4.0")
"""Releases with the consumer protocol, in order. A release has the rules of its predecessor unless they changed."""

LATEST = RELEASES[-1]


def split_dialect(name: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The name of a dialect of one's own, `4.4+F29-F5`: the one that it changes, and the rules it adds or removes."""
    base, *changes = re.split(r"([+-])", name)
    return base, tuple(zip(changes[::2], changes[1::2], strict=True))


def change_choices(
    choices: frozenset[Choice], changes: tuple[tuple[str, str], ...], known: Mapping[str, Choice]
) -> frozenset[Choice]:
    """The choices after these changes. Raises `InputError` for an unknown rule, and for a change that is none."""
    for sign, word in changes:
        if word not in known:
            raise InputError(f"unknown rule {word!r} of a dialect", remedy="`fsm dialects` lists the rules of each")
        if (known[word] in choices) == (sign == "+"):
            is_there = "has the rule already" if sign == "+" else "does not have the rule"
            raise InputError(f"{sign}{word}: the dialect {is_there}", remedy="leave it out")
        choices = choices ^ {known[word]}
    return choices
