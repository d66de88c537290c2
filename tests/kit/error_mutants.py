"""Mutants that break the rules of errors, lost answers and goodbyes in consumer groups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from fsm.kit.scenario import A, NoFaults, Scenario, Stable, Start, Wait, refuse
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    FindCoordinatorRequest,
    OffsetCommitRequest,
)
from fsm.serve.faults import ALWAYS
from tests.kit.mutants import Mutant, Refused, Take, beats_changed, breaks, code_of, requests_changed

REFUSED_AWHILE = Scenario(
    "refused_awhile",
    "The broker says for a second that it is not the coordinator.",
    (Start(A), Stable(1), Wait(1.2), refuse(ErrorCode.NOT_COORDINATOR, times=ALWAYS), Wait(1.2), NoFaults(), Wait(2)),
)


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


class _GoesOn(Refused):
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


class _DoesNotSearch(Refused):
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


class _TriesAgain(Refused):
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
class FranzGoComesBackWhenFenced(Refused):
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

    def report_event(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        if event != "close_end":
            super().report_event(event, partitions, error)

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
