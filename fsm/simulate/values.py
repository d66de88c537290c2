"""Parsers of values in deployments: durations, shares, counts, names, times of deeds. Errors have the line."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from fsm.cluster.network import Latency
from fsm.errors import InputError
from fsm.nodes import Node, nearest, short
from fsm.simulate.deployment import CHANCE, LEAST_EVERY_MS, NETWORK, UNITS, Deed, Rate

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


def read_frame(given: Mapping[str, Node], of_network: Iterable[str] = ()) -> tuple[dict[str, Any], dict[str, Node]]:
    """What all deployments have, and the keys of the network, which may be these, too."""
    check_chance(given.get("chance"))
    network = given["network"].fields((*LATENCY, "loses", *of_network)) if "network" in given else {}
    frame = {
        "name": given["deployment"].text(),
        "lasts_ms": duration_of(given["lasts"], least=1),
        "latency": latency_of(network, given["network"].where) if network else NETWORK,
        "loses": share_of(network.get("loses")),
        "seed": seed_of(given.get("seed")),
    }
    return frame, network


def read_names(node: Node | None) -> list[tuple[str, Node]]:
    """The values by name, in order; none of no node. Raises `InputError` for an invalid name."""
    found = []
    for name, (key, value) in node.mapping().items() if node else ():
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
        raise InputError(f"{node.number()} is not a count from 1 to {most:,}", node.where)
    return node.number()


def seed_of(node: Node | None) -> int:
    """The seed of a run, 0 by default. Raises `InputError` for anything but a whole number from 0 on."""
    if node is None:
        return 0
    if node.number() < 0:
        raise InputError(f"{node.number()} is not a seed", node.where, "a seed is 0 or more")
    return node.number()


def share_of(node: Node | None) -> float:
    """A share from 0 to 1, `0.1%` or `0.001`; 0 by default. Raises `InputError` for anything else."""
    if node is None:
        return 0.0
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


def show_ms(ms: int) -> str:
    """A duration in the form in which it is parsed."""
    text = "-" if ms < 0 else ""
    left = abs(ms)
    for unit, length in sorted(UNITS.items(), key=lambda one: -one[1]):
        if left >= length:
            text += f"{left // length}{unit}"
            left %= length
    return text if text.strip("-") else "0ms"


# Deeds


def choose_deed(node: Node, deeds: Iterable[str], keys: Iterable[str]) -> tuple[str, dict[str, Node]]:
    """(the deed that a node names, its fields). Raises `InputError` if it does not name exactly one of the deeds."""
    given = node.fields((*deeds, *keys))
    words = [word for word in deeds if word in given]
    if len(words) != 1:
        raise InputError(
            "does more than one thing" if words else "does nothing", node.where, "one of " + ", ".join(deeds)
        )
    return words[0], given


def time_deed(
    node: Node, one: Deed, given: Mapping[str, Node], lasts_ms: int, *, once: Collection[str] = ()
) -> Deed | Rate:
    """The deed at its time, or at its rate unless it is one of those that happen `once`, in a run that `lasts_ms`."""
    if ("at" in given) == ("every" in given):
        raise InputError("needs either at or every", node.where, "at: 10m, or every: 10m")
    length = given.get("for", given.get("away"))
    shortest, longest = range_of(length)
    if "every" in given:
        if one.what in once:
            raise InputError(f"{one.what} happens only once", given["every"].where, "use at")
        until = duration_of(given["until"]) if "until" in given else lasts_ms
        since = duration_of(given["from"]) if "from" in given else 0
        every_ms = duration_of(given["every"], least=LEAST_EVERY_MS)
        return Rate(one.what, one.target, every_ms, since, until, (shortest, longest), one.amount)
    at_ms = duration_of(given["at"])
    if at_ms > lasts_ms:
        raise InputError(f"is after the end of the run, {show_ms(lasts_ms)}", given["at"].where)
    if length is not None and shortest != longest:
        raise InputError("a range needs every", length.where)
    return replace(one, at_ms=at_ms, for_ms=shortest)


def list_deeds(
    given: Mapping[str, Node], read: Callable[[Node], Iterable[Deed | Rate]]
) -> tuple[tuple[Deed, ...], tuple[Rate, ...]]:
    """(deeds, rates) of the plans and faults of a document."""
    nodes = [node for key in ("plans", "faults") if key in given for node in given[key].items()]
    done = [one for node in nodes for one in read(node)]
    return tuple(one for one in done if isinstance(one, Deed)), tuple(one for one in done if isinstance(one, Rate))
