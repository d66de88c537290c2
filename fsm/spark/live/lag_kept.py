"""The lag of groups during a followed audit: from a growing file, or from a broker.

A broker's answers are kept in one SQLite file, from which a group's lag is read when the group is judged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from fsm.audit.lag import NEAR_MS, Lag, Measured, read_lag
from fsm.errors import InputError
from fsm.trace import Partition

TABLE = "lag.db"
"""Name of the SQLite file."""
ROWS = 1_000_000
"""Number of the newest rows that are kept."""
_BUSY_S = 10.0


class KeptLag(Mapping[str, Mapping[Partition, Sequence[Measured]]]):
    """Lag by group, in a file that one process writes and others read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, lag: Lag) -> None:
        """Adds measured lag, without repeated values. Raises `sqlite3.Error` if it cannot be written."""
        with closing(sqlite3.connect(self.path, timeout=_BUSY_S)) as store, store:
            store.execute("create table if not exists lag (number integer primary key, ts_ms, lag, who, topic, part)")
            store.execute("create index if not exists of_group on lag (who, topic, part, ts_ms)")
            for group, partitions in sorted(lag.items()):
                for (topic, part), measured in sorted(partitions.items()):
                    self._add(store, (group, topic, part), measured)
            store.execute("delete from lag where number <= (select max(number) from lag) - ?", (ROWS,))

    @staticmethod
    def _add(store: sqlite3.Connection, key: tuple[str, str, int], measured: Sequence[Measured]) -> None:
        newest = "select ts_ms, lag from lag where who = ? and topic = ? and part = ? order by ts_ms desc limit 1"
        last = store.execute(newest, key).fetchone()
        for one in measured:
            if last is None or one.lag != last[1] or one.ts_ms - last[0] >= NEAR_MS // 4:
                store.execute("insert into lag values (null, ?, ?, ?, ?, ?)", (*one, *key))
                last = one

    def __getitem__(self, group: str) -> Mapping[Partition, Sequence[Measured]]:
        asked = "select topic, part, ts_ms, lag from lag where who = ? order by ts_ms, number"
        found: dict[Partition, list[Measured]] = {}
        for topic, part, ts_ms, lag in self._rows(asked, group):
            found.setdefault((topic, part), []).append(Measured(ts_ms, lag))
        if not found:
            raise KeyError(group)
        return found

    def __iter__(self) -> Iterator[str]:
        return (group for (group,) in self._rows("select distinct who from lag order by who"))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _rows(self, asked: str, *values: str) -> list[tuple[Any, ...]]:
        if not self.path.exists():
            return []
        with closing(sqlite3.connect(self.path, timeout=_BUSY_S)) as store:
            return store.execute(asked, values).fetchall()


def read_kept_lag(path: str, timezone: str) -> Lag:
    """The current lag in a file; empty if there is no file, or it cannot be read now."""
    if not path:
        return {}
    file = Path(path)
    if file.name == TABLE:
        return KeptLag(file)
    try:
        status = file.stat()
        return _read(file, timezone, status.st_mtime_ns, status.st_size)
    except (OSError, InputError):  # it was readable at the start of the audit, and is being written
        return {}


@lru_cache(maxsize=2)
def _read(file: Path, timezone: str, _changed_ns: int, _size: int) -> Lag:
    return read_lag(file, ZoneInfo(timezone))
