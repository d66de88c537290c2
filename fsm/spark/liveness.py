"""Liveness on Spark: the question of `fsm.check.liveness` about the states of `fsm.spark.search`, in its partitions.

States are settled by

    leave       writes the states in which the goal does not hold, some levels at a time, and the steps from them, which
                a shuffle brings to the partition of the state after the step
    lead back   finds the states one step before those of the last round and shuffles them to their own partitions,
                which keep the new ones; the first round begins at states that are not left, the last one finds none.
                Steps are looked up by what they lead to, so a round reads the steps to those states, not all

and a level of states beyond those of the search is found like a level of the search, without properties. Only counts
and missing steps come to the driver; where there are few states, it does the same in its own process.

The result of each part is recorded. After a kill the question is asked again, and parts with a result are not repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa

from fsm.check.liveness import Left, Liveness
from fsm.check.model import Goal
from fsm.check.steps import Steps
from fsm.spark import liveness_tasks as tasks
from fsm.spark.liveness_tasks import (
    BEYOND,
    GOOD,
    HIDDEN,
    KEYS,
    LEFT,
    OF_RUNS,
    PAIRS,
    STEPS,
    LivenessTask,
    Round,
    States,
)  # fmt: skip
from fsm.spark.search_tasks import MET, RESULT, Task, list_missing, one_text, steps_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from fsm.spark.search import SparkSearch


T = TypeVar("T")
BATCH = 250_000
"""The number of states of each partition whose steps are found at once."""


class Run(NamedTuple):
    """Some states that are left."""

    name: str
    origin: int
    """The operation that found them; 0 for the states of the search."""
    size: int


class SparkLiveness(Liveness):
    """The question about one search."""

    search: SparkSearch

    def __init__(self, search: SparkSearch, goal: Goal) -> None:
        super().__init__(search, goal)
        search.beyond = 0
        self.operation = 0
        """The number of the next operation: to settle states, or to explore further ones."""
        self.left: list[Run] = []
        """The states that were settled last, without those from which the goal can be reached."""
        self.good: list[str] = []
        """The rounds that found those."""
        self.edge = 0
        """The operation that explored states last."""
        self.fresh: list[Run] = []
        """These states, level by level, unless they have been settled."""
        self.beyond: list[str] = []
        """All levels of states that were explored for liveness only."""

    def first(self) -> int:
        """The first doomed state; -1 if there is none."""
        if not self.ask():
            return -1
        search = self.search
        runs = [run for run in self.left if run.origin == 0]
        count = sum(run.size for run in runs)
        lost = self._task(count, self._without_good(runs))
        names = [level.name for level in search.levels]
        found = self._collect(count, range(search.parts), lambda parts: tasks.find_level(lost, names, parts))
        level = search.levels[min(one["first"] for one in found)]
        here = search.level_task("", level)
        found = self._shuffle(
            sum(size for *_, size in level.files),
            range(len(level.files)),
            lambda _, files: tasks.number_states(here, files),
            PAIRS,
            partial(tasks.find_number, lost),
        )
        return min(int(one["first"]) for one in found if one["first"] >= 0)

    # Operations

    def settle(self, by: Collection[str], *, trusts: bool = False) -> Left:
        operation, search, left, good = self._next(), self.search, list[Run](), list[str]()
        search.stopped = search.limit()
        if search.stopped:
            return Left(0, 0)
        for origin, states, count in self._list_states(trusts=trusts):
            name = f"{operation}-{len(left)}"
            stays = self._once(LEFT + name, partial(self._leave, name, states, count, tuple(by), trusts=trusts))
            left.append(Run(name, origin, stays["left"]))
            self.is_hidden |= stays["hidden"] > 0
        count = sum(run.size for run in left)
        while True:
            name = f"{GOOD}{operation}-{len(good)}"
            counts = self._once(name, partial(self._lead_back, name, left, good, count))
            left = [run._replace(size=run.size - found) for run, found in zip(left, counts, strict=True)]
            count = sum(counts)
            if not count:
                break
            good.append(name)
        self.left, self.good, self.fresh = left, good, []
        self._remove_older(operation)
        edge = sum(run.size for run in left if run.origin == self.edge) if self.goal.by else 0
        return Left(sum(run.size for run in left if run.origin == 0), edge)

    def go_on(self, by: Collection[str]) -> None:
        operation, search, asked = self._next(), self.search, tuple(by)
        runs = [run for run in self.left if run.origin == self.edge]
        states, count = self._without_good(runs), sum(one.size for one in runs)
        self.edge = operation
        while count:
            search.stopped = search.limit()
            if search.stopped:
                return
            name = f"{BEYOND}{operation}-{len(self.fresh)}"
            count = self._once(name, partial(self._go_beyond, name, states, count, asked))
            self.fresh.append(Run(name, operation, count))
            self.beyond.append(name)
            search.beyond += count
            states, asked = States((name,)), ()

    def _next(self) -> int:
        self.operation += 1
        return self.operation - 1

    def _list_states(self, *, trusts: bool) -> Iterator[tuple[int, States, int]]:
        """The states that are not settled, some at a time, with their origin and number."""
        if not self.operation - 1:
            levels = self.search.levels
            yield from self._group([Run(MET + one.name, 0, sum(size for *_, size in one.files)) for one in levels])
        for run in self.left:
            if run.size and not (trusts and self.goal.by and run.origin == self.edge):
                yield run.origin, self._without_good([run]), run.size
        yield from self._group(self.fresh)

    def _without_good(self, runs: Sequence[Run]) -> States:
        """What is left of these runs."""
        return States(left=tuple(run.name for run in runs), good=tuple(self.good))

    def _group(self, runs: Sequence[Run]) -> Iterator[tuple[int, States, int]]:
        """Runs of one origin, as many at a time as a task holds."""
        names, count = list[str](), 0
        for at, run in enumerate(runs):
            names.append(run.name)
            count += run.size
            if at + 1 == len(runs) or count + runs[at + 1].size > BATCH * self.search.parts:
                yield run.origin, States(tuple(names)), count
                names, count = [], 0

    # Their parts

    def _once(self, name: str, do: Callable[[], T]) -> T:
        """The recorded result of a part; or that of doing it, which is recorded."""
        journal = self.search.journal
        if name not in journal:
            journal[name] = do()
            self.search.record()
        found: T = journal[name]
        return found

    def _leave(self, name: str, states: States, count: int, by: tuple[str, ...], *, trusts: bool) -> dict[str, int]:
        make = partial(self._task, count, states, name, by, trusts=trusts)
        if by:
            self._survey(count, make, settled=False)
        task, files = make(), self.search.files
        spread = partial(tasks.leave, task)
        self._shuffle(count, range(task.parts), spread, PAIRS, partial(tasks.sort_steps, task))
        for folder in (LEFT, STEPS, HIDDEN):
            files.add(folder + name)
        return {"left": files.count_rows(LEFT + name), "hidden": files.count_rows(HIDDEN + name)}

    def _lead_back(self, name: str, left: Sequence[Run], good: Sequence[str], count: int) -> list[int]:
        search = self.search
        explored = (*(MET + one.name for one in search.levels), *self.beyond) if self.beyond else ()
        options = search.task_options(saves=self._is_large(count))
        task = Round(**options, name=name, left=tuple(run.name for run in left), good=tuple(good), explored=explored)
        gather = partial(tasks.find_good, task)
        found = self._shuffle(count, range(task.parts), lambda _, parts: tasks.lead_back(task, parts), OF_RUNS, gather)
        search.files.add(name)
        return [sum(each) for each in zip([0] * len(left), *(one["counts"] for one in found), strict=True)]

    def _go_beyond(self, name: str, states: States, count: int, by: tuple[str, ...]) -> int:
        make = partial(self._task, count, states, name, by)
        self._survey(count, make, settled=True)
        task = make()
        spread = partial(tasks.go_beyond, task)
        found = self._shuffle(count, range(task.parts), spread, KEYS, partial(tasks.add_beyond, task))
        self.search.files.add(name)
        return sum(one["count"] for one in found)

    def _task(
        self, count: int, states: States, name: str = "", by: tuple[str, ...] = (), *, trusts: bool = False
    ) -> LivenessTask:
        explored = (*(MET + one.name for one in self.search.levels), *self.beyond)
        options = self.search.task_options(saves=self._is_large(count))
        return LivenessTask(**options, states=states, name=name, by=by, trusts=trusts, explored=explored)

    # Jobs

    def _is_large(self, count: int) -> bool:
        """Whether so many states are worth a job."""
        return self.search.spark is not None and count >= self.search.small

    def _survey(self, count: int, make: Callable[[], LivenessTask], *, settled: bool) -> None:
        """Fills the tables with the steps from some states, for a job; in this process steps are taken as needed."""

        def ask() -> DataFrame:
            task = make()

            def missing(parts: list[int]) -> Iterator[pa.RecordBatch]:
                found = list_missing(task, lambda steps: tasks.take_steps(task, steps, parts, settled=settled))
                yield one_text({"missing": found})

            return self.search.spread(task.parts, missing, RESULT)

        if self._is_large(count):
            self.search.survey(ask)

    def _collect(
        self, count: int, places: range, ask: Callable[[Sequence[int]], dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """The results for some partitions each."""
        if not self._is_large(count):
            return [ask(places)]
        return self.search.collect(self.search.spread(len(places), lambda some: iter([one_text(ask(some))]), RESULT))

    def _shuffle(
        self,
        count: int,
        places: range,
        spread: Callable[[Steps, Sequence[int]], Iterable[pa.RecordBatch]],
        schema: str,
        gather: Callable[[Iterable[pa.RecordBatch]], dict[str, Any]],
    ) -> list[dict[str, Any]]:
        """The results of `gather`, for some partitions each, of the rows of `spread`, for some files each."""
        if not self._is_large(count):
            return [gather(list(spread(self.search.steps, places)))]
        task = Task(**self.search.task_options())
        rows = self.search.spread(len(places), lambda some: spread(steps_of(task), some), schema)
        parts = rows.repartition(self.search.parts, "part")
        return self.search.collect(parts.mapInArrow(lambda batches: iter([one_text(gather(batches))]), RESULT))

    def _remove_older(self, operation: int) -> None:
        """Removes the files that no later operation needs, from the record first."""
        search, sizes = self.search, self.search.files.sizes
        last = {LEFT: operation - 1, GOOD: operation - 1, STEPS: operation, HIDDEN: operation}
        for run in list(sizes):
            folder, slash, name = run.rpartition("/")
            if int(name.partition("-")[0]) <= last.get(folder + slash, -1):
                del sizes[run]
        search.record()
        search.files.remove_others()
