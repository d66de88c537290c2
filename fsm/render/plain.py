"""Text as every renderer takes it from a table."""

from __future__ import annotations


def plain(text: str) -> str:
    """The text on one line, without characters that no document may hold."""
    kept = "".join(c if c.isprintable() or c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return " ".join(kept.split())
