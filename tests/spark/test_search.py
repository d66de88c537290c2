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
import random_models
from pyspark.sql import SparkSession
from random_models import KINDS, chance, random_model
from walkers import walker

from fsm.check import Choice, Component, Limits, Memo, Model, PairProperty, Property, Step, check, liveness
from fsm.check.examples.lock import lock
from fsm.check.examples.two_phase_commit import two_phase_commit
from fsm.check.kafka.consumer.group import consumer_group
from fsm.check.search import DEADLOCK, Search
from fsm.check.store import Packing
from fsm.errors import InputError
from fsm.spark.liveness import SparkLiveness
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

folder, left, master, begin, seed, small = Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:5], *map(int, sys.argv[5:])
EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
has_begun = False

def count(event, given):
    global left, has_begun
    if event in EVENTS and str(folder) in str(given[0]):
        has_begun = has_begun or begin in str(given[0])
        left -= has_begun
        if left == 0 and has_begun:
            os.kill(os.getpid(), signal.SIGKILL)

def run(spark, **options):
    sys.addaudithook(count)
    engine = partial(SparkSearch, spark=spark, memo=Memo(folder, "one"), parts=3, **options)
    if seed:
        from random_models import random_model
        model, kinds = random_model(seed), ["k1", "w1"]
    else:
        model, kinds = two_phase_commit(3), ["lose"]
    verdict = check(model, disturb=kinds, disturbances=1, every=True, engine=engine)
    print(json.dumps(verdict.document()))

if master:
    with session(master) as spark:
        run(spark, small=small)
else:
    run(None)
