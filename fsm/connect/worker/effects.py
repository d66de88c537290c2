"""The effects of the worker's table: changes of the worker, and orders to its runtime.

Source: `WorkerCoordinator` and `DistributedHerder` of apache/kafka at 1eb7644.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from fsm.connect.assignor.leader import Election, perform
from fsm.connect.dialect import Rule
from fsm.connect.protocol import PROTOCOL_TYPE, Assignment, WorkerMetadata, encode_assignment, protocols
from fsm.connect.units import Unit, Units, without
from fsm.connect.worker import inputs
from fsm.connect.worker.config import version_of
from fsm.connect.worker.state import CATCH_UP_RETRIES, NO_HEARTBEAT, Worker
from fsm.errors import FsmError
from fsm.protocol import messages
from fsm.step import Draft
from fsm.tables.connect_worker import TABLE, Effect, Event

CELLS = TABLE.compiled


class WorkerDraft(Draft[Worker], Worker, effects=Effect):
    """A worker during a step, with a method for each effect of the table."""

    def __init__(self, worker: Worker, now_ms: int) -> None:
        super().__init__(worker)
        self.now_ms = now_ms
        self.effects: list[inputs.WorkerEffect] = []
        self.election: Election | None = None
        """The answer to a leader's join in this step."""
        self.assignments: dict[str, Assignment] = {}
        """The assignments computed in this step."""
        self.connectors: tuple[str, ...] = ()
        """The connectors of the event."""
        self.answered_member_id = ""
        """The member id in an answer."""
        self.reason = ""

    def decide(self, event: Event) -> None:
        """Takes the row of the worker's state and this event. Raises `IllegalTransition` where the table has none."""
        cell = CELLS.by_state[self.state][event]
        self.effects.append(inputs.Taken(self.state, event, cell.target))
        if cell.path:
            self.timer_ms = None  # it belongs to the state; later code sets it again
        self.perform(CELLS, cell.steps)

    def send(self, body: messages.ClassicRequest) -> int:
        """Sends a request under the lowest number that no request in flight has; returns that number."""
        taken = {self.awaited, self.heartbeat_sent[0], *self.unanswered}
        number = next(number for number in count(1) if number not in taken)
        self.effects.append(inputs.Send(number, body))
        return number

    def abandon(self, number: int) -> None:
        """Ignores the answer to the request of that number, if any."""
        if number:
            self.unanswered = (*self.unanswered, number)

    # Units

    def _stop(self, units: Units, *, wait: bool = False) -> None:
        self.running = without(self.running, units)
        self.effects.append(inputs.StopUnits(units, wait))

    def stop_held(self) -> None:
        self._stop(self.holds)
        self.flush_statuses()

    def stop_revoked(self) -> None:
        self._stop(self._adopted.revoked, wait=True)

    def stop_running(self) -> None:
        self._stop(self.running)

    def stop_all(self) -> None:
        self.running = ()
        self.held = None
        self.deadline_ms = None
        self.effects.append(inputs.StopEverything())

    def stop_reconfigured_tasks(self) -> None:
        tasks = tuple(u for u in self.holds if u.connector in self.connectors and not u.is_connector)
        self.restarts = (*self.restarts, *without(tasks, self.restarts))
        self.effects.append(inputs.StopUnits(tasks))

    def start_assigned(self) -> None:
        left = without(self.running, self.holds)
        if left and not self.is_cooperative and Rule.EAGER_STEP_STOPS in self.config.profile:
            self.effects.append(inputs.StopUnits(left))
        fresh = without(self.holds, without(self.running, self.restarts))
        self.restarts = ()
        self.effects.append(inputs.StartUnits(fresh))

    def restart_connector(self) -> None:
        mine = (name for name in self.connectors if Unit(name) in self.holds)
        self.effects.extend(map(inputs.RestartConnector, mine))

    def apply_target_state(self) -> None:
        self.effects.extend(map(inputs.ApplyTargetState, self.connectors))

    def flush_statuses(self) -> None:
        self.effects.append(inputs.FlushStatuses())

    # Assignment

    @property
    def _adopted(self) -> Assignment:
        if self.incoming is None:
            raise FsmError("a Connect worker adopts an assignment without a sync that brought one")
        return self.incoming

    def adopt_protocol(self) -> None:
        self.protocol = self.elected

    def adopt_assignment(self) -> None:
        incoming = self._adopted
        if version_of(self.elected) > 0:
            kept = without(self.holds, (*incoming.revoked, *incoming.assigned))
            incoming = replace(incoming, assigned=(*incoming.assigned, *kept))
        self.held = incoming
        self.last_completed_generation = self.generation
        self.resolved = False

    def set_deadline(self) -> None:
        delay_ms = self._adopted.delay_ms
        self.deadline_ms = self.now_ms + delay_ms if delay_ms > 0 else None
        self.incoming = None

    def record_running(self) -> None:
        self.running = self.holds if self.is_cooperative else ()
        self.resolved = True

    def clear_revoked(self) -> None:
        if self.held is not None:
            self.held = replace(self.held, revoked=())

    # Group

    def find_coordinator(self) -> None:
        self.timer_ms = self.now_ms + self.config.heartbeat_interval_ms
        self.effects.append(inputs.FindCoordinator())

    def mark_coordinator_unknown(self) -> None:
        """Requests in flight fail as disconnected, which has no further effect."""
        self.coordinator_known = False
        self.abandon(self.awaited)
        self.abandon(self.heartbeat_sent[0])
        self.awaited, self.heartbeat_sent = 0, NO_HEARTBEAT

    def drop_leader_state(self) -> None:
        self.prepared = True

    def send_join(self) -> None:
        self.joined_with = self.store
        self.heartbeats = self.heartbeats.stop()
        self.stale = False
        config = self.config
        advertised = protocols(config.mode, WorkerMetadata(self.url, self.store.offset, self._report_held()))
        body = messages.JoinGroupRequest(
            config.group_id,
            config.session_timeout_ms,
            config.rebalance_timeout_ms,
            self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=tuple(messages.JoinGroupRequestProtocol(name, metadata) for name, metadata in advertised),
            reason="",
        )
        self.abandon(self.awaited)
        self.awaited = self.send(body)

    def _report_held(self) -> Assignment | None:
        """The held units in the join; a worker of the document also reports the remaining delay."""
        held, deadline_ms = self.held, self.deadline_ms
        if held is None or Rule.DELAY_SURVIVES_LEADER not in self.config.profile:
            return held
        return replace(held, delay_ms=max(0, deadline_ms - self.now_ms) if deadline_ms is not None else 0)

    def take_member_id(self) -> None:
        self.member_id = self.answered_member_id

    def enable_heartbeats(self) -> None:
        self.heartbeats = self.heartbeats.start(self.config, self.now_ms)

    def set_generation(self) -> None:
        if self.election is not None:
            self.generation = self.election.generation
            self.elected = self.election.protocol
            self.member_id = self.answered_member_id

    def run_assignor(self) -> None:
        if self.election is None:
            raise FsmError("a Connect worker leads a round whose members it was not told")
        done = perform(
            self.election,
            self.memory,
            (self.joined_with, self.store),
            self.config,
            now_ms=self.now_ms,
            last_completed_generation=self.last_completed_generation,
        )
        self.memory = done.memory
        self.assignments = dict(done.assignments)

    def send_sync(self) -> None:
        assignments = tuple(
            messages.SyncGroupRequestAssignment(member, encode_assignment(mine, mine.version))
            for member, mine in self.assignments.items()
        )
        body = messages.SyncGroupRequest(
            self.config.group_id,
            self.generation,
            self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.elected,
            assignments=assignments,
        )
        self.awaited = self.send(body)

    send_sync_as_leader = send_sync

    def reset_generation(self) -> None:
        self.generation = messages.UNKNOWN_GENERATION_ID
        self.stale = self.awaited > 0
        self.prepared = False
        self.heartbeats = self.heartbeats.stop()

    def reset_membership(self) -> None:
        self.reset_generation()
        self.member_id = messages.UNKNOWN_MEMBER_ID

    def leave_group(self) -> None:
        if self.coordinator_known and self.member_id:
            self.abandon(
                self.send(messages.LeaveGroupRequest(self.config.group_id, (messages.MemberIdentity(self.member_id),)))
            )

    def wait_retry_backoff(self) -> None:
        self.timer_ms = self.now_ms + self.config.retry_backoff_ms

    # Config topic and process

    def read_config_to_end(self) -> None:
        self.timer_ms = self.now_ms + self.config.worker_sync_timeout_ms
        self.effects.append(inputs.ReadConfigToEnd())

    def pause_delay_fraction(self) -> None:
        pause_ms = self.config.scheduled_rebalance_max_delay_ms // 10 // self.retries
        self.timer_ms = self.now_ms + pause_ms
        self.retries = self.retries - 1

    def pause_unsync_backoff(self) -> None:
        self.timer_ms = self.now_ms + self.config.worker_unsync_backoff_ms

    def read_internal_topics(self) -> None:
        """Does nothing: the input `Start` already has the content."""

    def forget_held(self) -> None:
        self.held = None

    def clear_deadline(self) -> None:
        self.deadline_ms = None

    def request_rejoin(self) -> None:
        self.rejoin_wanted = True

    def reset_retries(self) -> None:
        self.retries = CATCH_UP_RETRIES

    def end_herder(self) -> None:
        self.effects.append(inputs.HerderEnded(self.reason))
