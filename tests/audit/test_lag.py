"""Lag beside ownership: what may be read as such, and what a partition without owner says of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from fsm.audit.findings import Cause, Finding, FindingKind, finding
from fsm.audit.lag import NEAR_MS, Lag, Measured, add_lag, read_lag
from fsm.errors import InputError

SECOND = 1000
AT_MS = 1_795_420_622_000
"""Mon Nov 23 07:57:02 UTC 2026"""
PRINTED = """Mon Nov 23 07:57:02 UTC 2026

GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID            HOST            CLIENT-ID
shop            orders          0          160             198             38              MP8vA5YsSsmUX7xzVKSkQQ /127.0.0.1      shop-1
shop            orders          1          161             198             37              MP8vA5YsSsmUX7xzVKSkQQ /127.0.0.1      shop-1
Mon Nov 23 07:57:04 UTC 2026

Consumer group 'shop' has no active members.

GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID
shop            orders          0          160             227             67              -               -               -
shop            orders          1          -               227             -               -               -               -

GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID
my own group    orders          0          7               227             220             -               -               -
Mon Nov 23 07:57:09 UTC 2026

GROUP           TOPIC           PARTITION  LEADER-EPOCH    CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID
shop            orders          0          0               160             304             144             -               -               -
"""  # noqa: E501  as the tool of Kafka 4.3.1 printed it
SQUEEZED = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG\nshop orders 0 160 198 38\n"


def lag_of(tmp_path: Path, text: str) -> Lag:
    """What is read of a file."""
    path = tmp_path / "lag.txt"
    path.write_text(text)
    return read_lag(path, UTC)


def test_what_the_tool_prints_is_read(tmp_path: Path) -> None:
    """Blocks of several groups, one whose name holds spaces; partitions without a lag; with --verbose, too."""
    assert lag_of(tmp_path, PRINTED) == {
        "shop": {
            ("orders", 0): [
                Measured(AT_MS, 38), Measured(AT_MS + 2 * SECOND, 67), Measured(AT_MS + 7 * SECOND, 144),
            ],
            ("orders", 1): [Measured(AT_MS, 37)],
        },
        "my own group": {("orders", 0): [Measured(AT_MS + 2 * SECOND, 220)]},
    }  # fmt: skip


@pytest.mark.parametrize(
    "stamp",
    ["2026-11-23T07:57:02Z", "== 2026-11-23 08:57:02+01:00 ==", "Mon 23 Nov 2026 07:57:02 AM UTC", "1795420622"],
)
def test_any_time_stamp_above_a_block_counts(tmp_path: Path, stamp: str) -> None:
    """As in logs."""
    (measured,) = lag_of(tmp_path, f"{stamp}\n{SQUEEZED}")["shop"]["orders", 0]
    assert measured == Measured(AT_MS, 38)


def test_a_time_stamp_without_a_zone_is_of_the_zone_that_is_given(tmp_path: Path) -> None:
    """That of `--timezone`."""
    (tmp_path / "lag.txt").write_text(f"2026-11-23 08:57:02\n{SQUEEZED}")
    (measured,) = read_lag(tmp_path / "lag.txt", ZoneInfo("Europe/Berlin"))["shop"]["orders", 0]
    assert measured.ts_ms == AT_MS


def test_a_single_output_is_as_old_as_its_file(tmp_path: Path) -> None:
    """Nobody has to print a time for one call."""
    (tmp_path / "lag.txt").write_text(SQUEEZED)
    os.utime(tmp_path / "lag.txt", ns=(0, AT_MS * 1_000_000))
    assert read_lag(tmp_path / "lag.txt", UTC) == {"shop": {("orders", 0): [Measured(AT_MS, 38)]}}


def test_lines_of_json_are_read(tmp_path: Path) -> None:
    """Beside each other, in any order of time."""
    line = '{"ts_ms": %d, "group": "g", "topic": "t", "partition": 3, "lag": %d}\n'
    assert lag_of(tmp_path, line % (9, 5) + line % (7, 1)) == {"g": {("t", 3): [Measured(7, 1), Measured(9, 5)]}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "lag.txt: holds no lag; give what kafka-consumer-groups --describe prints"),
        ("error: something\n", "lag.txt: holds no lag"),
        ("\xff\xfe", "lag.txt: holds no lag: it is not text"),
        ('{"group": "g"', "lag.txt:1: holds no lag: its JSON is incomplete"),
        ('{"ts_ms": 1, "group": "g", "topic": "t", "partition": "0", "lag": 1}', "partition must be a whole number"),
        ('{"a":' * 100_000, "lag.txt:1: holds no lag: its JSON is incomplete"),
        (
            '{"ts_ms": 1, "group": "g", "topic": "t", "partition": 0, "lag": 1%s}' % ("0" * 15),
            "lag must be a whole number",
        ),
        ("{}\n{}".format(*SQUEEZED.split("\n")[:1], "g t 0 1 2 " + "9" * 5000), "holds no lag"),
        (SQUEEZED + "\n" + SQUEEZED, "2 lines of lag without a time stamp above, the first of shop; print one above"),
        (SQUEEZED + PRINTED, "1 line of lag without a time stamp above, the first of shop"),
    ],
)
def test_what_is_no_lag_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """On one line with the file."""
    (tmp_path / "lag.txt").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=said) as refused:
        read_lag(tmp_path / "lag.txt", UTC)
    assert "\n" not in str(refused.value)


def gap(start_ms: int, end_ms: int, partitions: Sequence[int] = (0,)) -> Finding:
    """Nobody owned partitions of t."""
    about = [("t", number) for number in partitions]
    kind, cause = FindingKind.UNOWNED_PARTITION, Cause.KILLED
    return finding(kind, "g", "m", AT_MS + start_ms, AT_MS + end_ms, summary="gap", partitions=about, cause=cause)


def told(found: Finding, *measured: tuple[int, int], partition: int = 0) -> tuple[str, int | None]:
    """What a finding says where these lags were measured at these times."""
    lag = {("t", partition): [Measured(AT_MS + ts_ms, records) for ts_ms, records in measured]}
    (one,) = add_lag([found], lag)
    return one.summary.removeprefix("gap").removeprefix("; "), one.piled_up


def test_a_partition_without_owner_says_what_piled_up() -> None:
    """From what was measured last before it to the most that was measured until the first time after it."""
    long = gap(10 * SECOND, 60 * SECOND)
    grown = "1,500 records piled up, from a lag of 20 at 07:57:07 to 1,520 at 07:57:57 UTC"
    before = (0, 10), (5 * SECOND, 20)
    assert told(long, *before, (30 * SECOND, 700), (55 * SECOND, 1520), (65 * SECOND, 90)) == (grown, 1500)
    after = "1,480 records piled up, from a lag of 20 at 07:57:07 to 1,500 at 07:58:07 UTC"
    assert told(long, *before, (30 * SECOND, 700), (65 * SECOND, 1500), (70 * SECOND, 2000)) == (after, 1480)


def test_what_was_measured_once_is_told_as_it_was() -> None:
    """Nothing grew as far as anybody knows."""
    assert told(gap(0, SECOND), (2 * SECOND, 8)) == ("their lag was 8 at 07:57:04 UTC", None)


def test_lag_of_other_partitions_and_times_says_nothing() -> None:
    """Neither does what was measured long before or after."""
    assert told(gap(0, SECOND), (0, 8), partition=1) == ("", None)
    assert told(gap(0, SECOND), (-NEAR_MS - 1, 8), (NEAR_MS + 2 * SECOND, 9)) == ("", None)


def test_lags_of_several_partitions_are_added_up() -> None:
    """Of those that were measured."""
    lag = {("t", n): [Measured(AT_MS, n), Measured(AT_MS + SECOND, 100)] for n in (1, 2)}
    (one,) = add_lag([gap(0, SECOND, [0, 1, 2])], lag)
    assert (one.piled_up, one.summary) == (
        197,
        "gap; 197 records piled up, from a lag of 3 at 07:57:02 to 200 at 07:57:03 UTC",
    )
