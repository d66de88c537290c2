"""The audit: what trace records of a fleet mean, as pure functions over records and rows.

`reading` makes records of pieces of files and sends them to their groups, and `group_audit` judges a group in
two stages: `hygiene` (which process a record belongs to, in which order, and how far that is certain) and followers
(`member` and `connect` make rows of one process's records, `group` holds the rows of several members against each
other). `findings` says what is reported, in which words and which order. `local` runs all of it in one process; nothing
here knows Spark.

* `audit_files`: from files to findings
* `Audit`, `Options`, `Limits`: what comes of it, and what it goes by
* `Finding`, `FindingKind`, `Cause`, `Severity`, `Evidence`: a finding

>>> from fsm.audit import audit_files
>>> audit_files([]).findings
[]
"""

from typing import TYPE_CHECKING

from fsm.exports import on_demand

if TYPE_CHECKING:
    from fsm.audit.findings import Cause, Evidence, Finding, FindingKind, Severity
    from fsm.audit.limits import Limits
    from fsm.audit.local import Audit, Options, audit_files

__all__ = [
    "Audit",
    "Cause",
    "Evidence",
    "Finding",
    "FindingKind",
    "Limits",
    "Options",
    "Severity",
    "audit_files",
]

__getattr__ = on_demand(
    __name__,
    {
        "findings": ("Cause", "Evidence", "Finding", "FindingKind", "Severity"),
        "limits": ("Limits",),
        "local": ("Audit", "Options", "audit_files"),
    },
)
