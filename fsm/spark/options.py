"""What the command line asks of an audit, and its defaults: no other place has them."""

from __future__ import annotations

from dataclasses import dataclass, field

from fsm.audit.lag import Lag
from fsm.audit.limits import MIN_UNDERSTOOD, Limits

IN_PROCESS = "none"
"""The master that stands for this process: no Spark."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to read, where to compute and what to report."""

    format: str = "auto"
    layout: str = ""
    """How lines look (`fsm.logs.pattern`); learned from each file where it is empty."""
    master: str = "local[*]"
    timezone: str = "UTC"
    split_bytes: int = 64 << 20
    """Largest piece of a plain file that one task reads at once."""
    by_folder: bool = False
    """Folders directly below a path are clusters of their own: their groups are named `folder:group`."""
    groups: tuple[str, ...] = ()
    """Only these groups are judged, with or without their cluster's name; none means all."""
    since_ms: int | None = None
    until_ms: int | None = None
    """Findings that end before the one or begin after the other are left out."""
    known: frozenset[str] = frozenset()
    """Ids of findings, or of incidents, that a baseline has: they are counted, and not told."""
    lag: Lag = field(default_factory=dict)
    """How far groups were behind over time, where somebody measured it."""
    top: int = 12
    """Groups that the page of a large report holds itself, the worst; those of the others are in files beside it."""
    min_understood: float = MIN_UNDERSTOOD
    """Of less than this share of what clients say, understood, no verdict is given."""
    limits: Limits = field(default_factory=Limits)
