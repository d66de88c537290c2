"""A followed audit in this process: batches in a loop, with their state in one SQLite file.

A batch first commits its offsets, before anything is read, and at its end the groups' states and the changes, in one
transaction. After that the changes go to the sink, and again after a restart. So an interrupted batch is repeated with
the same offsets, and no batch is applied twice.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Container, Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from fsm.audit.live import blobs
from fsm.audit.live.changes import Change
from fsm.audit.reading.routing import BY_GROUP, Sent, in_order_of
from fsm.spark.live import plan
from fsm.spark.live.judging import Judge
from fsm.spark.live.known_files import Offsets
from fsm.spark.live.reading import Kept, choose, reader_of
from fsm.spark.live.sink import Counts, Sink, in_order
from fsm.spark.options import Followed
from fsm.spark.pipeline import read_names
from fsm.spark.sources import Source


class LocalBatches:
    """Runs one batch after the other."""

    def __init__(self, followed: Followed, sink: Sink, at: Callable[[str], None] = lambda _point: None) -> None:
        self.followed, self.sink = followed, sink
        self.now_ms: Callable[[], int] = lambda: int(1000 * time.time())
        """The clock for the expiry of groups, and the upper limit for timestamps of lines."""
        self.judge = Judge(followed)
        self.kept = Kept(followed.checkpoint)
        self.reader = reader_of(followed.options)
        self.at = at
        """Called with the name of each point of a batch."""
        self.store = sqlite3.connect(followed.checkpoint / "state.db", isolation_level=None)
        self.store.execute("pragma journal_mode = wal")
        self.store.execute("pragma synchronous = full")
        self.store.execute("create table if not exists batch (id integer primary key, offsets text, changes blob)")
        self.store.execute("create table if not exists state (key text primary key, value blob, seen_ms int)")

    def close(self) -> None:
        self.store.close()

    def recover(self, found: Iterable[Source]) -> list[Change]:
        """Completes an interrupted batch, and returns its alarms."""
        alarms = []
        last = self.store.execute("select * from batch order by id desc limit 2").fetchall()
        for id_, offsets, changes in reversed(last):
            if changes is None:
                end = plan.from_json(json.loads(offsets))
                alarms += self._run_batch(id_, self._offsets(id_ - 1), end, _paths(found))
            else:
                recovered: list[Change] = blobs.unpack(changes)
                alarms += self.sink.write(id_, recovered, Counts(0, 0, 0))
        return alarms

    def run(self, found: Iterable[Source]) -> list[Change] | None:
        """Runs a batch, and returns its alarms; None if nothing is new."""
        sources = list(found)
        last = self._last()
        before = self._offsets(last)
        after = plan.advance(before, sources)
        if after == before:
            return None
        number = last + 1
        self.at("planned")
        self.store.execute("insert into batch values (?, ?, null)", (number, json.dumps(plan.to_json(after))))
        self.at("begun")
        return self._run_batch(number, before, after, _paths(sources))

    @property
    def offsets(self) -> Offsets:
        return self._offsets(self._last())

    def _last(self) -> int:
        """The number of the last batch; -1 if there is none."""
        (last,) = self.store.execute("select coalesce(max(id), -1) from batch").fetchone()
        return int(last)

    def _offsets(self, number: int) -> Offsets:
        row = self.store.execute("select offsets from batch where id = ?", (number,)).fetchone()
        return {} if row is None else plan.from_json(json.loads(row[0]))

    def _run_batch(self, number: int, before: Offsets, after: Offsets, paths: Mapping[str, Path]) -> list[Change]:
        parts = plan.parts(before, after, paths)
        rows: list[Sent] = []
        for part in parts:
            rows += choose(self.kept.read(part, self.reader), self.followed.options)
            self.at("read")
        now_ms = self.now_ms()
        states: list[tuple[str, bytes, int]] = []
        changes: list[Change] = []
        names = read_names(self.kept.names)
        for key, own in groupby(in_order_of(rows, BY_GROUP), key=attrgetter("key")):
            found = self.store.execute("select value from state where key = ?", (key,)).fetchone()
            judged = self.judge.take(key, None if found is None else found[0], own, names, now_ms)
            changes += judged.changes
            states.append((key, judged.kept, now_ms))
            self.at("judged")
        expired = self._find_expired(now_ms - self.followed.follow.expire_ms, {key for key, *_ in states})
        changes = in_order([*changes, *(one for value in expired.values() for one in self.judge.end(value))])
        self._finish(number, states, expired, changes)
        self.kept.forget(after)
        counts = Counts(len(after), sum(one.size for one in after.values()), len(states))
        alarms = self.sink.write(number, changes, counts)
        self.at("written")
        return alarms

    def _find_expired(self, before_ms: int, touched: Container[str]) -> dict[str, bytes]:
        """The states of groups and files without lines since a time."""
        found = self.store.execute("select key, value from state where seen_ms < ? order by key", (before_ms,))
        return {key: value for key, value in found if key not in touched}

    def _finish(
        self, number: int, states: Iterable[tuple[str, bytes, int]], expired: Iterable[str], changes: Iterable[Change]
    ) -> None:
        with self.store:
            self.store.execute("begin immediate")
            self.store.executemany("replace into state values (?, ?, ?)", states)
            self.store.executemany("delete from state where key = ?", ((key,) for key in expired))
            self.at("kept")
            self.store.execute("update batch set changes = ? where id = ?", (blobs.pack(changes), number))
            self.store.execute("delete from batch where id < ?", (number - 1,))
        self.at("finished")


def _paths(found: Iterable[Source]) -> dict[str, Path]:
    return {source.name: source.path for source in found}
