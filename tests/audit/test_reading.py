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
