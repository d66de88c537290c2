"""How often Python looks for garbage while an audit runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_SELDOM = (100_000, 50, 50)


@contextmanager
def seldom() -> Iterator[None]:
    """Looks for cycles seldom, until the block ends: records are made by the million, and are part of none."""
    usual = gc.get_threshold()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@cache
def leave_out_imports() -> None:
    """For a worker of Spark, which looks through all it has after each task: what it has imported stays to its end."""
    gc.freeze()
