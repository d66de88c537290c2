"""Steps in several processes: the same to the last byte for any number of them, and no process is left behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from fsm.check import Choice, Component, Memo, Model, Step, check, scenario, tell
from fsm.check import ahead as ahead_module
from fsm.check.catalog import make_model
from fsm.check.search import Search
from fsm.cli import main
from fsm.errors import InputError


@pytest.fixture
def _few_steps_are_worth_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead_module, "WORTH", 12)


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One for each worker that is started."""
    found: list[int] = []
    fork = os.fork

    def counted() -> int:
        process = fork()
        found.append(process)
        return process

    monkeypatch.setattr(os, "fork", counted)
    return found


def is_over(process: int) -> bool:
    """Whether a worker has ended and was waited for; other tests may have started processes that live."""
    try:
        os.waitpid(process, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def explored(jobs: int, folder: Path, **options: Any) -> tuple[Any, ...]:
    """All that a run says and keeps."""
    model, memo = make_model("consumer-group", **options), Memo(folder / str(jobs), "one")
    verdict = check(model, disturb=["late"], disturbances=1, every=True, memo=memo, jobs=jobs)
    stories = [(list(tell(one)), scenario(one, verdict.made_by)) for one in verdict.violations]
    (kept,) = memo.folder.iterdir()
    return verdict.document() | {"cpu_s": 0}, stories, kept.read_bytes()


@pytest.mark.deep
def test_any_number_of_processes_says_and_keeps_the_same(tmp_path: Path, forks: list[int]) -> None:
    """Verdict, counterexamples and the file of tables, byte for byte."""
    alone = explored(1, tmp_path)
    assert not forks
    assert alone[0]["violations"]
    assert explored(3, tmp_path) == alone
    assert len(forks) > 4
    assert all(map(is_over, forks))


@pytest.mark.deep
def test_states_are_met_in_the_same_order() -> None:
    searches = [Search(make_model("classic-group"), frozenset({"lose"}), 1) for _ in range(2)]
    for jobs, search in enumerate(searches, 1):
        search.space.jobs = jobs
        search.run()
    first, second = (search.states.view.tobytes() for search in searches)
    assert first == second


def counter(step: Callable[[], Any]) -> Model:
    """Two that count two numbers to nine, in any order; what `step` gives is given instead of a step."""

    def choices(state: tuple[int, int]) -> Iterable[Choice]:
        return [Choice(name) for name, number in zip("xy", state, strict=True) if number < 9]

    def count(state: tuple[int, int], given: str) -> Any:
        if other := step():
            return other
        x, y = state
        return Step((x + 1, y) if given == "x" else (x, y + 1), broken=["x before y"] if state == (9, 3) else ())

    return Model("counter", [Component(name, (0, 0), choices, count) for name in "ab"])


@pytest.mark.deep
@pytest.mark.usefixtures("_few_steps_are_worth_a_worker")
def test_a_worker_that_dies_changes_nothing(forks: list[int]) -> None:
    here = os.getpid()

    def die_elsewhere() -> None:
        if os.getpid() != here:
            os._exit(3)

    alone, others = (check(counter(die_elsewhere), every=True, jobs=jobs).document() for jobs in (1, 2))
    assert alone | {"cpu_s": 0, "bytes_per_state": 0} == others | {"cpu_s": 0, "bytes_per_state": 0}
    assert forks


@pytest.mark.usefixtures("_few_steps_are_worth_a_worker")
def test_no_process_can_be_started_and_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise OSError

    alone = check(counter(lambda: None), every=True)
    monkeypatch.setattr(os, "fork", refuse)
    assert check(counter(lambda: None), every=True, jobs=2) == alone


@pytest.mark.usefixtures("_few_steps_are_worth_a_worker")
@pytest.mark.parametrize("refused", [False, True])
def test_no_process_is_left_when_a_search_breaks_off(*, refused: bool, forks: list[int]) -> None:
    """A Ctrl-C, or a model that is refused, while a worker is at a step that takes long."""
    here = os.getpid()

    def step() -> str:
        while os.getpid() != here:
            pass
        if forks and not refused:
            raise KeyboardInterrupt
        return "no step" if forks else ""

    with pytest.raises(InputError if refused else KeyboardInterrupt):
        check(counter(step), jobs=2, every=True)
    assert forks
    assert all(map(is_over, forks))


@pytest.mark.deep
def test_the_command_has_an_option(capsys: pytest.CaptureFixture[str], forks: list[int]) -> None:
    outputs = []
    for jobs in ("1", "2"):
        assert main(["check", "consumer-group", "--disturb", "lose", "--jobs", jobs, "--client", "fixed"]) == 0
        outputs.append([line for line in capsys.readouterr().out.splitlines() if "CPU s" not in line])
    assert outputs[0] == outputs[1]
    assert forks
