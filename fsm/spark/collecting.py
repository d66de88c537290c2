"""The garbage collection of Python during an audit."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

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


def freeze() -> None:
    """Collects what a task in a Spark worker leaves, and excludes what is kept from later collections: modules, and the
    caches that grow. Spark collects after each task, and would walk over all of that."""
    gc.collect()
    gc.freeze()
