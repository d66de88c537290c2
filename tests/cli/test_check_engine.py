"""Where `fsm check` keeps states: what its options mean."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S, wait_until

from fsm.check import Limits
from fsm.check.examples.lock import lock
from fsm.check.search import Search
from fsm.cli import check, main
from fsm.cli.check import Choice, choose
from fsm.errors import InputError

ENDLESS = """
from pathlib import Path
from fsm.check import Choice, Component, Model, Step

def step(state, _):
    if state == 1000:
        (Path(__file__).parent / "far").touch()
    return Step(state + 1)

MODEL = Model("endless", [Component("one", 0, lambda _: [Choice("goes")], step)])
"""

MANY = """
from fsm.check import Choice, Component, Model, Step

MODEL = Model(
    "many", [Component(f"c{i}", 0, lambda s: [Choice("goes")] * (s < 1), lambda s, _: Step(1)) for i in range(80)]
)
"""


@pytest.mark.parametrize(
    ("engine", "has_folder", "master", "began_on_spark", "expected"),
    [
        (None, False, None, False, Choice("memory")),
        (None, True, None, False, Choice("memory", "disk")),
        (None, True, "local[2]", False, Choice("memory", "spark")),
        (None, True, "local[2]", True, Choice("spark")),
        ("memory", False, None, False, Choice("memory")),
        ("disk", True, None, False, Choice("disk")),
        ("spark", True, None, False, Choice("spark")),
        ("spark", True, "spark://host:7077", True, Choice("spark")),
    ],
)
def test_where_a_search_begins_and_goes_on(
    engine: str | None, has_folder: bool, master: str | None, began_on_spark: bool, expected: Choice
) -> None:
    """On Spark only where that was said, or memory would not do and where there is one was said."""
    found = choose(engine, has_folder=has_folder, master=master, began_on_spark=began_on_spark)
    assert found == expected


@pytest.mark.parametrize(
    ("engine", "has_folder", "master", "message"),
    [
        ("disk", False, None, "belong together"),
        ("spark", False, "local[2]", "belong together"),
        ("memory", True, None, "belong together"),
        ("disk", True, "local[2]", "--master is for Spark"),
        ("memory", False, "local[2]", "--master is for Spark"),
        (None, False, "local[2]", "--master and --dir belong together"),
    ],
)
def test_options_that_do_not_go_together(
    engine: str | None, has_folder: bool, master: str | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        choose(engine, has_folder=has_folder, master=master, began_on_spark=False)


def test_spark_takes_over_when_memory_would_not_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And only then; what it is given is the folder and the master."""
    began = []

    class Begun(Search):
        def run(self) -> Search:
            began.append(self.model.name)
            self.limits = Limits()
            return super().run()

    class Spark:
        def __init__(self, folder: str) -> None:
            self.folder = folder

        def __enter__(self) -> dict[str, object]:
            return {"engine": Begun}

        def __exit__(self, *_: object) -> None:
            pass

    usual = check.making

    def making(engine: str, then: str, memo: object, master: str | None) -> object:
        if engine == "spark":
            assert master == "local[2]"
            return Spark(str(tmp_path))
        return usual(engine, then, memo, master)  # type: ignore[arg-type]

    monkeypatch.setattr("fsm.cli.check.making", making)
    there = ["check", "lock", "--dir", str(tmp_path / "d"), "--master", "local[2]"]
    assert main(there) == 0
    assert not began
    assert main([*there, "--max-memory", "20000"]) == 0
    assert began == [lock().name]
    assert main([*there[:-2], "--max-memory", "20000"]) == 2
    assert began == [lock().name]
    capsys.readouterr()


def test_what_needs_hashed_keys_goes_on_in_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark would refuse it."""
    asked, usual = [], check.making

    def making(engine: str, *others: Any) -> Any:
        asked.append(engine)
        return usual(engine, *others)

    monkeypatch.setattr("fsm.cli.check.making", making)
    (tmp_path / "many.py").write_text(MANY)
    there = ["check", str(tmp_path / "many.py:MODEL"), "--dir", str(tmp_path / "d"), "--master", "local[2]"]
    assert main([*there, "--max-memory", "60000"]) == 2
    assert asked == ["memory", "disk"]
    assert "hashed keys: two states may have been confused" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "remedy"),
    [((), "--engine disk --dir DIR can be continued"), (("--engine", "disk"), "the same command continues")],
)
@pytest.mark.loop(1)
def test_a_search_that_is_stopped_says_how_far_it_was(tmp_path: Path, options: tuple[str, ...], remedy: str) -> None:
    """And how it can be continued."""
    (tmp_path / "endless.py").write_text(ENDLESS)
    command = [sys.executable, "-m", "fsm", "check", str(tmp_path / "endless.py:MODEL"), *options]
    command += ["--dir", str(tmp_path / "d")] if options else []
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # it may be ignored here
    )
    wait_until((tmp_path / "far").exists)
    process.send_signal(signal.SIGINT if options else signal.SIGTERM)
    printed, error = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, printed, error.count("\n")) == (130, "", 1)
    assert re.fullmatch(
        rf"fsm: stopped after [\d,]+ states, [\d,]+ transitions, depth \d+, without a verdict; {remedy}\n", error
    )


def test_what_cannot_be_written_is_refused_before_the_search(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Search, "run", lambda _: pytest.fail("it was searched"))
    (tmp_path / "file").write_text("mine")
    for option in ("--memo", "-o"):
        assert main(["check", "lock", option, str(tmp_path / "file")]) == 2
        assert str(tmp_path / "file") in capsys.readouterr().err
    assert main(["check", "lock", "-o", str(tmp_path / "file" / "out")]) == 2
    assert f"{tmp_path / 'file'}: is not a folder; give -o a folder" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"
