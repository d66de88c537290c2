"""The rows of one group's members, held against each other: intervals [start_ms, end_ms), in any order.

These rules are the reference: `fsm.spark` runs the same functions over any number of groups.

* `judge`: what is wrong between the members of one group
* `rebalances`, `Rebalance`: what a group went through
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

from fsm.audit.findings import Finding, Severity, in_order
from fsm.audit.group.clocks import clocks_apart
from fsm.audit.group.double_ownership import find_doubly_owned
from fsm.audit.group.rebalance import Rebalance, rebalance_storms, rebalances
from fsm.audit.group.unowned_partitions import find_unowned
from fsm.audit.limits import Limits
from fsm.audit.rows import GroupRows

__all__ = ["Rebalance", "judge", "rebalances"]

_DEFAULTS = Limits()


def judge(group: str, rows: GroupRows, limits: Limits = _DEFAULTS) -> list[Finding]:
    """What is wrong between the members of one group.

    Where the clocks of some members are wrong, nobody knows who owned what at one time: findings about owners are for
    information only in that group.
    """
    by_epoch = rows.rebalances.by(lambda one: (one.epoch or 0, one.member, one.start_ms))
    apart = list(clocks_apart(group, by_epoch))
    owners = [*find_doubly_owned(group, rows, limits), *find_unowned(group, rows, limits)]
    if apart:
        owners = [replace(found, severity=Severity.INFO) for found in owners]
    by_member = rows.rebalances.by(attrgetter("member", "start_ms"))
    return in_order([*apart, *owners, *rebalance_storms(group, by_member, limits)])
