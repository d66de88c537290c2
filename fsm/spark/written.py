"""The stages of one audit that are written: Parquet folders by name, read by the stages behind them."""

from __future__ import annotations

import shutil
from collections.abc import Container
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


class Written:
    """What is written below the folder `work`, as frames of one session."""

    def __init__(self, spark: SparkSession, work: Path) -> None:
        self.spark = spark
        self.work = work
        self._frames: dict[str, DataFrame] = {}

    def write(self, frame: DataFrame, name: str) -> DataFrame:
        """Writes a stage; gives it as it was written."""
        folder = str(self._folder(name))
        frame.write.parquet(folder)
        # Without its schema, which is known here, Spark would read it from the files in one more job.
        self._frames[name] = self.spark.read.schema(frame.schema).parquet(folder)
        return self._frames[name]

    def read(self, name: str) -> DataFrame:
        return self._frames[name]

    def has(self, name: str) -> bool:
        """Whether this audit wrote the stage: some are written only where there is something to write."""
        return name in self._frames

    def keep(self, names: Container[str]) -> None:
        for name in sorted(self._frames):
            if name not in names:
                del self._frames[name]
                shutil.rmtree(self._folder(name))

    def _folder(self, name: str) -> Path:
        return self.work / f"{name}.parquet"
