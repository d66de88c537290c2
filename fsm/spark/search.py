"""The search of `fsm.check` on Spark: for models whose states outgrow one machine's memory.

States are rows of Parquet files: those of a level in the order in which they are met, the keys of all that were met by
the hash of the key. A level is

    survey    which steps the tables do not know yet; the driver takes them, and a survey that finds none counts
    meet      a join of the level with the tables, sent once to the parts by hash; there each new key is kept once,
              unless it is among the keys of that part, which are read where they lie
    look      the new states sorted by their sources, numbered, written, and asked for what is to hold

and nothing but counts, steps to be taken, and at last the states of a counterexample's path comes to the driver. States
have the numbers that they have in the search in memory, so a counterexample is the same one. A level that is complete
is noted; a search that was killed goes on from there. Liveness is not asked here.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import numpy as np

from fsm.check import kept
from fsm.check.disk import digest_of, read_note
from fsm.check.kept import Memo
from fsm.check.memo import Longs, Pairs, Rows
from fsm.check.model import Component, Model, PairProperty
from fsm.check.packing import Packing
from fsm.check.search import CHUNK, DEADLOCK, FULL, NO_PARENT, Found, Search
from fsm.check.space import FREE, PAID, Space
from fsm.check.steps import Steps
from fsm.check.verdict import Way
from fsm.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

NOTE = "search.json"
WAITED, NOW, LATER = range(3)
"""Groups of what is met: it waited for this level; by a step of this level; by one that costs, for the next cost."""
_STEP = "part int, key long, group int, parent long, step int"
_TOLD = "told string"


class Level(NamedTuple):
    """The states of one level: files with (first number, how many)."""

    name: str
    files: list[tuple[str, int, int]]


@dataclass(frozen=True)
class Task:
    """What every task of a level knows."""

    model: Model
    kinds: frozenset[str]
    known: tuple[str, ...]
    folder: str
    tables: str
    bits: list[int]
    parts: int
    level: Level
    name: str
    """Of the level that is met."""
    runs: list[str]
    """Levels whose keys are among those that were met."""
    paid: bool
    """Steps that cost are taken, too."""

    def steps(self) -> Steps:
        """The tables of the driver."""
        space = Space(self.model, self.kinds)
        kept.restore(space, *kept.read(Path(self.folder) / self.tables))
        return Steps(self.model, space)

    def rows(self, files: Iterable[int]) -> Iterator[tuple[Longs, Any]]:
        """Numbers and rows of the states of some files, a chunk at a time; those with a known hazard are left out."""
        for number in files:
            name, first, _ = self.level.files[number]
            keys = _read(Path(self.folder) / self.level.name / name, "key").view(np.uint64)
            for low in range(0, len(keys), CHUNK):
                rows = Packing(self.bits).unpack(keys[low : low + CHUNK, None])
                yield first + low + np.arange(len(rows)), rows


# -- survey -------------------------------------------------------------------------------------------------


def survey(task: Task, files: Iterable[int]) -> dict[str, Any]:
    """Steps that the tables do not know; where they know all: counts, and what is broken first."""
    steps = task.steps()
    missing: dict[str, set[tuple[int, ...]]] = {}
    for name, table in named_tables(steps.space):
        table.make = _recorder(missing.setdefault(name, set()), table)
    told: dict[str, Any] = {"transitions": 0, "looked_up": 0, "full": 0, "broken": {}, "still": -1}
    goal = task.model.goal
    for numbers, all_rows in task.rows(files):
        here, rows = steps.not_cut(task.known, numbers, all_rows)
        moving = np.zeros(len(rows), np.bool_)
        for one in steps.successors(rows, paid=task.paid):
            is_free, is_paid = one.cost == FREE, (one.cost == PAID) & task.paid
            taken = (is_free | is_paid) & ~one.full
            told["looked_up"] += len(one.source)
            told["transitions"] += int(taken.sum())
            told["full"] += int(((is_free | is_paid) & one.full).sum())
            moving[one.source[one.full]] = True
            if goal is not None:
                possible = steps.possible(one, steps.space.by)
                moving[one.source[possible[one.differs(rows)[possible]]]] = True
            _note_broken(told["broken"], steps, one, here, (is_free, is_paid))
        if goal is not None and not moving.all() and told["still"] < 0:
            still = np.flatnonzero(~moving)
            bad = still[~steps.ask(goal.name, goal.reached, rows[still])]
            told["still"] = int(here[bad[0]]) if len(bad) else -1
    told["missing"] = {name: sorted(found) for name, found in missing.items() if found}
    return told


def named_tables(space: Space) -> Iterator[tuple[str, Any]]:
    """The tables of all cells by name, in the order in which one needs the other."""
    for kind in ("local", "outgoing", "receive", "told"):
        for i, cell in enumerate(space.cells):
            found = getattr(cell, kind)
            for at, table in sorted(found.items()) if isinstance(found, dict) else [("", found)]:
                yield f"{kind} {i} {at}", table


def _recorder(missing: set[tuple[int, ...]], table: Rows | Pairs) -> Callable[..., Any]:
    def record_one(one: int) -> list[tuple[int, ...]]:
        missing.add((one,))
        return []

    def record_pair(first: int, second: int) -> tuple[int, ...]:
        missing.add((first, second))
        return (-1, *(0 for _ in range(table.width - 1)))  # as of a full wire: nothing is put anywhere

    return record_one if isinstance(table, Rows) else record_pair


def _note_broken(broken: dict[str, Any], steps: Steps, one: Any, here: Longs, masks: Any) -> None:
    if not one.broken.any():
        return
    for is_paid, mask in enumerate(masks):
        those = np.flatnonzero(mask & (one.broken > 0))
        for number in np.unique(one.broken[those]).tolist():
            mine = those[one.broken[those] == number]
            at = int(mine[np.argmin(one.source[mine])])
            for name in steps.space.broken.value(number):
                found = [int(here[one.source[at]]), int(one.action[at])]
                key = f"{is_paid}{name}"
                if key not in broken or found[0] < broken[key][0]:
                    broken[key] = found


# -- meet ---------------------------------------------------------------------------------------------------


def expand(task: Task, files: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """What follows the states of some files, each key of a chunk once."""
    steps, packing = task.steps(), Packing(task.bits)
    for numbers, all_rows in task.rows(files):
        here, rows = steps.not_cut(task.known, numbers, all_rows)
        base, number = packing.keys(rows), 0
        found = []
        for one in steps.successors(rows, paid=task.paid):
            for group, cost in ((NOW, FREE), (LATER, PAID)):
                mask = (one.cost == cost) & ~one.full
                if (group == NOW or task.paid) and mask.any():
                    keys = one.keys(packing, base, rows)[mask]
                    step = number + np.flatnonzero(mask)
                    found.append((keys, np.full(len(keys), group), here[one.source[mask]], step))
            number += len(one.source)
        if found:
            yield _batch(task.parts, *_once(*(np.concatenate(column) for column in zip(*found, strict=True))))


def _once(keys: Any, group: Any, parent: Any, step: Any) -> tuple[Any, Any, Any, Any]:
    """Each key once, from the first group, source and step; by key."""
    order = np.lexsort((step, parent, group, keys))
    ordered = keys[order]
    first = order[np.concatenate([ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1]])]
    return keys[first], group[first], parent[first], step[first]


def _batch(parts: int, keys: Any, group: Any, parent: Any, step: Any) -> pa.RecordBatch:
    import pyarrow as pa

    part = ((keys * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)) % np.uint64(parts)
    columns = (
        part.astype(np.int32),
        keys.view(np.int64),
        group.astype(np.int32),
        parent.astype(np.int64),
        step.astype(np.int32),
    )
    names = ["part", "key", "group", "parent", "step"]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=names)


def meet(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of the keys of some parts those that were never met; what costs is written, to wait."""
    import pyarrow as pa

    held = list(batches)
    if not held:
        return
    given = pa.Table.from_batches(held)
    columns = [given.column(name).to_numpy() for name in ("part", "key", "group", "parent", "step")]
    for part in np.unique(columns[0]).tolist():
        _, keys, group, parent, step = (column[columns[0] == part] for column in columns)
        keys = keys.view(np.uint64)
        fresh = np.ones(len(keys), np.bool_)
        for run in task.runs:
            path = Path(task.folder) / "met" / run / f"{part}.parquet"
            if path.exists():
                fresh &= ~_is_among(_read(path, "key").view(np.uint64), keys)
        later = fresh & (group == LATER)
        now = fresh & (group != LATER)
        if later.any():
            found = _once(keys[later], group[later], parent[later], step[later])
            _write(Path(task.folder) / "waiting" / task.name / f"{part}.parquet", *found)
        if now.any():
            found = _once(keys[now], group[now], parent[now], step[now])
            _write(Path(task.folder) / "met" / task.name / f"{part}.parquet", found[0])
            yield _batch(task.parts, *found)


