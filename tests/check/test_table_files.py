"""Tables kept between runs: a warm run takes no step and says the same, and no file is trusted that is not whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fsm.check import Choice, Component, Memo, Model, Property, Step, Verdict, check
from fsm.check.examples.lock import lock
from fsm.check.examples.two_phase_commit import two_phase_commit
from fsm.check.kafka.classic.group import classic_group
from fsm.check.kafka.consumer.group import consumer_group
from fsm.check.kafka.mixed.group import mixed_group
from fsm.cli import main


def summarize(verdict: Verdict) -> dict[str, Any]:
    """All but what a warm run has otherwise."""
    document = verdict.document()
    return {
        name: value for name, value in document.items() if name not in {"memo_steps", "memo_hits", "bytes_per_state"}
    }


def frozen(model: Model) -> Model:
    """The same model, whose steps must not be taken."""

    def step(_state: Any, _given: Any) -> Step:
        pytest.fail("a step is taken")

    return replace(model, components=[replace(one, step=step) for one in model.components])


def test_a_warm_run_takes_no_step_and_says_the_same(tmp_path: Path) -> None:
    for model, kinds in ((two_phase_commit(3), []), (lock(fenced=True), ["expire"]), (consumer_group(1), ["lose"])):
        memo = Memo(tmp_path, "one")
        cold = check(model, disturb=kinds, disturbances=len(kinds), memo=memo)
        warm = check(frozen(model), disturb=kinds, disturbances=len(kinds), memo=memo)
        assert (cold.word, summarize(warm)) == ("holds", summarize(cold))
        assert (cold.memo_steps > 0, warm.memo_steps) == (True, 0)
        assert warm.memo_hits == cold.memo_hits + cold.memo_steps


@pytest.mark.parametrize(
    "make", [partial(classic_group, 1), partial(mixed_group, policy="disabled")], ids=["classic", "mixed"]
)
def test_tables_of_groups_are_kept_with_every_feature(make: Callable[[], Model], tmp_path: Path) -> None:
    """Also those of features that no property of this model asks for."""
    cold, warm = (check(make(), every=True, memo=Memo(tmp_path, "one")) for _ in range(2))
    assert summarize(warm) == summarize(cold)
    assert (cold.memo_steps > 0, warm.memo_steps) == (True, 0)


@pytest.mark.deep
def test_a_counterexample_is_told_of_a_warm_run_too(tmp_path: Path) -> None:
    """Values of numbers are made again, by the steps that led to them."""
    runs = []
    for _ in range(2):
        verdicts = [
            check(model, disturb=kinds, disturbances=1, every=True, memo=Memo(tmp_path, str(kinds)))
            for model, kinds in ((lock(), ["expire"]), (consumer_group(), ["lose"]), (two_phase_commit(3), ["lose"]))
        ]
        runs.append([summarize(one) for one in verdicts])
    assert [one.memo_steps for one in verdicts] == [0, 0, 0]
    assert runs[0] == runs[1]


def test_a_new_property_needs_no_step(tmp_path: Path) -> None:
    """It asks for a feature that no run has asked for so far."""
    model, memo = replace(two_phase_commit(3), properties=[], goal=None), Memo(tmp_path, "one")
    check(model, memo=memo)
    some = Property("some", lambda view: view.of("resource-1", "committed") + view.of("resource-2", "aborted") < 3)
    verdict = check(frozen(replace(model, properties=[some])), memo=memo)
    assert (verdict.word, verdict.checked[:1], verdict.memo_steps) == ("holds", ("some",), 0)


def test_what_is_kept_serves_a_larger_search(tmp_path: Path) -> None:
    """Two disturbances after one: only the new steps are taken."""
    model, memo = consumer_group(1), Memo(tmp_path, "one")
    first = check(model, disturb=["lose", "late"], disturbances=1, every=True, memo=memo)
    second = check(model, disturb=["lose", "late"], disturbances=2, every=True, memo=memo)
    cold = check(model, disturb=["lose", "late"], disturbances=2, every=True)
    assert summarize(second) == summarize(cold)
    assert second.memo_steps + first.memo_steps == cold.memo_steps
    assert second.memo_steps > 0


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: b"",
        lambda _: b"no such file",
        lambda data: data[: len(data) // 2],
        lambda data: data[:2000] + bytes([data[2000] ^ 255]) + data[2001:],
        lambda data: data.replace(b'"digest": "', b'"digest": "f', 1),
    ],
)
def test_a_file_that_is_not_whole_is_not_read(spoil: Callable[[bytes], bytes], tmp_path: Path) -> None:
    model, memo = two_phase_commit(3), Memo(tmp_path, "one")
    first = check(model, memo=memo)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(spoil(whole))
    again = check(model, memo=memo)
    assert (summarize(again), again.memo_steps) == (summarize(first), first.memo_steps)
    assert path.read_bytes() == whole


def test_another_file_under_that_name_is_not_read(tmp_path: Path) -> None:
    """As of another model, or of code that has changed since."""
    check(two_phase_commit(3), memo=Memo(tmp_path / "one", "one"))
    check(two_phase_commit(4), memo=Memo(tmp_path / "other", "other"))
    (one,), (other,) = (list((tmp_path / name).iterdir()) for name in ("one", "other"))
    one.write_bytes(other.read_bytes())
    assert check(two_phase_commit(3), memo=Memo(tmp_path / "one", "one")).memo_steps > 0


def test_what_a_model_is_made_of_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its arguments, the kinds that are switched on, the text of its file; not how many disturbances there are."""
    own = tmp_path / "own.py"
    own.write_text("from fsm.check.examples.lock import lock\n")
    memo = tmp_path / "memo"
    for number, arguments in enumerate(
        [
            ["lock"],
            ["fenced-lock"],
            ["lock", "--disturb", "expire"],
            [f"{own}:lock"],
            ["consumer-group", "--members", "1"],
            ["consumer-group", "--members", "1", "--client", "4.1"],
        ],
        1,
    ):
        main(["check", *arguments, "--memo", str(memo)])
        assert len(list(memo.iterdir())) == number
    main(["check", "lock", "--disturb", "expire", "--disturbances", "2", "--memo", str(memo)])
    assert len(list(memo.iterdir())) == 6
    own.write_text("from fsm.check.examples.lock import lock  # changed\n")
    main(["check", f"{own}:lock", "--memo", str(memo)])
    assert len(list(memo.iterdir())) == 7
    capsys.readouterr()
    (tmp_path / "file").write_text("")
    assert main(["check", "lock", "--memo", str(tmp_path / "file")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_states_that_have_keys_are_met_again(tmp_path: Path) -> None:
    """Values that are recalled have the numbers that they had."""

    def model(top: int) -> Model:
        count = Component(
            "count",
            (0,),
            lambda state: [Choice("up"), Choice("over", ("over",), "over")] if state[0] < top else (),
            lambda state, given: Step((state[0] + (2 if given == ("over",) else 1),)),
            key=lambda state: ("k", *state),
        )
        return Model("count", [count], disturbances=["over"])

    memo = Memo(tmp_path, "one")
    assert check(model(9), disturb=["over"], disturbances=0, memo=memo).states == 10
    assert check(model(9), disturb=["over"], disturbances=9, memo=memo).states == 11
