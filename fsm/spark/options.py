"""What the command line asks of an audit, and its defaults: no other place has them."""

from __future__ import annotations

from dataclasses import dataclass, field

from fsm.audit.limits import Limits


@dataclass(frozen=True, slots=True)
class Options:
    """How to read, where to compute and what to report."""

    format: str = "auto"
    master: str = "local[*]"
    timezone: str = "UTC"
    split_bytes: int = 64 << 20
    """Largest piece of a plain file that one task reads at once."""
    by_folder: bool = False
    """Folders directly below a path are clusters of their own: their groups are named `folder:group`."""
    limits: Limits = field(default_factory=Limits)
