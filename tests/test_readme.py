"""The Python of every README runs, its commands print what stands below them, and what it links to is there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fsm.cli import main
from fsm.testing import LiveBroker

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
CONSOLES = [
    pytest.param(block, id=f"{name}-{number}")
    for name, text in DOCUMENTS.items()
    for number, block in enumerate(re.findall(r"```console\n(.*?)```", text, re.DOTALL), 1)
]
NOT_RUN = {
    "make": "each target sets up an environment, and the tests are one of them",
    "pip": "installs",
    "python": "benches take minutes",
    "fsm audit": "starts Spark",
    "fsm conform --broker": "needs a broker",
    "fsm serve": "serves until it is ended",
    "fsm join": "needs a broker",
}
"""Commands of documents that no test runs, by how they begin, each with its reason."""


def commands(block: str) -> Iterator[tuple[str, str]]:
    """(command, what is shown below it) of a console block, without the commands that are not run."""
    for command, shown in re.findall(r"^\$ ([^\n]*)\n(.*?)(?=^\$ |\Z)", block, re.DOTALL | re.MULTILINE):
        if not any(f"{command} ".startswith(f"{begin} ") for begin in NOT_RUN):
            yield command, shown


def test_the_readme_has_its_examples() -> None:
    """A table, a bound model, the member and the coordinator, in at most 300 lines."""
    text = DOCUMENTS["README.md"]
    assert text.count("```python\n") == 4
    assert len(text.splitlines()) <= 300


def test_the_readme_names_every_package() -> None:
    """Each package and module directly below `fsm` stands in the map."""
    names = {path.stem for path in (ROOT / "fsm").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    shown = set(re.findall(r"\[`(\w+)`\]\(fsm/", DOCUMENTS["README.md"]))
    assert shown == names - {"__init__", "__main__"}


def test_no_example_stands_in_two_documents() -> None:
    """A block of Python is shown once; other documents link to it."""
    blocks = [block.values[0] for block in PYTHON]
    assert len(set(blocks)) == len(blocks)


@pytest.mark.parametrize("source", PYTHON)
def test_python_block_runs(source: str) -> None:
    """Each block runs by itself, its assertions included; a test in it that wants a broker gets one."""
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(source, "README.md", "exec", dont_inherit=True), names)  # noqa: S102  the documents are ours
    for name in [name for name in names if name.startswith("test_")]:
        with LiveBroker() as broker:
            names[name](broker)


@pytest.mark.parametrize("block", CONSOLES)
def test_console_block_prints_what_is_shown(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Line by line, in a folder that has those of this repository; a line of three dots stands for any lines.

    What asks nothing of the shell runs in this process.
    """
    monkeypatch.chdir(tmp_path)
    for folder in ("fsm", "tests", "diagrams"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    script = tmp_path / "bin" / "fsm"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m fsm "$@"\n')
    script.chmod(0o755)
    environment = os.environ | {"PATH": f"{script.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    for command, shown in commands(block):
        if re.fullmatch(r"fsm [\w ./:,=%-]*(#.*)?", command):
            status = main(shlex.split(command, comments=True)[1:])
        else:
            status = subprocess.run(["sh", "-c", command], env=environment, check=False).returncode
        out, err = capfd.readouterr()
        assert (status in (0, 1), err) == (True, ""), command
        lines = [".*" if line == "..." else re.escape(line) for line in shown.splitlines() if line]
        printed = "\n".join(line for line in out.splitlines() if line)
        if lines and not re.fullmatch("\n".join(lines), printed, re.DOTALL):
            pytest.fail(f"{command} prints\n{printed}", pytrace=False)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_linked_file_exists(name: str) -> None:
    """A link to a file of the repository leads somewhere."""
    links = re.findall(r"\]\(([^)#:]+)[)#]", DOCUMENTS[name])
    assert [link for link in links if not (ROOT / name).parent.joinpath(link).exists()] == []
