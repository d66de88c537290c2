"""Writes changes of findings: a file of JSON lines and one of Parquet per batch, metrics, and open findings.

A repeated batch writes the same bytes under the same names. `standing.json` has the last version of every finding, and
the number of the last batch in it.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from fsm.audit.findings import Finding, FindingKind, Severity
from fsm.audit.live.changes import Change, Status, Versions, from_json, standing
from fsm.errors import FsmError
from fsm.spark import columns
from fsm.spark.files import write
from fsm.spark.live.alarms import Alarms

CLOSED = 2000
"""Number of the last closed findings in `standing.json`; the files of the batches have all."""
FINDINGS, PARQUET, STANDING, METRICS = "findings", "findings.parquet", "standing.json", "metrics.prom"
_COLUMNS = [
    "batch", "id", "version", "status", "kind", "severity", "group", "member", "others", "start_ms", "end_ms",
    "partitions", "cause", "summary", "evidence", "piled_up",
]  # fmt: skip
"""Columns of the table, in order."""


class _Version(NamedTuple):
    batch: int
    version: int
    status: Status


class Counts(NamedTuple):
    files: int
    read_bytes: int
    """Bytes read of them so far."""
    judged: int


class Sink:
    """Writes changes. Raises `FsmError` if they cannot be written; the batch is then written again later."""

    def __init__(self, out: Path, alarms: Alarms | None = None) -> None:
        self.out = out
        self.alarms = alarms
        self.batch, self.versions = self._load()
        """The last batch that was written, and the last versions of findings."""
        self.totals: Counter[tuple[str, str]] = Counter()
        """Findings that were opened since this process began, by kind and severity."""

    def write(self, batch: int, changes: Sequence[Change], counts: Counts) -> list[Change]:
        """Writes a batch, once, and returns its alarms."""
        if batch <= self.batch:
            return []
        try:
            if changes:
                self._write_changes(batch, changes)
            alarms = [one for one in changes if self._is_alarm(one)]
            self.versions = _limit(standing(self.versions, changes))
            self.totals.update((c.finding.kind.value, c.finding.severity.value) for c in changes if c.version == 1)
            if self.alarms is not None:
                self.alarms.add(batch, alarms)
            write(self.out / METRICS, "".join(self._metrics(batch, counts)).encode())
            if changes or self.batch < 0:
                findings = [one.to_json() for one in self.versions.values()]
                write(self.out / STANDING, (json.dumps({"batch": batch, "findings": findings}) + "\n").encode())
        except (OSError, sqlite3.Error) as problem:
            reason = getattr(problem, "strerror", None) or str(problem)
            text = f"findings cannot be written: {reason}; run the same command again to resume"
            raise FsmError(f"{self.out}: {text}") from None
        self.batch = batch
        return alarms

    def _write_changes(self, batch: int, changes: Sequence[Change]) -> None:
        versions = columns.batch((_Version(batch, one.version, one.status) for one in changes), _Version)
        rows = columns.beside(versions, columns.batch((one.finding for one in changes), Finding))
        sunk = pa.BufferOutputStream()
        parquet.write_table(pa.Table.from_batches([rows.select(_COLUMNS)]), sunk, compression="zstd")
        write(self.out / PARQUET / f"{batch:08}.parquet", sunk.getvalue().to_pybytes())
        lines = "".join(json.dumps({"batch": batch} | one.to_json()) + "\n" for one in changes)
        write(self.out / FINDINGS / f"{batch:08}.jsonl", lines.encode())

    # -- last versions --------------------------------------------------------------------------------------

    def _load(self) -> tuple[int, Versions]:
        """Reads `standing.json`, which is written last: later batches are written again."""
        try:
            known = json.loads((self.out / STANDING).read_bytes())
        except FileNotFoundError:
            return -1, {}
        return known["batch"], {one["id"]: from_json(one) for one in known["findings"]}

    # -- alarms ---------------------------------------------------------------------------------------------

    def _is_alarm(self, change: Change) -> bool:
        """Whether a finding above info began, rose above info, or ended by the change."""
        before = self.versions.get(change.id)
        was = before is not None and before.finding.severity is not Severity.INFO
        now = change.finding.severity is not Severity.INFO and change.status is not Status.WITHDRAWN
        if change.status in (Status.CLOSED, Status.WITHDRAWN):
            return was or now
        return now and not was

    # -- metrics --------------------------------------------------------------------------------------------

    def _metrics(self, batch: int, counts: Counts) -> Iterator[str]:
        found = [one.finding for one in self.versions.values() if one.status is not Status.CLOSED]
        kinds = Counter((one.kind.value, one.severity.value) for one in found)
        groups = Counter((one.group, one.severity.value) for one in found if one.severity is not Severity.INFO)
        of_kinds, of_groups = ("kind", "severity"), ("group", "severity")
        yield from _family("fsm_findings_open", "gauge", "Findings that are open.", of_kinds, kinds)
        opened = "Findings opened since the start."
        yield from _family("fsm_findings_opened_total", "counter", opened, of_kinds, self.totals)
        yield from _family("fsm_group_findings_open", "gauge", "Open findings above info.", of_groups, groups)
        plain = [
            ("fsm_audit_batch", "gauge", "Number of the last batch.", batch),
            ("fsm_audit_files", "gauge", "Files that are followed.", counts.files),
            ("fsm_audit_read_bytes", "gauge", "Bytes of logs that were read.", counts.read_bytes),
            ("fsm_audit_batch_groups", "gauge", "Groups judged in the last batch.", counts.judged),
        ]
        if self.alarms is not None:
            dropped = self.alarms.dropped
            plain.append(("fsm_audit_alarms_waiting", "gauge", "Alarms not told to --exec yet.", self.alarms.waiting))
            plain.append(("fsm_audit_alarms_dropped_total", "counter", "Alarms never told to it.", dropped))
        for name, kind, meaning, value in plain:
            yield from _family(name, kind, meaning, (), {(): value})


def in_order(changes: Iterable[Change]) -> list[Change]:
    """The changes by group, begin, kind, id and version, independent of the order of judgement."""
    kinds = list(FindingKind)

    def rank(one: Change) -> tuple[Any, ...]:
        return one.finding.group, one.finding.start_ms, kinds.index(one.finding.kind), one.id, one.version

    return sorted(changes, key=rank)


def _limit(versions: Versions) -> Versions:
    """Drops the oldest closed findings beyond `CLOSED`."""
    closed = sorted((one.finding.end_ms, key) for key, one in versions.items() if one.status is Status.CLOSED)
    gone = {key for _, key in closed[: max(0, len(closed) - CLOSED)]}
    return {key: one for key, one in versions.items() if key not in gone}


def _family(name: str, kind: str, meaning: str, labels: Sequence[str], values: Mapping[Any, int]) -> Iterator[str]:
    yield f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n"
    for key, value in sorted(values.items()):
        pairs = ",".join(f'{label}="{_escape(one)}"' for label, one in zip(labels, key, strict=True))
        yield f"{name}{{{pairs}}} {value}\n" if pairs else f"{name} {value}\n"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
