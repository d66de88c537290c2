"""Scenarios for members of consumer groups (KIP-848)."""

from __future__ import annotations

from fsm.kit.scenario import (
    A,
    B,
    C,
    Close,
    Command,
    Expire,
    Kill,
    Members,
    Move,
    NoFaults,
    Options,
    Scenario,
    Stable,
    Start,
    Step,
    Topic,
    UnknownTopic,
    UnstableOffsets,
    Wait,
    disturb,
    refuse,
)
from fsm.protocol.error_codes import ErrorCode
from fsm.serve.faults import ALWAYS, Do


def _up(**options: object) -> tuple[Step, ...]:
    return (Start(A, Options(**options)), Stable(1), Wait(1.2))  # type: ignore[arg-type]


UP = _up()
"""A alone, and settled."""
JOINED_BY_B: tuple[Step, ...] = (Start(B), Stable(2))


def _refuse_heartbeat(
    name: str, code: ErrorCode, about: str, times: int = 1, wait_s: float = 5, **options: object
) -> Scenario:
    """A heartbeat of A, which has settled, is refused."""
    return Scenario(name, about, (*_up(**options), refuse(code, times=times), Wait(wait_s)))


def _refuse_join(name: str, code: ErrorCode, about: str, times: int = ALWAYS, **options: object) -> Scenario:
    """The join of A is refused."""
    start = Start(A, Options(**options))  # type: ignore[arg-type]
    return Scenario(name, about, (refuse(code, epoch=0, times=times), start, Wait(6)))


PLAIN = (
    Scenario(
        "plain",
        "B joins A, each owns half, B leaves, A owns all.",
        (*UP, *JOINED_BY_B, Wait(2.5), Close(B), Stable(1), Wait(2.2)),
    ),
    Scenario(
        "three",
        "Three members join, and A is the first to leave.",
        (*UP, *JOINED_BY_B, Start(C), Stable(3), Wait(2), Close(A), Stable(2), Wait(1)),
    ),
    Scenario(
        "more_members_than_partitions",
        "There is no partition left for B.",
        (*UP, Start(B), Members(2), Wait(4)),
        topics={"foo": 1},
    ),
    Scenario(
        "slow_interval",
        "Heartbeats every 3 s.",
        (*UP, Wait(8)),
        settings={"group.consumer.heartbeat.interval.ms": "3000"},
    ),
    Scenario(
        "restart",
        "A closes, and a new process continues from its committed offsets.",
        (*UP, Wait(2.5), Close(A), Wait(0.3), Start(A), Stable(1), Wait(2)),
    ),
    Scenario(
        "killed",
        "A is killed; B gets its partitions when the session expires.",
        (*UP, *JOINED_BY_B, Wait(1), Kill(A), Stable(1), Wait(1)),
    ),
    Scenario("partitions_added", "A topic gets more partitions.", (*UP, Topic("foo", 6), Wait(4))),
    Scenario("topic_deleted", "A topic is deleted.", (*UP, Topic("bar", 0), Wait(6))),
    Scenario(
        "topic_made",
        "A topic that A subscribes to is created later.",
        (*_up(topics="foo,later"), Topic("later", 2), Wait(5)),
        topics={"foo": 4},
    ),
    Scenario(
        "resubscribe",
        "A drops one topic from its subscription, then unsubscribes, then subscribes to the other one.",
        (*UP, Command("subscribe foo"), Wait(4), Command("unsubscribe"), Wait(2), Command("subscribe bar"), Wait(3)),
    ),
    Scenario("regex", "A subscribes to a pattern.", (*_up(topics="^(foo|bar)$"), Wait(2))),
    Scenario("range_assignor", "A asks for the assignor `range`.", (*_up(assignor="range"), *JOINED_BY_B, Wait(2))),
)

