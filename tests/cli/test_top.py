"""What the commands share: the version, what is loaded for one of them, and defaults that stand in one place."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fsm import __version__
from fsm.audit.limits import Limits
from fsm.cli import COMMANDS, main, parser
from fsm.errors import InputError
from fsm.logs import formats
from fsm.spark.options import Options


def test_version_prints_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stdout, and no command is needed."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"fsm {__version__}\n")


def test_a_command_loads_no_other() -> None:
    """`fsm tables` neither loads the modules of other commands nor what only long paths and help need."""
    unwanted = ("fsm.cli.audit", "fsm.cli.draw", "fsm.spark", "pathlib", "shutil", "bz2", "lzma", "difflib", "json")
    code = (
        "import sys; before = set(sys.modules); from fsm.cli import main; main(['tables']); "
        f"print(*sorted(set({unwanted!r}) & set(sys.modules) - before), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-S", "-c", _paths() + code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("table ")
    assert done.stderr.split() == []


def _paths() -> str:
    """A start without `site`, which loads modules of its own where a distribution is installed for editing."""
    return f"import sys; sys.path[:] = {sys.path!r}; "


def test_every_command_is_known_where_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Help lists them all, and an unknown one is answered with them."""
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    assert all(f"\n    {name} " in printed for name in COMMANDS)
    assert main(["nope"]) == 2
    assert f"choose from {', '.join(map(repr, COMMANDS))}" in capsys.readouterr().err


def test_help_is_as_wide_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """`COLUMNS` counts, as in every program of argparse; nonsense does not."""
    monkeypatch.setenv("COLUMNS", "60")
    narrow = parser().format_help()
    assert max(map(len, narrow.splitlines())) <= 60
    monkeypatch.setenv("COLUMNS", "200")
    assert len(parser().format_help().splitlines()) < len(narrow.splitlines())
    monkeypatch.setenv("COLUMNS", "wide")
    assert parser().format_help()


def test_every_format_that_there_is_a_parser_for_is_offered() -> None:
    """`--format` takes the name of every parser, and `auto`; what it takes stands in its refusal of anything else."""
    names = sorted({"auto", *(found.name for found in formats())})
    command = ["audit", "logs", "-o", "out", "--format"]
    assert [parser(["audit"]).parse_args([*command, name]).format for name in names] == names
    with pytest.raises(InputError) as refused:
        parser(["audit"]).parse_args([*command, "syslog"])
    assert all(repr(name) in str(refused.value) for name in names)


def test_the_defaults_of_the_command_are_those_of_the_library() -> None:
    """An audit from the command line and one from Python ask for the same."""
    given = parser(["audit"]).parse_args(["audit", "logs", "-o", "out"])
    usual = Options()
    assert (given.format, given.master, given.timezone) == (usual.format, usual.master, usual.timezone)
    assert (given.split_bytes, given.cluster_by_folder) == (usual.split_bytes, usual.by_folder)
    limits = (given.tolerance_ms, given.clock_skew_ms, given.unowned_ms, given.window_ms)
    assert Limits(*limits) == usual.limits
