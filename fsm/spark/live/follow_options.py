"""What the command line asks of a followed audit beyond what it asks of every audit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fsm.spark.options import Options

CHECKPOINT = "checkpoint"
"""The folder, in that of the result, of what is needed to go on."""
TOPICS = "topics"
"""The folder, in that one, of the copies of topics."""


@dataclass(frozen=True, slots=True)
class Follow:
    """How to follow, and whom to tell."""

    trigger_ms: int = 5000
    """How often it is looked for what is new."""
    expire_ms: int = 86_400_000
    """A member that said nothing for so long while others did, by the clock of the lines, is kept no longer; nor is a
    group, or a file, of which nothing came for so long."""
    close_ms: int = 60_000
    """A finding that ended so long ago, by the same clock, is closed."""
    command: tuple[str, ...] = ()
    """What is run for an alarm, with the finding as JSON on stdin; none where it is empty."""
    lag: str = ""
    """The file that tells how far groups are behind, as `fsm.spark.live.lag_kept` reads it; none where it is empty."""
    stop_ms: int | None = None
    """Ends when nothing new came for so long; None means never."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What is followed, where to, and how."""

    paths: tuple[str, ...]
    out: Path
    options: Options
    follow: Follow

    @property
    def checkpoint(self) -> Path:
        return self.out / CHECKPOINT