"""


def run_killed(
    folder: Path,
    drawn: Random,
    kills: int,
    most: int,
    master: str = "",
    *,
    begin: str = "",
    seed: int = 0,
    small: int = 120,
) -> dict[str, Any]:
    """The verdict of a search whose driver was killed so often before, each time at another operation on a file.

    Operations are counted from the first one on a path with `begin` in it. `seed` is that of a random model.
    """
    done, beside = 0, str(Path(random_models.__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([beside, *filter(None, [os.environ.get("PYTHONPATH")])])}
    while True:
        left = drawn.randrange(1, most) if done < kills else 0
        given = [sys.executable, "-c", CHILD, str(folder), str(left), master, begin, str(seed), str(small)]
        run = subprocess.run(given, capture_output=True, check=False, timeout=300, env=environment)
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


FAR_BEYOND = 52
"""A random model of which liveness explores more states than the search, in two turns."""


@pytest.mark.parametrize(
    ("seed", "kills"),
    [pytest.param(0, 3, marks=pytest.mark.deep), *(pytest.param(n, 6, marks=pytest.mark.deep) for n in (1, 2)),
     *(pytest.param(n, 6, marks=pytest.mark.slow) for n in range(3, 20))],
)  # fmt: skip
def test_a_driver_that_is_killed_as_it_asks_for_liveness_goes_on(seed: int, kills: int, tmp_path: Path) -> None:
    found = run_killed(tmp_path, Random(seed), kills, 160, begin="liveness", seed=FAR_BEYOND)  # noqa: S311
    assert json.dumps(found) == json.dumps(told(random_model(FAR_BEYOND), ["k1", "w1"], 1, every=True))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_driver_whose_jobs_ask_for_liveness_goes_on_after_a_kill(seed: int, tmp_path: Path) -> None:
    drawn = Random(seed)  # noqa: S311
    found = run_killed(tmp_path, drawn, 3, 60, "local[2]", begin="liveness", seed=FAR_BEYOND, small=20)
    assert json.dumps(found) == json.dumps(told(random_model(FAR_BEYOND), ["k1", "w1"], 1, every=True))


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


def lose_file(folder: Path, run: str, damage: str = "gone") -> Path:
    """Removes, or cuts, the last file of a kind of run."""
    path = max(folder.glob(f"{run}/*.*"))
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    return path


@pytest.mark.parametrize(
    ("run", "damage"),
    [
        ("met/*", "cut"),
        *((run, "gone") for run in ("met/*", "waiting/*", "0-[1-9]", "liveness/left/*", "liveness/good/*")),
        ("liveness/beyond/*", "gone"),
    ],
)
@pytest.mark.loop(1)
def test_a_search_with_a_lost_file_does_not_go_on(run: str, damage: str, tmp_path: Path) -> None:
    """Each partition of each level and round is expected, so that none is taken for one without rows."""
    case = random_model(FAR_BEYOND), ["k1", "w1"], 1
    expected = told(*case, on_spark(None, tmp_path, parts=3), every=True)
    path = lose_file(tmp_path, run, damage)
    content = path.read_bytes() if damage == "cut" else b""
    with pytest.raises(InputError, match=rf"{path.name}: is damaged or missing; restore it, or empty the folder"):
        told(*case, on_spark(None, tmp_path, parts=3), every=True)
    assert not content or path.read_bytes() == content
    for other in sorted(tmp_path.rglob("*"), reverse=True):
        other.rmdir() if other.is_dir() else other.unlink()
    assert told(*case, on_spark(None, tmp_path, parts=3), every=True) == expected


@pytest.mark.parametrize("small", [20_000, pytest.param(0, marks=pytest.mark.deep)])
@pytest.mark.parametrize("run", ["met/*", "0-2"])
def test_a_file_that_is_lost_as_a_search_runs_ends_it(
    run: str, small: int, spark: SparkSession, tmp_path: Path
) -> None:
    """Here and in tasks, in one line."""

    class Losing(SparkSearch):
        def _take_level(self) -> None:
            if self.level == 2:
                lose_file(tmp_path, run)
            super()._take_level()

    engine = on_spark(spark, tmp_path, Losing, small=small, parts=2)
    with pytest.raises(InputError, match="is damaged or missing"):
        told(two_phase_commit(2), [], 0, engine)


@pytest.mark.parametrize("small", [20_000, pytest.param(0, marks=pytest.mark.deep)])
@pytest.mark.parametrize("run", ["left", "steps", "good"])
def test_a_file_that_is_lost_between_rounds_ends_the_search(
    run: str, small: int, monkeypatch: pytest.MonkeyPatch, spark: SparkSession, tmp_path: Path
) -> None:
    plain = SparkLiveness._lead_back

    def losing(self: SparkLiveness, name: str, *given: Any) -> Any:
        if name.endswith("-2"):
            lose_file(tmp_path, f"liveness/{run}/*")
        return plain(self, name, *given)

    monkeypatch.setattr(SparkLiveness, "_lead_back", losing)
    with pytest.raises(InputError, match="is damaged or missing"):
        told(walker({"a": "b", "b": "c", "c": "d", "d": "z"}), [], 0, on_spark(spark, tmp_path, small=small, parts=1))


def test_a_round_reads_nothing_of_the_rounds_before_the_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So the cost of all rounds together does not grow with the square of their number."""
    plain, lost = SparkLiveness._lead_back, set()

    def losing(self: SparkLiveness, name: str, left: Any, good: Any, count: int) -> Any:
        for one in good[:-1]:
            (tmp_path / one / "0.npz").unlink(missing_ok=True)
            lost.add(one)
        return plain(self, name, left, good, count)

    case = walker({"a": "bz", "b": "c", "c": "d", "d": "ae", "e": "f", "f": "g", "g": "z"}), [], 0
    monkeypatch.setattr(SparkLiveness, "_lead_back", losing)
    assert told(*case, on_spark(None, tmp_path, parts=1)) == told(*case)
    assert len(lost) == 3


