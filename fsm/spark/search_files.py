"""The files of a search on Spark, and a record of those that are complete.

A run is a folder with one file for each partition that has rows: Parquet, or an array of NumPy where a task needs only
some rows of a file. The sizes of its files are recorded when it is complete. A file that is not as recorded is an
error, so a lost file is never taken for a partition without rows.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fsm.errors import InputError
from fsm.spark.files import replacing


@dataclass(frozen=True)
class Files:
    """The files of complete runs in a folder."""

    folder: Path
    sizes: dict[str, dict[str, int]]
    """The bytes of each file, by run and name."""

    def add(self, run: str) -> None:
        """Records a run that is complete."""
        found = sorted((self.folder / run).glob("[!.]*"))
        self.sizes[run] = {path.name: path.stat().st_size for path in found}

    def path(self, run: str, name: str) -> Path:
        """A file of a run. Raises `InputError` if it is not as recorded."""
        path = self.folder / run / name
        if not path.is_file() or path.stat().st_size != self.sizes[run].get(name):
            raise InputError("is damaged or missing", str(path), "restore it, or empty the folder")
        return path

    def count_rows(self, run: str) -> int:
        return sum(len(np.load(self.path(run, name), "r")) for name in self.sizes[run])

    def check(self) -> None:
        """Raises `InputError` if a file of any run is not as recorded."""
        for run, names in self.sizes.items():
            for name in names:
                self.path(run, name)

    def remove_others(self) -> None:
        """Removes all runs that are not recorded: a killed search left them incomplete, or they are not needed."""
        kept = {self.folder / run for run in self.sizes}
        kept |= {parent for path in kept for parent in path.parents}
        for path in sorted(self.folder.rglob("*")):
            if path not in kept and path.is_dir():
                shutil.rmtree(path)


def read(path: Path, column: str) -> Any:
    with pq.ParquetFile(path) as file:  # `read_table` creates a dataset, which takes longer than the reading
        return file.read([column]).column(column).to_numpy()


def write(path: Path, keys: Any, group: Any = None, parent: Any = None, step: Any = None) -> None:
    """Writes a Parquet file atomically."""
    columns = {"key": keys.view(np.int64), "group": group, "parent": parent, "step": step}
    table = pa.table({name: pa.array(column) for name, column in columns.items() if column is not None})
    with replacing(path) as file:
        pq.write_table(table, file, compression="zstd")
