"""The report of a followed audit: a page that refreshes itself, and beside it a file for each group and each log file.

The task that judges a group writes its file; the driver writes the page, some time after a change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fsm.audit.findings import Finding
from fsm.audit.group_audit import GroupAudit
from fsm.audit.incidents import find_incidents, of_files
from fsm.audit.report import pack_group, report
from fsm.audit.report.group_views import group_view, overview
from fsm.audit.report.highlights import Highlights
from fsm.render.report.folder import remove_group, write_group, write_page
from fsm.render.timeline.views import GroupView
from fsm.spark.live.known_files import Offsets
from fsm.spark.live.reading import Kept
from fsm.spark.options import Followed
from fsm.spark.totals import Totals

_TRIES = 3
EVERY_S = 5.0
"""Shortest time between two writes of the page."""


def draw_group(out: Path, audit: GroupAudit, found: Sequence[Finding], highlights: Highlights) -> None:
    """Writes the file of a group, if it changed."""
    shown = replace(audit, findings=found)
    view = group_view(shown, overview(shown), highlights)
    packed = pack_group(view, shown.findings, find_incidents(shown))
    # The page adds up the trends of all groups, because only changed groups are judged.
    write_group(
        out, packed._replace(index_entry={**packed.index_entry, "trend": view.trend.to_json() if view.trend else None})
    )


def draw_file(out: Path, file: str, found: Sequence[Finding]) -> None:
    """Writes the findings about a log file, or removes them if there are none."""
    if found:
        write_group(out, pack_group(GroupView("", 0, 0, file=file), found, of_files(found)))
    else:
        remove_group(out, "", file)


def inputs_of(offsets: Offsets, totals: Totals) -> dict[str, Any]:
    sizes = {"files": len(offsets), "bytes": sum(one.size for one in offsets.values())}
    nothing = {"unreadable": [], "unreadable_files": 0, "older_results": [], "known_findings": 0}
    return sizes | totals.inputs() | nothing


class Page:
    def __init__(self, followed: Followed) -> None:
        self.followed = followed
        self.kept = Kept(followed.checkpoint)
        self.offsets: Offsets = {}
        self.reached: Callable[[], Offsets] = lambda: self.offsets
        """Returns the current offsets; states of earlier offsets may have been removed."""
        self._written_s: float | None = None
        self._waiting = False

    def change(self, offsets: Offsets) -> None:
        """Marks the page as outdated."""
        self.offsets, self._waiting = offsets, True

    def totals(self) -> Totals:
        """Totals of all files so far. Retried if a batch ends meanwhile and removes the states before it."""
        for _ in range(_TRIES):
            self.offsets = self.reached()
            totals = Totals(self.followed.options.min_understood)
            summaries = list(self.kept.summaries(self.offsets))
            for summary in summaries:
                totals.add_file([summary])
            if len(summaries) == sum(one.size > 0 for one in self.offsets.values()):
                break
        return totals

    def write(self, now_s: float, *, at_once: bool = False) -> None:
        """Writes the page if it is outdated and the last write is `EVERY_S` ago, or `at_once`. Raises OSError."""
        if not self._waiting or not (at_once or self._written_s is None or now_s - self._written_s >= EVERY_S):
            return
        self._written_s, self._waiting = now_s, False
        try:
            options, totals = self.followed.options, self.totals()
            shown = replace(report(inputs_of(self.offsets, totals), totals.metrics(), totals.trend, 0), trend=None)
            refresh_s = max(1, self.followed.follow.trigger_ms // 1000)
            write_page(self.followed.out, shown, top=options.top, refresh_s=refresh_s)
        except BaseException:
            self._waiting = True  # after a signal it is written at the end
            raise
