"""A worker to talk to in tests: it is told what happens and says what it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from fsm.connect.assignor.leader import ConfigSnapshot
from fsm.connect.protocol import Assignment, WorkerMetadata, encode_assignment, encode_metadata
from fsm.connect.simulation.cluster import Cluster
from fsm.connect.units import Unit, Units
from fsm.connect.worker.config import ConnectConfig
from fsm.connect.worker.inputs import Answered, Send, Start, Taken, UnitsStarted, WorkerInput
from fsm.connect.worker.state import Worker, new_worker
from fsm.connect.worker.step import step
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ClassicResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupResponse,
    TransportFailure,
)
from fsm.tables.connect_worker import Event, State

A, A0, A1, B, B0 = Unit("A"), Unit("A", 0), Unit("A", 1), Unit("B"), Unit("B", 0)
SNAPSHOT = ConfigSnapshot(5, (("A", 2), ("B", 1)))
NAMES = {0: "default", 1: "compatible", 2: "sessioned"}


def find_doubles(found: Cluster) -> set[Unit]:
    """Units that run in two processes, zombies included."""
    counts = Counter(unit for process in found.processes.values() for unit in process.running if process.alive)
    return {unit for unit, count in counts.items() if count > 1}


def find_outdated(found: Cluster) -> set[Unit]:
    """Tasks that run with configs that are not the last ones."""
    return {
        unit
        for process in found.processes.values()
        for unit, start_ms in process.running.items()
        if process.alive and not unit.is_connector and start_ms < found.connectors.written_ms.get(unit.connector, 0)
    }


class Scene:
    """One worker, its clock, and everything it ordered."""

    def __init__(self, protocol: str = "sessioned", snapshot: ConfigSnapshot = SNAPSHOT, **settings: object) -> None:
        config = ConnectConfig(
            "g",
            protocol,
            scheduled_rebalance_max_delay_ms=60_000,
            **settings,  # type: ignore[arg-type]
        )
        self.worker: Worker = new_worker(config, "http://w1/")
        self.now_ms = 1_000
        self.snapshot = snapshot
        self.effects: list[object] = []
        self.events: list[Event] = []

    def give(self, *inputs: WorkerInput) -> list[object]:
        """The effects of the inputs, rows taken aside."""
        self.effects = []
        for given in inputs:
            self.worker, effects = step(self.worker, given, self.now_ms)
            self.events += [effect.event for effect in effects if isinstance(effect, Taken)]
            self.effects += [effect for effect in effects if not isinstance(effect, Taken)]
        return self.effects

    def took(self) -> list[str]:
        """The events since the last time, by name."""
        names, self.events = [event.name for event in self.events], []
        return names

    @property
    def state(self) -> State:
        return self.worker.state

    def wait(self, ms: int) -> list[object]:
        """Time passes, and the worker is asked once, at its end."""
        self.now_ms += ms
        return self.give(Tick())

    def bodies(self, kind: type) -> list[object]:
        """The requests of a kind among the last effects."""
        return [e.body for e in self.effects if isinstance(e, Send) and isinstance(e.body, kind)]

    def answer(self, answer: ClassicResponse | TransportFailure) -> list[object]:
        """The awaited join or sync is answered."""
        return self.give(Answered(self.worker.awaited, answer))

    def beat(self, error: ErrorCode) -> list[object]:
        """The heartbeat under way is answered."""
        assert self.worker.heartbeat_sent[0], "no heartbeat is under way"
        return self.give(Answered(self.worker.heartbeat_sent[0], HeartbeatResponse(error)))

    # Ways to get somewhere

    def start(self) -> Scene:
        """Up, coordinator found, join sent."""
        self.give(Start(self.snapshot), CoordinatorFound())
        return self

    def joined(self, version: int = 2, generation: int = 1, leader: str = "m2") -> Scene:
        """The join is answered; `m1` is this worker."""
        members = ()
        if leader == "m1":
            data = encode_metadata(WorkerMetadata("http://w1/", self.worker.store.offset, self.worker.held), version)
            members = (JoinGroupResponseMember("m1", metadata=data),)
        self.answer(JoinGroupResponse(generation, "connect", NAMES[version], leader, "m1", members))
        return self

    def synced(
        self, assigned: Units = (), revoked: Units = (), delay_ms: int = 0, *, offset: int = 5, error: int = 0
    ) -> Scene:
        """The sync is answered."""
        from_leader = Assignment(
            {name: version for version, name in NAMES.items()}[self.worker.elected],
            "m2",
            "http://w2/",
            offset,
            assigned,
            revoked,
            delay_ms,
            error,
        )
        data = encode_assignment(from_leader, from_leader.version)
        self.answer(SyncGroupResponse(data, protocol_type="connect", protocol_name=self.worker.elected))
        return self

    def settled(self, assigned: Units = (A, A0), delay_ms: int = 0, version: int = 2) -> Scene:
        """A first round is through."""
        self.start().joined(version).synced(assigned, delay_ms=delay_ms).give(UnitsStarted())
        self.took()
        return self

    def lead_to(self, state: State) -> Scene:
        """Into any state in which a worker that is up can be found between two inputs."""
        ways: dict[State, Callable[[], object]] = {
            State.DISCONNECTED: lambda: self.settled().give(CoordinatorLost()),
            State.UNJOINED: lambda: self.start().answer(
                JoinGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            ),
            State.JOINING: self.start,
            State.SYNCING: lambda: self.start().joined(),
            State.REVOKING: lambda: self.asked_to_rejoin().joined(generation=2).synced((), (A0,)),
            State.CATCHING_UP: lambda: self.start().joined().synced((A,), offset=7),
            State.STARTING: lambda: self.start().joined().synced((A,)),
            State.ASSIGNED: self.settled,
            State.DELAYED: lambda: self.settled(delay_ms=50_000),
            State.BACKING_OFF: lambda: self.lead_to(State.CATCHING_UP).wait(self.worker.config.worker_sync_timeout_ms),
        }
        ways[state]()
        assert self.state is state
        self.took()
        return self

    def asked_to_rejoin(self) -> Scene:
        """Settled, and the next round was announced by a heartbeat: its join is sent."""
        self.settled().wait(3_000)
        self.beat(ErrorCode.REBALANCE_IN_PROGRESS)
        return self
