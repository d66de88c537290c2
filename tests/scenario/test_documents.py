"""The README of the scenarios: its files run as they say, and its commands print what stands below them."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

import fsm.scenario
from fsm.cli import main
from fsm.nodes import yaml_node
from fsm.scenario import replay_document

ROOT = Path(__file__).parents[2]
README = (ROOT / "fsm" / "scenario" / "README.md").read_text(encoding="utf-8")
FILES = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
CONSOLES = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
COMMAND = re.compile(r"^\$ (fsm replay tests/[^|;\n]*)\n(.*?)(?=^\$ |\Z)", re.DOTALL | re.MULTILINE)
COMMANDS = [found for block in CONSOLES for found in COMMAND.findall(block)]


@pytest.mark.parametrize("text", FILES, ids=lambda text: text.partition("\n")[0])
def test_file_runs_as_it_says(text: str) -> None:
    """Every expectation of it is met."""
    (run,) = replay_document(yaml_node(text, "readme.yaml", "scenario"), "readme.yaml")
    assert run.expectations >= 9
    assert run.differences() == ()


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_command_prints_what_is_shown(
    command: str, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Every line stands in what it prints, in the same order; a line of dots stands for others."""
    monkeypatch.chdir(ROOT)
    arguments = shlex.split(command)[1:]
    if "--picture" in arguments:
        arguments[-1] = str(tmp_path / arguments[-1])
    assert main(arguments) in (0, 1)
    printed = iter(capsys.readouterr().out.splitlines())
    missing = [line for line in shown.splitlines() if line.strip() not in ("", "...") and line not in printed]
    assert missing == []


def test_the_example_of_the_package_runs() -> None:
    """The docstring's few lines give what they say."""
    assert doctest.testmod(fsm.scenario) == (0, 5)
