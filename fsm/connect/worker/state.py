"""The state of a Connect worker, a hashable value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fsm.connect.assignor.incremental import Memory
from fsm.connect.assignor.leader import ConfigSnapshot
from fsm.connect.protocol import Assignment
from fsm.connect.units import Units
from fsm.connect.worker.config import ConnectConfig, version_of
from fsm.connect.worker.inputs import ConfigChange
from fsm.member.classic.heartbeat import NO_HEARTBEATS, Heartbeats
from fsm.member.timers import until_ms
from fsm.protocol.messages import UNKNOWN_GENERATION_ID, UNKNOWN_MEMBER_ID
from fsm.step import frozen
from fsm.tables.connect_worker import BUSY, State

CATCH_UP_RETRIES = 5
NOTHING_READ = ConfigSnapshot(-1)
NOTHING_REMEMBERED = Memory()
NO_HEARTBEAT = (0, UNKNOWN_GENERATION_ID, UNKNOWN_MEMBER_ID)
"""None is under way."""


@frozen
class Worker:
    """One worker process of a Connect cluster."""

    config: ConnectConfig
    url: str
    state: State = State.DOWN
    member_id: str = UNKNOWN_MEMBER_ID
    generation: int = UNKNOWN_GENERATION_ID
    last_completed_generation: int = UNKNOWN_GENERATION_ID
    elected: str = ""
    """Name of the protocol of the last join that succeeded."""
    protocol: str = ""
    """Name of the protocol of the last completed round; before that the first of its own protocols."""
    held: Assignment | None = None
    """The worker's assignment, as it reports it; `revoked` are the units that the last round revoked."""
    incoming: Assignment | None = None
    """The assignment of the last sync, while its revocations are executed."""
    running: Units = ()
    """The started units that it holds; empty under the eager protocol."""
    restarts: Units = ()
    """Tasks stopped for their new configs, to be started if still held."""
    resolved: bool = True
    """Whether the units of the last round were started."""
    deadline_ms: int | None = None
    """When a delayed round is due."""
    store: ConfigSnapshot = NOTHING_READ
    """The config topic as far as it was read in the background."""
    joined_with: ConfigSnapshot = NOTHING_READ
    """The config topic in the last join, from which a leader assigns."""
    configs: ConfigSnapshot = NOTHING_READ
    """The config topic in the worker's thread, with which an assignment is compared."""
    changes: tuple[ConfigChange, ...] = ()
    """Changes of the config topic that wait until the worker is settled."""
    memory: Memory = NOTHING_REMEMBERED
    """The assignor's memory between rounds, if this worker leads."""
    coordinator_known: bool = False
    rejoin_wanted: bool = False
    prepared: bool = False
    """Whether the round was prepared and its join has not succeeded yet."""
    outside: bool = False
    """Whether it left the group because it could not read the config topic."""
    retries: int = CATCH_UP_RETRIES
    heartbeats: Heartbeats = NO_HEARTBEATS
    awaited: int = 0
    """The number of the join or sync whose answer is awaited; 0 for none."""
    heartbeat_sent: tuple[int, int, str] = NO_HEARTBEAT
    """The heartbeat in flight: its number, generation and member id."""
    unanswered: tuple[int, ...] = ()
    """Numbers of the other requests in flight, whose answers have no effect."""
    stale: bool = False
    """Whether the membership was reset while that answer was awaited."""
    timer_ms: int | None = None
    """When the wait of the current state ends: for the next join, the search, the read or the pause."""

    @property
    def is_leader(self) -> bool:
        """Whether it leads the generation of its assignment."""
        return self.held is not None and bool(self.member_id) and self.held.leader == self.member_id

    @property
    def is_cooperative(self) -> bool:
        """Whether the last completed round was."""
        return version_of(self.protocol) > 0

    @property
    def holds(self) -> Units:
        """The units it holds."""
        return () if self.held is None else self.held.assigned

    @property
    def is_member(self) -> bool:
        """Whether it believes to be in a generation."""
        return bool(self.member_id) and self.generation != UNKNOWN_GENERATION_ID

    @property
    def wants_to_rejoin(self) -> bool:
        """Whether a round is wanted or owed."""
        return self.rejoin_wanted or self.held is None or self.held.failed or not self.is_member

    @property
    def is_busy(self) -> bool:
        """Whether its thread is busy and does not poll."""
        return self.state in BUSY


def new_worker(config: ConnectConfig, url: str) -> Worker:
    """A worker that is not started. A restarted process is a new one."""
    return Worker(config, url, protocol=config.mode.names[0])


SAME_IDS: Mapping[str, str] = {}


def canonicalize(worker: Worker, now_ms: int, ids: Mapping[str, str] = SAME_IDS) -> Worker:
    """The worker with its clock starting now, and with other member ids.

    Two workers that differ only by these become equal, and equal ones behave alike: instants that have passed make no
    difference. `ids` maps member ids; what is not in it stays.
    """

    def rename(member_id: str) -> str:
        return ids.get(member_id, member_id)

    def since_now(instant_ms: int | None) -> int | None:
        return None if instant_ms is None else until_ms(instant_ms, now_ms)

    def rename_leader(given: Assignment | None) -> Assignment | None:
        return None if given is None else replace(given, leader=rename(given.leader))

    memory, (number, generation, member_id) = worker.memory, worker.heartbeat_sent
    return replace(
        worker,
        member_id=rename(worker.member_id),
        held=rename_leader(worker.held),
        incoming=rename_leader(worker.incoming),
        deadline_ms=since_now(worker.deadline_ms),
        memory=replace(
            memory,
            previous_members=frozenset(map(rename, memory.previous_members)),
            candidates=tuple(map(rename, memory.candidates)),
            deadline_ms=since_now(memory.deadline_ms),
        ),
        heartbeats=worker.heartbeats.canonicalize(worker.config, now_ms),
        heartbeat_sent=(number, generation, rename(member_id)),
        timer_ms=since_now(worker.timer_ms),
    )
