"""The tasks of liveness on Spark: each function works on some partitions of the keys of `fsm.spark.search`.

All are pure except for the files they write, which are written atomically: a repeated task writes them again.
`fsm.spark.liveness` describes their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from fsm.check.liveness import is_settled, list_ranges
from fsm.check.memo import Ids
from fsm.check.search import CHUNK
from fsm.check.steps import Steps
from fsm.check.store import Keys, Packing
from fsm.spark.files import replacing
from fsm.spark.search_files import write
from fsm.spark.search_tasks import (
    MET,
    NO_KEYS,
    LevelTask,
    Task,
    by_part,
    find_successors,
    is_among,
    with_parts,
)  # fmt: skip

if TYPE_CHECKING:
    from fsm.check.model import Mask

LEFT, STEPS, HIDDEN, GOOD, BEYOND = (f"liveness/{name}/" for name in ("left", "steps", "hidden", "good", "beyond"))
"""Folders of runs: states that are left, the steps from them by what they lead to, those of them with a hidden step,
states from which the goal can be reached, and states explored for liveness only."""
KEYS, PAIRS, OF_RUNS = "part int, key long", "part int, key long, other long", "part int, key long, run int"
"""Schemas of the rows of tasks."""
NEW = "new"
"""The name of the states that a round found, beside the bits of all that are good, by run."""


class States(NamedTuple):
    levels: tuple[str, ...] = ()
    """All of these runs."""
    left: tuple[str, ...] = ()
    """Those of these runs that were left,"""
    good: tuple[str, ...] = ()
    """and that these rounds have not found."""


@dataclass(frozen=True, eq=False)
class LeftTask(Task):
    """The parameters of tasks that read what is left."""

    def array(self, run: str, part: int) -> Any:
        """The array of a partition of a run, which is read where it is looked at; an empty one if there is none."""
        name = f"{part}.npy"
        return np.asarray(np.load(self.files.path(run, name), "r")) if name in self.files.sizes[run] else NO_KEYS

    def last_good(self, rounds: Sequence[str], part: int, name: str) -> Any:
        """What the last of these rounds that found states of a partition has of that name; None if there is none."""
        file = f"{part}.npz"
        last = next((one for one in reversed(rounds) if file in self.files.sizes[one]), None)
        if last is None:
            return None
        with np.load(self.files.path(last, file)) as arrays:
            return arrays[name]

    def are_good(self, rounds: Sequence[str], part: int, run: str) -> Mask:
        """Which states of a partition of a run these rounds have found, by their places."""
        count = len(self.array(LEFT + run, part))
        bits = self.last_good(rounds, part, run)
        return np.zeros(count, np.bool_) if bits is None else np.unpackbits(bits, count=count).view(np.bool_)


@dataclass(frozen=True, eq=False)
class LivenessTask(LeftTask):
    """The parameters of tasks that take steps from some states."""

    states: States
    name: str
    """Of the run that is written."""
    by: tuple[str, ...]
    """Events that count besides free steps."""
    trusts: bool = False
    """Whether a step that a full wire hides counts as the goal."""
    explored: tuple[str, ...] = ()
    """The keys of all explored states."""

    def keys(self, part: int) -> Keys:
        """The keys of the states in a partition, sorted."""
        levels, runs, good = self.states
        left = [self.array(LEFT + run, part)[~self.are_good(good, part, run)] for run in runs]
        return np.sort(np.concatenate([NO_KEYS, *(self.read(run, part) for run in levels), *left]))

    def chunks(self, steps: Steps, part: int, *, settled: bool = False) -> Iterator[tuple[Keys, Ids]]:
        """(keys, rows) of the states in a partition, in chunks; those that are settled only if asked for."""
        keys, goal = self.keys(part), self.model.goal
        for low in range(0, len(keys), CHUNK):
            here = keys[low : low + CHUNK]
            rows = Packing(self.bits).unpack(here[:, None])
            if not settled and goal is not None:
                left = ~is_settled(steps, goal, self.known, rows)
                here, rows = here[left], np.asfortranarray(rows[left])
            yield here, rows


def take_steps(task: LivenessTask, steps: Steps, parts: Iterable[int], *, settled: bool = False) -> None:
    """Looks up all steps from the states of some partitions."""
    for part in parts:
        for _, rows in task.chunks(steps, part, settled=settled):
            for _ in steps.successors(rows, paid=False, by=task.by):
                pass


# -- a run of states that are left ----------------------------------------------------------------------------


def leave(task: LivenessTask, steps: Steps, parts: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """Writes the states of some partitions in which the goal does not hold; their steps, each as (after, before)."""
    packing = Packing(task.bits)
    for part in parts:
        left, hidden = [NO_KEYS], [NO_KEYS]
        for here, rows in task.chunks(steps, part):
            found, base = find_successors(steps, packing, rows, by=task.by)
            full = np.zeros(len(rows), np.bool_)
            for one in found:
                full[one.source[one.full]] = True
            stays = ~full if task.trusts else np.ones(len(rows), np.bool_)
            for one in found:
                possible = one.those(~one.full & stays.take(one.source))
                after, before = possible.keys(packing, base, rows), here[possible.source]
                moves = after != before
                yield with_parts(task.parts, after[moves], other=before[moves].view(np.int64))
            left.append(here[stays])
            hidden.append(here[full & stays])
        for folder, keys in ((LEFT, np.concatenate(left)), (HIDDEN, np.concatenate(hidden))):
            if len(keys):
                save(task, folder + task.name, part, keys)


def save(task: Task, run: str, part: int, rows: Any) -> None:
    """Writes the array of a partition."""
    with replacing(task.files.folder / run / f"{part}.npy") as file:
        np.save(file, rows)


def sort_steps(task: LivenessTask, batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
    """Writes steps by what they lead to; returns their number."""
    count = 0
    for part, columns in by_part(batches):
        after, before = columns["key"], columns["other"].view(np.uint64)
        order = np.lexsort((before, after))
        after, before = after[order], before[order]
        differs = np.ones(len(after), np.bool_)
        differs[1:] = (after[1:] != after[:-1]) | (before[1:] != before[:-1])
        save(task, STEPS + task.name, part, np.stack([after[differs], before[differs]]))
        count += int(np.count_nonzero(differs))
    return {"count": count}


# -- a round --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Round(LeftTask):
    """The parameters of the tasks of one step backwards from the states that reach the goal."""

    left: tuple[str, ...]
    """The runs of states that were left at the beginning."""
    good: tuple[str, ...]
    """The rounds before this one."""
    name: str
    explored: tuple[str, ...]
    """The keys of all explored states, if steps may lead to others."""

    def leads_to_goal(self, part: int, after: Keys) -> Mask:
        """Which steps lead to explored states that are not left."""
        found = np.ones(len(after), np.bool_)
        for run in self.left:
            found &= ~is_among(self.array(LEFT + run, part), after)
        if self.explored:
            found[found] = self.among(self.explored, part, after[found])
        return found


def lead_back(task: Round, parts: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """The states before those of the last round, each with its run."""
    for part in parts:
        last = task.last_good(task.good[-1:], part, NEW)
        if task.good and last is None:
            continue
        for number, run in enumerate(task.left):
            after, before = task.array(STEPS + run, part).reshape(2, -1)
            if last is None:
                found = before[task.leads_to_goal(part, after)]
            else:
                begin = np.searchsorted(after, last)
                found = before[list_ranges(begin, np.searchsorted(after, last, "right") - begin)]
            if len(found):
                found = np.unique(found)
                yield with_parts(task.parts, found, run=np.full(len(found), number, np.int32))


def find_good(task: Round, batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
    """Writes those of these states that are new; returns their number for each run.

    With the new states, it writes one bit for each state of the partition that was left: whether it has been found.
    """
    counts = [0] * len(task.left)
    for part, columns in by_part(batches):
        found, arrays = [NO_KEYS], dict[str, Any]()
        for number, run in enumerate(task.left):
            keys = np.unique(columns["key"][columns["run"] == number])
            places = np.searchsorted(task.array(LEFT + run, part), keys)
            is_good = task.are_good(task.good, part, run)
            found.append(keys[~is_good[places]])
            counts[number] += len(found[-1])
            is_good[places] = True
            arrays[run] = np.packbits(is_good)
        arrays[NEW] = np.sort(np.concatenate(found))
        if len(arrays[NEW]):
            with replacing(task.files.folder / task.name / f"{part}.npz") as file:
                np.savez(file, **arrays)
    return {"counts": counts}


# -- states beyond those of the search ------------------------------------------------------------------------


def go_beyond(task: LivenessTask, steps: Steps, parts: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """The successors of the states of some partitions."""
    packing = Packing(task.bits)
    for part in parts:
        for _, rows in task.chunks(steps, part, settled=True):
            found, base = find_successors(steps, packing, rows, by=task.by)
            keys = [NO_KEYS, *(one.those(~one.full).keys(packing, base, rows) for one in found)]
            yield with_parts(task.parts, np.unique(np.concatenate(keys)))


def add_beyond(task: LivenessTask, batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
    """Writes those of these states that were not explored before; returns their number."""
    count = 0
    for part, columns in by_part(batches):
        keys = np.unique(columns["key"])
        keys = keys[~task.among(task.explored, part, keys)]
        if len(keys):
            write(task.path(task.name, part), keys)
            count += len(keys)
    return {"count": count}


# -- the first doomed state -----------------------------------------------------------------------------------


def find_level(task: LivenessTask, levels: Sequence[str], parts: Iterable[int]) -> dict[str, Any]:
    """The place of the first of these levels with a state of some partitions; their number if there is none."""
    first = len(levels)
    for part in parts:
        keys = task.keys(part)
        first = next((at for at in range(first) if is_among(keys, task.read(MET + levels[at], part)).any()), first)
    return {"first": first}


def number_states(task: LevelTask, files: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """The states of some files of a level with their numbers."""
    for at in files:
        name, first, _ = task.level.files[at]
        keys = task.keys(name)
        yield with_parts(task.parts, keys, other=np.arange(first, first + len(keys)))


def find_number(task: LivenessTask, batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
    """The least number of these states that is one of the task's; -1 if there is none."""
    found = [
        int(columns["other"][doomed].min())
        for part, columns in by_part(batches)
        if (doomed := is_among(task.keys(part), columns["key"])).any()
    ]
    return {"first": min(found, default=-1)}
