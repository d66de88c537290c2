"""What is counted of a file, so that a verdict never looks better than what was read."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest

from fsm.audit.reading.piece import read_piece
from fsm.audit.reading.unparsed import find_too_little, report_file
from fsm.logs import formats
from fsm.logs.reading.pieces import WHOLE, Piece


def test_words_in_no_layout_that_could_be_learned_count_as_missed(tmp_path: Path) -> None:
    """Though each line looks like another client's in Kafka's own layout, which has nothing to tell."""
    path = tmp_path / "a.log"
    path.write_text('[2026-11-21 00:25:05,594] DEBUG STATE [A#consumer-1] [thrd:main]: Group "g" chan…\n' * 5)
    summary = read_piece(Piece(str(path), 0, WHOLE), formats(), UTC).summary
    assert summary.not_learned
    assert (summary.understood, summary.missed) == (0, 1)


INVOKER, COORDINATOR = "ConsumerRebalanceListenerInvoker", "ConsumerCoordinator"
SAID = {
    "assigned": (INVOKER, "Adding newly assigned partitions: [t-0]"),
    "revoked": (INVOKER, "Revoke previously assigned partitions [t-0]"),
    "lost": (INVOKER, "Lost previously assigned partitions [t-0]"),
    "joined": (COORDINATOR, "(Re-)joining group"),
    "left": (
        COORDINATOR,
        "Member m sending LeaveGroup request to coordinator h:9092 (id: 1 rack: null) due to a close",
    ),
}


def line(logger: str, text: str) -> str:
    head = "[2026-11-21 07:57:36,001] INFO [Consumer clientId=c, groupId=g-lost-assigned]"
    return f"{head} {text} (org.apache.kafka.clients.consumer.internals.{logger})\n"


@pytest.mark.parametrize("what", SAID)
def test_where_no_line_that_tells_who_owns_what_was_understood_too_little_was(what: str, tmp_path: Path) -> None:
    """However many others were, whatever the group is called, unless it is one line, or anything is enough."""
    strange = line(INVOKER, f"Words of no release: {what}")
    nothing = line(INVOKER, "Words of no release")
    others = [line(*said) for name, said in SAID.items() if name != what] * 20
    path = tmp_path / "a.log"
    for lines, least, want in (
        ([*others, line(*SAID[what]), strange], 0.9, []),
        ([*others, nothing], 0.9, []),
        ([*others, strange], 0.9, []),
        ([*others, strange, strange], 0.9, [""]),
        ([*others, strange, strange], 0, []),
    ):
        path.write_text("".join(lines))
        summary = read_piece(Piece(str(path), 0, WHOLE), formats(), UTC).summary
        assert summary.missed == max(1, lines.count(strange))
        assert [one.client for one in find_too_little([summary], least)] == want
        untold = f"no line of {path} was understood that tells what was {what}"
        assert (untold in next(report_file([summary])).summary) == (strange in lines and line(*SAID[what]) not in lines)


LONG = "topic-with-a-long-name-" + "0123456789" * 20
FRAMES = {
    "bare": ("", ""),
    "syslog": ("Nov 21 07:57:36 node-1 orders[321]: ", ""),
    "iso": ("2026-11-21T07:57:36.123456789Z ", ""),
    "json": ('{"container":"orders","time":"2026-11-21T07:57:36.123Z","log":"', '"}'),
}
"""What a collector puts before and behind each part of a line."""


def write_lists(count: int) -> list[str]:
    """Lines that take and give up partitions with long names, in two more each time."""
    names = [f"{LONG}-{i}" for i in range(count)]
    said = (
        (i, which)
        for i in range(5)
        for which in ("Adding newly assigned partitions:", "Revoke previously assigned partitions")
    )
    return [line(INVOKER, f"{which} [{', '.join(names[: count - i])}]").rstrip("\n") for i, which in said]


@pytest.mark.parametrize("size", [1024, 2047, 16384])
@pytest.mark.parametrize("frame", FRAMES)
def test_a_line_that_a_collector_cut_into_parts_is_one(frame: str, size: int, tmp_path: Path) -> None:
    """The first part has a length by which collectors are known, or has it with what stands before it."""
    before, behind = FRAMES[frame]
    whole = [*write_lists(count=size // 150 + 8), *(line(*SAID["joined"]).rstrip("\n") for _ in range(20))]
    for length in {size, size - len(before)} if frame != "json" else {size}:
        parts = [one[i : i + length] for one in whole for i in range(0, len(one), length)]
        assert len(parts) > len(whole) + 9
        path = tmp_path / f"{length}.log"
        path.write_text("".join(f"{before}{part}{behind}\n" for part in parts))
        found = read_piece(Piece(str(path), 0, WHOLE), formats(), UTC).summary
        assert (found.understood, found.missed) == (len(whole), 0)


def test_a_line_of_which_a_collector_kept_a_part_is_told(tmp_path: Path) -> None:
    """In Kafka's layout it has lost its logger, by which the lines of clients are found; half a list is none."""
    whole = write_lists(count=12)
    stack = line("Fetcher", "Fetch failed").rstrip("\n") + "\njava.lang.IllegalStateException: no\n\tat a.B"
    path = tmp_path / "a.log"
    for end in ("\n", "\r\n"):
        path.write_text(end.join([*whole, stack, *(one[:1000] for one in whole), *whole, ""]), newline="")
        summary = read_piece(Piece(str(path), 0, WHOLE), formats(), UTC).summary
        assert (summary.understood, summary.missed) == (2 * len(whole), len(whole))
