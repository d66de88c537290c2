"""Logs that were collected twice, or put behind one another: what is read is what was printed."""

from __future__ import annotations

import memory
import pytest
import recordings

from fsm.audit.findings import Finding, FindingKind, Severity
from fsm.audit.hygiene.duplicate_lines import DuplicateLines
from fsm.audit.rows import Place, Seen
from fsm.trace import Kind, TraceRecord


def seen(ts_ms, epoch, offset, file="a.log"):
    return Seen(TraceRecord(ts_ms, Kind.HEARTBEAT_OK, epoch=epoch), Place(file, offset))


def read(*given):
    """What is left of records, which are read by time, and what is told."""
    lines = DuplicateLines("g", "c")
    kept = [one for each in sorted(given, key=lambda s: (s.record.ts_ms, s.place)) for one in lines.see(each)]
    return [*kept, *lines.finish()], list(lines.findings())


def left(*given):
    """The same as (file, offset) and words."""
    kept, told = read(*given)
    return [tuple(one.place) for one in kept], [f.summary for f in told]


def test_a_block_that_was_shipped_twice_is_read_once():
    """From its first line to its last one, though nothing older stands between the first line and its copy."""
    block = [(10, 1, 0), (20, 2, 100), (20, 3, 200), (30, 4, 300)]
    kept, told = left(*(seen(*one) for one in block), *(seen(t, e, o + 400) for t, e, o in block))
    assert kept == [("a.log", offset) for offset in (0, 100, 200, 300)]
    assert told == ["4 lines stand in the logs of c twice, as if a log had been collected twice; each was read once"]


def test_a_file_under_two_names_is_read_once():
    """Every line of the copy is an echo, and the first pair is shown."""
    lines = [(10, 1, 0), (10, 2, 50), (20, 3, 100)]
    kept, (told,) = read(*(seen(*one, file) for file in ("a.log", "b.log") for one in lines))
    assert {one.place.file for one in kept} == {"a.log"}
    assert (told.severity, told.kind, told.start_ms, told.end_ms) == (Severity.INFO, FindingKind.UNPARSED_LINES, 10, 20)
    assert [(e.file, e.offset) for e in told.evidence] == [("a.log", 0), ("b.log", 0)]


def test_a_line_repeated_where_its_log_was_rotated_is_no_echo():
    """The last line of a.log.1 and the first of a.log stand in one place; a third file has a copy of its own."""
    older, newer = seen(20, 2, 50, "a.log.1"), seen(20, 2, 0, "a.log")
    around = seen(10, 1, 0, "a.log.1"), seen(30, 3, 50, "a.log")
    assert left(around[0], older, newer, around[1])[1] == []
    assert len(left(around[0], older, newer._replace(place=Place("b.log", 0)), around[1])[1]) == 1
    assert len(left(around[0], older, newer, seen(30, 3, 90, "a.log.1"))[1]) == 1


def test_a_copy_that_begins_within_a_moment_is_part_of_it():
    """The stretch that tells more is read, whichever comes first."""
    whole = [(20, 2, 100), (20, 3, 150), (30, 4, 300)]
    assert left(*(seen(*one) for one in whole), seen(20, 3, 450), seen(30, 4, 500))[0] == [
        ("a.log", 100),
        ("a.log", 150),
        ("a.log", 300),
    ]
    assert left(seen(10, 3, 0), seen(20, 9, 50), seen(10, 2, 400), seen(10, 3, 450), seen(20, 9, 500))[0] == [
        ("a.log", 400),
        ("a.log", 450),
        ("a.log", 50),
    ]


def test_what_stands_together_is_no_echo():
    """A line that is repeated at once, and a client that does the same twice within a millisecond."""
    given = [
        seen(10, 1, 0),
        seen(20, 2, 100),
        seen(20, 3, 200),
        seen(20, 2, 9300),
        seen(20, 3, 9400),
        seen(30, 4, 9500),
    ]
    kept, told = left(*given)
    assert (len(kept), told) == (6, [])


def test_another_order_is_no_echo():
    """Two files that tell of one moment in another order were not copied."""
    given = [seen(10, 1, 0), seen(10, 2, 50), seen(10, 2, 0, "b.log"), seen(10, 1, 50, "b.log")]
    assert len(left(*given)[0]) == 4


def test_the_fold_reads_no_echo(log):
    """An assignment that a copy tells again is none."""
    for file in ("a.log", "copy.log"):
        log(0, Kind.STARTED, file=file)(500, Kind.ASSIGN_BEGIN, partitions=(("t", 0),), file=file)
    log.seen.sort(key=lambda s: (s.record.ts_ms, s.place))
    assert [f.kind for f in log.rows(Finding)] == [FindingKind.UNPARSED_LINES]


@pytest.fixture(params=["java/i_m_range_upgrade_down", "librdkafka/c02_two"])
def logs(request):
    """Members of scenarios in which nothing was wrong."""
    archive, _, scenario = request.param.partition("/")
    return recordings.logs(archive)[scenario]


def above_info(logs):
    return [f.summary for f in memory.audit(logs).findings if f.severity is not Severity.INFO]


def test_recorded_logs_that_were_collected_twice(logs):
    """Under another name, behind themselves, and from the middle once more: nothing above info."""
    halves = {name: data.split(b"\n") for name, data in logs.items()}
    again = {name: b"\n".join(all_ + all_[len(all_) // 2 :]) for name, all_ in halves.items()}
    assert above_info({**logs, **{f"copy-{n}": d for n, d in logs.items()}}) == []
    assert above_info({name: data + data for name, data in logs.items()}) == []
    assert above_info(again) == []


def test_logs_of_several_hosts_behind_one_another(logs):
    """One file after the other in one file, where some clients share a name: nothing above info."""
    assert above_info({"all.log": b"".join(logs.values())}) == []


def test_lines_that_were_dealt_out_are_left_as_they_are():
    """Hundreds of stretches in one moment are no copies; a burst of lines in one place is one stretch."""
    burst = [seen(20, i, 10 * i) for i in range(5000)]
    assert len(left(*burst, seen(30, 0, 60_000))[0]) == 5001
    between = [seen(30, i, 10 * i + 5) for i in range(5000)]
    assert left(*(seen(20, 7, 10 * i) for i in range(5000)), *between)[1] == []
