"""The Connect worker in conversation: each way of the reference's worker table, by literal inputs and clock."""

from __future__ import annotations

import pytest
from connect_scene import A0, A1, B0, SNAPSHOT, A, B, Scene

from fsm.connect.assignor.leader import ConfigSnapshot
from fsm.connect.dialect import DOCUMENT
from fsm.connect.protocol import decode_assignment, decode_metadata
from fsm.connect.worker.inputs import (
    ApplyTargetState,
    Change,
    ConfigChange,
    ConfigTopicAdvanced,
    FindCoordinator,
    FlushStatuses,
    HerderEnded,
    ReadConfigToEnd,
    ReadToEnd,
    RestartConnector,
    Send,
    Start,
    StartUnits,
    Stop,
    StopEverything,
    StopUnits,
    ThreadFailed,
    UnitsStarted,
    UnitsStopped,
)
from fsm.connect.worker.step import due_ms, step
from fsm.errors import LocalProtocolError, RemoteProtocolError
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DISCONNECTED,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from fsm.tables.connect_worker import State


def held_in_join(scene: Scene) -> object:
    """What the last join reports as held, in the mode's own protocol."""
    (join,) = scene.bodies(JoinGroupRequest)
    assert isinstance(join, JoinGroupRequest)
    held = decode_metadata(join.protocols[0].metadata).held
    return None if held is None else held.assigned


# Joining


def test_a_worker_starts_finds_its_coordinator_and_joins() -> None:
    """Rows 1, 2, 6: it reports its config offset and nothing held, in three protocols of type connect."""
    scene = Scene()
    assert scene.give(Start(SNAPSHOT)) == [FindCoordinator()]
    assert scene.state is State.DISCONNECTED
    scene.give(CoordinatorFound())
    (join,) = scene.bodies(JoinGroupRequest)
    assert isinstance(join, JoinGroupRequest)
    assert (join.protocol_type, [p.name for p in join.protocols]) == ("connect", ["sessioned", "compatible", "default"])
    assert decode_metadata(join.protocols[0].metadata).offset == 5
    assert held_in_join(scene) is None
    assert scene.took() == ["START", "COORDINATOR_FOUND", "JOIN_DUE_COOPERATIVE"]


def test_a_new_worker_takes_the_id_it_is_given() -> None:
    """1.4: MEMBER_ID_REQUIRED is answered by the same join with that id, at once."""
    scene = Scene().start()
    scene.answer(JoinGroupResponse(member_id="m1", error_code=ErrorCode.MEMBER_ID_REQUIRED))
    (join,) = scene.bodies(JoinGroupRequest)
    assert isinstance(join, JoinGroupRequest)
    assert (join.member_id, scene.state) == ("m1", State.JOINING)


@pytest.mark.parametrize(
    ("error", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.REBALANCE_IN_PROGRESS, "m1")]
)
def test_a_join_that_may_be_repeated_is_repeated_at_once(error: ErrorCode, member_id: str) -> None:
    """1.4: an unknown member forgets its id; a rebalance in progress changes nothing."""
    scene = Scene().settled()
    scene.wait(3_000)
    scene.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    scene.answer(JoinGroupResponse(error_code=error))
    (join,) = scene.bodies(JoinGroupRequest)
    assert isinstance(join, JoinGroupRequest)
    assert join.member_id == member_id


def test_a_loading_coordinator_is_asked_again_after_the_backoff() -> None:
    """1.4: COORDINATOR_LOAD_IN_PROGRESS waits retry.backoff.ms."""
    scene = Scene().start()
    assert scene.answer(JoinGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)) == []
    assert due_ms(scene.worker) == scene.now_ms + 100
    assert scene.wait(99) == []
    scene.wait(1)
    assert len(scene.bodies(JoinGroupRequest)) == 1
    assert scene.took()[-2:] == ["JOIN_LOADING", "JOIN_DUE_AGAIN"]


