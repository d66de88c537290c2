"""Mutants that break the rules of joining, heartbeats and reconciliation in consumer groups.

Here and beside, those with defects of today's clients are named after them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from fsm.kit.play import UNKNOWN_TOPIC_ID
from fsm.kit.scenario import A, Scenario, Stable, Start, Wait, refuse
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
)
from tests.kit.mutants import Mutant, Take, beats_changed, breaks, code_of, is_keepalive

QUIET = Scenario("quiet", "A alone for a while.", (Start(A), Stable(1), Wait(13)))
REFUSED_ONCE = Scenario(
    "refused_once",
    "The coordinator loads for one heartbeat.",
    (Start(A), Stable(1), Wait(1.2), refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), Wait(4)),
)


# Joining

beats_changed("J1", "plain", "joins_as_nobody", lambda _, r: r if r.member_epoch else replace(r, member_id=""))
beats_changed("J2", "plain", "owns_null", lambda _, r: r if r.member_epoch else replace(r, topic_partitions=None))
beats_changed("J3", "plain", "no_timeout", lambda _, r: r if r.member_epoch else replace(r, rebalance_timeout_ms=-1))
beats_changed("J4", "plain", "no_topics", lambda _, r: r if r.member_epoch else replace(r, subscribed_topic_names=None))
beats_changed("J8", "plain", "rack_always", lambda _, r: replace(r, rack_id="r1"))


@breaks("J5", "unknown_member")
class FranzGoTakesAnotherId(Mutant):
    """After UNKNOWN_MEMBER_ID."""

    joins = 0

    def change(self, request: Any) -> Any:
        if not isinstance(request, ConsumerGroupHeartbeatRequest | OffsetCommitRequest):
            return request
        self.joins += getattr(request, "member_epoch", -1) == 0
        return replace(request, member_id=f"{request.member_id}-{self.joins}")

    def identity(self, consumer: Any) -> tuple[str | None, int]:
        return None, -1


@breaks("J6", QUIET)
class JoinsAnewAtTimes(Mutant):
    """The fifth heartbeat is a join."""

    def change(self, request: Any) -> Any:
        if is_keepalive(request) and self.sent_beats == 5:
            self.repeats_owned = True
            return self.join
        return request


@breaks("J7", REFUSED_ONCE)
class JoinsAnewWhenRefused(Mutant):
    """After COORDINATOR_LOAD_IN_PROGRESS."""

    refused = False

    def change(self, request: Any) -> Any:
        if isinstance(request, ConsumerGroupHeartbeatRequest) and self.refused and request.member_epoch > 0:
            self.refused, self.repeats_owned = False, True
            return self.join
        return request

    def deliver(self, request: Any, answer: Any, take: Take) -> None:
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            self.refused |= code_of(answer) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        take(answer)


beats_changed(
    "S1",
    "resubscribe",
    "keeps_topics",
    lambda _, r: r if r.member_epoch <= 0 else replace(r, subscribed_topic_names=None),
)


@breaks("S2", "resubscribe")
class LeavesLate(Mutant):
    """The goodbye comes 1.6 s late."""

    def dispatch(self, kind: str, broker: int, request: Any, take: Take) -> None:
        if isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch < 0 and not self.stops:
            self.network.loop.call_later(1.6, super().dispatch, kind, broker, request, take)
        else:
            super().dispatch(kind, broker, request, take)


# Heartbeats


@breaks("H1", "slow_interval")
class BeatsTwice(Mutant):
    """A second heartbeat half a second after each."""

    def deliver(self, request: Any, answer: Any, take: Take) -> None:
        take(answer)
        if is_keepalive(request):
            self.resend(request, lambda _: None, 0.5)


beats_changed("H2", "restart", "every_other_beat", lambda c, r: None if is_keepalive(r) and c.sent_beats % 2 else r)
beats_changed("H3", QUIET, "silent_for_long", lambda c, r: None if is_keepalive(r) and 3 < c.sent_beats < 10 else r)
beats_changed("H3", QUIET, "silent_until_goodbye", lambda c, r: None if is_keepalive(r) and c.sent_beats > 3 else r)


@breaks("H4", "delayed")
class DoesNotWait(Mutant):
    """A heartbeat that is not answered within half a second is sent again."""

    open = False

    def change(self, request: Any) -> Any:
        if is_keepalive(request):
            self.open = True
            self.network.loop.call_later(0.5, self.again, request)
        return request

    def again(self, request: Any) -> None:
        if self.open:
            self.post("group", self.coordinator, request, lambda _: None)

    def deliver(self, request: Any, answer: Any, take: Take) -> None:
        self.open = self.open and not is_keepalive(request)
        take(answer)


beats_changed(
    "H5", QUIET, "older_epoch", lambda c, r: replace(r, member_epoch=1) if is_keepalive(r) and c.sent_beats == 5 else r
)
beats_changed(
    "H6",
    "plain",
    "PlatformaticSaysAll",
    lambda c, r: r if r.member_epoch <= 0 else replace(r, subscribed_topic_names=c.join.subscribed_topic_names),
)
beats_changed(
    "H7", QUIET, "owned_always", lambda c, r: r if r.member_epoch <= 0 else replace(r, topic_partitions=c.owned)
)


@breaks("H8", "longer_interval")
class KeepsFirstInterval(Mutant):
    """It does not see that the interval changed."""

    def deliver(self, request: Any, answer: Any, take: Take) -> None:
        if isinstance(request, ConsumerGroupHeartbeatRequest) and code_of(answer) is ErrorCode.NONE:
            answer = replace(answer, heartbeat_interval_ms=1_000)
        take(answer)


@breaks("H9", "throttled")
class LibrdkafkaIgnoresThrottle(Mutant):
    """Throttle times are not looked at."""

    def post(self, kind: str, broker: int, request: Any, take: Take) -> None:
        self.throttled_until_s = 0.0
        super().post(kind, broker, request, take)


# Reconciliation


@breaks("R1", QUIET)
class OwnsTooMuch(Mutant):
    """The fifth heartbeat claims a partition that nobody gave it."""

    def change(self, request: Any) -> Any:
        if is_keepalive(request) and self.sent_beats == 5:
            self.repeats_owned = True
            (topic, numbers), *rest = self.owned
            return replace(request, topic_partitions=((topic, (*numbers, 77)), *rest))
        return request


beats_changed(
    "R2", QUIET, "never_acknowledges", lambda _, r: r if r.member_epoch <= 0 else replace(r, topic_partitions=None)
)


@breaks("R3", "plain")
class OwnsAgain(Mutant):
    """One heartbeat claims what was given up before."""

    before: Any = ()
    is_done = False

    def change(self, request: Any) -> Any:
        if not isinstance(request, ConsumerGroupHeartbeatRequest):
            return request
        if request.topic_partitions and request.member_epoch > 0 and not self.before:
            self.before = request.topic_partitions
        elif is_keepalive(request) and self.before and self.owned != self.before and not self.is_done:
            self.is_done = self.repeats_owned = True
            return replace(request, topic_partitions=self.before)
        return request


@breaks("R4", "plain")
class NeverGivesUp(Mutant):
    """It does not report fewer partitions than before."""

    most = 0

    def change(self, request: Any) -> Any:
        if not isinstance(request, ConsumerGroupHeartbeatRequest) or request.member_epoch <= 0:
            return request
        count = sum(len(numbers) for _, numbers in request.topic_partitions or ())
        if request.topic_partitions is None or count >= self.most:
            self.most = max(self.most, count)
            return request
        return replace(request, topic_partitions=None)


beats_changed(
    "R5", "slow_revoke", "FranzGoSilentInCallbacks", lambda c, r: None if is_keepalive(r) and c.is_called else r
)


class _Unawaited(Mutant):
    """Its callbacks run beside it."""

    events: tuple[str, str] = ("", "")

    def report_event(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        if event not in self.events:
            super().report_event(event, partitions, error)
        elif event == self.events[0] and partitions:
            self.spawn(self.call(tuple(partitions)))

    async def call(self, partitions: tuple[tuple[str, int], ...]) -> None:
        await asyncio.sleep(0.05)
        super().report_event(self.events[0], partitions)
        await asyncio.sleep(0.5)
        super().report_event(self.events[1], partitions)


@breaks("R6", "plain")
class GivesUpBefore(_Unawaited):
    """It does not wait for the revoked callback."""

    events = ("revoke", "revoked")


@breaks("R7", "plain")
class FranzGoAcknowledgesBefore(_Unawaited):
    """It does not wait for the assigned callback."""

    events = ("assign", "assigned")


@breaks("R8", "unknown_topic_id")
class FranzGoOwnsUnknownTopic(Mutant):
    """A topic id without a name is reported as owned."""

    has_unknown = False

    def change(self, request: Any) -> Any:
        if self.has_unknown and isinstance(request, ConsumerGroupHeartbeatRequest) and request.topic_partitions:
            self.has_unknown = False
            return replace(request, topic_partitions=(*request.topic_partitions, (UNKNOWN_TOPIC_ID, (0,))))
        return request

    def deliver(self, request: Any, answer: Any, take: Take) -> None:
        given = getattr(answer, "assignment", None) or ()
        self.has_unknown |= any(topic_id == UNKNOWN_TOPIC_ID for topic_id, _ in given)
        take(answer)


beats_changed(
    "R9",
    "unknown_topic_id",
    "LibrdkafkaAcknowledgesNothing",
    lambda c, r: replace(r, topic_partitions=None) if r.member_epoch > 0 and c.sent_beats > 3 else r,
)


@breaks("R10", "commit_before_ack")
class CommitsSeldom(Mutant):
    """Only the first commit is made."""

    commits = 0

    def change(self, request: Any) -> Any:
        if isinstance(request, OffsetCommitRequest):
            self.commits += 1
            return request if self.commits == 1 else None
        return request


@breaks("R11", "plain")
class AcknowledgesLate(Mutant):
    """An acknowledgement takes 0.8 s."""

    def dispatch(self, kind: str, broker: int, request: Any, take: Take) -> None:
        late = (
            isinstance(request, ConsumerGroupHeartbeatRequest) and request.topic_partitions and request.member_epoch > 0
        )
        if late:
            self.network.loop.call_later(0.8, super().dispatch, kind, broker, request, take)
        else:
            super().dispatch(kind, broker, request, take)
