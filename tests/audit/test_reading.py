"""What is counted of a file, so that a verdict never looks better than what was read."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

from fsm.audit.reading import read_piece
from fsm.logs import formats
from fsm.logs.pieces import WHOLE, Piece


def test_words_in_no_layout_that_could_be_learned_count_as_missed(tmp_path: Path) -> None:
    """Though each line looks like another client's in Kafka's own layout, which has nothing to tell."""
    path = tmp_path / "a.log"
    path.write_text('[2026-11-21 00:25:05,594] DEBUG STATE [A#consumer-1] [thrd:main]: Group "g" chan…\n' * 5)
    summary = read_piece(Piece(str(path), 0, WHOLE), formats(), UTC).summary
    assert summary.not_learned
    assert (summary.understood, summary.missed) == (0, 1)
