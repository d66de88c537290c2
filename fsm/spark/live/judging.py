"""Judges a group, or a file, again: adds the rows of a batch to its state, and returns the changes of findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

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
from fsm.spark.live.lag_kept import read_kept_lag
from fsm.spark.live.page import draw_file, draw_group
from fsm.spark.options import Followed


class Judged(NamedTuple):
    kept: bytes
    """The new state."""
    changes: list[Change]


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges by the options, and writes the group's part of the report into the result's folder."""

    followed: Followed

    @collecting.collect_rarely()
    def take(self, key: str, kept: bytes | None, rows: Iterable[Sent], names: Mapping[str, str], now_ms: int) -> Judged:
        """The new state of a group or a file, and the changes; `names` are topic names by topic id."""
        state = GroupState(key) if kept is None else blobs.unpack(kept)
        state.take(rows, now_ms)
        out, options, follow = self.followed.out, self.followed.options, self.followed.follow
        if state.is_file:
            found = self._find_unknown(state.report_file(), None)
            changes = state.update_findings(found, follow.close_ms, now_ms)
            draw_file(out, key.removeprefix(OF_FILE), found)
        elif state.files:
            highlights = Highlights()
            audit = state.audit(options.limits, names, highlights)
            own = replace(options, lag=read_kept_lag(follow.lag, options.timezone)).lag_of(key)
            found = self._find_unknown(add_lag(audit.findings, own), audit)
            changes = state.update_findings(found, follow.close_ms, now_ms)
            draw_group(out, audit, found, highlights)
            state.expire(audit, follow.expire_ms, now_ms)
            state.settle(audit, SETTLE_MS, now_ms)
        else:
            changes = state.update_findings((), follow.close_ms, now_ms)
        return Judged(blobs.pack(state), changes)

    def end(self, kept: bytes) -> list[Change]:
        """The changes when a group or a file expires; it is removed from the page."""
        state: GroupState = blobs.unpack(kept)
        group, file = ("", state.key.removeprefix(OF_FILE)) if state.is_file else (state.key, "")
        remove_group(self.followed.out, group, file)
        return state.end()

    def _find_unknown(self, found: Sequence[Finding], audit: GroupAudit | None) -> list[Finding]:
        """The findings within the selected time that are not in the baseline."""
        options = self.followed.options
        if options.known:
            incidents = of_files(found) if audit is None else find_incidents(audit)
            found = baseline.find_unknown(found, incidents, options.known)
        return options.choose(found)
