"""Mutants that break the rules of offsets and of callbacks in consumer groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fsm.kit.scenario import A, Options, Scenario, Stable, Start, Wait
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    FetchRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    TransportFailure,
    commit_topics,
)
from tests.kit.consumer_mutants import QUIET
from tests.kit.mutants import Mutant, Refused, Take, breaks, requests_changed

ONE_TOPIC = Scenario("one_topic", "A subscribes to one of two topics.", (Start(A, Options("foo")), Stable(1), Wait(4)))


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


class _AwayForAWhile(Refused):
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

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        self.resend(self.last[OffsetCommitRequest], lambda _: None, 1.0)
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


def fetching(request: FetchRequest, partitions: Iterable[tuple[str, int]]) -> FetchRequest:
    """The same with these partitions, too."""
    topic = request.topics[0]
    extra = tuple(
        topic._replace(topic=name, partitions=(topic.partitions[0]._replace(partition=number, fetch_offset=0),))
        for name, number in sorted(partitions)
    )
    return replace(request, topics=(*request.topics, *extra))


requests_changed("F1", ONE_TOPIC, "reads_another_topic", FetchRequest, lambda _, r: fetching(r, [("bar", 0)]))


@breaks("F2", "plain")
class ReadsWhatItGaveUp(Mutant):
    """It goes on reading."""

    once: frozenset[tuple[str, int]] = frozenset()

    def change(self, request: Any) -> Any:
        if not isinstance(request, FetchRequest):
            return request
        now = frozenset((topic.topic, one.partition) for topic in request.topics for one in topic.partitions)
        gone, self.once = self.once - now, self.once | now
        return fetching(request, gone)


@breaks("F3", "fenced")
class FranzGoReadsWhenFenced(_AwayForAWhile):
    """It goes on reading while it is no member."""

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        self.network.loop.call_later(1.0, self.post, "data", 1, self.last[FetchRequest], lambda _: None)
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


@breaks("F5", "slow_revoke")
class ReadsWhileItRevokes(Mutant):
    """It reads what its revoked callback is about."""

    def report_event(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        if event == "revoke":
            self.network.loop.call_later(1.0, self.post, "data", 1, self.last[FetchRequest], lambda _: None)
        super().report_event(event, partitions, error)


# Callbacks


class _Deaf(Mutant):
    """Its application misses some callbacks."""

    unheard: tuple[str, ...] = ()

    def report_event(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        if event not in self.unheard:
            super().report_event(event, partitions, error)


@breaks("A1", "unknown_member")
class PlatformaticKeepsQuiet(_Deaf):
    """The application hears nothing of a fence and what follows."""

    heard_first = False

    def report_event(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        if event == "lost":
            self.unheard = ("assign", "assigned")
        else:
            super().report_event(event, partitions, error)


@breaks("A2", "fenced")
class RevokesWhatIsLost(Mutant):
    """The application is told revoked for lost."""

    def report_event(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        if event == "lost":
            super().report_event("revoke", partitions)
            super().report_event("revoked", partitions)
        else:
            super().report_event(event, partitions, error)


@breaks("A3", "max_size")
class HidesErrors(_Deaf):
    """The application hears of no error."""

    unheard = ("error",)


@breaks("A4", "invalid_request")
class LibrdkafkaHidesLoss(_Deaf):
    """The application gets no callback for what a fatal error takes away."""

    unheard = ("lost",)


@breaks("A5", "plain")
class TellsAllAgain(Mutant):
    """The assigned callback names all that is owned, not what is new."""

    held: frozenset[tuple[str, int]] = frozenset()

    def report_event(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        if event == "assign":
            self.held |= frozenset(partitions)
            partitions = self.held
        elif event in ("revoked", "lost"):
            self.held -= frozenset(partitions)
        super().report_event(event, partitions, error)


@breaks("A6", "plain")
class TellsLess(Mutant):
    """The application never hears of one partition."""

    def report_event(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        super().report_event(event, [one for one in partitions if one != ("foo", 0)], error)


@breaks("A7", "plain")
class ClosesWithoutRevoking(_Deaf):
    """The application hears nothing when its client closes."""

    def report_event(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        if not self.stops or event not in ("revoke", "revoked"):
            super().report_event(event, partitions, error)
