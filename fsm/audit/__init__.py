"""The audit: from trace records of a fleet to findings, as pure functions over records and rows.

`reading` parses pieces of files and routes the records to their groups. `group_audit` judges a group in two stages:
`hygiene` (the process of each record, the order of records, and how certain both are) and followers (`member` and
`connect` make rows from the records of one process, `group` compares the rows of several members). `findings` defines
findings and their order. `local` runs all of it in one process; nothing here imports Spark.

* `audit_files`: from files to findings
* `Audit`, `Options`, `Limits`: result, options, thresholds
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

__getattr__, __dir__ = on_demand(
    __name__,
    {
        "findings": ("Cause", "Evidence", "Finding", "FindingKind", "Severity"),
        "limits": ("Limits",),
        "local": ("Audit", "Options", "audit_files"),
    },
)
