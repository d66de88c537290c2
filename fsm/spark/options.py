"""The options of an audit and their defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from fsm.audit.limits import MIN_UNDERSTOOD, Limits

if TYPE_CHECKING:
    from fsm.audit.findings import Finding
    from fsm.audit.lag import Lag, Measured
    from fsm.trace import Partition

IN_PROCESS = "none"
"""The value of `master` for this process, without Spark."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options for reading, computing and reporting."""

    format: str = "auto"
    layout: str = ""
    """The layout of lines (`fsm.logs.layouts.pattern`); if empty, learned from each file."""
    master: str = "local[*]"
    timezone: str = "UTC"
    split_bytes: int = 64 << 20
    """Largest piece of a plain file that one task reads at once."""
    by_folder: bool = False
    """Folders directly below a path are clusters: their groups are called `folder:group`."""
    groups: tuple[str, ...] = ()
    """The groups to judge, with or without the cluster's name; empty means all."""
    since_ms: int | None = None
    until_ms: int | None = None
    """Findings that end before the one or begin after the other are left out."""
    known: frozenset[str] = frozenset()
    """Ids of findings or incidents of a baseline, which are counted and not reported."""
    lag: Lag = field(default_factory=dict)
    """The lag of groups over time, if measured."""
    top: int = 12
    """Number of the worst groups that are in the page of a large report itself; the others are in files beside it."""
    min_understood: float = MIN_UNDERSTOOD
    """The share of clients' entries below which there is no verdict."""
    limits: Limits = field(default_factory=Limits)

    @property
    def zone(self) -> tzinfo:
        """The time zone of timestamps without one."""
        return UTC if self.timezone == "UTC" else ZoneInfo(self.timezone)

    def judges(self, group: str) -> bool:
        """Whether a group is selected, with or without its cluster's name."""
        return not self.groups or group in self.groups or self._without_cluster(group) in self.groups

    def lag_of(self, group: str) -> Mapping[Partition, Sequence[Measured]]:
        return self.lag.get(group) or self.lag.get(self._without_cluster(group)) or {}

    def _without_cluster(self, group: str) -> str:
        return group.partition(":")[2] if self.by_folder else group

    def choose(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings within the selected time."""
        rest = [one for one in findings if self.since_ms is None or one.end_ms >= self.since_ms]
        return [one for one in rest if self.until_ms is None or one.start_ms <= self.until_ms]


CHECKPOINT = "checkpoint"
"""The folder in the result's folder with the state to continue from."""
TOPICS = "topics"
"""The folder in the checkpoint with copies of topics."""


@dataclass(frozen=True, slots=True)
class Follow:
    """Intervals, expiry, and the command for alarms."""

    trigger_ms: int = 5000
    """Interval of batches."""
    expire_ms: int = 86_400_000
    """A member without lines for this long while others had some, by the timestamps of the lines, is dropped; so is a
    group, or a file, without lines for this long."""
    close_ms: int = 60_000
    """A finding that ended this long ago, by the same clock, is closed."""
    command: tuple[str, ...] = ()
    """The command for an alarm, with the finding as JSON on stdin; empty for none."""
    lag: str = ""
    """The file with the lag of groups, for `fsm.spark.live.lag_kept`; empty for none."""
    stop_ms: int | None = None
    """Ends when nothing new came for this long; None means never."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The paths, output folder and options of a followed audit."""

    paths: tuple[str, ...]
    out: Path
    options: Options
    follow: Follow

    @property
    def checkpoint(self) -> Path:
        return self.out / CHECKPOINT
