"""The pytest plugin, in sessions of its own: what it prints, when it fails, with and without workers."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ("pytester",)

PLUGIN = ("-p", "fsm.testing.plugin", "-p", "no:cacheprovider")
TABLES = """
    from fsm.table import Symbol, Table, row

    class State(Symbol):
        OFF = "Off."
        ON = "On."
        DIM = "Dimmed."

    class Event(Symbol):
        PRESS = "Pressed."
        HOLD = "Held."

    TABLE = Table(name="lamp", initial=State.OFF, rows=(
        row(State.OFF, Event.PRESS, State.ON, clause="2.1"),
        row((State.ON, State.DIM), Event.PRESS, State.OFF, clause="2.2"),
        row(State.ON, Event.HOLD, State.DIM, clause="2.3"),
    ))
"""
TESTS = """
    import pytest
    from lamps import TABLE, Event, State

    @pytest.mark.parametrize("pair", [(State.OFF, Event.PRESS), (State.ON, Event.PRESS)], ids=["on", "off"])
    def test_lamp(pair):
        assert TABLE.compiled[pair]
"""


@pytest.fixture
def project(pytester, monkeypatch):
    """A user's project with a table and two tests that take half of it."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", ":".join(["", *sys.path]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # other plugins take half of the time of a session
    pytester.makepyfile(lamps=TABLES, test_lamp=TESTS)
    return pytester


def test_nothing_happens_unless_asked(project):
    """Without the options no section is printed and the module that records is not even loaded."""
    project.makeconftest(
        """
        import sys

        def pytest_unconfigure():
            print("loaded:", sorted(name for name in sys.modules if name.startswith("fsm.testing")))
        """
    )
    result = project.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*transitions taken*")
    result.stdout.fnmatch_lines(["loaded: ['fsm.testing', 'fsm.testing.plugin']"])


LAMP = [
    "*= transitions taken =*",
    "lamp: 2 of 3 states, 2 of 4 transitions (50.0 %)",
    "  never taken:",
    "    2.2  DIM on PRESS (1 of 2 cells): OFF",
    "    2.3  ON on HOLD: DIM",
]


@pytest.mark.parametrize(
    "workers",
    [(), pytest.param(("-p", "xdist", "-n", "2"), marks=pytest.mark.deep)],
    ids=["one process", "two workers"],
)
def test_what_was_never_taken_is_printed(project, workers):
    """The same report from one process and from two workers that took one row each."""
    result = project.runpytest_subprocess(*PLUGIN, "--fsm-coverage", *workers)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(LAMP, consecutive=True)


def test_too_little_fails_a_session_that_passed(project):
    """Half of the transitions are enough for 50 and not for 51; the option alone switches the report on."""
    enough = project.runpytest_subprocess(*PLUGIN, "--fsm-coverage-fail-under=50")
    assert enough.ret == 0
    enough.stdout.fnmatch_lines(LAMP, consecutive=True)
    short = project.runpytest_subprocess(*PLUGIN, "--fsm-coverage-fail-under=51")
    assert short.ret == 1
    short.stdout.fnmatch_lines(["FAILED: lamp: 50.0 % of the transitions, less than 51 %"])


@pytest.mark.deep
def test_named_tables_are_reported_and_no_others(project):
    """A table of this package by name, untouched; one of the project as module:NAME, half taken."""
    result = project.runpytest_subprocess(*PLUGIN, "--fsm-coverage=rebalance-notes,lamps:TABLE")
    result.stdout.fnmatch_lines(["rebalance-notes: 0 of 9 states, 0 of 19 transitions (0.0 %)", LAMP[1]])
    alone = project.runpytest_subprocess(*PLUGIN, "--fsm-coverage=rebalance-notes")
    alone.stdout.no_fnmatch_line("lamp:*")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("consumer-membr", "*there is no table 'consumer-membr'*did you mean consumer-member*"),
        ("test_lamp.py", "*there is no table 'test_lamp.py'*before a path write --fsm-coverage=NAME*"),
        ("lamps:TABEL", "*lamps: TABEL is not defined; choose from TABLE (Table)*"),
        ("lumps:TABLE", "*No module named 'lumps'*"),
    ],
    ids=["misspelt", "a path", "no table", "no module"],
)
def test_a_table_that_there_is_not_is_a_usage_error(project, name, words):
    """One line that names it, with the remedy; a path taken for a table is recognised."""
    result = project.runpytest_subprocess(*PLUGIN, "--fsm-coverage", name)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([words])
    result.stderr.no_fnmatch_line("*Traceback*")


def test_a_threshold_without_any_table_fails(project):
    """Whoever asks for a share of nothing has mistaken something."""
    project.makepyfile(test_lamp="def test_nothing(): pass")
    assert project.runpytest_subprocess(*PLUGIN, "--fsm-coverage").ret == 0
    result = project.runpytest_subprocess(*PLUGIN, "--fsm-coverage-fail-under=1")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["no table was stepped or bound", "FAILED: a share of transitions is asked for*"])


def test_failing_tests_keep_their_exit_status(project):
    """The report is printed after failures too, and a session interrupted by errors stays what it was."""
    project.makepyfile(test_broken="import nothing_of_that_name")
    result = project.runpytest_subprocess(*PLUGIN, "--fsm-coverage-fail-under=99")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*= transitions taken =*"])


def test_the_plugin_loads_nothing_heavy():
    """Of what it adds to pytest itself, nothing is a package beyond the kernel."""
    code = (
        "import pytest, sys; before = set(sys.modules); import fsm.testing.plugin;"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.stdout.split() == ["fsm"]


def announced():
    """The entry points that an installed package has, from where its wheel gets them."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["entry-points"]["pytest11"]


def test_the_entry_point_has_the_name_of_its_module():
    """The package announces the module under its own name, so that -p and the entry point are one plugin."""
    assert announced() == {"fsm.testing.plugin": "fsm.testing.plugin"}


@pytest.mark.parametrize("named", [(), pytest.param(PLUGIN, marks=pytest.mark.deep)], ids=["alone", "beside -p"])
def test_pytest_finds_the_plugin_of_an_installed_package(project, monkeypatch, named):
    """With the metadata of an installed wheel on the path the option is there without -p, and with it just once."""
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    installed = project.mkdir("site")
    metadata = installed / "somebodys_rebalance_fsm-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys-rebalance-fsm\nVersion: 1\n")
    lines = ["[pytest11]", *(f"{name} = {module}" for name, module in announced().items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("PYTHONPATH", ":".join(["", str(installed), *sys.path]))
    result = project.runpytest_subprocess(*named, "--fsm-coverage")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(LAMP, consecutive=True)


def test_a_marker_that_cannot_be_used_is_one_line(project):
    """A keyword that the broker does not take, with those that it takes; a value that it refuses."""
    project.makepyfile(
        test_lamp="""
        import pytest

        @pytest.mark.broker(topicz={"foo": 4})
        def test_a_misspelt_keyword(broker): ...

        @pytest.mark.broker("4.1")
        def test_a_release_instead_of_topics(broker): ...

        @pytest.mark.broker(dialect="9.9")
        def test_an_unknown_release(broker): ...
        """
    )
    result = project.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(
        ["@pytest.mark.broker: got an unexpected keyword argument 'topicz'; it takes topics, dialect, settings, *"]
    )
    result.stdout.fnmatch_lines(["@pytest.mark.broker: unknown coordinator dialect '9.9'; one of *"])
    result.stdout.no_fnmatch_line("*During handling*")
