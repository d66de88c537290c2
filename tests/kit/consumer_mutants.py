"""Mutants that break the rules of consumer groups. Those of today's clients are named after them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fsm.kit.play import UNKNOWN_TOPIC_ID
from fsm.kit.scenario import A, NoFaults, Options, Scenario, Stable, Start, Wait, refuse
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    FetchRequest,
    FindCoordinatorRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    TransportFailure,
    commit_topics,
)
from fsm.serve.faults import ALWAYS
from tests.kit.mutants import Mutant, Take, beats_changed, breaks, is_keepalive, requests_changed

QUIET = Scenario("quiet", "A alone for a while.", (Start(A), Stable(1), Wait(13)))
ONE_TOPIC = Scenario("one_topic", "A subscribes to one of two topics.", (Start(A, Options("foo")), Stable(1), Wait(4)))
REFUSED_ONCE = Scenario(
    "refused_once",
    "The coordinator loads for one heartbeat.",
    (Start(A), Stable(1), Wait(1.2), refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), Wait(4)),
)
REFUSED_AWHILE = Scenario(
    "refused_awhile",
    "The broker says for a second that it is not the coordinator.",
    (Start(A), Stable(1), Wait(1.2), refuse(ErrorCode.NOT_COORDINATOR, times=ALWAYS), Wait(1.2), NoFaults(), Wait(2)),
)


def code_of(answer: Any) -> ErrorCode | None:
    """The error of an answer; None where there is no answer."""
    return None if isinstance(answer, TransportFailure) else answer.error_code


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

    def hear(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        if event not in self.events:
            super().hear(event, partitions, error)
        elif event == self.events[0] and partitions:
            self.spawn(self.call(tuple(partitions)))

    async def call(self, partitions: tuple[tuple[str, int], ...]) -> None:
        await asyncio.sleep(0.05)
        super().hear(self.events[0], partitions)
        await asyncio.sleep(0.5)
        super().hear(self.events[1], partitions)


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

    told = False

    def change(self, request: Any) -> Any:
        if self.told and isinstance(request, ConsumerGroupHeartbeatRequest) and request.topic_partitions:
            self.told = False
            return replace(request, topic_partitions=(*request.topic_partitions, (UNKNOWN_TOPIC_ID, (0,))))
        return request

    def deliver(self, request: Any, answer: Any, take: Take) -> None:
        given = getattr(answer, "assignment", None) or ()
        self.told |= any(topic_id == UNKNOWN_TOPIC_ID for topic_id, _ in given)
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


# Errors and lost answers


class _AfterLoss(Mutant):
    """Its first heartbeat after one without answer is another one."""

    is_lost = False

    def change(self, request: Any) -> Any:
        if isinstance(request, ConsumerGroupHeartbeatRequest) and self.is_lost and request.member_epoch >= 0:
            self.is_lost = False
            return self.after_loss(request)
        return request

    def after_loss(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        """What it sends."""
        return ConsumerGroupHeartbeatRequest(request.group_id, request.member_id, request.member_epoch)

    def deliver(self, request: Any, answer: Any, take: Take) -> None:
        self.is_lost |= isinstance(request, ConsumerGroupHeartbeatRequest) and code_of(answer) is None
        take(answer)


@breaks("E1", "lost_keepalive")
class SaysNothingAfterLoss(_AfterLoss):
    """A heartbeat without news follows a lost answer."""


@breaks("E2", "mute_revoking")
class LibrdkafkaSaysNothingAfterTimeout(_AfterLoss):
    """A heartbeat without news follows one that timed out; what is to be revoked is never heard of."""

    def change(self, request: Any) -> Any:
        if isinstance(request, ConsumerGroupHeartbeatRequest) and self.is_lost and request.member_epoch > 0:
            return self.after_loss(request)
        return request


@breaks("E3", "lost_join")
class JoinsTwice(_AfterLoss):
    """The join is repeated under another id."""

    suffix = ""

    def after_loss(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        self.suffix = "-2"
        return request

    def identity(self, consumer: Any) -> tuple[str | None, int]:
        return None, -1

    def change(self, request: Any) -> Any:
        changed = super().change(request)
        if isinstance(changed, ConsumerGroupHeartbeatRequest | OffsetCommitRequest):
            return replace(changed, member_id=changed.member_id + self.suffix)
        return changed


@breaks("E13", "lost_keepalive")
class GuessesTheEpoch(_AfterLoss):
    """The epoch after a lost answer is the next one."""

    def after_loss(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        return replace(request, member_epoch=request.member_epoch + 1)


@breaks("E14", "lost_keepalive")
class JoinsAfterLoss(_AfterLoss):
    """It joins anew after a lost answer."""

    def after_loss(self, _request: ConsumerGroupHeartbeatRequest) -> Any:
        self.repeats_owned = True
        return self.join


class _Refused(Mutant):
    """What it does when a heartbeat is refused."""

    code = ErrorCode.NONE

    def deliver(self, request: Any, answer: Any, take: Take) -> None:
        if isinstance(request, ConsumerGroupHeartbeatRequest) and code_of(answer) is self.code:
            self.refused(request, answer, take)
        else:
            self.accepted(request)
            take(answer)

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        """It is told the error."""

    def accepted(self, request: Any) -> None:
        """It is told anything else."""


class _GoesOn(_Refused):
    """It does as if nothing had happened, but for a pause of its application."""

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        self.paused = True
        take(self.pretend(request))

    def accepted(self, request: Any) -> None:
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            self.paused = False


@breaks("E4", "fenced")
class GoesOnWhenFenced(_GoesOn):
    """FENCED_MEMBER_EPOCH is not looked at."""

    code = ErrorCode.FENCED_MEMBER_EPOCH


@breaks("E5", "unknown_member")
class PlatformaticGoesOnWhenUnknown(_GoesOn):
    """UNKNOWN_MEMBER_ID is not looked at."""

    code = ErrorCode.UNKNOWN_MEMBER_ID


class _DoesNotSearch(_Refused):
    def refused(self, request: Any, answer: Any, take: Take) -> None:
        take(replace(answer, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))


@breaks("E6", "not_coordinator")
class PlatformaticDoesNotSearch(_DoesNotSearch):
    """It asks the same broker again."""

    code = ErrorCode.NOT_COORDINATOR


@breaks("E7", "not_available")
class PlatformaticDoesNotSearchEither(_DoesNotSearch):
    """It asks the same broker again."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class _TriesAgain(_Refused):
    """It sends the same heartbeat again."""

    after_s = 0.0

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        self.resend(request, lambda later: self._deliver(request, later, take), self.after_s)


