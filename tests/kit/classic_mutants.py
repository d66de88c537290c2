"""Mutants that break the rules of classic groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fsm.kit.client_history import CLASSIC
from fsm.kit.scenario import CLASSIC_BEAT, JOIN, A, B, Members, Options, Scenario, Stable, Start, Wait, disturb, refuse
from fsm.kit.scenarios.classic import COOPERATIVE
from fsm.protocol.assignment import partitions
from fsm.protocol.consumer_protocol import (
    Assignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    FetchRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    OffsetCommitRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    commit_topics,
)
from fsm.serve.faults import Do
from tests.kit.mutants import Mutant, Refused, Take, breaks, requests_changed
from tests.kit.offset_mutants import fetching

QUIET = Scenario("classic_quiet", "A alone for a while.", (Start(A), Stable(1), Wait(9)), protocol=CLASSIC)
QUIET_STATIC = QUIET._replace(steps=(Start(A, Options(instance="i1")), Stable(1), Wait(9)))
REFUSED_LEAVING = Scenario(
    "classic_quiet_static",
    "A static member alone.",
    (Start(A, Options(instance="i1")), Stable(1), Wait(3)),
    protocol=CLASSIC,
)
ONE_TOPIC = Scenario(
    "classic_one_topic",
    "A subscribes to one of two topics.",
    (Start(A, Options("foo")), Stable(1), Wait(3)),
    protocol=CLASSIC,
)
LATE_JOIN = Scenario(
    "classic_late_join",
    "The answer to the join comes late.",
    (disturb(Do.DELAY_ANSWER, JOIN, ms=2_000, nth=2), Start(A), Stable(1), Wait(3)),
    protocol=CLASSIC,
)
REJOINING = Scenario(
    "classic_rejoining",
    "A joins again, and the answer comes late.",
    (
        Start(A), Stable(1), Wait(1.2), disturb(Do.DELAY_ANSWER, JOIN, ms=4_000),
        refuse(ErrorCode.REBALANCE_IN_PROGRESS, CLASSIC_BEAT), Wait(7),
    ),
    protocol=CLASSIC,
)  # fmt: skip

COOPERATIVE_PAIR = Scenario(
    "classic_cooperative_pair",
    "B joins a cooperative A; both close before a session is over.",
    (
        Start(A, Options(assignor=COOPERATIVE)), Stable(1), Wait(1.5),
        Start(B, Options(assignor=COOPERATIVE)), Members(2), Wait(4.5),
    ),
    protocol=CLASSIC,
)  # fmt: skip

BEATS = 3
"""Heartbeats after which a mutant errs."""


class Counting(Mutant):
    """Counts heartbeats and joins."""

    beats = 0
    joins = 0

    def change(self, request: Any) -> Any:
        self.beats += isinstance(request, HeartbeatRequest)
        self.joins += isinstance(request, JoinGroupRequest)
        return self.mutate(request)

    def mutate(self, request: Any) -> Any:
        """What goes out instead."""
        return request


def at_beat(check: str, scenario: str | Scenario, name: str, change: Callable[[HeartbeatRequest], Any]) -> None:
    """Declares a mutant whose third heartbeat is another one."""

    def mutate(self: Any, request: Any) -> Any:
        return change(request) if isinstance(request, HeartbeatRequest) and self.beats == BEATS else request

    breaks(check, scenario)(type(name, (Counting,), {"mutate": mutate}))


# Joining


@breaks("K1", "classic_plain")
class MakesItsIdUp(Counting):
    """The first join has a member id."""

    def mutate(self, request: Any) -> Any:
        return (
            replace(request, member_id="me") if isinstance(request, JoinGroupRequest) and self.joins == 1 else request
        )


@breaks("K2", "classic_plain")
class ForgetsTheGivenId(Counting):
    """The second join has no member id either."""

    def mutate(self, request: Any) -> Any:
        return replace(request, member_id="") if isinstance(request, JoinGroupRequest) and self.joins == 2 else request


@breaks("K3", "classic_plain")
class SyncsAnotherGeneration(Mutant):
    """The first SyncGroup has the generation before."""

    is_done = False

    def change(self, request: Any) -> Any:
        if isinstance(request, SyncGroupRequest) and not self.is_done:
            self.is_done = True
            return replace(request, generation_id=request.generation_id - 1)
        return request


@breaks("K4", "classic_plain")
class NeverSyncs(Mutant):
    """It sends heartbeats, but no SyncGroup."""

    def deliver(self, request: Any, answer: Any, take: Take) -> None:
        if isinstance(answer, JoinGroupResponse) and answer.error_code is ErrorCode.NONE:
            beat = HeartbeatRequest(request.group_id, answer.generation_id, answer.member_id)
            for second in (1, 2):
                self.network.loop.call_later(second, self.beat, beat)
        take(answer)

    def beat(self, request: HeartbeatRequest) -> None:
        if not self.stops:
            self.resend(request, lambda _: None)

    def dispatch(self, kind: str, broker: int, request: Any, take: Take) -> None:
        if not isinstance(request, SyncGroupRequest):
            super().dispatch(kind, broker, request, take)


@breaks("K31", LATE_JOIN)
class JoinsTwice(Mutant):
    """A join that is not answered within half a second is sent again."""

    def change(self, request: Any) -> Any:
        if isinstance(request, JoinGroupRequest) and request.member_id:
            self.network.loop.call_later(0.5, self.again, request)
        return request

    def again(self, request: Any) -> None:
        self.network.connect(self.coordinator, self.name).send(request, lambda _: None, 600_000)


@breaks("K25", ONE_TOPIC)
class JoinsWithoutTimeout(Counting):
    """The rebalance timeout of its first joins is 0; if it always were, round would follow round to the end."""

    def mutate(self, request: Any) -> Any:
        first = isinstance(request, JoinGroupRequest) and self.joins <= 20
        return replace(request, rebalance_timeout_ms=0) if first else request


# Heartbeats

at_beat("K7", QUIET, "beats_another_generation", lambda r: replace(r, generation_id=r.generation_id - 1))


@breaks("K8", QUIET_STATIC)
class SilentForLong(Counting):
    """No heartbeat for seven seconds, and no commit, which the coordinator takes for a sign of life."""

    def mutate(self, request: Any) -> Any:
        is_sign = isinstance(request, HeartbeatRequest | OffsetCommitRequest)
        return None if is_sign and self.beats > 1 else request


@breaks("K8", QUIET)
class SilentUntilItLeaves(Counting):
    """The same of a member that leaves: its goodbye comes when its session is over."""

    def mutate(self, request: Any) -> Any:
        is_sign = isinstance(request, HeartbeatRequest | OffsetCommitRequest)
        return None if is_sign and self.beats > 1 else request


@breaks("K9", QUIET)
class BeatsSeldom(Counting):
    """Every third heartbeat."""

    def mutate(self, request: Any) -> Any:
        return None if isinstance(request, HeartbeatRequest) and self.beats % 3 else request


@breaks("K10", "classic_rebalance")
class DoesNotRejoin(Refused):
    """REBALANCE_IN_PROGRESS is not looked at."""

    code = ErrorCode.REBALANCE_IN_PROGRESS

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        take(HeartbeatResponse())


@breaks("K11", "classic_rebalance")
class KafkaJSBeatsOnAndOn(Refused):
    """Eight heartbeats follow REBALANCE_IN_PROGRESS."""

    code = ErrorCode.REBALANCE_IN_PROGRESS

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        for number in range(8):
            self.resend(request, lambda _: None, 0.001 * number)
        self.network.loop.call_later(0.05, take, answer)


@breaks("K12", "classic_illegal_generation")
class ForgetsItsId(Refused):
    """ILLEGAL_GENERATION is taken for UNKNOWN_MEMBER_ID."""

    code = ErrorCode.ILLEGAL_GENERATION

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        take(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))


@breaks("K13", "classic_unknown_member")
class KeepsItsId(Refused):
    """UNKNOWN_MEMBER_ID is taken for ILLEGAL_GENERATION."""

    code = ErrorCode.UNKNOWN_MEMBER_ID

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        take(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))


@breaks("K14", "classic_not_coordinator")
class DoesNotSearch(Refused):
    """It asks the same broker again."""

    code = ErrorCode.NOT_COORDINATOR

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        self.resend(request, take, 0.2)


@breaks("K15", "classic_join_loading")
class TriesAtOnce(Refused):
    """Without a backoff."""

    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        self.resend(request, lambda later: self.deliver(request, later, take))


@breaks("K16", "classic_fenced_instance")
class BeatsWhenFenced(Refused):
    """It goes on though another process has its instance id."""

    code = ErrorCode.FENCED_INSTANCE_ID

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        take(answer)
        self.resend(request, lambda _: None, 0.01)


requests_changed(
    "K19",
    "classic_static_leader",
    "beats_as_nobody",
    HeartbeatRequest,
    lambda _, r: replace(r, group_instance_id=None),
)


# Leaving

requests_changed("K17", "classic_plain", "never_leaves", LeaveGroupRequest, lambda *_: None)
requests_changed(
    "K35",
    "classic_plain",
    "leaves_as_another",
    LeaveGroupRequest,
    lambda _, r: replace(r, members=tuple(m._replace(member_id=m.member_id + "x") for m in r.members)),
)


@breaks("K18", REFUSED_LEAVING)
class StaticLeaves(Mutant):
    """A static member leaves for good."""

    async def turn(self, consumer: Any) -> None:
        await super().turn(consumer)
        if not self.commands.empty() and HeartbeatRequest in self.last:
            beat = self.last[HeartbeatRequest]
            leave = LeaveGroupRequest(beat.group_id, members=(MemberIdentity(beat.member_id, "i1"),))
            self.resend(leave, lambda _: None)
            await asyncio.sleep(0.05)


@breaks("K26", "classic_plain")
class BeatsAfterLeaving(Mutant):
    """A heartbeat follows the leave."""

    def change(self, request: Any) -> Any:
        if isinstance(request, LeaveGroupRequest):
            self.resend(self.last[HeartbeatRequest], lambda _: None)
        return request


@breaks("K32", "classic_max_size")
class TriesAfterFatalError(Refused):
    """It joins again and again."""

    code = ErrorCode.GROUP_MAX_SIZE_REACHED

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        self.resend(request, lambda later: self.deliver(request, later, lambda _: None), 0.1)
        take(answer)


# Offsets and records

requests_changed(
    "K20",
    "classic_restart",
    "commits_another_generation",
    OffsetCommitRequest,
    lambda _, r: replace(r, generation_id_or_member_epoch=r.generation_id_or_member_epoch - 1),
)
requests_changed(
    "K21",
    ONE_TOPIC,
    "commits_another_topic",
    OffsetCommitRequest,
    lambda _, r: replace(r, topics=commit_topics((*r.offsets, (("zoo", 0), 1)))),
)
requests_changed("K22", ONE_TOPIC, "reads_another_topic", FetchRequest, lambda _, r: fetching(r, [("bar", 0)]))


@breaks("K33", REJOINING)
class ReadsWhileItJoins(Mutant):
    """An eager member reads on."""

    def change(self, request: Any) -> Any:
        if isinstance(request, JoinGroupRequest) and FetchRequest in self.last:
            for second in range(1, 4):
                self.network.loop.call_later(second, self.post, "data", 1, self.last[FetchRequest], lambda _: None)
        return request


@breaks("K34", "classic_unknown_member")
class ReadsWhenUnknown(Refused):
    """It joins late, and reads meanwhile."""

    code = ErrorCode.UNKNOWN_MEMBER_ID

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        self.network.loop.call_later(0.8, self.post, "data", 1, self.last[FetchRequest], lambda _: None)
        self.network.loop.call_later(1.5, take, answer)


# Assignments


def _assigned(
    change: Callable[[dict[str, set[tuple[str, int]]]], None],
) -> Callable[[Any, SyncGroupRequest], SyncGroupRequest]:
    """The leader's assignments, with one change."""

    def changed(_client: Any, request: SyncGroupRequest) -> SyncGroupRequest:
        if len(request.assignments) < 2:
            return request
        given = {one.member_id: set(decode_assignment(one.assignment).partitions) for one in request.assignments}
        change(given)
        made = (
            SyncGroupRequestAssignment(member, encode_assignment(Assignment(partitions(found))))
            for member, found in given.items()
        )
        return replace(request, assignments=tuple(made))

    return changed


