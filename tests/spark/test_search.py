"""The search on Spark: the states of the one in memory, by the same numbers, and the same counterexamples."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fsm.check import Limits, Memo, Model, PairProperty, Property, check
from fsm.check.examples.lock import lock
from fsm.check.examples.two_phase_commit import two_phase_commit
from fsm.check.kafka.consumer.group import consumer_group
from fsm.check.search import DEADLOCK, Search
from fsm.check.store import Packing
from fsm.errors import InputError
from fsm.spark.search import SparkSearch

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

OTHERWISE = {"cpu_s", "bytes_per_state", "memo_steps", "memo_hits"}


def on_spark(spark: SparkSession | None, folder: Path, kind: type[SparkSearch] = SparkSearch, **options: Any) -> Any:
    """An engine that keeps its files there."""
    return partial(kind, spark=spark, memo=Memo(folder, "one"), **options)


def told(model: Model, kinds: list[str], most: int, engine: Any = Search, **options: Any) -> dict[str, Any]:
    """What a verdict says, but for what it costs."""
    document = check(model, disturb=kinds, disturbances=most, engine=engine, **options).document()
    return {name: value for name, value in document.items() if name not in OTHERWISE}


@pytest.mark.parametrize("small", [18, pytest.param(0, marks=pytest.mark.deep)])
def test_levels_are_jobs(small: int, spark: SparkSession, tmp_path: Path) -> None:
    """Those of so many states, or all. Properties of states and pairs, deadlocks, steps that cost: as in memory, in
    the same order."""
    model = two_phase_commit(2, counts_to=1)
    apart = PairProperty("apart", "resource-1", "resource-2", lambda one, other: {one, other} != {"committed"})
    model = Model(model.name, model.components, model.wires, [*model.properties, apart], model.goal)
    engine = on_spark(spark, tmp_path / "d", small=small, parts=2)
    found = told(model, ["lose"], 1, engine, every=True)
    assert found == told(model, ["lose"], 1, every=True)
    assert {one["property"] for one in found["violations"]} == {"all agree", "apart", DEADLOCK, "everybody decides"}
    assert told(model, ["lose"], 1, on_spark(spark, tmp_path / "d"), every=True) == found


@pytest.mark.parametrize(
    ("model", "kinds", "most", "options"),
    [
        (lock, ["expire"], 2, {}),
        (partial(consumer_group, 1), ["late", "lose"], 1, {"every": True}),
        pytest.param(consumer_group, ["lose"], 1, {"known": ["W1"]}, marks=pytest.mark.deep),
        pytest.param(
            partial(consumer_group, 1),
            ["poll_timeout"],
            1,
            {"properties": ["the group settles"]},
            marks=pytest.mark.deep,
        ),
    ],
    ids=["lock", "every", "known", "liveness"],
)
def test_small_levels_need_no_job(
    model: Callable[[], Model], kinds: list[str], most: int, options: dict[str, Any], tmp_path: Path
) -> None:
    """Production classes among them; a hazard that is cut off; the first counterexample only; liveness."""
    engine = on_spark(None, tmp_path, parts=3)
    assert told(model(), kinds, most, engine, **options) == told(model(), kinds, most, **options)


CHILD = """
import json, os, signal, sys
from functools import partial
from pathlib import Path
from fsm.check import Memo, check
from fsm.check.examples.two_phase_commit import two_phase_commit
from fsm.spark.search import SparkSearch
from fsm.spark.session import session

folder, left, master = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")

def count(event, given):
    global left
    if event in EVENTS and str(folder) in str(given[0]):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

def run(spark, **options):
    sys.addaudithook(count)
    engine = partial(SparkSearch, spark=spark, memo=Memo(folder, "one"), parts=3, **options)
    verdict = check(two_phase_commit(3), disturb=["lose"], disturbances=1, every=True, engine=engine)
    print(json.dumps(verdict.document()))

if master:
    with session(master) as spark:
        run(spark, small=120)
else:
    run(None)