def _is_among(run: Any, keys: Any) -> Any:
    """Which keys are in a sorted run."""
    at = np.searchsorted(run, keys)
    at[at == len(run)] = 0
    return run[at] == keys


def look(task: Task, part: int, batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
    """Writes states that are new, in their order; what does not hold of them, and known hazards, by the first place."""
    steps, packing = task.steps(), Packing(task.bits)
    told: dict[str, Any] = {"file": f"{part}.parquet", "count": 0, "broken": {}, "cut": {}}
    keys, parents = [], []
    for batch in batches:
        keys.append(batch.column("key").to_numpy().view(np.uint64))
        parents.append(batch.column("parent").to_numpy())
        rows = packing.unpack(keys[-1][:, None])
        is_cut = np.zeros(len(rows), np.bool_)
        for name, shows in steps.hazards(task.known, rows):
            told["cut"][name] = told["cut"].get(name, 0) + int(shows.sum())
            is_cut |= shows
        for one in task.model.properties:
            if one.name not in told["broken"]:
                bad = np.flatnonzero(~steps.holds(one, rows) & ~is_cut)
                if len(bad):
                    told["broken"][one.name] = told["count"] + int(bad[0])
        told["count"] += len(rows)
    if told["count"]:
        path = Path(task.folder) / task.name / told["file"]
        _write(path, np.concatenate(keys), parent=np.concatenate(parents))
    return told


def _read(path: Path, column: str) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(path, columns=[column]).column(column).to_numpy()


def _write(path: Path, keys: Any, group: Any = None, parent: Any = None, step: Any = None) -> None:
    """A file of Parquet, there whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"key": keys.view(np.int64), "group": group, "parent": parent, "step": step}
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{uuid4().hex}")
    table = pa.table({name: pa.array(column) for name, column in columns.items() if column is not None})
    pq.write_table(table, beside, compression="zstd")
    beside.replace(path)


# -- the driver ---------------------------------------------------------------------------------------------


@dataclass
class OnSpark:
    """The engine: does a search on a session, in a folder that all its workers see."""

    spark: SparkSession
    memo: Memo
    """The folder, and what tells the model from others."""
    small: int = 20_000
    """Levels of fewer states are met in the driver's own process: a job would take longer."""
    parts: int = 0
    """Into so many the keys are parted; by the session where it is 0."""

    def __call__(self, search: Search) -> list[Way]:
        """Does the search; the way to each thing that is broken. Raises `InputError` for a folder of another one."""
        self.search, self.folder = search, self.memo.folder
        self.parts = self.parts or int(str(self.spark.conf.get("spark.sql.shuffle.partitions")))
        self.digest = digest_of(search, self.memo)
        self.levels: list[Level] = []
        self.waiting: list[tuple[int, int]] = []
        """Cost and level of states that wait."""
        self.broken_later: dict[tuple[int, int], list[Found]] = {}
        note = self.folder / NOTE
        if note.exists():
            self._resume(read_note(note))
        elif self.folder.exists() and any(self.folder.iterdir()):
            raise InputError("holds something else", str(self.folder), "name an empty folder")
        while True:
            try:
                self._run()
                break
            except _OutgrownError:
                self._begin_again()
        return [self._way(found) for found in search.found.values()]

    def _run(self) -> None:
        search = self.search
        if not self.levels:
            self._start()
        while search.cost <= search.most:
            while self.levels[-1].files or any(cost == search.cost for cost, _ in self.waiting):
                self._take_level()
                search.stopped = self._limit()
                if search.stopped or (search.found and not search.every):
                    return
                self._note()
            search.cost, search.level = search.cost + 1, 0
            search.layers.append(search.met)
        if search.cut.get(FULL):
            search.stopped = "a wire that was full: give it more room (Wire.at_most)"

    def _limit(self) -> str:
        most = self.search.limits.max_states
        return f"more than {most:,} states" if self.search.met > most else ""

    def _start(self) -> None:
        search = self.search
        keys = search.packing.keys(search.space.start())
        search.layers = [0]
        self._save_tables()
        task = self._task(Level("", []), "0-0")
        first = _batch(self.parts, keys, np.zeros(1), np.full(1, NO_PARENT), np.zeros(1))
        part = first.column("part")[0].as_py()
        _write(self.folder / "met" / "0-0" / f"{part}.parquet", keys)
        self._add("0-0", [look(task, 0, [first])])
        search.depth = 0

    def _task(self, level: Level, name: str) -> Task:
        search, runs = self.search, [one.name for one in self.levels]
        search.packing.bits = list(search.packing.bits)
        return Task(
            _asked_of_tasks(search.model), search.kinds,
            tuple(search.known), str(self.folder), self.tables, search.packing.bits,
            self.parts, level, name, runs, search.cost < search.most,
        )  # fmt: skip

    def _take_level(self) -> None:
        search, before, met = self.search, self.levels[-1], self.search.met
        search.level += 1
        at = search.cost, search.level
        name = f"{at[0]}-{at[1]}"
        told = self._survey(before, name)
        task = self._task(before, name)
        waited = f"{at[0] - 1}-{at[1]}" if at in self.waiting else ""
        for found in self.broken_later.pop(at, ()):
            self._break(found)
        self._note_survey(told)
        looked = self._meet_here(task, waited) if self._is_small(before, waited) else self._meet(task, waited)
        self.waiting = [one for one in self.waiting if one != at]
        self._add(name, looked)
        if (self.folder / "waiting" / name).exists():
            self.waiting.append((at[0] + 1, at[1]))
        if search.met > met:
            search.depth = max(search.depth, search.level)
        search.progress(search.met, search.transitions, search.level)

    def _is_small(self, level: Level, waited: str) -> bool:
        """Whether a level is less work than handing it out."""
        waiting = sum(path.stat().st_size for path in (self.folder / "waiting" / waited).glob("*")) if waited else 0
        return sum(count for _, _, count in level.files) + waiting // 8 < self.small

    def _meet_here(self, task: Task, waited: str) -> list[dict[str, Any]]:
        """Meets a level in this process."""
        import pyarrow as pa

        batches = list(expand(task, range(len(task.level.files))))
        for path in sorted((self.folder / "waiting" / waited).glob("*.parquet")) if waited else ():
            keys, parent, step = (_read(path, column) for column in ("key", "parent", "step"))
            batches.append(_batch(task.parts, keys.view(np.uint64), np.full(len(keys), WAITED), parent, step))
        new = list(meet(task, batches))
        order = [("group", "ascending"), ("parent", "ascending"), ("step", "ascending")]
        return [look(task, 0, pa.Table.from_batches(new).sort_by(order).to_batches())] if new else []

    def _meet(self, task: Task, waited: str) -> list[dict[str, Any]]:
        """Meets a level in the tasks of a job."""
        given = self._spread(expand, task, len(task.level.files), _STEP)
        if waited:
            given = given.union(self._waited(waited))
        new = given.repartition(self.parts, "part").mapInArrow(lambda batches: meet(task, batches), _STEP).persist()
        try:
            looked = new.sort("group", "parent", "step").mapInArrow(_looker(task), _TOLD).collect()
        finally:
            new.unpersist()
        return sorted((json.loads(row["told"]) for row in looked), key=lambda one: int(one["file"].split(".")[0]))

    def _spread(self, function: Any, task: Task, files: int, schema: str) -> DataFrame:
        """A function of a level's files, some of them in each task."""
        tasks = max(1, min(files, self.parts))

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from function(task, batch.column(0).to_pylist())

        return self.spark.range(0, files, 1, tasks).mapInArrow(run, schema)

    def _waited(self, name: str) -> DataFrame:
        from pyspark.sql import functions as F

        found = self.spark.read.parquet(str(self.folder / "waiting" / name))
        keys = F.pmod(F.hash("key"), F.lit(self.parts)).cast("int")  # put right by the task that reads it
        parts = self.parts

        def part(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                columns = [batch.column(column).to_numpy() for column in ("key", "parent", "step")]
                yield _batch(parts, columns[0].view(np.uint64), np.full(len(columns[0]), WAITED), *columns[1:])

        return found.withColumn("part", keys).mapInArrow(part, _STEP)

    def _survey(self, level: Level, name: str) -> list[dict[str, Any]]:
        """Fills the tables with all that a level asks of them; what the last survey told."""
        while True:
            task = self._task(level, name)

            def tell(task: Task, files: list[int]) -> Iterator[pa.RecordBatch]:
                yield _one_text(survey(task, files))

            if self._is_small(level, ""):
                told = [survey(task, range(len(level.files)))] if level.files else []
            else:
                rows = self._spread(tell, task, len(level.files), _TOLD).collect()
                told = [json.loads(row["told"]) for row in rows]
            missing = {name for one in told for name in one["missing"]}
            if not missing:
                return told
            for name_of, table in named_tables(self.search.space):
                asked = sorted({tuple(found) for one in told for found in one["missing"].get(name_of, ())})
                if asked:
                    columns = np.array(asked, np.int32).T
                    table.join(*columns)
            self._save_tables()
            if not self.search.fits():
                raise _OutgrownError

    def _note_survey(self, told: list[dict[str, Any]]) -> None:
        search = self.search
        firsts: dict[str, tuple[int, int]] = {}
        for one in told:
            search.transitions += one["transitions"]
            search.looked_up += one["looked_up"]
            if one["full"]:
                search.cut[FULL] = search.cut.get(FULL, 0) + one["full"]
            for key, (state, action) in one["broken"].items():
                firsts[key] = min(firsts.get(key, (state, action)), (state, action))
        for key, (state, action) in sorted(firsts.items()):
            cost = search.cost + int(key[0])
            found = Found(key[1:], state, cost, action)
            if key[0] == "0":
                self._break(found)
            else:
                self.broken_later.setdefault((cost, search.level), []).append(found)
        still = [one["still"] for one in told if one["still"] >= 0]
        if still:
            self._break(Found(DEADLOCK, min(still), search.cost))

    def _add(self, name: str, looked: list[dict[str, Any]]) -> None:
        """Numbers the states of a level, file by file."""
        search, files = self.search, []
        for one in looked:
            if one["count"]:
                files.append((one["file"], search.met, one["count"]))
                for broken, at in one["broken"].items():
                    self._break(Found(broken, search.met + at, search.cost))
                search.met += one["count"]
            for hazard, count in one["cut"].items():
                search.cut[hazard] = search.cut.get(hazard, 0) + count
        self.levels.append(Level(name, files))

    def _break(self, found: Found) -> None:
        self.search.found.setdefault(found.name, found)

    # Files

    def _save_tables(self) -> None:
        self.tables = f"{uuid4().hex}.npz"
        self.memo.save(self.search.space, self.folder / self.tables)

    def _note(self) -> None:
        search = self.search
        told = {
            "digest": self.digest, "parts": self.parts, "tables": self.tables, "bits": search.packing.bits,
            "levels": self.levels, "waiting": self.waiting, "found": list(search.found.values()),
            "broken_later": [(*at, found) for at, found in self.broken_later.items()],
            **{name: getattr(search, name) for name in NUMBERS},
        }  # fmt: skip
        kept.write(self.folder / NOTE, json.dumps(told).encode())
        for path in self.folder.glob("*.npz"):
            if path.name != self.tables:
                path.unlink()

    def _resume(self, told: dict[str, Any]) -> None:
        search = self.search
        if told["digest"] != self.digest:
            remedy = "name another folder, or empty this one"
            raise InputError("holds another search, or one by other code", str(self.folder), remedy)
        self.parts, self.tables = told["parts"], told["tables"]
        if not self.memo.load(search.space, self.folder / self.tables):
            raise InputError("its tables are damaged", str(self.folder / self.tables), "empty the folder")
        search.packing = Packing(told["bits"])
        self.levels = [Level(name, [tuple(file) for file in files]) for name, files in told["levels"]]
        self.waiting = [(cost, level) for cost, level in told["waiting"]]
        self.broken_later = {(c, level): [Found(*one) for one in found] for c, level, found in told["broken_later"]}
        search.found = {one[0]: Found(*one) for one in told["found"]}
        for name in NUMBERS:
            setattr(search, name, told[name])
        done = {one.name for one in self.levels}
        for folder in (self.folder / "met", self.folder / "waiting"):
            for path in folder.iterdir() if folder.exists() else ():
                if path.name not in done:
                    shutil.rmtree(path)

    def _begin_again(self) -> None:
        """From the start with more room in keys, and with the tables there are."""
        search = self.search
        counts = [4 * len(cell.ids) for cell in search.space.cells]
        search.packing = search.packing.grown(counts)
        if not search.packing.exact:
            raise InputError("its states do not fit into 64 bits", search.model.name, "take --engine disk")
        for path in sorted(self.folder.iterdir()):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.levels, self.waiting, self.broken_later = [], [], {}
        search.found, search.cut = {}, {}
        search.cost = search.level = search.met = search.transitions = search.looked_up = search.depth = 0

    # The way to a state

    def _way(self, found: Found) -> Way:
        """The states on the way to one, as a search that met nothing else."""
        search, number = self.search, found.state
        keys: list[Any] = []
        costs: list[int] = []
        while number != NO_PARENT:
            level, (name, first, _) = self._file_of(number)
            path, costs = self.folder / level / name, [int(level.partition("-")[0]), *costs]
            keys.insert(0, _read(path, "key").view(np.uint64)[number - first])
            number = int(_read(path, "parent")[number - first])
        way = Search(search.model, search.kinds, search.most, tables=search.space)
        way.packing = search.packing
        way.states.extend(np.array(keys, np.uint64)[:, None])
        way.parent.extend(np.array([NO_PARENT, *range(len(keys) - 1)], np.uint32)[:, None])
        way.layers = [costs.index(cost) for cost in range(max(costs) + 1) if cost in costs]
        return Way(way, found._replace(state=len(keys) - 1))

    def _file_of(self, number: int) -> tuple[str, tuple[str, int, int]]:
        for level in self.levels:
            for file in level.files:
                if file[1] <= number < file[1] + file[2]:
                    return level.name, file
        raise AssertionError(number)


def _asked_of_tasks(model: Model) -> Model:
    """The model without what takes steps and measures: tasks have the tables for that, unless pairs are asked for."""
    if any(isinstance(one, PairProperty) for one in model.properties):
        return replace(model, replay=None)
    components = [
        Component(one.name, None, _never, _never, dict.fromkeys(one.features, _never)) for one in model.components
    ]
    wires = [replace(one, features=dict.fromkeys(one.features, _never), describe=str) for one in model.wires]
    return replace(model, components=components, wires=wires, replay=None)


def _never(*_given: Any) -> Any:
    raise AssertionError("a table has it")


def _looker(task: Task) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        yield _one_text(look(task, context.partitionId() if context else 0, batches))

    return run


def _one_text(told: dict[str, Any]) -> pa.RecordBatch:
    import pyarrow

    return pyarrow.RecordBatch.from_pydict({"told": [json.dumps(told)]})


class _OutgrownError(Exception):
    """The number of a cell has no room in a key."""


NUMBERS = ("layers", "cut", "cost", "level", "depth", "transitions", "looked_up", "met")
"""What else a search goes on with."""
