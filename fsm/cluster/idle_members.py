"""The steps of an idle member that may be skipped: polls and heartbeats that only restart timers.

A member is a frozen value, so the effect of a poll is found by taking the step and comparing the result. If that is the
same member with its poll timer restarted, so is the result of every poll until the member changes. Of several in a row
only the last one counts.
"""

from __future__ import annotations

from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

from fsm.member.classic.state import ClassicMember
from fsm.member.classic.step import step as classic_step
from fsm.member.consumer.state import Member
from fsm.member.consumer.step import step as consumer_step
from fsm.member.effects import CallCompleted
from fsm.member.events import AsyncPollEvent
from fsm.member.runtime.shell import MemberShell
from fsm.member.timers import NEVER
from fsm.tables.classic_member import State as ClassicState
from fsm.tables.consumer_member import State

POLL = AsyncPollEvent()
TIMERS = ("poll_due_ms", "heartbeat_due_ms", "heartbeat_ready_ms", "heartbeats")
OF_CONSUMER, OF_CLASSIC = (
    attrgetter(*(field.name for field in fields(kind) if field.name not in TIMERS)) for kind in (Member, ClassicMember)
)


def member_of(shell: MemberShell[Any, Any]) -> Member | ClassicMember:
    """The member of either shell."""
    found: Member | ClassicMember = shell.member  # type: ignore[attr-defined]
    return found


def polls_idly(shell: MemberShell[Any, Any], now_ms: int) -> bool:
    """Whether another poll would only restart the poll timer, now and until another event.

    With automatic commits every poll counts, because its positions are committed.
    """
    member = member_of(shell)
    if member.state is not State.STABLE and member.state is not ClassicState.STABLE:
        return False
    if shell.config.enable_auto_commit or shell.pending_background_events or shell.closed:
        return False
    if shell.poll_wanted_ms < NEVER:
        return False
    after, effects = _poll(member, now_ms)
    return all(type(effect) is CallCompleted for effect in effects) and timeless(after) == timeless(member)


def poll_idly(shell: MemberShell[Any, Any], now_ms: int) -> None:
    """Handles a poll that only restarts the poll timer."""
    shell.member, _ = _poll(member_of(shell), now_ms)  # type: ignore[attr-defined]


def _poll(member: Member | ClassicMember, now_ms: int) -> tuple[Any, tuple[Any, ...]]:
    if isinstance(member, ClassicMember):
        return classic_step(member, POLL, now_ms)
    return consumer_step(member, POLL, now_ms)


def timeless(member: Member | ClassicMember) -> tuple[Any, ...]:
    """The fields of the member without the instants of its polls and heartbeats."""
    if isinstance(member, ClassicMember):
        return (*OF_CLASSIC(member), member.heartbeats.enabled, member.heartbeats.attempts)
    found: tuple[Any, ...] = OF_CONSUMER(member)
    return found


def heartbeat_due_ms(member: Member | ClassicMember) -> int:
    """When its next heartbeat is due."""
    return member.heartbeats.heartbeat_due_ms if isinstance(member, ClassicMember) else member.heartbeat_due_ms


def interval_ms(member: Member | ClassicMember) -> int:
    """Its heartbeat interval: a consumer's from the coordinator, a classic member's from its settings."""
    if isinstance(member, ClassicMember):
        return member.config.heartbeat_interval_ms
    return member.heartbeat_interval_ms


def let_pass(shell: MemberShell[Any, Any], heartbeats_ms: int, answers_ms: int) -> None:
    """Advances the member over skipped heartbeats: shifts the next one, and the last response, by these times."""
    member: Member | ClassicMember = member_of(shell)
    if isinstance(member, ClassicMember):
        beats = member.heartbeats
        due_ms, session_ms = beats.heartbeat_due_ms + heartbeats_ms, beats.session_due_ms + answers_ms
        member = replace(member, heartbeats=replace(beats, heartbeat_due_ms=due_ms, session_due_ms=session_ms))
    else:
        due_ms, ready_ms = member.heartbeat_due_ms + heartbeats_ms, member.heartbeat_ready_ms + answers_ms
        member = replace(member, heartbeat_due_ms=due_ms, heartbeat_ready_ms=ready_ms)
    shell.member = member  # type: ignore[attr-defined]