@pytest.mark.parametrize("error", [ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_a_refused_join_ends_the_herder_and_stops_nothing(error: ErrorCode) -> None:
    """1.4, logs 3: the worker is down, what it runs goes on."""
    scene = Scene().settled()
    scene.wait(3_000)
    scene.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert scene.answer(JoinGroupResponse(error_code=error)) == [HerderEnded(f"JoinGroup answered {error.name}")]
    assert (scene.state, scene.worker.running) == (State.DOWN, (A, A0))


def test_a_protocol_that_is_none_of_connects_ends_the_herder() -> None:
    """A group that elected a consumers' protocol, and a sync that speaks of another one than the join."""
    scene = Scene().start()
    scene.answer(JoinGroupResponse(1, "connect", "range", "m2", "m1"))
    assert scene.effects == [HerderEnded("the group elected 'range', which is none of Connect's")]
    scene = Scene().start().joined()
    scene.answer(SyncGroupResponse(b"", protocol_type="connect", protocol_name="default"))
    assert scene.effects == [HerderEnded("SyncGroup speaks of protocol 'default', the join of 'sessioned'")]


# Leading


def test_a_leader_assigns_and_sends_everyones_part() -> None:
    """Rows 8, 9: alone, it is given everything, by its own sync."""
    scene = Scene().start().joined(leader="m1")
    (sync,) = scene.bodies(SyncGroupRequest)
    assert isinstance(sync, SyncGroupRequest)
    assert [part.member_id for part in sync.assignments] == ["m1"]
    assignment = decode_assignment(sync.assignments[0].assignment)
    assert (set(assignment.assigned), assignment.offset, assignment.leader, assignment.version) == (
        {A, A0, A1, B, B0},
        5,
        "m1",
        2,
    )
    assert scene.took()[-2:] == ["JOINED_LEADER", "ASSIGNOR_DONE"]
    assert scene.worker.memory.previous_generation == 1


def test_a_leader_that_is_behind_its_members_fails_the_round() -> None:
    """2.0, logs 1: error 1 for all; each of them rejoins at once, keeping what it holds."""
    scene = Scene().settled()
    scene.wait(3_000)
    scene.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    scene.joined(generation=2).synced(error=1, offset=9)
    assert scene.took()[-2:] == ["SYNCED_FAILED", "JOIN_DUE_COOPERATIVE"]
    assert held_in_join(scene) == (A, A0)
    assert scene.worker.running == (A, A0)


# Syncing


def test_what_is_new_is_merged_and_started() -> None:
    """Rows 12, 17, 25, W1: held' = (held - revoked) + assigned, and only what does not run yet is started."""
    scene = Scene().settled()
    scene.wait(3_000)
    scene.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    scene.joined(generation=2).synced((B,))
    assert scene.effects == [StartUnits((B,))]
    scene.give(UnitsStarted())
    assert (scene.state, set(scene.worker.holds), scene.worker.last_completed_generation) == (
        State.ASSIGNED,
        {A, A0, B},
        2,
    )
    assert scene.worker.running == scene.worker.holds


def test_what_is_taken_away_stops_before_anything_starts_and_then_it_rejoins() -> None:
    """Rows 11, 13, 24, W2, W3: stops end, statuses are stored, starts; one join, without the units that went."""
    scene = Scene().settled()
    scene.wait(3_000)
    scene.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    scene.joined(generation=2).synced((B,), (A0,))
    assert scene.effects == [StopUnits((A0,), wait=True)]
    assert scene.give(UnitsStopped()) == [FlushStatuses(), StartUnits((B,))]
    scene.give(UnitsStarted())
    assert held_in_join(scene) == (B, A)
    assert scene.worker.held is not None
    assert scene.worker.held.revoked == ()
    assert scene.took()[-4:] == ["SYNCED_REVOKING", "REVOKED_READY", "STARTED_REVOKED_BEFORE", "JOIN_DUE_COOPERATIVE"]


def test_a_delay_is_waited_for_and_then_asked_about() -> None:
    """Rows 26, 27: the worker is DELAYED until the deadline on its own clock."""
    scene = Scene().settled((A,), delay_ms=500)
    assert (scene.state, due_ms(scene.worker)) == (State.DELAYED, 1_500)
    assert scene.wait(499) == []
    scene.wait(1)
    assert held_in_join(scene) == (A,)
    assert scene.took() == ["DELAY_REACHED", "JOIN_DUE_COOPERATIVE"]


def test_an_announced_round_ends_a_delay_early() -> None:
    """Row 28: the next sync overwrites the deadline."""
    scene = Scene().settled((A,), delay_ms=5_000)
    scene.wait(3_000)
    scene.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    scene.joined(generation=2).synced(delay_ms=2_000).give(UnitsStarted())
    assert (scene.state, scene.worker.deadline_ms) == (State.DELAYED, 6_000)


@pytest.mark.parametrize(
    ("error", "generation", "member_id"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, 1, "m1"),
        (ErrorCode.ILLEGAL_GENERATION, -1, "m1"),
        (ErrorCode.UNKNOWN_MEMBER_ID, -1, ""),
    ],
)
def test_a_failed_sync_joins_again(error: ErrorCode, generation: int, member_id: str) -> None:
    """1.4: the generation, the member id, or nothing is forgotten."""
    scene = Scene().start().joined()
    scene.answer(SyncGroupResponse(error_code=error))
    assert len(scene.bodies(JoinGroupRequest)) == 1
    assert (scene.worker.generation, scene.worker.member_id) == (generation, member_id)


def test_an_answer_for_a_membership_that_was_reset_is_stale() -> None:
    """1.4: the sync of a member that was thrown out meanwhile counts for nothing."""
    scene = Scene(rebalance_timeout_ms=2_000).start().joined()
    scene.wait(2_000)
    assert scene.took()[-1] == "POLL_TIMEOUT"
    scene.answer(SyncGroupResponse(b"", protocol_type="connect", protocol_name="sessioned"))
    assert scene.took() == ["ANSWER_STALE", "JOIN_DUE_COOPERATIVE"]
    assert scene.worker.member_id == ""


# The config topic


def test_a_worker_behind_the_leader_reads_to_the_end_and_starts() -> None:
    """Rows 15, 17, 19: nothing starts before the offsets are equal (W4)."""
    scene = Scene().start().joined().synced((A,), offset=7)
    assert scene.effects == [ReadConfigToEnd()]
    assert scene.give(ReadToEnd(ConfigSnapshot(7, (("A", 2),)))) == [StartUnits((A,))]


@pytest.mark.parametrize("end", [6, 8])
def test_an_offset_that_still_differs_means_rejoin(end: int) -> None:
    """Logs 1: after the read there is no second check; it joins again without any pause."""
    scene = Scene().start().joined().synced((A,), offset=7)
    scene.give(ReadToEnd(ConfigSnapshot(end)))
    assert scene.took()[-2:] == ["CAUGHT_UP_MISMATCH", "JOIN_DUE_COOPERATIVE"]


def test_a_worker_ahead_of_the_leader_starts_nothing_and_rejoins() -> None:
    """Row 16, with and without revocations."""
    scene = Scene().start().joined().synced((A,), offset=4)
    assert scene.took()[-2:] == ["SYNCED_AHEAD", "JOIN_DUE_COOPERATIVE"]
    scene.joined(generation=2).synced((), (A,), offset=4).give(UnitsStopped())
    assert scene.took()[-2:] == ["REVOKED_AHEAD", "JOIN_DUE_COOPERATIVE"]


def test_a_worker_that_cannot_read_leaves_pauses_and_in_the_end_stops_all() -> None:
    """Rows 20, 22, 23, logs 11: it leaves once; pauses of 1.2, 1.5, 2, 3 and 6 s; then it gives up what runs."""
    scene = Scene().settled()
    scene.wait(3_000)
    scene.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    scene.joined(generation=2).synced((B,), offset=7)
    scene.took()
    scene.wait(3_000)
    assert len(scene.bodies(LeaveGroupRequest)) == 1
    pauses = []
    for _ in range(5):
        assert scene.state is State.BACKING_OFF
        pauses.append(due_ms(scene.worker) - scene.now_ms)
        assert scene.wait(pauses[-1]) == [ReadConfigToEnd()]
        scene.wait(3_000)
    assert pauses == [1_200, 1_500, 2_000, 3_000, 6_000]
    assert scene.effects == [StopUnits((A, A0)), ReadConfigToEnd()]
    assert (scene.state, scene.worker.retries) == (State.CATCHING_UP, 5)
    scene.give(ReadToEnd(ConfigSnapshot(7)))
    assert scene.took()[-2:] == ["CAUGHT_UP_OUTSIDE", "JOIN_DUE_COOPERATIVE"]


def test_an_eager_worker_pauses_long_when_it_cannot_read() -> None:
    """Row 21: worker.unsync.backoff.ms, five minutes, however often."""
    scene = Scene("eager").start().joined(0).synced((A,), offset=7)
    for expected in ("CATCH_UP_TIMED_OUT_EAGER", "CATCH_UP_TIMED_OUT_AGAIN_EAGER"):
        scene.wait(3_000)
        assert scene.took()[-1] == expected
        assert due_ms(scene.worker) - scene.now_ms == 300_000
        scene.wait(300_000)


def test_a_delay_that_passes_while_reading_means_rejoin() -> None:
    """The deadline is looked at when the read is done."""
    scene = Scene().start().joined().synced((A,), delay_ms=100, offset=7)
    scene.now_ms += 100
    scene.give(ReadToEnd(ConfigSnapshot(7)))
    assert scene.took()[-2:] == ["CAUGHT_UP_DELAY_OVER", "JOIN_DUE_COOPERATIVE"]
    assert scene.worker.deadline_ms is None


def advanced(*changes: ConfigChange, counts: tuple[tuple[str, int], ...] = (("A", 2), ("B", 1))) -> ConfigTopicAdvanced:
    return ConfigTopicAdvanced(ConfigSnapshot(6, counts), changes)


def test_a_new_connector_asks_for_a_round() -> None:
    """Row 29: a connector that the worker did not know."""
    scene = Scene().settled()
    scene.give(advanced(ConfigChange("C", Change.CONFIG), counts=(("A", 2), ("B", 1), ("C", 0))))
    assert scene.took() == ["CONNECTORS_CHANGED", "JOIN_DUE_COOPERATIVE"]
    assert scene.worker.joined_with.offset == 6


def test_a_new_config_restarts_the_connector_where_it_is_and_asks_for_no_round() -> None:
    """Row 30: only the worker that holds the instance does something."""
    scene = Scene().settled()
    assert scene.give(advanced(ConfigChange("A", Change.CONFIG))) == [RestartConnector("A")]
    assert scene.give(advanced(ConfigChange("B", Change.CONFIG))) == []
    assert (scene.state, scene.worker.configs.offset) == (State.ASSIGNED, 6)


def test_pause_needs_no_round_and_stop_needs_one() -> None:
    """Row 30, logs 4."""
    scene = Scene().settled()
    assert scene.give(advanced(ConfigChange("A", Change.PAUSED_OR_RESUMED))) == [ApplyTargetState("A")]
    assert scene.took() == ["TARGET_STATE_CHANGED"]
    scene.give(advanced(ConfigChange("A", Change.STOPPED)))
    assert scene.effects[0] == ApplyTargetState("A")
    assert scene.took() == ["CONNECTOR_STOPPED", "JOIN_DUE_COOPERATIVE"]


def test_reconfigured_tasks_stop_first_and_start_anew_if_still_held() -> None:
    """Row 29: the rejoin, the stops, and after the round the starts with the new configs, though they are held."""
    scene = Scene().settled((A, A0, B0))
    scene.give(advanced(ConfigChange("A", Change.TASKS)))
    assert scene.effects[0] == StopUnits((A0,))
    assert scene.took() == ["TASKS_RECONFIGURED_COOPERATIVE", "JOIN_DUE_COOPERATIVE"]
    scene.joined(generation=2).synced(offset=6)
    assert scene.effects == [StartUnits((A0,))]


def test_an_eager_worker_leaves_the_stopping_to_its_join() -> None:
    """Rows 5, 29: the join stops all it holds, and reports nothing."""
    scene = Scene("eager").settled((A, A0), version=0)
    scene.give(advanced(ConfigChange("A", Change.TASKS)))
    assert scene.effects[:2] == [StopUnits((A, A0)), FlushStatuses()]
    assert held_in_join(scene) is None
    assert scene.took() == ["TASKS_RECONFIGURED_EAGER", "JOIN_DUE_EAGER"]


def test_changes_that_come_during_a_round_are_looked_at_after_it() -> None:
    """All of them at once, with at most one request for a round."""
    scene = Scene().start().joined()
    scene.give(advanced(ConfigChange("C", Change.CONFIG)), advanced(ConfigChange("A", Change.TASKS)))
    assert scene.effects == []
    scene.synced((A, A0)).give(UnitsStarted())
    assert scene.took()[-3:] == ["STARTED", "TASKS_RECONFIGURED_COOPERATIVE", "JOIN_DUE_COOPERATIVE"]


# The coordinator


def test_a_lost_coordinator_that_comes_back_in_time_changes_nothing() -> None:
    """Rows 2, 4: work goes on, and no round is needed, delayed or not."""
    for delay_ms, event in ((0, "COORDINATOR_FOUND_STILL_ASSIGNED"), (9_000, "COORDINATOR_FOUND_STILL_DELAYED")):
        scene = Scene().settled(delay_ms=delay_ms)
        assert scene.give(CoordinatorLost()) == [FindCoordinator()]
        scene.give(CoordinatorFound())
        assert scene.took() == ["COORDINATOR_LOST", event]
        assert scene.worker.running == (A, A0)


def test_without_a_coordinator_the_work_is_given_up() -> None:
    """Row 3, logs 5: after a heartbeat interval everything stops, and the next join reports nothing."""
    scene = Scene().settled()
    scene.give(CoordinatorLost())
    assert scene.wait(3_000) == [StopUnits((A, A0)), FlushStatuses()]
    assert scene.wait(3_000) == []
    assert scene.took() == ["COORDINATOR_LOST", "DISCOVERY_FAILED_HOLDING", "DISCOVERY_FAILED_EMPTY_HANDED"]
    scene.give(CoordinatorFound())
    assert held_in_join(scene) is None


def test_a_silent_coordinator_is_lost_when_the_session_ends() -> None:
    """Row 4: no heartbeat answered within session.timeout.ms."""
    scene = Scene().settled()
    for _ in range(3):
        scene.wait(3_000)
    assert scene.state is State.ASSIGNED
    scene.wait(1_000)
    assert (scene.state, scene.took()) == (State.DISCONNECTED, ["COORDINATOR_LOST"])


def test_a_coordinator_that_is_none_is_looked_for_again() -> None:
    """1.4: NOT_COORDINATOR on a join, a sync and a heartbeat, and a connection that broke."""
    gone = ErrorCode.NOT_COORDINATOR
    scene = Scene().start()
    scene.answer(JoinGroupResponse(error_code=gone))
    assert scene.state is State.DISCONNECTED
    scene.give(CoordinatorFound())
    scene.joined()
    scene.answer(SyncGroupResponse(error_code=gone))
    assert scene.state is State.DISCONNECTED
    scene = Scene().settled()
    scene.wait(3_000)
    scene.beat(gone)
    assert scene.state is State.DISCONNECTED
    scene = Scene().start()
    scene.answer(DISCONNECTED)
    assert scene.took()[-1] == "COORDINATOR_LOST"


def test_a_coordinator_lost_while_starting_is_noticed_afterwards() -> None:
    """Row 4: the thread is busy; the work is recorded first."""
    scene = Scene().start().joined().synced((A,))
    assert scene.give(CoordinatorLost()) == []
    assert scene.give(UnitsStarted()) == [FindCoordinator()]
    assert (scene.state, scene.worker.running) == (State.DISCONNECTED, (A,))


# Heartbeats


@pytest.mark.parametrize(
    ("error", "event", "member_id"),
    [
        (ErrorCode.ILLEGAL_GENERATION, "HEARTBEAT_ILLEGAL_GENERATION", "m1"),
        (ErrorCode.UNKNOWN_MEMBER_ID, "HEARTBEAT_UNKNOWN_MEMBER", ""),
    ],
)
def test_a_worker_that_was_thrown_out_rejoins_and_stops_nothing(error: ErrorCode, event: str, member_id: str) -> None:
    """1.4: it goes on running all it held, and says so in its join."""
    scene = Scene().settled()
    scene.wait(3_000)
    scene.beat(error)
    assert scene.took() == [event, "JOIN_DUE_COOPERATIVE"]
    assert (scene.worker.member_id, scene.worker.running) == (member_id, (A, A0))
    assert held_in_join(scene) == (A, A0)


def test_a_heartbeat_of_a_generation_that_is_over_means_nothing() -> None:
    """1.4: the answer is judged by what the request said."""
    scene = Scene().settled()
    scene.wait(3_000)
    number, *_ = scene.worker.heartbeat_sent
    scene.give(advanced(ConfigChange("C", Change.CONFIG)))
    scene.joined(generation=2)
    scene.took()
    assert scene.beat(ErrorCode.ILLEGAL_GENERATION) == []
    assert scene.took() == ["HEARTBEAT_STALE"]
    assert number


def test_a_round_announced_while_starting_follows_the_work() -> None:
    """Row 28: REBALANCE_IN_PROGRESS during the starts."""
    scene = Scene().start().joined().synced((A,))
    scene.wait(3_000)
    scene.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert scene.state is State.STARTING
    scene.give(UnitsStarted())
    assert scene.took()[-3:] == ["HEARTBEAT_REBALANCE", "STARTED_REJOIN", "JOIN_DUE_COOPERATIVE"]


def test_other_heartbeat_errors_are_tried_again() -> None:
    """What is neither the membership's end nor the coordinator's costs a backoff, not the herder."""
    scene = Scene().settled()
    scene.wait(3_000)
    assert scene.beat(ErrorCode.UNKNOWN_SERVER_ERROR) == []
    scene.wait(100)
    assert len(scene.bodies(HeartbeatRequest)) == 1


def test_a_worker_that_does_not_poll_leaves_and_stops_nothing() -> None:
    """Row 31: a process that was frozen for the rebalance timeout, within its session."""
    scene = Scene(rebalance_timeout_ms=2_000, heartbeat_interval_ms=1_500).settled()
    scene.wait(2_000)
    assert len(scene.bodies(LeaveGroupRequest)) == 1
    assert scene.took() == ["POLL_TIMEOUT", "JOIN_DUE_COOPERATIVE"]
    assert (scene.worker.member_id, scene.worker.running) == ("", (A, A0))


# Protocols


def test_a_step_up_from_eager_stops_all_but_reports_it() -> None:
    """1.1: the first cooperative round after an eager one keeps the list of owned units; kept units start again."""
    scene = Scene("sessioned").settled((A, A0), version=0)
    scene.wait(3_000)
    scene.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert scene.effects[:2] == [StopUnits((A, A0)), FlushStatuses()]
    assert held_in_join(scene) == (A, A0)
    scene.joined(1, generation=2).synced((B,))
    assert scene.effects == [StartUnits((B, A, A0))]


@pytest.mark.parametrize("fixed", [False, True])
def test_a_step_down_to_eager_leaves_moved_units_running_unless_mended(fixed: bool) -> None:
    """1.1, KAFKA-13816, W7: A0 goes elsewhere and goes on here; the document's profile stops it before any start."""
    scene = Scene("compatible", profile=DOCUMENT) if fixed else Scene("compatible")
    scene.settled((A, A0), version=1)
    scene.wait(3_000)
    scene.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    scene.joined(0, generation=2).synced((A, B))
    stops = [effect for effect in scene.effects if isinstance(effect, StopUnits)]
    assert stops == ([StopUnits((A0,))] if fixed else [])
    assert scene.worker.holds == (A, B)


def test_the_documents_worker_reports_what_is_left_of_a_delay() -> None:
    """2.11: 9 s announced, 2 s later 7 s are left; a shipped worker repeats the 9."""
    for profile, left_ms in ((DOCUMENT, 7_000), (None, 9_000)):
        scene = (Scene("compatible", profile=profile) if profile else Scene("compatible")).settled((A,), 9_000, 1)
        scene.wait(2_000)
        scene.give(advanced(ConfigChange("C", Change.CONFIG)))
        (join,) = scene.bodies(JoinGroupRequest)
        assert isinstance(join, JoinGroupRequest)
        held = decode_metadata(join.protocols[0].metadata).held
        assert held is not None
        assert held.delay_ms == left_ms


# Stopping, and what is refused


def test_a_stopped_worker_stops_its_units_then_leaves() -> None:
    """Row 32; whatever comes afterwards is not heard."""
    scene = Scene().settled()
    stop, leave = scene.give(Stop())
    assert stop == StopEverything()
    assert isinstance(leave, Send)
    assert isinstance(leave.body, LeaveGroupRequest)
    assert (scene.state, scene.worker.running, scene.worker.holds) == (State.DOWN, (), ())
    assert scene.give(CoordinatorLost(), UnitsStarted(), Tick()) == []


def test_ends_that_nobody_waits_for_are_the_embeddings_mistake() -> None:
    """The error names the state, and the worker given stays as it was."""
    scene = Scene().settled()
    before = scene.worker
    for given, error in (
        (UnitsStopped(), "no stop is pending in ASSIGNED"),
        (UnitsStarted(), "no start is pending in ASSIGNED"),
        (Start(SNAPSHOT), "a running Connect worker cannot be started"),
        ("hello", "str is not an input of a Connect worker"),
    ):
        with pytest.raises(LocalProtocolError, match=error):
            step(before, given, scene.now_ms)  # type: ignore[arg-type]
    assert scene.worker is before
    assert hash(before) == hash(scene.worker)


def test_answers_of_the_wrong_kind_and_bytes_that_are_none_are_the_peers_mistake() -> None:
    """A heartbeat's answer to a join, and an assignment that ends early."""
    scene = Scene().start()
    with pytest.raises(RemoteProtocolError, match="HeartbeatResponse does not answer a request of a worker in JOINING"):
        scene.answer(HeartbeatResponse())
    scene.joined()
    with pytest.raises(RemoteProtocolError, match="assignment of a Connect worker cannot be read at byte 0"):
        scene.answer(SyncGroupResponse(b"", protocol_type="connect", protocol_name="sessioned"))


# Every state


BETWEEN_INPUTS = [state for state in State if state not in {State.DOWN, State.LEADING}]
"""Leading begins and ends within the step that elects."""
STATES = pytest.mark.parametrize("state", BETWEEN_INPUTS, ids=lambda state: state.name)


@STATES
def test_a_worker_can_be_stopped_in_any_state(state: State) -> None:
    """Row 32: everything stops first; a leave follows where there are a coordinator and a member id."""
    scene = Scene().lead_to(state)
    knows_its_group = bool(scene.worker.coordinator_known and scene.worker.member_id)
    assert scene.give(Stop())[0] == StopEverything()
    assert len(scene.bodies(LeaveGroupRequest)) == knows_its_group
    assert (scene.took(), scene.state, scene.worker.member_id) == (["STOP"], State.DOWN, "")


@STATES
def test_a_thread_that_dies_stops_nothing_and_does_not_leave(state: State) -> None:
    """Row 33: an exception in the worker's thread ends its herder; what runs goes on, the group finds out by itself."""
    scene = Scene().lead_to(state)
    running = scene.worker.running
    assert scene.give(ThreadFailed("out of memory")) == [HerderEnded("out of memory")]
    assert (scene.took(), scene.state, scene.worker.running) == (["FATAL_ERROR"], State.DOWN, running)


@pytest.mark.parametrize("error", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID])
@pytest.mark.parametrize("state", [State.REVOKING, State.CATCHING_UP, State.STARTING], ids=lambda state: state.name)
def test_a_membership_lost_in_the_middle_of_a_round_lets_the_work_end_first(state: State, error: ErrorCode) -> None:
    """1.4: the heartbeat thread learns it; generation and id are gone at once, the join follows the work in hand."""
    scene = Scene(worker_sync_timeout_ms=60_000).lead_to(state)
    scene.wait(3_000)
    scene.beat(error)
    lost_id = error is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.took() == ["HEARTBEAT_UNKNOWN_MEMBER" if lost_id else "HEARTBEAT_ILLEGAL_GENERATION"]
    assert (scene.state, scene.worker.member_id) == (state, "" if lost_id else "m1")
    if state is State.REVOKING:
        scene.give(UnitsStopped())
    if state is State.CATCHING_UP:
        scene.give(ReadToEnd(ConfigSnapshot(7, SNAPSHOT.task_counts)))
    scene.give(UnitsStarted())
    assert scene.state is State.JOINING


