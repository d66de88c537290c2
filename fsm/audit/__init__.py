"""The audit: what trace records of a fleet mean, as pure functions over records and rows.

Four stages, each of which can run distributed, because each needs only what its key brings together: `attribution`
(which member a record belongs to; key: group and client id, over a few facts per file), `member` (one member's records
in order become rows; key: group and member), `group` (rows of several members are held against each other; key: group)
and `findings` (what is reported, in which words and which order). `local` runs them in one process; nothing here knows
Spark.

* `audit_files`, `audit_records`, `read_files`: from files to findings, whole or in two steps
* `Audit`, `Read`, `Options`, `Limits`: what comes of it, and what it goes by
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
    from fsm.audit.local import Audit, Options, Read, audit_files, audit_records, read_files

__all__ = [
    "Audit",
    "Cause",
    "Evidence",
    "Finding",
    "FindingKind",
    "Limits",
    "Options",
    "Read",
    "Severity",
    "audit_files",
    "audit_records",
    "read_files",
]

__getattr__ = on_demand(
    __name__,
    {
        "Cause": "findings",
        "Evidence": "findings",
        "Finding": "findings",
        "FindingKind": "findings",
        "Severity": "findings",
        "Limits": "limits",
        "Audit": "local",
        "Options": "local",
        "Read": "local",
        "audit_files": "local",
        "audit_records": "local",
        "read_files": "local",
    },
)
