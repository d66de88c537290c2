"""How far findings can be trusted that rest on files whose layout leaves something out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from fsm.audit.findings import Finding, Severity

_SECOND_MS = 1000
_DAY = ("date", "year")
_CLOCK = ("milliseconds",)


class FileFacts(NamedTuple):
    """What the records of one file are worth."""

    missed: int
    """Entries and lines of clients, or like theirs, that were not understood."""
    lost: tuple[str, ...]
    """What its layout leaves out, as `fsm.logs.learned.Description` names it."""


def weigh(findings: Iterable[Finding], files: Mapping[str, FileFacts]) -> Iterator[Finding]:
    """The findings, less severe where they rest on what a layout leaves out, which they then say.

    A date or year that was taken from elsewhere matters where several files are compared, whole seconds where what
    happened took less than two.
    """
    for found in findings:
        shown = sorted({one.file for one in found.evidence})
        lost = [name for name in (*_DAY, *_CLOCK) if any(name in files[f].lost for f in shown if f in files)]
        days = [name for name in lost if name in _DAY and len(shown) > 1]
        whole_seconds = "milliseconds" in lost and 0 < found.end_ms - found.start_ms < 2 * _SECOND_MS
        told = [*days, *(_CLOCK if whole_seconds else ())]
        yield _doubt(found, told) if told and found.severity is not Severity.INFO else found


def _doubt(found: Finding, lost: Sequence[str]) -> Finding:
    said = f"{found.summary} (a log does not tell {' and '.join(f'the {name}' for name in lost)})"
    return replace(found.lower_severity(), summary=said)