LOST = (
    Scenario("lost_join", "The response to the join of A is lost.", (disturb(Do.LOSE, epoch=0), *UP, Wait(2))),
    Scenario("lost_keepalive", "The response to a keepalive heartbeat is lost.", (*UP, disturb(Do.LOSE), Wait(5))),
    Scenario(
        "lost_revoking",
        "The response that revokes partitions is lost.",
        (*UP, Start(B), Members(2), disturb(Do.LOSE), Stable(2), Wait(1.5)),
    ),
    Scenario(
        "lost_ack",
        "The response to the acknowledgement of a revocation is lost.",
        (*UP, Start(B), Members(2), disturb(Do.LOSE, nth=2), Stable(2), Wait(2)),
    ),
    Scenario(
        "lost_assigning",
        "The response that assigns partitions is lost.",
        (*UP, *JOINED_BY_B, Wait(1), Close(B), disturb(Do.LOSE), Stable(1), Wait(2)),
    ),
    Scenario("lost_leave", "The response to the leave heartbeat is lost.", (*UP, disturb(Do.LOSE, epoch=-1))),
    Scenario("lost_commit", "The response to a commit is lost.", (*UP, disturb(Do.LOSE, "OffsetCommit"), Wait(4))),
    Scenario("closed_early", "The connection closes before a heartbeat is handled.", (*UP, disturb(Do.CLOSE), Wait(4))),
    Scenario(
        "mute_join",
        "The join is handled but never answered.",
        (disturb(Do.MUTE, epoch=0), Start(A), Stable(1, 30), Wait(6)),
    ),
    Scenario(
        "mute_keepalive", "A keepalive heartbeat is handled but never answered.", (*UP, disturb(Do.MUTE), Wait(9))
    ),
    Scenario(
        "mute_revoking",
        "The response that revokes partitions never arrives; the connection stays open.",
        (*UP, Start(B), Members(2), disturb(Do.MUTE), Stable(2, 20), Wait(1.5)),
    ),
    Scenario("hung", "A heartbeat is neither handled nor answered.", (*UP, disturb(Do.SWALLOW), Wait(12))),
    Scenario("delayed", "A heartbeat is answered 2.5 s late.", (*UP, disturb(Do.DELAY_ANSWER, ms=2_500), Wait(5))),
    Scenario("duplicate", "A heartbeat is handled twice.", (*UP, disturb(Do.DUPLICATE, times=3), Wait(4))),
    Scenario("paused", "The brokers pause for 3 s.", (*UP, disturb(Do.PAUSE, ms=3_000), Wait(7))),
)

ERRORS = (
    _refuse_heartbeat("fenced", ErrorCode.FENCED_MEMBER_EPOCH, "A heartbeat is refused: the epoch is fenced."),
    _refuse_heartbeat("unknown_member", ErrorCode.UNKNOWN_MEMBER_ID, "A heartbeat is refused: the member is unknown."),
    _refuse_heartbeat(
        "loading", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The coordinator is loading during five heartbeats.", 5, 6
    ),
    _refuse_heartbeat("not_coordinator", ErrorCode.NOT_COORDINATOR, "The broker answers NOT_COORDINATOR once."),
    _refuse_heartbeat(
        "not_available",
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "The broker answers COORDINATOR_NOT_AVAILABLE three times.",
        3,
        6,
    ),
    _refuse_heartbeat(
        "fenced_instance", ErrorCode.FENCED_INSTANCE_ID, "Another process took the instance id.", instance="i1"
    ),
    _refuse_heartbeat("invalid_request", ErrorCode.INVALID_REQUEST, "A heartbeat is refused as invalid."),
    _refuse_heartbeat(
        "unknown_server_error", ErrorCode.UNKNOWN_SERVER_ERROR, "A heartbeat fails with UNKNOWN_SERVER_ERROR."
    ),
    _refuse_join("unsupported_assignor", ErrorCode.UNSUPPORTED_ASSIGNOR, "The assignor is not supported."),
    _refuse_join("max_size", ErrorCode.GROUP_MAX_SIZE_REACHED, "The group is full."),
    _refuse_join("unauthorized", ErrorCode.GROUP_AUTHORIZATION_FAILED, "A is not authorized to use the group."),
    _refuse_join(
        "unreleased_instance", ErrorCode.UNRELEASED_INSTANCE_ID, "The instance id is in use.", 2, instance="i1"
    ),
    _refuse_join(
        "loading_at_join", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The coordinator is loading while A joins.", 3
    ),
    Scenario(
        "switched_off",
        "Consumer groups are disabled: every heartbeat is refused with UNSUPPORTED_VERSION.",
        (refuse(ErrorCode.UNSUPPORTED_VERSION, times=ALWAYS), Start(A), Wait(6)),
    ),
    Scenario(
        "no_848",
        "The brokers do not know ConsumerGroupHeartbeat.",
        (Start(A), Wait(6)),
        hidden=("ConsumerGroupHeartbeat", "ConsumerGroupDescribe"),
    ),
    Scenario("expired", "The session of A expires at the coordinator.", (*UP, Expire(), Wait(5))),
    Scenario(
        "expired_beside_b",
        "The sessions of A and B expire at the coordinator.",
        (*UP, *JOINED_BY_B, Wait(1), Expire(), Wait(5)),
    ),
    Scenario(
        "real_expiry",
        "A gets NOT_COORDINATOR for 8 s, until its session has expired; then all is well.",
        (*UP, refuse(ErrorCode.NOT_COORDINATOR, times=ALWAYS), Wait(8), NoFaults(), Wait(6)),
    ),
    Scenario("moved", "The coordinator moves to another broker.", (*UP, Move(), Wait(5)), brokers=3),
    Scenario(
        "moved_while_revoking",
        "The coordinator moves while B waits for partitions of A.",
        (*_up(revoke_delay_ms=1_500), Start(B), Members(2), Wait(1.2), Move(), Stable(2), Wait(2)),
        brokers=3,
    ),
    Scenario(
        "fenced_while_revoking",
        "A is fenced in its revoked callback.",
        (*_up(revoke_delay_ms=2_500), Start(B), Members(2), Wait(1.2), refuse(ErrorCode.FENCED_MEMBER_EPOCH), Wait(6)),
    ),
    Scenario("throttled", "A is throttled for 2.5 s.", (*UP, disturb(Do.THROTTLE, ms=2_500), Wait(6))),
    Scenario(
        "longer_interval",
        "The coordinator changes the interval to 3 s.",
        (*UP, disturb(Do.REWRITE, fields={"heartbeat_interval_ms": 3_000}, times=ALWAYS), Wait(9)),
    ),
)

