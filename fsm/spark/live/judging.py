"""A group, or a file, judged again: what a batch brought is added to what is kept of it, and what changed is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fsm.audit import baseline
from fsm.audit.findings import Finding
from fsm.audit.incidents import find_incidents, of_files
from fsm.audit.live.changes import Change
from fsm.audit.live.group_state import GroupState, Nobody
from fsm.audit.routing import Sent
from fsm.spark.live.follow_options import Follow
from fsm.spark.options import Options
from fsm.spark.pipeline import Plan


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges as the options ask."""

    options: Options
    follow: Follow

    def take(self, key: str, kept: bytes | None, rows: Iterable[Sent], names: Mapping[str, str]) -> Judged:
        """What is kept of a group or a file by now, and what changed; `names` are those of topics by their ids."""
        state = GroupState(key) if kept is None else GroupState.load(kept)
        state.take(rows)
        changes = state.tell(self._find(state, names), self.follow.close_ms)
        return Judged(state.dump(), changes)

    def _find(self, state: GroupState, names: Mapping[str, str]) -> Iterable[Finding]:
        known = self.options.known
        if state.is_file:
            found = state.of_file()
            return baseline.unknown(found, of_files(found), known) if known else found
        if not state.files:
            return ()
        audit = state.audit(self.options.limits, names, Nobody())
        told = baseline.unknown(audit.findings, find_incidents(audit), known) if known else audit.findings
        return Plan("", self.options, {}, cut=False).chosen(told)


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of it."""

    kept: bytes
    changes: list[Change]
