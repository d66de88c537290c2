"""The README's Python runs, and what it links to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_there_are_python_blocks() -> None:
    """A table of one's own, a prototype on a shipped one, the member, the coordinator, and a test of one's own code."""
    assert len(PYTHON) == 5


@pytest.mark.parametrize("source", PYTHON, ids=lambda s: next(line for line in s.splitlines() if line)[:40])
def test_python_block_runs(source: str) -> None:
    """Each block runs by itself, its assertions included."""
    exec(compile(source, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102  the README is ours


def test_every_linked_file_exists() -> None:
    """A link to a file of the repository leads somewhere."""
    root = Path(__file__).parent.parent
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (root / link).exists()] == []
