"""Chooses where `fsm check` keeps states: in memory, in files, or on Spark."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fsm.errors import InputError

if TYPE_CHECKING:
    from fsm.check import Memo

ENGINES = ("memory", "disk", "spark")
LOCAL = "local[*]"


class Choice(NamedTuple):
    """The engine of a search."""

    first: str
    then: str = ""
    """The engine to continue with when the memory limit is reached; "" to stop then."""


def choose(engine: str | None, *, has_folder: bool, master: str | None, began_on_spark: bool) -> Choice:
    """The choice of engine for these options.

    Memory is fastest while it suffices, and files of one process are faster than Spark on one machine. So Spark is used
    by default only with `--master`, and with `--dir`, a folder that its workers and this process share.
    `began_on_spark`: the folder already has a search of Spark. Raises `InputError` for contradictory options.
    """
    if engine is not None and has_folder != (engine != "memory"):
        raise InputError("--engine disk or spark and --dir belong together", "--engine", "give --dir DIR, or neither")
    if master is not None and engine in ("memory", "disk"):
        raise InputError("--master is for Spark", f"--engine {engine}", "leave one of them out")
    if master is not None and not has_folder:
        raise InputError(
            "--master and --dir belong together", "--master", "give --dir DIR, a folder that all workers share"
        )
    if engine is not None:
        return Choice(engine)
    if master is not None:
        return Choice("spark") if began_on_spark else Choice("memory", "spark")
    return Choice("memory", "disk" if has_folder else "")


def choice_of(args: argparse.Namespace) -> Choice:
    """The choice of engine for the options of a command."""
    began = args.dir is not None and (args.dir / "met").is_dir()
    return choose(args.engine, has_folder=args.dir is not None, master=args.master, began_on_spark=began)


@contextmanager
def making(engine: str, then: str, memo: Memo | None, master: str | None) -> Iterator[dict[str, Any]]:
    """Keyword arguments of `check` for an engine whose files are in the folder of `memo`."""
    if memo is not None and engine == "spark":
        from fsm.spark.search import SparkSearch
        from fsm.spark.session import convert_errors, session

        with session(master or LOCAL, input_bytes=1 << 30) as spark, convert_errors(lambda: "searching"):
            yield {"engine": partial(SparkSearch, spark=spark, memo=memo)}
    elif memo is not None and "disk" in (engine, then):
        from fsm.check import Disk

        yield {"disk": Disk(memo, at_once=engine == "disk")}
    else:
        yield {}
