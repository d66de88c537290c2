"""An observer of a cluster: the rounds that leaders compute and send, where units ran, broken invariants.

Rounds are read from messages, the answer that elected the leader and its sync, so that the invariants judge what was
really sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from fsm.connect.assignor.leader import Election, perform
from fsm.connect.protocol import decode_assignment, decode_metadata
from fsm.connect.simulation import invariants
from fsm.connect.simulation.process import Ended, Process, Ran, SeenRound, Stayed
from fsm.connect.units import Unit, Units
from fsm.connect.worker.inputs import Taken
from fsm.connect.worker.state import Worker
from fsm.protocol.messages import JoinGroupResponse, SyncGroupRequest


class Observer:
    """The observations of one cluster."""

    def __init__(self) -> None:
        self.rounds: list[SeenRound] = []
        """Every round that a leader sent, in their order."""
        self.steps: list[tuple[int, str, Taken]] = []
        """Every row of the worker's table that was taken: when, and by which worker."""
        self.ran: list[Ran] = []
        """Where every unit ran, and when."""
        self.stays: list[Stayed] = []
        """Every process, from its start to its end."""
        self.ends: list[Ended] = []
        """Every herder that an error ended while its process lived on."""
        self.broken: list[tuple[int, str]] = []
        """Invariants that did not hold, and when."""
        self.moved = False
        """Whether running units may have changed since the last check."""
        self._names: dict[str, str] = {}

    def note_end(self, process: Process, now_ms: int) -> None:
        """The process has ended."""
        self.stays[:] = [
            stay._replace(end_ms=now_ms) if (stay.worker, stay.end_ms) == (process.name, None) else stay
            for stay in self.stays
        ]

    def start_unit(self, process: Process, unit: Unit, now_ms: int) -> None:
        """A unit runs in a process from now on."""
        self.moved = True
        process.running[unit] = now_ms
        self.ran.append(Ran(unit, process.name, now_ms, None))

    def stop_unit(self, process: Process, unit: Unit, now_ms: int) -> None:
        """The unit does not run there any more."""
        self.moved = True
        start_ms = process.running.pop(unit)
        open_ = Ran(unit, process.name, start_ms, None)
        if open_ in self.ran:
            self.ran.remove(open_)
        self.ran.append(open_._replace(end_ms=now_ms))

    def check_join(self, process: Process, before: Worker, answer: JoinGroupResponse, now_ms: int) -> None:
        """A join was answered: every cooperative round that a leader computes keeps the assignor's invariants."""
        if answer.member_id:
            self._names[answer.member_id] = process.name
        after = process.worker
        computed = compute(before, answer, now_ms) if after.memory != before.memory else None
        if computed is None:
            return
        self._note(now_ms, invariants.broken_in_round(computed))
        if computed.outcome.memory != after.memory:
            self._note(now_ms, [invariants.SAME_OUTPUT])

    def check_sync(self, process: Process, body: SyncGroupRequest, now_ms: int, workers: Mapping[str, Worker]) -> None:
        """A sync was sent; a leader's has the round. `workers` are all workers so far, in their current state.

        A leader that was paused may send the sync of a past generation, which is no round.
        """
        late = process.zombie and bool(self.rounds) and body.generation_id <= self.rounds[-1].generation
        if late or not body.assignments:
            return
        held = {name: worker.holds for name, worker in workers.items()}
        advertised = {name: worker.config.mode.versions for name, worker in workers.items()}
        seen = read_round(process.name, body, now_ms, self._name, held)
        self._note(now_ms, invariants.broken_between(self.rounds[-1] if self.rounds else None, seen, advertised))
        self.rounds.append(seen)

    def check_start(self, process: Process, stubborn: Collection[Unit], now_ms: int) -> None:
        """A worker is about to start units."""
        self._note(now_ms, invariants.broken_by_start(process.worker, process.running, stubborn))

    def check_step(self, process: Process, before: Worker, now_ms: int) -> None:
        """A worker has taken an input; deadlines do not apply to one that was paused."""
        if not process.zombie:
            self._note(now_ms, invariants.broken_in_step(before, process.worker, now_ms))

    def check_running(self, group: invariants.Group, now_ms: int) -> None:
        """Checks for units that run twice."""
        self.moved = False
        self._note(now_ms, invariants.broken_at_once(group))

    def _note(self, now_ms: int, broken: Iterable[str]) -> None:
        self.broken += [(now_ms, what) for what in broken]

    def _name(self, member_id: str) -> str:
        """The worker of a member, from its answers, or from its member id, which begins with the client id."""
        return self._names.get(member_id) or member_id.removeprefix("connect-").rpartition("-")[0]


def compute(leader: Worker, answer: JoinGroupResponse, now_ms: int) -> invariants.Computation | None:
    """The computation of the worker that this answer elects; None if it does not lead or the round is eager.

    `leader` is the worker before the answer.
    """
    if answer.leader != answer.member_id or not answer.protocol_name:
        return None
    members = {m.member_id: decode_metadata(m.metadata) for m in answer.members}
    election = Election(answer.leader, answer.protocol_name, answer.generation_id, members)
    snapshots, last = (leader.joined_with, leader.store), leader.last_completed_generation
    done = perform(election, leader.memory, snapshots, leader.config, now_ms=now_ms, last_completed_generation=last)
    if done.round_ is None or done.outcome is None:
        return None
    max_delay_ms, profile = leader.config.scheduled_rebalance_max_delay_ms, leader.config.profile
    return invariants.Computation(leader.memory, done.round_, done.outcome, max_delay_ms, profile)


def read_round(
    leader: str, body: SyncGroupRequest, now_ms: int, name: Callable[[str], str], held: Mapping[str, Units]
) -> SeenRound:
    """The round in a leader's sync, by worker name; `held` are the units held before it."""
    sent = {name(a.member_id): decode_assignment(a.assignment) for a in body.assignments}
    one = next(iter(sent.values()))
    return SeenRound(
        now_ms,
        body.generation_id,
        leader,
        one.version,
        one.delay_ms,
        one.error,
        {each: held.get(each, ()) for each in sorted(sent)},
        {each: sent[each].assigned for each in sorted(sent)},
        {each: sent[each].revoked for each in sorted(sent)},
        body.member_id,
        frozenset(a.member_id for a in body.assignments),
    )
