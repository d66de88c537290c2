"""Compares the rows of a group's members. Intervals are [start_ms, end_ms), in any order.

`fsm.spark` runs the same functions for each group.

* `judge`: findings between the members of one group
* `rebalances`, `Rebalance`: the rebalances of a group
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

from fsm.audit.findings import Finding, Severity, in_order
from fsm.audit.group.clocks import find_clock_differences
from fsm.audit.group.double_ownership import find_doubly_owned
from fsm.audit.group.rebalance import Rebalance, find_rebalance_storms, rebalances
from fsm.audit.group.unowned_partitions import find_unowned
from fsm.audit.limits import Limits
from fsm.audit.rows import GroupRows

__all__ = ["Rebalance", "judge", "rebalances"]

_DEFAULTS = Limits()


def judge(group: str, rows: GroupRows, limits: Limits = _DEFAULTS) -> list[Finding]:
    """Findings between the members of one group, in order.

    If the clocks of some members differ, findings about owners are for information only.
    """
    by_epoch = rows.rebalances.by(lambda one: (one.epoch or 0, one.member, one.start_ms))
    apart = list(find_clock_differences(group, by_epoch))
    owners = [*find_doubly_owned(group, rows, limits), *find_unowned(group, rows, limits)]
    if apart:
        owners = [replace(found, severity=Severity.INFO) for found in owners]
    by_member = rows.rebalances.by(attrgetter("member", "start_ms"))
    return in_order([*apart, *owners, *find_rebalance_storms(group, by_member, limits)])
