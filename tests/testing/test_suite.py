"""All tests of a table of one's own as one class, in sessions of their own."""

from __future__ import annotations

import sys

import pytest

from fsm.errors import InputError
from fsm.testing import Adapter, suite_from

pytest_plugins = ("pytester",)

DOOR = """
fsm: 1
name: door
states: {SHUT: nobody can pass, OPEN: one can pass, BROKEN: off its hinges}
events: {PUSHED: somebody pushed, KICKED: somebody was in a hurry}
effects: {CREAK: the hinge complains}
initial: SHUT
terminal: [BROKEN]
rows:
  - {states: [SHUT], events: [PUSHED], steps: [CREAK, OPEN]}
  - {states: [OPEN], events: [PUSHED], steps: [SHUT]}
  - {states: [SHUT], events: [KICKED], steps: [BROKEN]}
  - {states: [OPEN], events: [KICKED], why: it gives way}
"""
TESTS = """
    from fsm.testing import Adapter, suite_from

    class Door(Adapter):
        refuses = (ValueError,)

        def __init__(self):
            self.now = "shut"

        def send(self, event):
            if self.now == "broken":
                raise ValueError(event)
            if event.name == "KICKED":
                self.now = "broken" if self.now == "shut" else self.now
                return []
            self.now = "shut" if self.now == "open" else "open"
            return ["creak"] if self.now == "open" else []

        def state(self):
            return self.now

    TestDoor = suite_from("door.yaml", Door)
"""
PLUGIN = ("-p", "fsm.testing.plugin", "-p", "no:cacheprovider")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A user's project with a table in a file and an implementation of it."""
    monkeypatch.setenv("PYTHONPATH", ":".join(["", *sys.path]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (pytester.path / "door.yaml").write_text(DOOR)
    pytester.makepyfile(test_door=TESTS)
    return pytester


@pytest.mark.deep
def test_every_row_every_refusal_and_ways_at_random_pass(project: pytest.Pytester) -> None:
    """And the session can say that each row of the file was taken."""
    result = project.runpytest_subprocess(*PLUGIN, "--fsm-coverage=door.yaml", "--fsm-coverage-fail-under=100")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["door: 3 of 3 states, 3 of 3 transitions (100.0 %), 1 of 1 ignored cells"])


@pytest.mark.deep
@pytest.mark.parametrize(
    ("right", "wrong", "failed"),
    [
        ('return ["creak"] if', "return [] if", 2),
        pytest.param('if self.now == "broken":', 'if self.now == "lost":', 2, marks=pytest.mark.deep),
        pytest.param('"broken" if self.now == "shut" else self.now', '"broken"', 2, marks=pytest.mark.deep),
    ],
)
def test_a_mistake_is_found(project: pytest.Pytester, right: str, wrong: str, failed: int) -> None:
    """An effect that is left out, an event that is not refused, one that is not ignored."""
    assert right in TESTS
    project.makepyfile(test_door=TESTS.replace(right, wrong))
    outcome = project.runpytest_subprocess(*PLUGIN).parseoutcomes()
    assert outcome["failed"] == failed


def test_a_file_that_is_no_table_is_told(project: pytest.Pytester) -> None:
    """By the place where it is not."""
    (project.path / "door.yaml").write_text(DOOR.replace("[SHUT], events: [PUSHED]", "[SHUTT], events: [PUSHED]"))
    with pytest.raises(InputError, match=r"door.yaml:10: .*did you mean SHUT\?"):
        suite_from(str(project.path / "door.yaml"), Adapter)