CALLBACKS = (
    Scenario("slow_revoke", "The revoked callback takes 2.5 s.", (*_up(revoke_delay_ms=2_500), *JOINED_BY_B, Wait(1))),
    Scenario(
        "very_slow_revoke",
        "The revoked callback takes 8 s, longer than the session.",
        (*_up(revoke_delay_ms=8_000), Start(B), Stable(2, 24), Wait(1), Close(B), Wait(2)),
    ),
    Scenario(
        "too_slow_revoke",
        "The revoked callback takes 6 s, longer than the rebalance timeout of 3 s.",
        (*_up(revoke_delay_ms=6_000, max_poll_ms=3_000), Start(B), Wait(11)),
    ),
    Scenario("slow_assign", "The assigned callback takes 3 s.", (Start(A, Options(assign_delay_ms=3_000)), Wait(7))),
    Scenario(
        "slow_both",
        "Both callbacks take 1.5 s while members come and go.",
        (*_up(revoke_delay_ms=1_500, assign_delay_ms=1_500), *JOINED_BY_B, Wait(3), Close(B), Stable(1), Wait(3)),
    ),
    Scenario(
        "max_poll",
        "The application does not poll within max.poll.interval.ms.",
        (*_up(max_poll_ms=3_000), Command("pause"), Wait(6), Command("resume"), Wait(3)),
    ),
    Scenario(
        "max_poll_beside_b",
        "The application of A does not poll; B gets all.",
        (*_up(max_poll_ms=3_000), *JOINED_BY_B, Command("pause"), Wait(6), Command("resume"), Stable(2), Wait(2)),
    ),
    Scenario("unknown_topic_id", "A is assigned a topic id that no broker knows.", (*UP, UnknownTopic(), Wait(6))),
    Scenario(
        "unknown_topic_id_revoking",
        "A is assigned an unknown topic id, and loses a topic.",
        (*UP, UnknownTopic("bar"), Wait(6)),
    ),
)

STATIC = (
    Scenario(
        "static",
        "A static member is restarted.",
        (*_up(instance="i1"), Close(A), Wait(0.3), Start(A, Options(instance="i1")), Stable(1), Wait(2.5)),
    ),
    Scenario(
        "static_beside_b",
        "A static member is restarted while B is there.",
        (
            *_up(instance="i1"),
            *JOINED_BY_B,
            Wait(1),
            Close(A),
            Wait(0.3),
            Start(A, Options(instance="i1")),
            Stable(2),
            Wait(2),
        ),
    ),
    Scenario(
        "static_killed",
        "A static member is killed and comes back.",
        (*_up(instance="i1"), Kill(A), Wait(0.5), Start(A, Options(instance="i1")), Wait(9)),
    ),
    Scenario(
        "static_unsubscribes",
        "A static member unsubscribes and subscribes again.",
        (*_up(instance="i1"), Command("unsubscribe"), Wait(2), Command("subscribe foo"), Wait(3)),
    ),
)

OFFSETS = (
    Scenario(
        "commit_before_ack",
        "A reads forty records a second while B takes half of its partitions.",
        (*UP, Wait(0.15), *JOINED_BY_B, Wait(2)),
        records_a_second=40,
    ),
    Scenario(
        "stale_commit",
        "Two commits are refused with STALE_MEMBER_EPOCH.",
        (*UP, refuse(ErrorCode.STALE_MEMBER_EPOCH, "OffsetCommit", times=2), Command("commit"), Wait(6)),
    ),
    Scenario(
        "unstable_offsets",
        "OffsetFetch is answered with UNSTABLE_OFFSET_COMMIT, twice.",
        (UnstableOffsets(2), Start(A), Stable(1), Wait(5)),
    ),
    Scenario(
        "stale_offset_fetch",
        "OffsetFetch is refused with STALE_MEMBER_EPOCH, twice.",
        (refuse(ErrorCode.STALE_MEMBER_EPOCH, "OffsetFetch", times=2), Start(A), Stable(1), Wait(5)),
    ),
    Scenario(
        "close_with_records", "A closes while it reads forty records a second.", (*UP, Wait(1.3)), records_a_second=40
    ),
)

CONSUMER_SCENARIOS = (*PLAIN, *LOST, *ERRORS, *CALLBACKS, *STATIC, *OFFSETS)
