"""What the command line asks of an audit, and its defaults: no other place has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from fsm.audit.limits import MIN_UNDERSTOOD, Limits

if TYPE_CHECKING:
    from fsm.audit.findings import Finding
    from fsm.audit.lag import Lag, Measured
    from fsm.trace import Partition

IN_PROCESS = "none"
"""The master that stands for this process: no Spark."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to read, where to compute and what to report."""

    format: str = "auto"
    layout: str = ""
    """How lines look (`fsm.logs.layouts.pattern`); learned from each file where it is empty."""
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

    @property
    def zone(self) -> tzinfo:
        """That of stamps without one."""
        return UTC if self.timezone == "UTC" else ZoneInfo(self.timezone)

    def judges(self, group: str) -> bool:
        """Whether a group was chosen, by its name with or without its cluster's."""
        return not self.groups or group in self.groups or self._without_cluster(group) in self.groups

    def lag_of(self, group: str) -> Mapping[Partition, Sequence[Measured]]:
        """How far the group was behind, where that was measured."""
        return self.lag.get(group) or self.lag.get(self._without_cluster(group)) or {}

    def _without_cluster(self, group: str) -> str:
        return group.partition(":")[2] if self.by_folder else group

    def choose(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings of the time that was chosen."""
        rest = [one for one in findings if self.since_ms is None or one.end_ms >= self.since_ms]
        return [one for one in rest if self.until_ms is None or one.start_ms <= self.until_ms]
