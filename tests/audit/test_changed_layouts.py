"""Files whose layout changes: the findings are those of one layout, or less severe and say why."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path

import pytest
from logs.shown import SHOWN
from logs.wrappers import JAVA, TOOLS, Event, Writer, iso, java_events, lines
from recordings import logs

from fsm.audit import audit_files
from fsm.audit.findings import Finding, FindingKind, Severity
from fsm.audit.reading.piece import read_piece
from fsm.audit.reading.unparsed import report_file
from fsm.logs import formats
from fsm.logs.exports.broken_lines import find_broken
from fsm.logs.reading.pieces import WHOLE, Piece, cut

WRITERS: Mapping[str, Writer] = {
    **JAVA,
    **TOOLS,
    **SHOWN,
    "no time": lines(lambda e: f"{e.level:<5} {e.logger} - {e.body}"),
    "pm2": lines(lambda e: f"0|orders-1 | {e.at:%Y-%m-%dT%H:%M:%S}+00:00: {e.body}"),
    "bracketed": lines(lambda e: f"{iso(e, ' ', zone='')} {e.level} [{e.logger}] {e.body}"),
    "whole seconds": lines(lambda e: f"{e.at:%Y-%m-%d %H:%M:%S} {e.level} [{e.logger}] {e.body}"),
}


def audit(folder: Path, scenario: str, one: str, other: str, parts: int = 2) -> list[Finding]:
    """The findings of a scenario whose files have these layouts in turn."""
    folder.mkdir()
    for name, data in logs("java")[scenario].items():
        told = list(java_events(data))
        (folder / name).write_text("".join(_write_parts(told, WRITERS[one], WRITERS[other], parts)))
        os.utime(folder / name, (told[-1].ts_ms / 1000 + 60,) * 2)
    return audit_files(sorted(folder.iterdir())).findings


def _write_parts(told: list[Event], one: Writer, other: Writer, parts: int) -> list[str]:
    length = -(-len(told) // parts)
    return [(one, other)[i % 2](told[i * length : (i + 1) * length]) for i in range(parts)]


def list_errors(found: list[Finding]) -> list[tuple[str, str]]:
    return sorted((one.kind.value, one.member) for one in found if one.severity is Severity.ERROR)


@pytest.mark.parametrize(
    ("one", "other", "parts"),
    [
        ("nothing but time", "whole seconds", 2),
        ("no time", "log4net", 6),
        ("logback date", "pm2", 2),
        ("logback date", "pm2", 9),
    ],
)
@pytest.mark.loop(2)
def test_no_error_is_made_by_a_change_of_layout(one: str, other: str, parts: int, tmp_path: Path) -> None:
    """To one whose times have no milliseconds, which may name the program, or to one without times: the order of the
    lines counts."""
    assert list_errors(audit(tmp_path / "changed", "j02_second_joins", one, other, parts)) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tmux", "log4net"),
        ("log4net", "tmux"),
        ("folded mail", "kafka"),
        ("log4net", "folded mail"),
        ("folded and indented", "quarkus"),
    ],
)
@pytest.mark.loop(2)
def test_lines_broken_in_one_part_of_a_file_are_put_together(one: str, other: str, tmp_path: Path) -> None:
    """As where a log continues what was copied from a terminal."""
    found = audit(tmp_path / "changed", "i_j07_maxpoll", one, other)
    assert [f.kind for f in found] == [f.kind for f in audit(tmp_path / "whole", "i_j07_maxpoll", "kafka", "kafka")]


@pytest.mark.parametrize(
    ("scenario", "shift_s"),
    [
        *((name, 0) for name in ("j09_kill9", "x06_coop_kill9", "x11_coop_throw")),
        *(
            pytest.param(name, s, marks=pytest.mark.deep)
            for name in ("j09_kill9", "x11_coop_throw")
            for s in range(1, 60)
        ),
    ],
)
@pytest.mark.loop(1)
def test_whole_seconds_between_milliseconds_make_no_error(scenario: str, shift_s: int, tmp_path: Path) -> None:
    """A line is not older than the one above, whatever both name of group and client; of what lasted no two seconds,
    the milliseconds are not known. Also where a minute begins."""
    paths = []
    for name, data in logs("java")[scenario].items():
        told = [event._replace(ts_ms=event.ts_ms + 1000 * shift_s) for event in java_events(data)]
        paths.append(tmp_path / name)
        paths[-1].write_text(
            "".join(WRITERS["whole seconds" if i % 3 else "bracketed"]([e]) for i, e in enumerate(told))
        )
        os.utime(paths[-1], (told[-1].ts_ms / 1000 + 60,) * 2)
        assert "milliseconds" in read_piece(Piece(str(paths[-1]), 0, WHOLE), formats(), UTC).summary.lost
    assert list_errors(audit_files(paths).findings) == []


def test_what_lines_without_a_time_show_is_less_severe_and_says_so(tmp_path: Path) -> None:
    """When a member that was not polled in time had its partitions is not known for certain."""
    (found,) = audit(tmp_path / "changed", "i_j07_maxpoll", "log4net", "no time")
    assert (found.kind, found.severity) == (FindingKind.PARTITIONS_LOST, Severity.INFO)
    assert found.summary.endswith("(a log does not tell the times of some lines)")


def test_a_file_of_which_some_lines_have_no_time_is_named(tmp_path: Path) -> None:
    """Though others have one, what was owned is not known for all of it."""
    told = list(java_events(logs("java")["i_j07_maxpoll"]["A.log"]))
    (tmp_path / "A.log").write_text("".join(_write_parts(told, WRITERS["log4net"], WRITERS["no time"], 2)))
    summary = read_piece(Piece(str(tmp_path / "A.log"), 0, WHOLE), formats(), UTC).summary
    (found,) = report_file([summary])
    assert "A.log tell no time and are taken to be as old as those above them: what was owned then" in found.summary


@pytest.mark.parametrize("scenario", ["j02_second_joins", "i_j07_maxpoll"])
def test_whole_seconds_of_a_layout_with_milliseconds_are_exact(scenario: str, tmp_path: Path) -> None:
    """Two members in one file, of each second the first one's lines before those of the other, one of them at .000."""
    first, second = (list(java_events(logs("java")[scenario][name])) for name in ("A.log", "B.log"))
    change = next(e for e in second if "transitioned from" in e.text)
    moved = [e._replace(ts_ms=e.ts_ms - change.ts_ms % 1000 + 1000) for e in second]
    found = {}
    for later_ms in (0, 1):
        told = sorted([*first, *(e._replace(ts_ms=e.ts_ms + later_ms) for e in moved)], key=lambda e: e.ts_ms // 1000)
        path = tmp_path / f"{later_ms}.log"
        path.write_text(WRITERS["kafka"](told))
        os.utime(path, (told[-1].ts_ms / 1000 + 60,) * 2)
        found[later_ms] = list_errors(audit_files([path]).findings)
    assert found[0] == found[1]


def test_a_file_with_lines_without_a_time_is_read_as_one_piece(tmp_path: Path) -> None:
    """They are as old as the line above, which may be in another piece."""
    told = list(java_events(logs("java")["j02_second_joins"]["A.log"]))
    path = tmp_path / "A.log"
    path.write_text("".join(_write_parts(told, WRITERS["log4net"], WRITERS["no time"], 2)))
    assert len(list(cut(path, path.stat().st_size // 3))) == 1


def test_objects_with_their_time_at_the_end_are_no_folded_lines() -> None:
    """Of several lengths, up to the width of a mail."""
    told = list(java_events(logs("java")["j02_second_joins"]["A.log"]))
    lines = (json.dumps({"level": "INFO", "message": e.text[:40], "time": f"{e.ts_ms}"}) for e in told)
    assert find_broken("\n".join(lines).encode()) is None
    objects = (
        json.dumps({"message": "joined", "n": 10 ** (i % 40), "time": "2026-11-21T08:00:00Z"}) for i in range(80)
    )
    assert find_broken("\n".join(objects).encode()) is None


@pytest.mark.parametrize("scenario", ["i_j02_second_joins", "i_j07_maxpoll"])
def test_settings_at_the_end_of_a_log_that_was_cut_are_no_folded_lines(scenario: str) -> None:
    for data in logs("java")[scenario].values():
        assert [find_broken(data[:end]) for end in range(500, 5000, 97)] == [None] * 47
