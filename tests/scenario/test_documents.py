"""The README of the scenarios: its files run as they say."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import fsm.scenario
from fsm.nodes import yaml_node
from fsm.scenario import replay_document

ROOT = Path(__file__).parents[2]
README = (ROOT / "fsm" / "scenario" / "README.md").read_text(encoding="utf-8")
FILES = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("text", FILES, ids=lambda text: text.partition("\n")[0])
def test_file_runs_as_it_says(text: str) -> None:
    """Every expectation of it is met."""
    (run,) = replay_document(yaml_node(text, "readme.yaml", "scenario"), "readme.yaml")
    assert run.expectations >= 9
    assert run.differences() == ()


def test_the_example_of_the_package_runs() -> None:
    """The docstring's few lines give what they say."""
    assert doctest.testmod(fsm.scenario) == (0, 5)