@breaks("E8", "loading")
class TriesAtOnce(_TriesAgain):
    """Without a backoff."""

    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@breaks("E12", "loading")
class TriesSteadily(_TriesAgain):
    """Every 0.2 s."""

    code, after_s = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0.2


@breaks("E9", REFUSED_AWHILE)
class TriesForEver(_TriesAgain):
    """It searches and tries again, a hundred times a second, as our own member did once."""

    code = ErrorCode.NOT_COORDINATOR

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        self.post("bootstrap", 1, FindCoordinatorRequest(coordinator_keys=("g1",)), lambda _: None)
        self.resend(request, lambda later: self._deliver(request, later, take), 0.01)


@breaks("E10", "unsupported_assignor")
class FranzGoTriesAfterFatalError(_TriesAgain):
    """It joins again and again."""

    code, after_s = ErrorCode.UNSUPPORTED_ASSIGNOR, 0.5

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        super().refused(request, answer, lambda _: None)
        take(answer)


@breaks("E11", "fenced_instance")
class FranzGoComesBackWhenFenced(_Refused):
    """It joins again, though another process has its instance id."""

    code = ErrorCode.FENCED_INSTANCE_ID

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        self.resend(self.join, lambda _: None, 1.0)
        goodbye = ConsumerGroupHeartbeatRequest(request.group_id, request.member_id, -2, request.instance_id)
        self.resend(goodbye, lambda _: None, 1.5)
        take(answer)


@breaks("E15", "expired")
class StaysAway(Mutant):
    """It does not join again."""

    def dispatch(self, kind: str, broker: int, request: Any, take: Take) -> None:
        is_join = isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch == 0
        if not is_join or not self.epoch:
            super().dispatch(kind, broker, request, take)


# Leaving

beats_changed("L1", "plain", "says_no_goodbye", lambda _, r: None if r.member_epoch < 0 else r)


@breaks("L2", "plain")
class SpeaksAfterGoodbye(Mutant):
    """A heartbeat follows the goodbye."""

    def change(self, request: Any) -> Any:
        if isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch < 0:
            self.resend(replace(request, member_epoch=self.epoch, topic_partitions=None), lambda _: None)
        return request


requests_changed("L3", "close_with_records", "no_last_commit", OffsetCommitRequest, lambda c, r: None if c.stops else r)
beats_changed(
    "L4", "static", "PlatformaticLeavesForGood", lambda _, r: replace(r, member_epoch=-1) if r.member_epoch < 0 else r
)
beats_changed(
    "L5", "static", "FranzGoLeavesAsNobody", lambda _, r: replace(r, instance_id=None) if r.member_epoch < 0 else r
)