def _give_twice(given: dict[str, set[tuple[str, int]]]) -> None:
    first, second = sorted(given)[:2]
    given[second].add(min(given[first]))


def _forget_one(given: dict[str, set[tuple[str, int]]]) -> None:
    del given[max(given)]


def _give_unwanted(given: dict[str, set[tuple[str, int]]]) -> None:
    given[min(given)].add(("zoo", 0))


requests_changed("K5", "classic_plain", "forgets_a_member", SyncGroupRequest, _assigned(_forget_one))
requests_changed("K27", "classic_plain", "gives_twice", SyncGroupRequest, _assigned(_give_twice))
requests_changed("K28", "classic_plain", "gives_what_nobody_wants", SyncGroupRequest, _assigned(_give_unwanted))


@breaks("K6", "classic_joins_b")
class FollowerAssigns(Mutant):
    """It sends assignments though it does not lead."""

    member = ""

    def change(self, request: Any) -> Any:
        if isinstance(request, SyncGroupRequest) and not request.assignments:
            return replace(request, assignments=(SyncGroupRequestAssignment(request.member_id, b""),))
        return request


@breaks("K29", "classic_cooperative")
class MovesAtOnce(Mutant):
    """What members own is not looked at: partitions move without being given up first."""

    metadata: dict[str, bytes]

    def change(self, request: Any) -> Any:
        if isinstance(request, SyncGroupRequest) and len(request.assignments) == 2:
            return _assigned(self.move)(self, request)
        return request

    def move(self, given: dict[str, set[tuple[str, int]]]) -> None:
        full, empty = sorted(given, key=lambda member: -len(given[member]))
        if not given[empty]:
            every = {("foo", n) for n in range(4)} | {("bar", n) for n in range(4)}
            given[empty] = every - given[full]


