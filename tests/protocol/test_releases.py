"""A release that is added to `RELEASES` has the rules of the one before it everywhere, and no test has to change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

APPENDED = """
from fsm.protocol import releases

before = releases.LATEST
releases.RELEASES += ("9.9.9",)
releases.LATEST = "9.9.9"
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Runs the code in a process of its own, where there is one release more."""
    return subprocess.run(
        [sys.executable, "-c", APPENDED + code], capture_output=True, text=True, check=False, cwd=ROOT
    )


def test_both_halves_of_a_group_the_broker_and_the_pages_follow() -> None:
    """Choices, versions of the wire, what a command takes when nothing is said, and which hazards are open."""
    done = run("""
from fsm.cli import main
from fsm.coordinator.model.dialect import dialect as coordinator
from fsm.member.dialect.dialect import dialect as member
from fsm.reference import pages
from fsm.reference.entries import HAZARDS
from fsm.serve.requests import list_versions
from fsm.simulate.deployment import Broker

assert member().name == coordinator().name == coordinator("9.9").name == Broker.release == "9.9.9"
assert member().choices == member(before).choices
assert coordinator().choices == coordinator(before).choices
assert list_versions("9.9.9") == list_versions(before)
hazards = {entry.number: entry.releases for entry in HAZARDS.entries}
assert (hazards["H1"], hazards["H2"]) == ("4.0.0 to 4.0.2", "4.0.0 to 9.9.9, open")
assert b"9.9.9, open" in pages()["hazards.md"]
main(["dialects"])
""")
    assert (done.returncode, done.stderr) == (0, "")
    assert "9.9.9" in done.stdout


def test_what_is_open_is_open_in_the_release_too() -> None:
    """Tests of hazards that have no last release expect them of the new one."""
    done = run("""
import pytest
raise SystemExit(pytest.main(["tests/member/test_hazards.py", "tests/member/test_real_effects.py", "-k", "9.9.9"]))
""")
    assert done.returncode == 0, done.stdout[-2000:]
