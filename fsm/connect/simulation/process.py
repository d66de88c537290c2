"""What a simulated Connect cluster consists of: processes, and what is seen of them.

What really runs in a process is kept apart from what its worker holds: a task may outlive its stop, a process its
herder, and a process that lost its membership goes on with what it had.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from fsm.connect.units import Unit, Units, UnitsByWorker
from fsm.connect.worker.inputs import WorkerInput
from fsm.connect.worker.state import Worker
from fsm.member.timers import NEVER
from fsm.tables.connect_worker import SETTLED


@dataclass(frozen=True, slots=True)
class Latencies:
    """How long things take."""

    network_ms: int = 1
    start_ms: int = 5
    stop_ms: int = 5
    read_ms: int = 5
    task_configs_ms: int = 10
    """From the start of a connector to the configs of its tasks in the config topic."""


class SeenRound(NamedTuple):
    """A round as a leader computed and sent it."""

    now_ms: int
    generation: int
    leader: str
    """Name of the worker."""
    version: int
    delay_ms: int
    error: int
    owned: UnitsByWorker
    """By worker, what it had when it joined."""
    assigned: UnitsByWorker
    revoked: UnitsByWorker
    leader_id: str = ""
    member_ids: frozenset[str] = frozenset()

    def after(self, worker: str) -> Units:
        """What the worker holds when it has done what the round says."""
        if self.version == 0:
            return self.assigned[worker]
        kept = tuple(u for u in self.owned[worker] if u not in self.revoked[worker])
        return (*kept, *self.assigned[worker])


class Ran(NamedTuple):
    """A unit that ran in a process."""

    unit: Unit
    worker: str
    start_ms: int
    end_ms: int | None
    """None while it runs."""


class Stayed(NamedTuple):
    """A process that was there."""

    worker: str
    start_ms: int
    end_ms: int | None
    """None while it lives."""


class Ended(NamedTuple):
    """A herder that an error ended; its process lives on."""

    now_ms: int
    worker: str
    reason: str


@dataclass
class Process:
    """One worker process and what really runs in it."""

    name: str
    worker: Worker
    running: dict[Unit, int] = field(default_factory=dict)
    """Units that run, with the instant of their start."""
    alive: bool = True
    herder: bool = True
    frozen: bool = False
    cut: bool = False
    waiting: list[WorkerInput] = field(default_factory=list)
    """Inputs that a frozen process will see when it goes on."""
    tick_ms: int = NEVER
    zombie: bool = False
    """Whether it may run what is no longer its own: it lost its membership and went on, and has not settled since."""
    zombie_since: int = -1
    """The last generation it had joined then: to complete that one proves nothing."""

    def judge(self) -> None:
        """Finds out whether it has become a zombie, or is none any more."""
        worker = self.worker
        if self.frozen or not self.herder or (self.running and not worker.is_member):
            self.expel()
        elif worker.state in SETTLED and worker.last_completed_generation > self.zombie_since:
            self.zombie = False

    def expel(self) -> None:
        """It is no member any more, whether it knows or not."""
        self.zombie, self.zombie_since = True, max(self.worker.generation, self.worker.last_completed_generation)
