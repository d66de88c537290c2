"""Parsers of values in deployments: durations, shares, counts, names. Errors have the line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from fsm.cluster.network import Latency
from fsm.errors import InputError
from fsm.nodes import Node, nearest, short
from fsm.simulate.deployment import CHANCE, NETWORK, UNITS

LONGEST_MS = 366 * 24 * 3_600_000
NAME = re.compile(r"[a-zA-Z0-9._-]{1,200}")
LATENCY = ("least", "median", "p99", "most")


def check_chance(node: Node | None) -> None:
    """Raises `InputError` for a file whose seed was drawn by another version."""
    if node is not None and node.text() != str(CHANCE):
        raise InputError(
            f"its seed is for version {short(node.text())} of the random numbers, not {CHANCE}: the run would differ",
            node.where,
            "find it again with --seeds, or leave `chance` out",
        )


def latency_of(given: Mapping[str, Node], where: str) -> Latency:
    """The latency of messages from the keys `LATENCY`. Raises `InputError` if they are not ascending."""
    values = [duration_of(given[key], least=1) if key in given else -1 for key in LATENCY]
    for i, default in enumerate(NETWORK):
        if values[i] < 0:
            values[i] = max(default, *values[:i], 1)
    if values != sorted(values):
        raise InputError(f"latencies {values} ms are not ascending", where, "least, median, p99, most")
    return Latency(*values)


def read_names(node: Node) -> list[tuple[str, Node]]:
    """The values by name, in order. Raises `InputError` for an invalid name."""
    found = []
    for name, (key, value) in node.mapping().items():
        if not NAME.fullmatch(name):
            raise InputError(f"{short(name)} is not a name", key.where, "letters, digits, '.', '_' and '-'")
        found.append((name, value))
    return found


def one_of(node: Node, known: tuple[str, ...]) -> str:
    """One of these words. Raises `InputError` with the nearest one."""
    if node.text() not in known:
        raise InputError(f"{short(node.text())} is not known", node.where, nearest(node.text(), known))
    return node.text()


def count_of(node: Node, most: int) -> int:
    """A whole number from 1 on. Raises `InputError` for anything else."""
    if not 1 <= node.number() <= most:
        raise InputError(f"{node.number()}", node.where, f"1 to {most}")
    return node.number()


def seed_of(node: Node) -> int:
    """The seed of a run. Raises `InputError` for anything but a whole number from 0 on."""
    if node.number() < 0:
        raise InputError(f"{node.number()}", node.where, "a seed is 0 or more")
    return node.number()


def share_of(node: Node) -> float:
    """A share from 0 to 1, `0.1%` or `0.001`. Raises `InputError` for anything else."""
    text = node.text()
    digits, percent = text.removesuffix("%"), text.endswith("%")
    if re.fullmatch(r"\d{1,3}(\.\d{1,9})?", digits, re.ASCII):
        value = float(digits) / (100 if percent else 1)
        if value <= 1:
            return value
    raise InputError(f"{short(text)} is not a share", node.where, "for example 0.1% or 0.001")


def duration_of(node: Node, least: int = 0, *, signed: bool = False) -> int:
    """A duration in milliseconds. Raises `InputError` for an invalid one, or one that is too short or long."""
    text = node.text()
    sign = -1 if signed and text.startswith("-") else 1
    parts = re.findall(r"(\d{1,12})(ms|s|m|h|d)", text, re.ASCII)
    if not parts or "".join(a + b for a, b in parts) != (text[1:] if sign < 0 else text):
        raise InputError(f"{short(text)} is not a duration", node.where, "for example 90s, 10m, 1h30m or 250ms")
    found = sum(int(number) * UNITS[unit] for number, unit in parts)
    if not least <= found <= LONGEST_MS:
        raise InputError(f"{text} is too {'short' if found < least else 'long'}", node.where, f"{least}ms to 366d")
    return int(sign * found)


def range_of(node: Node | None) -> tuple[int, int]:
    """Two durations in milliseconds, `1s..20s`, or one twice. Raises `InputError` for an invalid or
    descending range.
    """
    if node is None:
        return 0, 0
    first, _, last = node.text().partition("..")
    ends = [duration_of(replace(node, value=text)) for text in (first, last or first)]
    if ends[0] > ends[1]:
        raise InputError(f"{short(node.text())} is descending", node.where, "give the shorter one first")
    return ends[0], ends[1]
