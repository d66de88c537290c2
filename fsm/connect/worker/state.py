"""The state of a Connect worker, a hashable value."""

from __future__ import annotations

from fsm.connect.assignor.incremental import Memory
from fsm.connect.assignor.leader import ConfigSnapshot
from fsm.connect.protocol import Assignment
from fsm.connect.units import Units
from fsm.connect.worker.config import ConnectConfig, version_of
from fsm.connect.worker.inputs import ConfigChange
from fsm.member.classic.heartbeat import Heartbeats
from fsm.protocol.messages import UNKNOWN_GENERATION_ID, UNKNOWN_MEMBER_ID
from fsm.step import frozen
from fsm.tables.connect_worker import BUSY, State

CATCH_UP_RETRIES = 5
NOTHING_READ = ConfigSnapshot(-1)
NOTHING_REMEMBERED = Memory()
NO_HEARTBEATS = Heartbeats()


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
    """Name of the protocol of the last round that was completed; the first of its own before that."""
    held: Assignment | None = None
    """What the worker holds, as it reports it; `revoked` is what the last round took away."""
    incoming: Assignment | None = None
    """What the last sync brought, while its revocations are carried out."""
    running: Units = ()
    """What was started and is held; empty under the eager protocol."""
    restarts: Units = ()
    """Tasks stopped for their new configs, to be started if still held."""
    resolved: bool = True
    """Whether the work of the last round was got to start."""
    deadline_ms: int | None = None
    """When a delayed round is due."""
    store: ConfigSnapshot = NOTHING_READ
    """The config topic as far as it was read in the background."""
    joined_with: ConfigSnapshot = NOTHING_READ
    """The config topic as the last join reported it: what a leader assigns from."""
    configs: ConfigSnapshot = NOTHING_READ
    """The config topic as the worker's thread knows it: what an assignment is compared with."""
    changes: tuple[ConfigChange, ...] = ()
    """Of the config topic, until the worker is settled."""
    memory: Memory = NOTHING_REMEMBERED
    """Of the assignor, should this worker lead."""
    coordinator_known: bool = False
    rejoin_wanted: bool = False
    prepared: bool = False
    """Whether the round was prepared and its join not yet answered well."""
    outside: bool = False
    """Whether it left the group because it could not read the config topic."""
    retries: int = CATCH_UP_RETRIES
    heartbeats: Heartbeats = NO_HEARTBEATS
    sent: int = 0
    """How many requests were sent: the number of the last one."""
    awaited: int = 0
    """The number of the join or sync whose answer is awaited; 0 for none."""
    heartbeat_sent: tuple[int, int, str] = (0, UNKNOWN_GENERATION_ID, UNKNOWN_MEMBER_ID)
    """The heartbeat under way: its number, and the generation and member id it speaks of."""
    stale: bool = False
    """Whether the membership was reset while that answer was awaited."""
    timer_ms: int = 0
    """Of the state: next join, end of the search, of the read, of the pause."""

    @property
    def is_leader(self) -> bool:
        """Whether it leads the generation of what it holds."""
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
        """Whether its thread is at work and polls nothing."""
        return self.state in BUSY


def new_worker(config: ConnectConfig, url: str) -> Worker:
    """A worker that was not started. A restarted process is a new one."""
    return Worker(config, url, protocol=config.mode.names[0])