@pytest.mark.parametrize("state", [State.REVOKING, State.CATCHING_UP], ids=lambda state: state.name)
def test_a_round_announced_while_revoking_or_reading_follows_the_work(state: State) -> None:
    """Row 28: the next join waits for what is under way."""
    scene = Scene(worker_sync_timeout_ms=60_000).lead_to(state)
    scene.wait(3_000)
    scene.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert (scene.took(), scene.state, scene.worker.rejoin_wanted) == (["HEARTBEAT_REBALANCE"], state, True)


def test_a_late_heartbeat_may_end_a_membership_while_the_next_join_waits() -> None:
    """1.4: sent before the join, answered while a loading coordinator is given its time: the next join has no id."""
    scene = Scene().settled()
    scene.wait(3_000)
    scene.give(advanced(ConfigChange("C", Change.CONFIG)))
    scene.answer(JoinGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert scene.state is State.UNJOINED
    scene.took()
    scene.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert (scene.took(), scene.state, scene.worker.member_id) == (
        ["HEARTBEAT_UNKNOWN_MEMBER"],
        State.UNJOINED,
        "",
    )
    scene.wait(100)
    (join,) = scene.bodies(JoinGroupRequest)
    assert isinstance(join, JoinGroupRequest)
    assert join.member_id == ""


@pytest.mark.parametrize("state", [State.REVOKING, State.CATCHING_UP, State.STARTING], ids=lambda state: state.name)
def test_work_that_takes_longer_than_the_rebalance_timeout_costs_the_membership(state: State) -> None:
    """Row 31: the heartbeat thread leaves; the thread at work goes on, and joins anew when it is done."""
    settings = {"rebalance_timeout_ms": 5_000, "worker_sync_timeout_ms": 60_000, "session_timeout_ms": 30_000}
    scene = Scene(**settings).lead_to(state)
    scene.wait(5_000)
    assert len(scene.bodies(LeaveGroupRequest)) == 1
    assert (scene.took(), scene.state, scene.worker.member_id) == (["POLL_TIMEOUT"], state, "")


def test_a_delayed_worker_that_does_not_poll_leaves_too() -> None:
    """Row 31 in DELAYED: the deadline does not keep it."""
    scene = Scene(rebalance_timeout_ms=2_000, heartbeat_interval_ms=1_500).lead_to(State.DELAYED)
    scene.wait(2_000)
    assert len(scene.bodies(LeaveGroupRequest)) == 1
    assert scene.took() == ["POLL_TIMEOUT", "JOIN_DUE_COOPERATIVE"]
