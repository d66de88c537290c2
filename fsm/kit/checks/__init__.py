"""The checks, one module for each part of the protocols.

* `CHECKS`: all of them by id
* `MODULES`: where they are declared, in the order of the protocols' parts
"""

from __future__ import annotations

from collections.abc import Mapping

from fsm.kit.check import CHECKS as DECLARED
from fsm.kit.check import Check
from fsm.kit.checks import classic, classic_assignments, heartbeats, joining, offsets, reconciling

MODULES = (joining, heartbeats, reconciling, offsets, classic, classic_assignments)


ORDER = "JSHRELCFAK"
"""The letters of ids: join, subscription, heartbeats, reconciliation, errors, leave, commits, fetches, application; K
for classic groups."""


def _order(check: Check) -> tuple[int, int]:
    return ORDER.index(check.id[0]), int(check.id[1:])


CHECKS: Mapping[str, Check] = {check.id: check for check in sorted(DECLARED, key=_order)}
"""All checks by id."""

__all__ = ["CHECKS", "MODULES"]
