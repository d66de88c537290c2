"""A group, or a file, judged again: what a batch brought is added to what is kept of it, and what changed is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fsm.audit.findings import Finding
from fsm.audit.group_audit import GroupAudit
from fsm.audit.incidents import baseline, find_incidents, of_files
from fsm.audit.lag import add_lag
from fsm.audit.live import blobs
from fsm.audit.live.changes import Change
from fsm.audit.live.group_state import SETTLE_MS, GroupState
from fsm.audit.reading.routing import OF_FILE, Sent
from fsm.audit.report.highlights import Highlights
from fsm.render.report.folder import remove_group
from fsm.spark import collecting
from fsm.spark.live.follow_options import Follow
from fsm.spark.live.lag_kept import lag_in
from fsm.spark.live.page import draw_file, draw_group
from fsm.spark.options import Options


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges as the options ask, and draws what the report shows of it below the folder of the result."""

    options: Options
    follow: Follow
    out: Path

    @collecting.seldom()
    def take(self, key: str, kept: bytes | None, rows: Iterable[Sent], names: Mapping[str, str], now_ms: int) -> Judged:
        """What is kept of a group or a file by now, and what changed; `names` are those of topics by their ids."""
        state = GroupState(key) if kept is None else blobs.unpack(kept)
        state.take(rows, now_ms)
        if state.is_file:
            found = self._find_unknown(state.report_file(), None)
            changes = state.update_findings(found, self.follow.close_ms, now_ms)
            draw_file(self.out, key.removeprefix(OF_FILE), found)
        elif state.files:
            noted = Highlights()
            audit = state.audit(self.options.limits, names, noted)
            lag = lag_in(self.follow.lag, self.options.timezone)
            own = replace(self.options, lag=lag).lag_of(key)
            found = self._find_unknown(add_lag(audit.findings, own), audit)
            changes = state.update_findings(found, self.follow.close_ms, now_ms)
            draw_group(self.out, audit, found, noted)
            state.expire(audit, self.follow.expire_ms, now_ms)
            state.settle(audit, SETTLE_MS, now_ms)
        else:
            changes = state.update_findings((), self.follow.close_ms, now_ms)
        return Judged(blobs.pack(state), changes)

    def end(self, kept: bytes) -> list[Change]:
        """What changes when a group or a file is given up, of which nothing came for long; the page forgets it."""
        state: GroupState = blobs.unpack(kept)
        group, file = ("", state.key.removeprefix(OF_FILE)) if state.is_file else (state.key, "")
        remove_group(self.out, group, file)
        return state.end()

    def _find_unknown(self, found: Sequence[Finding], audit: GroupAudit | None) -> list[Finding]:
        """What no baseline has, of the time that was chosen."""
        if self.options.known:
            incidents = of_files(found) if audit is None else find_incidents(audit)
            found = baseline.find_unknown(found, incidents, self.options.known)
        return self.options.choose(found)


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of it."""

    kept: bytes
    changes: list[Change]
