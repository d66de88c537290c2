"""The garbage collection of Python during an audit."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_RARE = (100_000, 50, 50)


@contextmanager
def collect_rarely() -> Iterator[None]:
    """Makes garbage collections rare during the block, because millions of records are created and form no cycles."""
    usual = gc.get_threshold()
    gc.set_threshold(*_RARE)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@cache
def freeze_imports() -> None:
    """Excludes imported modules from garbage collection in a Spark worker, which collects after each task."""
    gc.freeze()
