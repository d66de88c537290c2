"""The search on Spark: the states of the one in memory, by the same numbers, and the same counterexamples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fsm.check import Limits, Memo, Model, PairProperty, check
from fsm.check.examples.lock import lock
from fsm.check.examples.two_phase_commit import two_phase_commit
from fsm.check.kafka.consumer_group import consumer_group
from fsm.check.packing import Packing
from fsm.check.search import DEADLOCK
from fsm.errors import InputError
from fsm.spark.search import OnSpark

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

OTHERWISE = {"cpu_s", "bytes_per_state", "checked", "uncovered", "memo_steps", "memo_hits"}


def told(model: Model, kinds: list[str], most: int, engine: OnSpark | None = None, **options: Any) -> dict[str, Any]:
    """What a verdict says, but for liveness, which Spark is not asked for."""
    document = check(model, disturb=kinds, disturbances=most, engine=engine, **options).document()
    asked = {one.name for one in model.properties} | {DEADLOCK}
    goals = {model.goal.name} if model.goal else set()
    assert engine is None or not goals & {one["property"] for one in document["violations"]}
    document["violations"] = [one for one in document["violations"] if one["property"] in asked]
    return {name: value for name, value in document.items() if name not in OTHERWISE}


def test_every_level_is_a_job(spark: SparkSession, tmp_path: Path) -> None:
    """Properties of states and pairs, deadlocks, steps that cost: as in memory, in the same order."""
    model = two_phase_commit(2, counts_to=1)
    apart = PairProperty("apart", "resource-1", "resource-2", lambda one, other: {one, other} != {"committed"})
    model = Model(model.name, model.components, model.wires, [*model.properties, apart], model.goal)
    engine = OnSpark(spark, Memo(tmp_path / "d", "one"), small=0, parts=3)
    found = told(model, ["lose"], 1, engine, every=True)
    assert found == told(model, ["lose"], 1, every=True)
    assert {one["property"] for one in found["violations"]} == {"all agree", "apart", DEADLOCK}
    assert told(model, ["lose"], 1, OnSpark(spark, Memo(tmp_path / "d", "one")), every=True) == found


def test_small_levels_need_no_job(spark: SparkSession, tmp_path: Path) -> None:
    """Production classes among them; a hazard that is cut off; the first counterexample only."""
    for number, (model, kinds, most, options) in enumerate(
        [
            (lock(), ["expire"], 2, {}),
            (consumer_group(1), ["late", "lose"], 1, {"every": True}),
            (consumer_group(), ["late"], 1, {"known": ["W1"]}),
        ]
    ):
        engine = OnSpark(spark, Memo(tmp_path / str(number), "one"))
        assert told(model, kinds, most, engine, **options) == told(model, kinds, most, **options)


class KilledError(Exception):
    """As if it was killed."""


@pytest.mark.parametrize("after", [2, 9, 14])
def test_a_search_that_was_killed_goes_on(after: int, spark: SparkSession, tmp_path: Path) -> None:
    """Before the note about a level is made: what was written of it is made again."""

    class Dying(OnSpark):
        left = after

        def _note(self) -> None:
            self.left -= 1
            if not self.left:
                raise KilledError
            super()._note()

    case = two_phase_commit(3), ["lose"], 1
    with pytest.raises(KilledError):
        told(*case, Dying(spark, Memo(tmp_path, "one"), parts=3), every=True)
    assert told(*case, OnSpark(spark, Memo(tmp_path, "one")), every=True) == told(*case, every=True)


def test_cells_that_outgrow_their_keys_begin_again(spark: SparkSession, tmp_path: Path) -> None:
    """With more room, and the tables there are."""

    class Tight(OnSpark):
        def _run(self) -> None:
            if not self.levels and not (tmp_path / "begun").exists():
                (tmp_path / "begun").touch()
                self.search.packing = Packing([1] * len(self.search.packing.bits))
            super()._run()

    case = two_phase_commit(3), ["lose"], 1
    assert told(*case, Tight(spark, Memo(tmp_path / "d", "one")), every=True) == told(*case, every=True)


def test_other_folders_and_limits(spark: SparkSession, tmp_path: Path) -> None:
    engine = OnSpark(spark, Memo(tmp_path / "d", "one"))
    assert told(two_phase_commit(3), [], 0, engine, limits=Limits(max_states=100))["verdict"] == "stopped"
    with pytest.raises(InputError, match="holds another search"):
        told(two_phase_commit(4), [], 0, OnSpark(spark, Memo(tmp_path / "d", "one")))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="holds something else"):
        told(two_phase_commit(3), [], 0, OnSpark(spark, Memo(tmp_path / "mine", "one")))


@pytest.mark.slow
def test_a_million_states(spark: SparkSession, tmp_path: Path) -> None:
    kinds = ["crash", "expire", "failover", "late", "leave", "lose", "poll_timeout", "rebalance_timeout", "unanswered"]
    case = consumer_group(topics={"foo": 1, "bar": 1}), kinds, 1
    found = told(*case, OnSpark(spark, Memo(tmp_path, "one")), every=True)
    assert found["states"] > 10**6
    assert found == told(*case, every=True)
