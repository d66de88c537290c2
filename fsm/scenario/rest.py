"""How long a scenario may keep a member busy: what asks for more is no scenario, or a member that spins."""

from __future__ import annotations

from fsm.errors import FsmError

TURNS_AT_ONCE = 1_000
"""Turns of a member's loop at one instant."""
TURNS_IN_ALL = 10_000
"""Turns of it in one wait."""


class Restless(FsmError):  # noqa: N818  # what the member is
    """The member does not come to rest in as many turns."""
