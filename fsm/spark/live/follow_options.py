"""The options of a followed audit, beyond those of every audit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fsm.spark.options import Options

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