"""


def run_killed(folder: Path, drawn: Random, kills: int, most: int, master: str = "") -> dict[str, Any]:
    """The verdict of a search whose driver was killed so often before, each time at another operation on a file."""
    done = 0
    while True:
        left = drawn.randrange(1, most) if done < kills else 0
        given = [sys.executable, "-c", CHILD, str(folder), str(left), master]
        run = subprocess.run(given, capture_output=True, check=False, timeout=300)
        if run.returncode == 0:
            break
        assert run.returncode == -signal.SIGKILL, run.stderr.decode()
        done += 1
    assert done
    found = json.loads(run.stdout)
    return {name: value for name, value in found.items() if name not in OTHERWISE}


@pytest.mark.deep
@pytest.mark.parametrize(
    "seed",
    [0, pytest.param(1, marks=pytest.mark.deep), *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 20))],
)
def test_a_driver_that_is_killed_goes_on(seed: int, tmp_path: Path) -> None:
    """With kill -9, between any two operations on files, again and again: the same verdict at last."""
    drawn = Random(seed)  # noqa: S311
    found = run_killed(tmp_path, drawn, 4, drawn.choice([12, 150, 400]))
    assert json.dumps(found) == json.dumps(told(two_phase_commit(3), ["lose"], 1, every=True))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_driver_of_jobs_that_is_killed_goes_on(seed: int, tmp_path: Path) -> None:
    """Its Java process and the workers end with it, wherever they are."""
    found = run_killed(tmp_path, Random(seed), 3, 150, "local[2]")  # noqa: S311
    assert json.dumps(found) == json.dumps(told(two_phase_commit(3), ["lose"], 1, every=True))


def dying(model: Model, folder: Path, at: int) -> Model:
    """The model, with a property that kills the worker which is the `at`-th to be asked it."""
    driver, asked = os.getpid(), model.properties[0]
    assert isinstance(asked, Property)

    def holds(view: Any) -> Any:
        if os.getpid() != driver:
            for ticket in range(at):
                try:
                    (folder / f"{ticket}").touch(exist_ok=False)
                except FileExistsError:
                    continue
                if ticket == at - 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                break
        return asked.holds(view)

    return replace(model, properties=[replace(asked, holds=holds), *model.properties[1:]])


@pytest.mark.deep
@pytest.mark.parametrize("at", [1, 5, *(pytest.param(at, marks=pytest.mark.slow) for at in (2, 9, 14, 20))])
def test_a_worker_that_is_killed_ends_nothing_but_the_run(at: int, spark: SparkSession, tmp_path: Path) -> None:
    """With kill -9, as it looks at states: the next run goes on, with the same verdict."""
    (tmp_path / "tickets").mkdir()
    model = dying(two_phase_commit(3), tmp_path / "tickets", at)
    engine = on_spark(spark, tmp_path / "d", parts=3, small=120)
    with pytest.raises(Exception, match="Python worker exited unexpectedly"):
        told(model, ["lose"], 1, engine, every=True)
    assert told(model, ["lose"], 1, engine, every=True) == told(two_phase_commit(3), ["lose"], 1, every=True)


@pytest.mark.parametrize("small", [20_000, pytest.param(0, marks=pytest.mark.deep)])
def test_cells_that_outgrow_their_keys_begin_again(small: int, spark: SparkSession, tmp_path: Path) -> None:
    """With more room, and the tables there are."""

    class Tight(SparkSearch):
        def _start(self) -> None:
            if not (tmp_path / "begun").exists():
                (tmp_path / "begun").touch()
                self.packing = Packing([1] * len(self.packing.bits))
            super()._start()

    case = two_phase_commit(2), ["lose"], 1
    assert told(*case, on_spark(spark, tmp_path / "d", Tight, small=small), every=True) == told(*case, every=True)
    assert (tmp_path / "begun").exists()


def test_other_folders_and_limits(spark: SparkSession, tmp_path: Path) -> None:
    engine = on_spark(spark, tmp_path / "d")
    assert told(two_phase_commit(3), [], 0, engine, limits=Limits(max_states=100))["verdict"] == "stopped"
    with pytest.raises(InputError, match="holds a different search"):
        told(two_phase_commit(4), [], 0, on_spark(spark, tmp_path / "d"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="holds another file"):
        told(two_phase_commit(3), [], 0, on_spark(spark, tmp_path / "mine"))


@pytest.mark.deep
def test_liveness_of_many_states(spark: SparkSession, tmp_path: Path) -> None:
    """Levels in tasks and in the driver; the first doomed state, and the way there."""
    case = consumer_group(), ["late"], 1
    found = told(*case, on_spark(spark, tmp_path, small=5_000, parts=2), properties=["the group settles"])
    assert found["states"] > 50_000
    assert [one["property"] for one in found["violations"]] == ["the group settles"]
    assert found == told(*case, properties=["the group settles"])


@pytest.mark.slow
def test_a_million_states(spark: SparkSession, tmp_path: Path) -> None:
    kinds = ["crash", "expire", "failover", "late", "leave", "lose", "poll_timeout", "rebalance_timeout", "unanswered"]
    case = consumer_group(topics={"foo": 1, "bar": 1}), kinds, 1
    found = told(*case, on_spark(spark, tmp_path), every=True)
    assert found["states"] > 10**6
    assert found == told(*case, every=True)