@breaks("K30", "classic_static_leader")
class AssignsAllTheSame(Mutant):
    """It was told to skip the assignment."""

    skips = False

    def deliver(self, request: Any, answer: Any, take: Take) -> None:
        if isinstance(answer, JoinGroupResponse):
            self.skips = answer.skip_assignment
        take(answer)

    def change(self, request: Any) -> Any:
        if isinstance(request, SyncGroupRequest) and self.skips and not request.assignments:
            return replace(request, assignments=(SyncGroupRequestAssignment(request.member_id, b""),))
        return request


@breaks("K23", "classic_cooperative")
class ClaimsMore(Counting):
    """A join claims a partition that nobody gave it."""

    def mutate(self, request: Any) -> Any:
        if not isinstance(request, JoinGroupRequest) or self.joins < 3:
            return request
        return replace(
            request, protocols=tuple(one._replace(metadata=_claim(one.metadata)) for one in request.protocols)
        )


def _claim(metadata: bytes) -> bytes:
    subscription = decode_subscription(metadata)
    return encode_subscription(replace(subscription, owned_partitions=(*subscription.owned_partitions, ("zoo", 7))))


@breaks("K24", COOPERATIVE_PAIR)
class DoesNotJoinAgain(Counting):
    """After it gave partitions up."""

    def dispatch(self, kind: str, broker: int, request: Any, take: Take) -> None:
        if not isinstance(request, JoinGroupRequest) or self.joins < 3:
            super().dispatch(kind, broker, request, take)
