"""The search of `fsm.check` on Spark, for models whose states do not fit into one machine's memory.

States are rows of Parquet files: those of a level in the order in which they were found, and the keys of all known
states, partitioned by the hash of the key. A level is

    survey    finds steps that the tables do not have yet, which the driver computes; the last survey counts the steps
    meet      joins the level with the tables and shuffles the successors once, by hash; each partition keeps every new
              key once, unless its files have that key already
    look      sorts the new states by their sources, numbers and writes them, and checks the properties

and only counts and missing steps come to the driver. The definition of a level, its end, its statistics and all
properties are those of `fsm.check.search`; a level of few states runs in the driver's process. States have the same
numbers as in the search in memory, so counterexamples are equal.

Complete levels are recorded with the sizes of their files, small ones together; a search that was killed continues from
there. The driver reads the states of a path one by one from these files. `fsm.spark.liveness` checks liveness.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from fsm.check import table_files
from fsm.check.disk import NOTE, WORTH, digest_of, lock_folder, numbers, read_note, take_up
from fsm.check.memo import Ids, Longs
from fsm.check.search import NO_PARENT, Search
from fsm.check.steps import Found, Tally, add_up
from fsm.check.table_files import Memo
from fsm.errors import InputError
from fsm.spark.liveness import SparkLiveness
from fsm.spark.search_files import Files, read, write
from fsm.spark.search_tasks import (
    MET,
    RESULT,
    STEP,
    WAITING,
    Level,
    LevelTask,
    OutgrownError,
    batch_of,
    expand,
    look,
    looker,
    meet,
    named_tables,
    one_text,
    steps_of,
    strip_for_tasks,
    survey,
    waiting,
)  # fmt: skip

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OWN = re.compile(r"met|waiting|liveness|\d+-\d+|[0-9a-f]{32}\.npz")
"""Names of the files of a search."""


@dataclass
class SparkSearch(Search):
    """A search on a session, in a folder that all its workers reach."""

    spark: SparkSession | None = None
    """None if all levels are small."""
    memo: Memo = field(default=Memo(Path(), ""))
    """The folder, and the identity of the model."""
    small: int = 20_000
    """Levels with fewer states run in the driver's process, because a job would take longer."""
    parts: int = 0
    """Number of partitions of the keys; 0 for that of the session."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.folder, self.saved, self.levels = self.memo.folder, "", list[Level]()
        self.files = Files(self.folder, {})
        self.journal: dict[str, Any] = {}
        """The results of the parts of liveness."""
        self.beyond = 0
        """The number of states that were explored for liveness only."""
        self._held: dict[tuple[int, str], int] = {}
        """Columns of single states."""

    def run(self) -> SparkSearch:
        """Runs or continues the search. Raises `InputError` for a folder of another search."""
        if not self.parts and self.spark is not None:
            self.parts = int(str(self.spark.conf.get("spark.sql.shuffle.partitions")))
        self.after_level = self._note
        with self._lock():
            if (self.folder / NOTE).exists():
                self._resume(read_note(self.folder / NOTE))
            self._remove_others()
            self._run()
        return self

    def first_doomed(self) -> int:
        goal = self.model.goal
        with self._lock():
            while goal is not None:
                try:
                    return SparkLiveness(self, goal).first()
                except OutgrownError:
                    self._restart()
                    self._run()
        return -1

    @contextmanager
    def _lock(self) -> Iterator[None]:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with lock_folder(self.folder, OWN):
                yield
        except OSError as problem:
            remedy = "name a folder that can be written to, with its files as they were"
            where = str(problem.filename or self.folder)
            raise InputError(f"cannot be used: {problem.strerror}", where, remedy) from None

    def _run(self) -> None:
        """Explores the states that are left, all of them again with wider keys if a cell outgrows its room."""
        while True:
            try:
                super().run()
                break
            except OutgrownError:
                self._restart()

    # What is known of a state

    @property
    def explored(self) -> int:
        return self.met + self.beyond

    def rows(self, which: slice | Longs | list[int]) -> Ids:
        assert not isinstance(which, slice)  # noqa: S101
        return self.packing.unpack(np.array([[self._read(int(state), "key")] for state in which]).view(np.uint64))

    def parent_of(self, state: int) -> int:
        return self._read(state, "parent")

    def _read(self, state: int, column: str) -> int:
        if (state, column) not in self._held:
            level = next(one for one in reversed(self.levels) if one.files and one.files[0][1] <= state)
            name, first, _ = level.files[bisect_right(level.files, state, key=lambda one: one[1]) - 1]
            self._held[state, column] = int(read(self.files.path(level.name, name), column)[state - first])
        return self._held[state, column]

    # Levels

    def _start(self) -> None:
        start = self.space.start()
        self.fit()
        if not self.exact:
            raise InputError("its states do not fit into 64 bits", self.model.name, "use --engine disk")
        task, keys = self.level_task("0-0", Level("", ())), self.packing.keys(start)
        first = batch_of(self.parts, keys, np.zeros(1), np.full(1, NO_PARENT), np.zeros(1))
        write(self.folder / "met" / "0-0" / f"{first.column('part')[0].as_py()}.parquet", keys)
        self._add("0-0", [look(task, self.steps, 0, [first])])

    def task_options(self, *, saves: bool = False) -> dict[str, Any]:
        """The parameters of all tasks; `saves` the tables first."""
        if saves:
            self._save_tables()
        return {
            "model": strip_for_tasks(self.model), "kinds": self.kinds, "known": tuple(self.known),
            "files": self.files, "tables": self.saved, "bits": tuple(self.packing.bits), "parts": self.parts,
        }  # fmt: skip

    def level_task(self, name: str, before: Level) -> LevelTask:
        """The parameters of the tasks of the level of that name, after another one."""
        runs, paid = tuple(MET + one.name for one in self.levels), self.cost < self.most
        return LevelTask(**self.task_options(), level=before, name=name, runs=runs, paid=paid)

    def _take_level(self) -> None:
        """Finds all states that are one step further."""
        self.level += 1
        at, met = (self.cost, self.level), self.met
        name, waited = f"{at[0]}-{at[1]}", ""
        if self.waiting.pop(at, None) is not None:
            waited = f"{at[0] - 1}-{at[1]}"
        for found in self.waiting_broken.pop(at, ()):
            self._break(found)
        looked = self._meet_here(name, waited) if self._is_small(waited) else self._meet(name, waited)
        self._add(name, looked)
        if self.files.sizes[WAITING + name]:
            self.waiting[at[0] + 1, at[1]] = []
        if self.met > met:
            self.depth = max(self.depth, self.level)
        self.low = met
        self.stopped = self.limit()
        self.progress(self.met, self.transitions, self.level)

    def _is_small(self, waited: str) -> bool:
        """Whether the next level is too small for a job."""
        waits = sum(self.files.sizes[WAITING + waited].values()) if waited else 0
        return sum(count for _, _, count in self.levels[-1].files) + waits // 8 < self.small

    def _meet_here(self, name: str, waited: str) -> list[dict[str, Any]]:
        """Finds a level in this process."""
        task, tallies = self.level_task(name, self.levels[-1]), list[Tally]()
        batches = list(expand(task, self.steps, range(len(task.level.files)), tallies.append))
        if waited:
            batches += waiting(task, waited, range(len(self.files.sizes[WAITING + waited])))
        self.note(add_up(tallies))
        new = list(meet(task, batches))
        order = [("group", "ascending"), ("parent", "ascending"), ("step", "ascending")]
        return [look(task, self.steps, 0, pa.Table.from_batches(new).sort_by(order).to_batches())] if new else []

    def _meet(self, name: str, waited: str) -> list[dict[str, Any]]:
        """Finds a level in the tasks of a job."""
        self._survey(name)
        task = self.level_task(name, self.levels[-1])
        files = len(task.level.files)
        given = self.spread(files, lambda some: expand(task, steps_of(task), some), STEP)
        if waited:
            files = len(self.files.sizes[WAITING + waited])
            given = given.union(self.spread(files, lambda some: waiting(task, waited, some), STEP))
        new = given.repartition(self.parts, "part").mapInArrow(lambda batches: meet(task, batches), STEP).persist()
        try:
            looked = self.collect(new.sort("group", "parent", "step").mapInArrow(looker(task), RESULT))
        finally:
            new.unpersist()
        return sorted(looked, key=lambda one: int(one["file"].split(".")[0]))

    def spread(self, count: int, function: Callable[[list[int]], Iterable[pa.RecordBatch]], schema: str) -> DataFrame:
        """Applies a function to so many files, by their places, some files per task."""
        assert self.spark is not None  # noqa: S101

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from function(batch.column(0).to_pylist())

        return self.spark.range(0, count, 1, max(1, min(count, self.parts))).mapInArrow(run, schema)

    def collect(self, results: DataFrame) -> list[dict[str, Any]]:
        """The results of tasks. Raises `InputError` if a file that they read was lost."""
        from pyspark.errors import PySparkException

        try:
            return [json.loads(row["result"]) for row in results.collect()]
        except PySparkException:
            self.files.check()
            raise

    def _survey(self, name: str) -> None:
        """Fills the tables with all steps of the last level, and counts these steps."""

        def ask() -> DataFrame:
            task = self.level_task(name, self.levels[-1])
            return self.spread(len(task.level.files), lambda files: iter([one_text(survey(task, files))]), RESULT)

        tallies = [Tally(**one["tally"]) for one in self.survey(ask)]
        self.note(add_up(one._replace(broken=tuple(Found(*found) for found in one.broken)) for one in tallies))

    def survey(self, ask: Callable[[], DataFrame]) -> list[dict[str, Any]]:
        """The results of tasks, which are asked again until the tables have all steps that they miss."""
        self._save_tables()
        while True:
            results = self.collect(ask())
            if not any(one["missing"] for one in results):
                return results
            for name, table in named_tables(self.space):
                asked = sorted({tuple(found) for one in results for found in one["missing"].get(name, ())})
                if asked:
                    table.join(*np.array(asked, np.int32).T)
            self._save_tables(force=True)
            if not self.fits():
                raise OutgrownError

    def _add(self, name: str, looked: list[dict[str, Any]]) -> None:
        """Adds a level, and numbers its states file by file."""
        for run in (MET + name, WAITING + name, name):
            self.files.add(run)
        files = []
        for one in looked:
            if one["count"]:
                files.append((one["file"], self.met, one["count"]))
                self.note_states(self.met, one["count"], one["cut"], one["broken"])
        self.levels.append(Level(name, tuple(files)))

    # Files

    def _save_tables(self, *, force: bool = False) -> None:
        """Saves the tables if they have grown; or with `force`, because new steps without a result do not count."""
        known = sum(len(cell.ids) for cell in self.space.cells) + self.space.taken
        if force or known != self._known or not self.saved:
            self._known, self.saved = known, f"{uuid4().hex}.npz"
            self.memo.save(self.space, self.folder / self.saved)

    _known = -1
    """Size of the tables when they were last saved."""
    _noted = 0
    """Number of states when the search was last recorded."""

    def _note(self) -> None:
        """Records the search at the end of a level, if enough is new; after a job it always is."""
        if self.met - self._noted < min(self.small, self.met // WORTH):
            return
        self._noted = self.met
        self.record()

    def record(self) -> None:
        """Records the search and the parts of liveness."""
        self._save_tables()
        note = numbers(self, digest_of(self, self.memo)) | {
            "tables": self.saved, "parts": self.parts, "levels": self.levels, "waiting": list(self.waiting),
            "files": self.files.sizes, "liveness": self.journal,
        }  # fmt: skip
        table_files.write(self.folder / NOTE, json.dumps(note).encode())
        self._remove_tables()

    def _resume(self, note: dict[str, Any]) -> None:
        take_up(self, note, self.memo)
        self.parts, self.saved, self._noted = note["parts"], note["tables"], note["met"]
        self.levels = [Level(name, tuple(tuple(file) for file in files)) for name, files in note["levels"]]
        self.waiting = {(cost, level): [] for cost, level in note["waiting"]}
        self.journal = note["liveness"]
        self.files.sizes.update(note["files"])
        self.files.check()

    def _remove_others(self) -> None:
        """Removes the files that are not recorded."""
        self.files.remove_others()
        self._remove_tables()

    def _remove_tables(self) -> None:
        """Removes all tables but the saved ones."""
        for path in self.folder.glob("*.npz"):
            if path.name != self.saved:
                path.unlink()

    def _restart(self) -> None:
        """Restarts the search with wider keys and the existing tables."""
        before = self.packing
        for room in (4, 2, 1):  # room for further numbers, if keys stay exact
            self.packing = before.grow([room * len(cell.ids) for cell in self.space.cells])
            if self.packing.exact:
                break
        (self.folder / NOTE).unlink(missing_ok=True)
        self.journal, self._held, self.beyond = {}, {}, 0
        self.files.sizes.clear()
        self._remove_others()
        self.levels, self.layers, self.waiting, self.waiting_broken, self.found, self.cut = [], [], {}, {}, {}, {}
        self.cost = self.level = self.low = self.met = self._noted = self.transitions = self.looked_up = self.depth = 0