@pytest.mark.parametrize(
    "seeds", [range(5), *(pytest.param(range(n, n + 50), marks=pytest.mark.deep) for n in (5, 55))], ids=str
)
@pytest.mark.deep
def test_liveness_of_random_models(seeds: range, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a job: with hazards, timers and states beyond those of the search; and asked again when all is done."""
    doomed = beyond = 0
    for seed in seeds:
        drawn, model = chance(seed, "kinds"), random_model(seed)
        kinds, most = [kind for kind in KINDS if drawn.random() < 0.5], drawn.randint(0, 2)
        options = {"known": ["H"] if drawn.random() < 0.3 else [], "limits": Limits(max_states=1_000), "every": True}
        monkeypatch.setattr(liveness, "ROUNDS", drawn.choice([1, 4, 1_000]))
        expected = told(model, kinds, most, **options)
        engine = on_spark(None, tmp_path / f"{seed}", parts=3)
        if not expected["stopped"].startswith("more than"):
            assert told(model, kinds, most, engine, **options) == expected, seed
            assert told(model, kinds, most, engine, **options) == expected, seed
            doomed += "goal" in [one["property"] for one in expected["violations"]]
            beyond += (tmp_path / f"{seed}" / "liveness" / "beyond").exists()
    assert doomed
    assert beyond


WALKS = {
    "a livelock": ({"a": "bz", "b": "c", "c": "db"}, {"cd": "luck"}, [], "violated"),
    "beyond": ({"a": "bz", "b": "c", "c": "db", "d": "ez", "e": "a"}, {"cd": "timer", "de": "timer"}, [], "holds"),
    "full": ({"a": "bc", "b": "cz", "c": "z"}, {"bz": "timer", "cz": "timer"}, ["bz"], "holds"),
    "hidden": ({"a": "b", "b": "z"}, {"bz": "timer"}, ["bz"], "stopped"),
}


@pytest.mark.parametrize(
    "name", [*(pytest.param(n, marks=pytest.mark.deep) for n in ("full", "hidden")), "a livelock", "beyond"]
)
@pytest.mark.loop(1)
def test_liveness_in_jobs(name: str, spark: SparkSession, tmp_path: Path) -> None:
    """Even of single states: a livelock, states beyond those of the search, and steps that a full wire hides."""
    edges, kinds, hidden, word = WALKS[name]
    model = walker(edges, hidden=hidden, **kinds)
    found = told(model, [], 0, on_spark(spark, tmp_path, small=0, parts=2))
    assert found == told(model, [], 0)
    assert found["verdict"] == word


def switches(count: int, turns: int) -> Model:
    """So many components, each of which turns so often."""

    def choices(at: int) -> list[Choice]:
        return [Choice("turn")] if at < turns else []

    return Model("switches", [Component(f"s{n}", 0, choices, lambda at, _: Step(at + 1)) for n in range(count)])


def test_keys_have_all_the_room_that_there_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """17 cells that outgrow one bit each would have 68 with room for four times their numbers."""
    case = switches(17, 2), [], 0
    monkeypatch.setattr(Packing, "of", staticmethod(lambda many: Packing([1] * many)))
    found = told(*case, on_spark(None, tmp_path / "some", parts=3), limits=Limits(max_states=1_000))
    assert (found["exact"], found["stopped"]) == (True, "more than 1,000 states")
    with pytest.raises(InputError, match="do not fit into 64 bits; use --engine disk"):
        told(switches(40, 2), [], 0, on_spark(None, tmp_path / "many", parts=3))


def test_cells_that_outgrow_their_keys_beyond_the_search_begin_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Liveness explores states that keys have no room for: all of it is done again, with wider ones."""
    began = []

    class Noting(SparkSearch):
        def first_doomed(self) -> int:
            began.append("liveness")
            return super().first_doomed()

        def _restart(self) -> None:
            began.append("again")
            super()._restart()

    def tight(_before: Packing, counts: list[int]) -> Packing:
        return Packing([(count // 4).bit_length() for count in counts])

    edges = {"a": "b", "b": "c", "c": "d", "d": "e", "e": "f", "f": "z"}
    case = walker(edges, bc="timer"), [], 0
    expected = told(*case)
    monkeypatch.setattr(Packing, "grow", tight)
    monkeypatch.setattr(Packing, "of", staticmethod(lambda many: Packing([1] * many)))
    assert told(*case, on_spark(None, tmp_path / "d", Noting, parts=3)) == expected
    assert began[-1] == "again"


@pytest.mark.deep
def test_liveness_of_many_states(spark: SparkSession, tmp_path: Path) -> None:
    """Levels in tasks and in the driver; the first doomed state, and the way there."""
    case = consumer_group(), ["late"], 1
    found = told(*case, on_spark(spark, tmp_path, small=5_000, parts=2), properties=["the group settles"])
    assert found["states"] > 50_000
    assert [one["property"] for one in found["violations"]] == ["the group settles"]
    assert found == told(*case, properties=["the group settles"])


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["4.4", "fixed"])
def test_a_million_states(dialect: str, spark: SparkSession, tmp_path: Path) -> None:
    """With a livelock, and without one."""
    kinds = ["crash", "expire", "failover", "late", "leave", "lose", "poll_timeout", "rebalance_timeout", "unanswered"]
    model = consumer_group(topics={"foo": 1, "bar": 1}, client=dialect, coordinator=dialect)
    kinds = kinds if dialect == "4.4" else list(model.kinds)
    found = told(model, kinds, 1, on_spark(spark, tmp_path), every=True)
    assert found["states"] > 750_000
    assert found["verdict"] == ("violated" if dialect == "4.4" else "holds")
    assert found == told(model, kinds, 1, every=True)
