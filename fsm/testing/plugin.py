"""A pytest plugin that reports the rows of tables that the tests of a session took.

    pytest --fsm-coverage                          every table that was stepped or bound
    pytest --fsm-coverage=consumer-member,my_package.tables:TABLE
    pytest --fsm-coverage-fail-under=90            exit status 1 below 90 % of the transitions of any of them

and that gives tests a broker:

    @pytest.mark.broker(topics={"foo": 4}, dialect="4.2")
    def test_my_consumer(broker):                  see `fsm.testing.LiveBroker`

pytest loads it by its entry point, so it imports next to nothing and adds two options, a marker and a fixture;
everything else happens when one of them is used. Workers of pytest-xdist pass their coverage to the process that
started them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsm.table import Table
    from fsm.testing.broker import LiveBroker
    from fsm.testing.coverage import Coverage

_OUTPUT = "fsm_coverage"
"""Where a worker of pytest-xdist leaves what it took."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The two options."""
    group = parser.getgroup("fsm", "state tables")
    group.addoption(
        "--fsm-coverage",
        nargs="?",
        const="",
        metavar="TABLE,...",
        help="print the rows of state tables that no test took: of those named (fsm's by name, others as"
        " package.module:NAME), or of every table that a test stepped or bound",
    )
    group.addoption(
        "--fsm-coverage-fail-under",
        type=float,
        metavar="PCT",
        help="fail if fewer transitions of any such table were taken",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begins to record if requested. Raises `pytest.UsageError` for an unknown table."""
    config.addinivalue_line("markers", "broker(topics, dialect, settings, ...): what the fixture `broker` serves")
    named, least = config.getoption("--fsm-coverage"), config.getoption("--fsm-coverage-fail-under")
    if named is not None or least is not None:
        names = [name.strip() for name in (named or "").split(",") if name.strip()]
        config.pluginmanager.register(TransitionCoverage(names, least), "fsm-transition-coverage")


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[LiveBroker]:
    """A broker for this test, on loopback; the marker `broker` configures it. An invalid marker fails the test."""
    from inspect import signature  # noqa: PLC0415

    from fsm.errors import InputError  # noqa: PLC0415
    from fsm.testing.broker import LiveBroker  # noqa: PLC0415

    marker = request.node.get_closest_marker("broker") or pytest.mark.broker.mark
    accepted = signature(LiveBroker)
    try:
        options = accepted.bind(*marker.args, **marker.kwargs)
        made = LiveBroker(*options.args, **options.kwargs)
    except (TypeError, ValueError, InputError) as problem:
        text = f"@pytest.mark.broker: {problem}; it takes {', '.join(accepted.parameters)}"
        raise pytest.fail.Exception(text, pytrace=False) from None
    with made as started:
        yield started


class TransitionCoverage:
    """Records while registered, and reports at the end."""

    def __init__(self, names: list[str], least: float | None) -> None:
        from fsm.testing.coverage import Recorder, shape_of  # noqa: PLC0415

        self._only = [shape_of(_table(name).compiled) for name in names]
        self._least = least
        self._lost = 0
        self._found: Coverage = {}
        self._recorder = Recorder()
        self._recorder.start()

    def pytest_unconfigure(self) -> None:
        """Stops recording."""
        self._recorder.stop()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Takes over what a worker of pytest-xdist took."""
        from fsm.testing.coverage import from_json, merge  # noqa: PLC0415

        output = getattr(node, "workeroutput", {})
        if _OUTPUT in output:
            merge(self._found, from_json(output[_OUTPUT]))
        else:
            self._lost += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Passes on the coverage in a worker; elsewhere fails a session below the threshold."""
        from fsm.testing.coverage import merge, to_json  # noqa: PLC0415

        merge(self._found, self._recorder.coverage())
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_OUTPUT] = to_json(self._found)
        elif session.exitstatus == pytest.ExitCode.OK and self._too_low():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Prints the report."""
        from fsm.testing.coverage import report  # noqa: PLC0415

        reported = self._choose_reported()
        terminalreporter.write_sep("=", "transitions taken")
        for line in report(reported):
            terminalreporter.write_line(line)
        if not reported:
            terminalreporter.write_line("no table was stepped or bound")
        if self._lost:
            terminalreporter.write_line(f"{self._lost} workers ended without saying what they took")
        for line in self._too_low():
            terminalreporter.write_line(f"FAILED: {line}", red=True)

    def _choose_reported(self) -> Coverage:
        if not self._only:
            return self._found
        return {shape: self._found.get(shape, set()) for shape in self._only}

    def _too_low(self) -> list[str]:
        from fsm.testing.coverage import percent  # noqa: PLC0415

        if self._least is None:
            return []
        reported = self._choose_reported()
        if not reported:
            return ["a share of transitions is asked for, and no table was stepped or bound"]
        shares = {shape.name: percent(shape, taken) for shape, taken in reported.items()}
        low = [(name, share) for name, share in shares.items() if share < self._least]
        return [f"{name}: {share:.1f} % of the transitions, less than {self._least:g} %" for name, share in low]


def _table(name: str) -> Table:
    """A table of this package by its name, one of a file, or another one as package.module:NAME."""
    from fsm.errors import InputError  # noqa: PLC0415
    from fsm.tables import find  # noqa: PLC0415
    from fsm.tables.files import SUFFIXES, find_table, is_python  # noqa: PLC0415

    if ":" in name and not is_python(name):
        return _import_table(name)
    try:
        return find_table(name) if is_python(name) or name.endswith(SUFFIXES) else find(name)
    except InputError as unknown:
        hint = "before a path write --fsm-coverage=NAME, or --fsm-coverage= for every table"
        raise pytest.UsageError(f"--fsm-coverage: {unknown} ({hint})") from None


def _import_table(name: str) -> Table:
    from importlib import import_module  # noqa: PLC0415

    from fsm.errors import InputError  # noqa: PLC0415
    from fsm.table import Table  # noqa: PLC0415
    from fsm.tables.files import pick  # noqa: PLC0415

    module, _, attribute = name.partition(":")
    try:
        loaded = import_module(module)
    except ImportError as missing:
        raise pytest.UsageError(f"--fsm-coverage: {name}: {missing}") from None
    made_on_demand = {attribute: getattr(loaded, attribute)} if hasattr(loaded, attribute) else {}
    try:
        table = pick(vars(loaded) | made_on_demand, attribute, module, (Table,))
    except InputError as problem:
        raise pytest.UsageError(f"--fsm-coverage: {problem}") from None
    assert isinstance(table, Table)  # noqa: S101  # `pick` gives nothing else
    return table
