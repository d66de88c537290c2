"""How certain findings are: how much of the logs was understood, and which fields their layouts lack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from fsm.audit.findings import Finding, FindingKind, Severity
from fsm.audit.hygiene.identity import Key
from fsm.audit.reading.records import Source
from fsm.audit.wording import list_members
from fsm.logs.layouts.layout import LOSSES, ORDER

_SECOND_MS = 1000
_DAY = ("date", "year")
_CLOCK = ("milliseconds",)


class Understood(NamedTuple):
    """Counts of clients' entries that were understood and not understood."""

    entries: int
    missed: int
    """Entries and lines of clients, or similar to theirs, that were not understood."""

    @property
    def all(self) -> int:
        return self.entries + self.missed

    @property
    def share(self) -> float:
        """From 0 to 1, in thousandths, rounded down."""
        return self.entries * 1000 // max(1, self.all) / 1000

    @property
    def percent(self) -> str:
        """The share, as in `98.7 %`."""
        return f"{100 * self.share:g} %"

    def is_enough(self, least: float) -> bool:
        """Whether at least this share was understood."""
        return self.entries >= least * self.all

    def __str__(self) -> str:
        return f"{self.percent} of {self.all} entries of clients"


class TooLittle(NamedTuple):
    """A file of which too little was understood, or one client in a file."""

    file: str
    client: str
    """Client id; empty for the whole file."""
    entries: int
    """As in `Understood`, like `missed`."""
    missed: int

    @property
    def understood(self) -> Understood:
        return Understood(self.entries, self.missed)

    @property
    def where(self) -> str:
        return f"{self.client} in {self.file}" if self.client else self.file


class FileFacts(NamedTuple):
    """How far the records of one file can be trusted."""

    missed: int
    """Entries and lines of clients, or similar to theirs, that were not understood."""
    lost: tuple[str, ...]
    """Fields that its layout lacks, with the names of `fsm.logs.layouts.layout.Description`."""
    too_little: tuple[str, ...] = ()
    """Clients as in `TooLittle.client`."""
    missed_since: tuple[tuple[str, int], ...] = ()
    """As `PieceSummary.missed_since`, for the whole file."""

    def for_clients(self, client_ids: Iterable[str]) -> FileFacts:
        """The facts for a group with these clients."""
        kept = {"", *client_ids}
        return self._replace(missed_since=tuple(one for one in self.missed_since if one[0] in kept))

    def is_doubtful(self, client: str) -> bool:
        """Whether too little of a client's lines in the file was understood."""
        return client in self.too_little or "" in self.too_little

    def find_missed_ms(self, client: str) -> int | None:
        """The time from which lines of a client in the file may be missing; None if none is."""
        return min((ms for one, ms in self.missed_since if one in ("", client)), default=None)


_BY_ABSENCE = frozenset(FindingKind) - {
    FindingKind.CONFIG_LAG,
    FindingKind.FENCING_LOOP,
    FindingKind.LISTENER_ERROR,
    FindingKind.MEMBER_OUT_FOR_GOOD,
    FindingKind.PARTITIONS_LOST,
    FindingKind.MEMBERSHIP_LOST,
    FindingKind.COMMIT_REFUSED,
    FindingKind.REBALANCE_STORM,
    FindingKind.UNPARSED_LINES,
}
"""Kinds that a missing line can cause: something lasted, or did not happen."""
_OF_ALL_MEMBERS = frozenset({FindingKind.UNOWNED_PARTITION, FindingKind.UNASSIGNED_WORK})
"""Kinds that a missing line of any member can cause."""


def lower_uncertain(
    findings: Iterable[Finding], files: Mapping[str, FileFacts], members: Mapping[Source, Key]
) -> Iterator[Finding]:
    """The findings; those that depend on fields that a layout lacks are one step less severe, and name the fields. An
    error that a line may have caused which was not understood, before the error's end, is a warning, and says so.

    A missing date or year matters if the finding shows several files, timestamps in whole seconds matter if it lasted
    less than two seconds, other `LOSSES` always.
    """
    since: dict[str, int] = {}
    for (_, client, file, _), key in members.items():
        if file in files and (ms := files[file].find_missed_ms(client)) is not None:
            since[key.member] = min(ms, since.get(key.member, ms))
    for found in findings:
        shown = sorted({one.file for one in found.evidence})
        lost = [name for name in (*_DAY, *_CLOCK, *LOSSES) if any(name in files[f].lost for f in shown if f in files)]
        days = [name for name in lost if name in _DAY and len(shown) > 1]
        whole_seconds = "milliseconds" in lost and 0 < found.end_ms - found.start_ms < 2 * _SECOND_MS
        reasons = [*days, *(_CLOCK if whole_seconds else ()), *(name for name in LOSSES if name in lost)]
        doubts = [f"a log does not tell {' and '.join(f'the {name}' for name in reasons)}"] if reasons else []
        lacking = _find_lacking(found, since)
        doubts += [f"not every line of {list_members(lacking)} was understood"] if lacking else []
        if not doubts or found.severity is Severity.INFO:
            yield found
        else:
            is_lower = bool(reasons) or found.severity is Severity.ERROR
            lower = found.lower_severity() if is_lower else found
            if ORDER in reasons and found.kind is FindingKind.ILLEGAL_TRANSITION:
                lower = replace(lower, severity=Severity.INFO)  # steps are in another order, too
            yield replace(lower, summary=f"{found.summary} ({'; '.join(doubts)})")


def _find_lacking(found: Finding, since: Mapping[str, int]) -> list[str]:
    """The members with a line that was not understood before the end of a finding that a missing line can cause."""
    if found.kind not in _BY_ABSENCE:
        return []
    about = (found.member, *found.others)  # " [" follows if processes share a client id
    names = (
        since if found.kind in _OF_ALL_MEMBERS else {one if one in since else one.rpartition(" [")[0] for one in about}
    )
    return sorted(one for one in names if one in since and since[one] <= found.end_ms)
