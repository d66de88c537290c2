"""The parts of a simulated Connect cluster: processes, and observations of them.

The units that really run in a process are separate from those its worker holds: a task may outlive its stop, a process
its herder, and a process that lost its membership keeps running its units.
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
    """The durations of operations."""

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
    """The units of each worker when it joined."""
    assigned: UnitsByWorker
    revoked: UnitsByWorker
    leader_id: str = ""
    member_ids: frozenset[str] = frozenset()

    def after(self, worker: str) -> Units:
        """The worker's units after it has applied the round."""
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
    """The life of a process."""

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
    """One worker process and the units that really run in it."""

    name: str
    worker: Worker
    running: dict[Unit, int] = field(default_factory=dict)
    """Units that run, with the instant of their start."""
    alive: bool = True
    herder: bool = True
    frozen: bool = False
    cut: bool = False
    waiting: list[WorkerInput] = field(default_factory=list)
    """Inputs that a frozen process will get when it resumes."""
    tick_ms: int = NEVER
    zombie: bool = False
    """Whether it may run units that are no longer its own: it lost its membership, and has not settled since."""
    zombie_since: int = -1
    """The last generation it had joined then: completing that one does not end this."""

    def judge(self) -> None:
        """Updates whether it is a zombie."""
        worker = self.worker
        if self.frozen or not self.herder or (self.running and not worker.is_member):
            self.expel()
        elif worker.state in SETTLED and worker.last_completed_generation > self.zombie_since:
            self.zombie = False

    def expel(self) -> None:
        """It is no member any more, even if it does not know yet."""
        self.zombie, self.zombie_since = True, max(self.worker.generation, self.worker.last_completed_generation)
