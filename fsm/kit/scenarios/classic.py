"""Scenarios for members of classic groups."""

from __future__ import annotations

from fsm.kit.client_history import CLASSIC
from fsm.kit.scenario import (
    CLASSIC_BEAT,
    JOIN,
    SYNC,
    A,
    B,
    C,
    Close,
    Command,
    Expire,
    Kill,
    Members,
    Move,
    Options,
    Scenario,
    Stable,
    Start,
    Step,
    Topic,
    Wait,
    disturb,
    refuse,
)
from fsm.protocol.error_codes import ErrorCode
from fsm.serve.faults import ALWAYS, Do

COOPERATIVE = "cooperative-sticky"


def _up(**options: object) -> tuple[Step, ...]:
    return (Start(A, Options(**options)), Stable(1), Wait(1.5))  # type: ignore[arg-type]


def _with_b(**options: object) -> tuple[Step, ...]:
    return (Start(B, Options(**options)), Stable(2), Wait(2))  # type: ignore[arg-type]


def _beat_refused(name: str, code: ErrorCode, about: str, times: int = 1, **options: object) -> Scenario:
    return Scenario(name, about, (*_up(**options), refuse(code, CLASSIC_BEAT, times=times), Wait(6)))


FOUND = (
    Scenario(
        "classic_plain",
        "B joins A, each owns half, B leaves, A owns all.",
        (*_up(), *_with_b(), Close(B), Stable(1), Wait(2)),
    ),
    Scenario(
        "classic_cooperative",
        "The same with a cooperative assignor.",
        (*_up(assignor=COOPERATIVE), *_with_b(assignor=COOPERATIVE), Wait(1), Close(B), Stable(1), Wait(2)),
    ),
    Scenario(
        "classic_three",
        "Three members join, and the leader is the first to leave.",
        (*_up(), *_with_b(), Start(C), Stable(3), Wait(2), Close(A), Stable(2), Wait(2)),
    ),
    Scenario(
        "classic_joins_b",
        "A joins a group that B leads.",
        (Start(B), Stable(1), Wait(1), Start(A), Stable(2), Wait(2), Close(B), Stable(1), Wait(1)),
    ),
    Scenario(
        "classic_cooperative_joins_b",
        "A joins a cooperative group that B leads, and B leaves.",
        (
            Start(B, Options(assignor=COOPERATIVE)),
            Stable(1),
            Wait(1),
            Start(A, Options(assignor=COOPERATIVE)),
            Stable(2),
            Wait(3),
            Close(B),
            Stable(1),
            Wait(2),
        ),
    ),
    Scenario(
        "classic_restart",
        "A closes, and a new process continues from its committed offsets.",
        (*_up(), Wait(2), Close(A), Wait(0.3), Start(A), Stable(1), Wait(2)),
    ),
    Scenario(
        "classic_killed",
        "A is killed; B gets its partitions when the session expires.",
        (*_up(), *_with_b(), Kill(A), Stable(1), Wait(1)),
    ),
    Scenario("classic_partitions_added", "A topic gets more partitions.", (*_up(), Topic("foo", 6), Wait(6))),
    Scenario(
        "classic_resubscribe", "A drops one topic from its subscription.", (*_up(), Command("subscribe foo"), Wait(5))
    ),
    _beat_refused(
        "classic_rebalance", ErrorCode.REBALANCE_IN_PROGRESS, "A heartbeat fails with REBALANCE_IN_PROGRESS."
    ),
    _beat_refused(
        "classic_illegal_generation", ErrorCode.ILLEGAL_GENERATION, "A heartbeat fails with ILLEGAL_GENERATION."
    ),
    _beat_refused("classic_unknown_member", ErrorCode.UNKNOWN_MEMBER_ID, "The coordinator does not know A."),
    _beat_refused("classic_not_coordinator", ErrorCode.NOT_COORDINATOR, "The broker is not the coordinator."),
    _beat_refused("classic_loading", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The coordinator is loading.", 3),
    _beat_refused(
        "classic_fenced_instance", ErrorCode.FENCED_INSTANCE_ID, "Another process took the instance id.", instance="i1"
    ),
    Scenario(
        "classic_max_size",
        "The group is full.",
        (refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, JOIN, times=ALWAYS), Start(A), Wait(5)),
    ),
    Scenario(
        "classic_unauthorized",
        "A is not authorized to use the group.",
        (refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED, JOIN, times=ALWAYS), Start(A), Wait(5)),
    ),
    Scenario(
        "classic_join_loading",
        "The coordinator is loading while A joins.",
        (refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, JOIN, times=3), Start(A), Stable(1), Wait(3)),
    ),
    Scenario(
        "classic_lost_sync",
        "The response to SyncGroup is lost.",
        (disturb(Do.LOSE, SYNC), Start(A), Stable(1, 20), Wait(3)),
    ),
    Scenario(
        "classic_lost_beat", "The response to a heartbeat is lost.", (*_up(), disturb(Do.LOSE, CLASSIC_BEAT), Wait(5))
    ),
    Scenario(
        "classic_sync_rebalance",
        "SyncGroup fails with REBALANCE_IN_PROGRESS.",
        (refuse(ErrorCode.REBALANCE_IN_PROGRESS, SYNC), Start(A), Stable(1, 20), Wait(3)),
    ),
    Scenario(
        "classic_static",
        "A static member is restarted.",
        (*_up(instance="i1"), *_with_b(), Close(A), Wait(0.3), Start(A, Options(instance="i1")), Members(2), Wait(4)),
    ),
    Scenario(
        "classic_static_leader",
        "A static leader is restarted: its assignment is kept.",
        (*_up(instance="i1"), Close(A), Wait(0.3), Start(A, Options(instance="i1")), Stable(1), Wait(3)),
    ),
    Scenario(
        "classic_slow_revoke",
        "The revoked callback takes 2.5 s.",
        (*_up(revoke_delay_ms=2_500), Start(B), Stable(2, 20), Wait(2)),
    ),
    Scenario(
        "classic_max_poll",
        "The application does not poll within max.poll.interval.ms.",
        (*_up(max_poll_ms=6_000), Command("pause"), Wait(9), Command("resume"), Wait(4)),
    ),
    Scenario("classic_expired", "The session of A expires at the coordinator.", (*_up(), Expire(), Wait(5))),
    Scenario("classic_moved", "The coordinator moves to another broker.", (*_up(), Move(), Wait(5)), brokers=3),
    Scenario(
        "classic_commit_refused",
        "A commit fails with ILLEGAL_GENERATION.",
        (*_up(), refuse(ErrorCode.ILLEGAL_GENERATION, "OffsetCommit"), Command("commit"), Wait(5)),
    ),
)

CLASSIC_SCENARIOS = tuple(one._replace(protocol=CLASSIC) for one in FOUND)