@breaks("L6", "max_poll")
class FranzGoHasNoPollTimer(Mutant):
    """It stays though nobody polls."""

    def config(self) -> Any:
        return replace(super().config(), max_poll_interval_ms=300_000)

    def change(self, request: Any) -> Any:
        if isinstance(request, ConsumerGroupHeartbeatRequest) and request.rebalance_timeout_ms > 0:
            return replace(request, rebalance_timeout_ms=self.options.max_poll_ms)
        return request


@breaks("L7", "lost_leave")
class PlatformaticHangs(Mutant):
    """close() does not return."""

    is_killed = False

    def hear(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        if event != "close_end":
            super().hear(event, partitions, error)

    def kill(self) -> None:
        self.is_killed = True
        super().kill()

    async def wait(self) -> None:
        while not self.is_killed:
            await asyncio.sleep(0.1)


beats_changed(
    "L8",
    "plain",
    "leaves_as_another",
    lambda _, r: replace(r, member_id=r.member_id + "x") if r.member_epoch < 0 else r,
)


# Offsets

requests_changed(
    "C1",
    QUIET,
    "commits_at_older_epoch",
    OffsetCommitRequest,
    lambda _, r: replace(r, generation_id_or_member_epoch=r.generation_id_or_member_epoch - 1),
)


@breaks("C2", "plain")
class LibrdkafkaCommitsWhatItGaveUp(Mutant):
    """When it closes."""

    committed: dict[tuple[str, int], int]

    def change(self, request: Any) -> Any:
        if not isinstance(request, OffsetCommitRequest):
            return request
        self.committed = {**getattr(self, "committed", {}), **dict(request.offsets)}
        return replace(request, topics=commit_topics(tuple(sorted(self.committed.items()))))


@breaks("C3", "plain")
class CommitsInOldVersion(Mutant):
    """OffsetCommit version 8."""

    versions: Mapping[str, int] = {"OffsetCommit": 8}


@breaks("C4", "stale_commit")
class NeverCommitsAgain(Mutant):
    """After STALE_MEMBER_EPOCH."""

    is_stale = False

    def change(self, request: Any) -> Any:
        return None if self.is_stale and isinstance(request, OffsetCommitRequest) else request

    def deliver(self, request: Any, answer: Any, take: Take) -> None:
        if isinstance(request, OffsetCommitRequest) and not isinstance(answer, TransportFailure):
            self.is_stale |= bool(answer.errors)
        take(answer)


class _AwayForAWhile(_Refused):
    """It joins again only after two seconds."""

    code = ErrorCode.FENCED_MEMBER_EPOCH
    back_s = 0.0

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        self.back_s = self.network.loop.time() + 2
        take(answer)

    def dispatch(self, kind: str, broker: int, request: Any, take: Take) -> None:
        wait_s = self.back_s - self.network.loop.time()
        if isinstance(request, ConsumerGroupHeartbeatRequest) and wait_s > 0:
            self.network.loop.call_later(wait_s, super().dispatch, kind, broker, request, take)
        else:
            super().dispatch(kind, broker, request, take)


@breaks("C5", "fenced")
class LibrdkafkaCommitsWhenFenced(_AwayForAWhile):
    """With its old epoch."""

    last: Any = None

    def change(self, request: Any) -> Any:
        if isinstance(request, OffsetCommitRequest) and request.generation_id_or_member_epoch > 0:
            self.last = request
        return request

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        self.resend(self.last, lambda _: None, 1.0)
        super().refused(request, answer, take)


@breaks("C6", "plain")
class LibrdkafkaAsksAsNobody(Mutant):
    """For committed offsets."""

    def identity(self, consumer: Any) -> tuple[str | None, int]:
        return None, -1


@breaks("C7", "plain")
class AsksAtOlderEpoch(Mutant):
    """For committed offsets, the first time."""

    has_asked = False

    def identity(self, consumer: Any) -> tuple[str | None, int]:
        member, epoch = super().identity(consumer)
        first, self.has_asked = not self.has_asked, True
        return member, epoch - 1 if first else epoch


class _TakesNoRefusal(Mutant):
    """It takes refused offsets for good."""

    def deliver(self, request: Any, answer: Any, take: Take) -> None:
        if isinstance(request, OffsetFetchRequest) and not isinstance(answer, TransportFailure):
            group = answer.groups[0]
            topics = tuple(
                t._replace(partitions=tuple(p._replace(error_code=ErrorCode.NONE) for p in t.partitions))
                for t in group.topics
            )
            answer = replace(answer, groups=(group._replace(topics=topics),))
        take(answer)


@breaks("C8", "unstable_offsets")
class ReadsBeforeItKnows(_TakesNoRefusal):
    """It begins at 0 where the offset is not stable."""


class _AsksOnce(Mutant):
    async def learn(self, new: Any, consumer: Any) -> None:
        await super().learn(new, consumer)
        self.asking = True


@breaks("C9", "unstable_offsets")
class NeverAsksAgain(_AsksOnce):
    """For offsets that were not stable."""


@breaks("C10", "stale_offset_fetch")
class NeverAsksAgainEither(_AsksOnce):
    """For offsets that were refused as stale."""


requests_changed(
    "C11", "plain", "PlatformaticAsksForUnstable", OffsetFetchRequest, lambda _, r: replace(r, require_stable=False)
)
requests_changed(
    "C12", "static", "PlatformaticCommitsAsNobody", OffsetCommitRequest, lambda _, r: replace(r, group_instance_id=None)
)


def _with(request: FetchRequest, partitions: Iterable[tuple[str, int]]) -> FetchRequest:
    """The same with these partitions, too."""
    topic = request.topics[0]
    extra = tuple(
        topic._replace(topic=name, partitions=(topic.partitions[0]._replace(partition=number, fetch_offset=0),))
        for name, number in sorted(partitions)
    )
    return replace(request, topics=(*request.topics, *extra))


requests_changed("F1", ONE_TOPIC, "reads_another_topic", FetchRequest, lambda _, r: _with(r, [("bar", 0)]))


@breaks("F2", "plain")
class ReadsWhatItGaveUp(Mutant):
    """It goes on reading."""

    once: frozenset[tuple[str, int]] = frozenset()

    def change(self, request: Any) -> Any:
        if not isinstance(request, FetchRequest):
            return request
        now = frozenset((topic.topic, one.partition) for topic in request.topics for one in topic.partitions)
        gone, self.once = self.once - now, self.once | now
        return _with(request, gone)


@breaks("F3", "fenced")
class FranzGoReadsWhenFenced(_AwayForAWhile):
    """It goes on reading while it is no member."""

    last: Any = None

    def change(self, request: Any) -> Any:
        if isinstance(request, FetchRequest):
            self.last = request
        return request

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        self.network.loop.call_later(1.0, self.post, "data", 1, self.last, lambda _: None)
        super().refused(request, answer, take)


@breaks("F4", "restart")
class BeginsAtZero(_TakesNoRefusal):
    """Committed offsets are not looked at."""

    def deliver(self, request: Any, answer: Any, take: Take) -> None:
        if isinstance(request, OffsetFetchRequest) and not isinstance(answer, TransportFailure):
            group = answer.groups[0]
            topics = tuple(
                t._replace(partitions=tuple(p._replace(committed_offset=0) for p in t.partitions)) for t in group.topics
            )
            answer = replace(answer, groups=(group._replace(topics=topics),))
        take(answer)


# What applications hear


class _Deaf(Mutant):
    """Its application does not hear some things."""

    unheard: tuple[str, ...] = ()

    def hear(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        if event not in self.unheard:
            super().hear(event, partitions, error)


@breaks("A1", "unknown_member")
class PlatformaticKeepsQuiet(_Deaf):
    """The application hears nothing of a fence and what follows."""

    heard_first = False

    def hear(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        if event == "lost":
            self.unheard = ("assign", "assigned")
        else:
            super().hear(event, partitions, error)


@breaks("A2", "fenced")
class RevokesWhatIsLost(Mutant):
    """The application is told revoked for lost."""

    def hear(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        if event == "lost":
            super().hear("revoke", partitions)
            super().hear("revoked", partitions)
        else:
            super().hear(event, partitions, error)


@breaks("A3", "max_size")
class HidesErrors(_Deaf):
    """The application hears of no error."""

    unheard = ("error",)


@breaks("A4", "invalid_request")
class LibrdkafkaHidesLoss(_Deaf):
    """The application does not hear what a fatal error takes away."""

    unheard = ("lost",)


@breaks("A5", "plain")
class TellsAllAgain(Mutant):
    """The assigned callback names all that is owned, not what is new."""

    held: frozenset[tuple[str, int]] = frozenset()

    def hear(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        if event == "assign":
            self.held |= frozenset(partitions)
            partitions = self.held
        elif event in ("revoked", "lost"):
            self.held -= frozenset(partitions)
        super().hear(event, partitions, error)


@breaks("A6", "plain")
class TellsLess(Mutant):
    """The application never hears of one partition."""

    def hear(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        super().hear(event, [one for one in partitions if one != ("foo", 0)], error)


@breaks("A7", "plain")
class ClosesWithoutRevoking(_Deaf):
    """The application hears nothing when its client closes."""

    def hear(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        if not self.stops or event not in ("revoke", "revoked"):
            super().hear(event, partitions, error)
