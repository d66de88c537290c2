"""What tests of running members share: listeners that write down their calls, and limits that only a stall meets."""

from __future__ import annotations

import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from patience import PATIENCE_S

from fsm.member.runtime.asyncio_runtime import AsyncConsumerRebalanceListener
from fsm.member.runtime.queues import ConsumerRebalanceListener
from fsm.protocol.assignment import Partitions

LIMIT_S = PATIENCE_S
"""Far above what a slow machine needs for anything that is not stalled."""
FOR_EVER_MS = 3_600_000


class Noted(ConsumerRebalanceListener):
    """Writes down its calls; `does` is what each call does besides."""

    def __init__(self, does: Callable[[str, Partitions], None] | None = None) -> None:
        self.called: list[tuple[str, Partitions]] = []
        self.does = does

    def note(self, method: str, partitions: Partitions) -> None:
        self.called.append((method, partitions))
        if self.does is not None:
            self.does(method, partitions)

    def on_partitions_assigned(self, partitions: Partitions) -> None:
        self.note("assigned", partitions)

    def on_partitions_revoked(self, partitions: Partitions) -> None:
        self.note("revoked", partitions)

    def on_partitions_lost(self, partitions: Partitions) -> None:
        self.note("lost", partitions)


class Awaiting(AsyncConsumerRebalanceListener):
    """The same with coroutines; it has no lost callback of its own, so that the revoked one is called for it."""

    def __init__(self, does: Callable[[str, Partitions], Awaitable[None]] | None = None) -> None:
        self.called: list[tuple[str, Partitions]] = []
        self.does = does

    async def note(self, method: str, partitions: Partitions) -> None:
        self.called.append((method, partitions))
        if self.does is not None:
            await self.does(method, partitions)

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        await self.note("assigned", partitions)

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        await self.note("revoked", partitions)


def within(work: Callable[[], object]) -> None:
    """Does the work in a thread of its own, and fails where it does not come back; raises what the work raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert not thread.is_alive(), "stalled"
    if raised:
        raise raised[0]


def until_quiet(count: Callable[[], int]) -> None:
    """Returns once the count has stood still for 0.3 s, however long the machine takes to get there."""
    pause = threading.Event()
    before = -1
    while before != count():
        before = count()
        pause.wait(0.3)


@contextmanager
def frantic() -> Iterator[None]:
    """Threads switch as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
