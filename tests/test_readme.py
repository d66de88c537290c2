"""The Python of every README runs, and what they link to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("*.md", ".github/*.md", "fsm/**/*.md", "tests/*.md", "tests/bench/*.md")
DOCUMENTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for folder in FOLDERS
    for path in sorted(ROOT.glob(folder))
}
PYTHON = [
    pytest.param(block, id=f"{name}-{number}")
    for name, text in DOCUMENTS.items()
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL), 1)
]


def test_the_readme_has_its_examples() -> None:
    """A table, a bound model, the member and the coordinator, in at most 300 lines."""
    text = DOCUMENTS["README.md"]
    assert text.count("```python\n") == 4
    assert len(text.splitlines()) <= 300


@pytest.mark.parametrize("source", PYTHON)
def test_python_block_runs(source: str) -> None:
    """Each block runs by itself, its assertions included."""
    exec(compile(source, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102  the documents are ours


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_linked_file_exists(name: str) -> None:
    """A link to a file of the repository leads somewhere."""
    links = re.findall(r"\]\(([^)#:]+)[)#]", DOCUMENTS[name])
    assert [link for link in links if not (ROOT / name).parent.joinpath(link).exists()] == []
