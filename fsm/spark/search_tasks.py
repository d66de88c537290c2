"""The tasks of a search on Spark: each function works on some files of a level, or on some partitions of the keys.

All are pure except for the files they write, which are written atomically: a repeated task writes them again.
`fsm.spark.search` describes a level.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from fsm.check import table_files
from fsm.check.memo import Ids, Longs, Pairs, Rows
from fsm.check.model import Component, Model, PairProperty
from fsm.check.search import CHUNK
from fsm.check.space import FREE, PAID, Space
from fsm.check.steps import Steps, Successors, Tally, add_up
from fsm.check.store import Keys, Packing
from fsm.spark.search_files import Files, read, write

if TYPE_CHECKING:
    from fsm.check.model import Mask

WAITED, NOW, LATER = range(3)
"""Groups of found states: waited for this level; by a step of this level; by a step with cost, for the next cost."""
STEP = "part int, key long, group int, parent long, step int"
RESULT = "result string"
"""Schemas of the rows of tasks: found states, and JSON."""
MET, WAITING = "met/", "waiting/"
"""Folders of runs of keys: of each level, and of states that wait for the next cost."""
NO_KEYS: Keys = np.zeros(0, np.uint64)


class Level(NamedTuple):
    """The states of one level: files as (name, first number, count)."""

    name: str
    files: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, eq=False)
class Task:
    """The parameters of all tasks of a search."""

    model: Model
    kinds: frozenset[str]
    known: tuple[str, ...]
    files: Files
    tables: str
    bits: tuple[int, ...]
    parts: int

    def steps(self) -> Steps:
        """The tables of the driver."""
        space = Space(self.model, self.kinds)
        table_files.restore(space, *table_files.read(self.files.folder / self.tables))
        return Steps(self.model, space)

    def path(self, run: str, part: int) -> Path:
        """The file of a partition in a run that is not complete yet."""
        return self.files.folder / run / f"{part}.parquet"

    def read(self, run: str, part: int, column: str = "key") -> Keys:
        """The keys of a partition in a complete run; none if the run has no file for it."""
        name = f"{part}.parquet"
        is_there = name in self.files.sizes[run]
        return read(self.files.path(run, name), column).view(np.uint64) if is_there else NO_KEYS

    def among(self, runs: Iterable[str], part: int, keys: Keys) -> Mask:
        """Which of the keys of a partition are in one of these runs."""
        found: Mask = np.zeros(len(keys), np.bool_)
        for run in runs if len(keys) else ():
            found |= is_among(self.read(run, part), keys)
        return found


@dataclass(frozen=True, eq=False)
class LevelTask(Task):
    """The parameters of the tasks of a level."""

    level: Level
    name: str
    """Of the level that is searched."""
    runs: tuple[str, ...]
    """The keys of known levels."""
    paid: bool
    """Whether steps with cost are taken."""

    def keys(self, name: str) -> Keys:
        """The states in a file of the level, in their order."""
        found: Keys = read(self.files.path(self.level.name, name), "key").view(np.uint64)
        return found

    def chunks(self, steps: Steps, files: Iterable[int]) -> Iterator[tuple[Longs, Ids]]:
        """(numbers, rows) of the states of some files, in chunks, without states with a known hazard."""
        for number in files:
            name, first, _ = self.level.files[number]
            keys = self.keys(name)
            for low in range(0, len(keys), CHUNK):
                rows = Packing(self.bits).unpack(keys[low : low + CHUNK, None])
                yield steps.not_cut(self.known, first + low + np.arange(len(rows)), rows)


_HELD: dict[str, Steps] = {}


def steps_of(task: Task) -> Steps:
    """The steps of a task, cached for further tasks of the process."""
    if task.tables not in _HELD:
        _HELD.clear()
        _HELD[task.tables] = task.steps()
    return _HELD[task.tables]


# -- survey -------------------------------------------------------------------------------------------------


def survey(task: LevelTask, files: Iterable[int]) -> dict[str, Any]:
    """The steps that the tables do not have; or, if there is none, the tally of the steps of these files."""
    tallies: list[Tally] = []

    def take(steps: Steps) -> None:
        for here, rows in task.chunks(steps, files):
            found = list(steps.successors(rows, paid=task.paid))
            tallies.append(steps.tally(found, here, rows, paid=task.paid))

    missing = list_missing(task, take)
    return {"missing": missing, "tally": (Tally() if missing else add_up(tallies))._asdict()}


def list_missing(task: Task, take: Callable[[Steps], None]) -> dict[str, list[tuple[int, ...]]]:
    """The steps that the tables do not have among those that a function takes."""
    steps = task.steps()
    steps.space.jobs = 0
    missing: dict[str, set[tuple[int, ...]]] = {}
    for name, table in named_tables(steps.space):
        table.make = _recorder(missing.setdefault(name, set()), table)
    take(steps)
    return {name: sorted(found) for name, found in missing.items() if found}


def named_tables(space: Space) -> Iterator[tuple[str, Any]]:
    """The tables of all cells by name, in the order of their dependencies."""
    for kind in ("local", "outgoing", "receive", "notified"):
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
        return (-1, *(0 for _ in range(table.width - 1)))  # as for a full wire: no effect

    return record_one if isinstance(table, Rows) else record_pair


# -- meet ---------------------------------------------------------------------------------------------------


def find_successors(
    steps: Steps, packing: Packing, rows: Ids, *, paid: bool = False, by: Collection[str] = ()
) -> tuple[list[Successors], Keys]:
    """(the successors of some states, the keys of these states). Raises `OutgrownError` if a key overflows."""
    found = list(steps.successors(rows, paid=paid, by=by))
    if not packing.fits([len(cell.ids) for cell in steps.space.cells]):
        raise OutgrownError
    return found, packing.keys(rows)


def expand(
    task: LevelTask, steps: Steps, files: Iterable[int], on_tally: Callable[[Tally], None] = lambda _: None
) -> Iterator[pa.RecordBatch]:
    """The successors of the states of some files, each key of a chunk once. Raises `OutgrownError` if keys overflow."""
    packing = Packing(task.bits)
    for here, rows in task.chunks(steps, files):
        found, base = find_successors(steps, packing, rows, paid=task.paid)
        on_tally(steps.tally(found, here, rows, paid=task.paid))
        number, columns = 0, []
        for one in found:
            keys = one.keys(packing, base, rows)
            for group, cost in ((NOW, FREE), (LATER, PAID)):
                step = np.flatnonzero((one.cost == cost) & ~one.full)
                columns.append((keys[step], np.full(len(step), group), here[one.source[step]], number + step))
            number += len(one.source)
        if columns:
            yield batch_of(task.parts, *_once(*(np.concatenate(column) for column in zip(*columns, strict=True))))


def waiting(task: LevelTask, name: str, places: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """The states that waited since the level of that name, in some of its files."""
    run = WAITING + name
    names = list(task.files.sizes[run])
    for at in places:
        path = task.files.path(run, names[at])
        keys, parent, step = (read(path, column) for column in ("key", "parent", "step"))
        yield batch_of(task.parts, keys.view(np.uint64), np.full(len(keys), WAITED), parent, step)


def _once(keys: Any, group: Any, parent: Any, step: Any) -> tuple[Any, Any, Any, Any]:
    """Each key once, with its first group, source and step; sorted by key."""
    order = np.lexsort((step, parent, group, keys))
    ordered = keys[order]
    first = order[np.concatenate([ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1]])]
    return keys[first], group[first], parent[first], step[first]


def batch_of(parts: int, keys: Any, group: Any, parent: Any, step: Any) -> pa.RecordBatch:
    """Found states, each with its partition."""
    numbers = {"group": group.astype(np.int32), "parent": parent.astype(np.int64), "step": step.astype(np.int32)}
    return with_parts(parts, keys, **numbers)


def with_parts(parts: int, keys: Keys, **columns: Any) -> pa.RecordBatch:
    """Rows by the partitions of their keys."""
    part = ((keys * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)) % np.uint64(parts)
    all_columns = {"part": part.astype(np.int32), "key": keys.view(np.int64), **columns}
    return pa.RecordBatch.from_arrays([pa.array(column) for column in all_columns.values()], names=list(all_columns))


def by_part(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The columns of the rows of each partition."""
    held = list(batches)
    if not held:
        return
    given = pa.Table.from_batches(held)
    columns = {name: given.column(name).to_numpy() for name in given.column_names}
    parts = columns.pop("part")
    columns["key"] = columns["key"].view(np.uint64)
    for part in np.unique(parts).tolist():
        mine = parts == part
        yield part, {name: column[mine] for name, column in columns.items()}


