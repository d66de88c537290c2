"""`fsm.spark.collecting`: what a worker does between two tasks."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from weakref import ref

import pytest

from fsm.spark import collecting


class Node:
    """May point at itself."""

    def __init__(self) -> None:
        self.next: Node | None = None


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_cycles_of_a_task_are_not_kept_for_ever() -> None:
    """As an exception about a damaged file is one; what is kept is not looked at again."""
    lost, kept = Node(), Node()
    lost.next, kept.next = lost, kept
    gone, stays = ref(lost), ref(kept)
    del lost
    collecting.freeze()
    assert (gone(), stays()) == (None, kept)
    assert not any(one is kept for one in gc.get_objects())