def meet(task: LevelTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The new keys of some partitions; those by a step with cost are written to wait for the next cost."""
    for part, columns in by_part(batches):
        keys, group, parent, step = columns.values()
        fresh = ~task.among(task.runs, part, keys)
        later = fresh & (group == LATER)
        now = fresh & (group != LATER)
        if later.any():
            found = _once(keys[later], group[later], parent[later], step[later])
            write(task.path(WAITING + task.name, part), *found)
        if now.any():
            found = _once(keys[now], group[now], parent[now], step[now])
            write(task.path(MET + task.name, part), found[0])
            yield batch_of(task.parts, *found)


def is_among(run: Keys, keys: Keys) -> Mask:
    """A mask of the keys that are in a sorted run."""
    at = np.searchsorted(run, keys)
    found: Mask = at < len(run)
    found[found] = run[at[found]] == keys[found]
    return found


def look(task: LevelTask, steps: Steps, part: int, batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
    """Writes the new states in order; returns their count, violations (with the first position) and known hazards."""
    packing = Packing(task.bits)
    result: dict[str, Any] = {"file": f"{part}.parquet", "count": 0, "broken": {}, "cut": {}}
    keys, parents = [], []
    for batch in batches:
        keys.append(batch.column("key").to_numpy().view(np.uint64))
        parents.append(batch.column("parent").to_numpy())
        rows = packing.unpack(keys[-1][:, None])
        cut, broken = steps.look(task.known, rows, result["broken"])
        result["cut"] = {name: result["cut"].get(name, 0) + shows for name, shows in cut.items()}
        result["broken"] |= {name: result["count"] + at for name, at in broken.items()}
        result["count"] += len(rows)
    if result["count"]:
        path = task.files.folder / task.name / result["file"]
        write(path, np.concatenate(keys), parent=np.concatenate(parents))
    return result


# -- the driver ---------------------------------------------------------------------------------------------


def strip_for_tasks(model: Model) -> Model:
    """The model without functions that compute steps and features, for which tasks have tables, unless it has a
    `PairProperty`."""
    if any(isinstance(one, PairProperty) for one in model.properties):
        return replace(model, replay=None)
    components = [
        Component(one.name, None, _never, _never, dict.fromkeys(one.features, _never)) for one in model.components
    ]
    wires = [replace(one, features=dict.fromkeys(one.features, _never), describe=str) for one in model.wires]
    return replace(model, components=components, wires=wires, replay=None)


def _never(*_given: Any) -> Any:
    raise AssertionError("a table has it")


def looker(task: LevelTask) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        yield one_text(look(task, steps_of(task), context.partitionId() if context else 0, batches))

    return run


def one_text(result: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"result": [json.dumps(result)]})


class OutgrownError(Exception):
    """The number of a cell does not fit into a key."""
