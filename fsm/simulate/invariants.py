"""Invariants of a running group, as in `fsm check`, and counts of known hazards.

The coordinator's invariants are checked at each step of a small group, and at some steps of a large one; those of
members for some of them. Two applications that use a partition are a violation without a documented cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from fsm.cluster.client import Client
from fsm.cluster.cluster import Answers, Cluster
from fsm.cluster.stale_uses import Change
from fsm.coordinator.classic import invariants as classic_invariants
from fsm.coordinator.consumer.invariants import Moment, find_broken
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.model.groups import Group
from fsm.member.consumer.invariants import Status, Watch
from fsm.member.consumer.state import Member
from fsm.member.consumer.step import Step
from fsm.member.effects import MemberEffect
from fsm.member.inputs import MemberInput
from fsm.member.runtime.consumer_shell import ConsumerMember
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, JoinGroupRequest
from fsm.simulate.outcome import Violation

REVOKED_BEFORE_ASSIGNED = "23 partitions are revoked before they are assigned"
"""An invariant of consumers only: a classic member reports its owned partitions in its join."""
TARGET_IS_PAST = "19 the target's time is past"
"""An invariant that holds only if clocks do not go back."""
SMALL, SELDOM = 64, 16
"""Below 64 members and partitions each step of a group is checked, at n times that size one in 16 n."""
MEMBERS_WATCHED = 8
EXPECTED = frozenset({"FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID"})
"""Errors of a static member while another process has its instance id, or its last one did not leave (KIP-848)."""
MOST = 50
"""How many violations are reported."""


class Watcher:
    """Watches one group."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.violations: list[Violation] = []
        self.clock_went_back = False
        self.looks = 0
        """How many steps of the coordinator were checked."""
        self.hazards: Counter[str] = Counter()
        self._steps = 0
        self._watched = 0
        self._doubles = 0

    def add(self, what: str, detail: str = "") -> None:
        """Notes a violation."""
        if len(self.violations) < MOST:
            self.violations.append(Violation(self._cluster.now_ms, what, detail))

    def look(self, change: Change, answers: Answers) -> None:
        """Checks a step of the coordinator."""
        after = change.after
        if change.before is after or after is None:
            return
        self._steps += 1
        if self._steps % (1 + _size(after) // SMALL * SELDOM):
            return
        self.looks += 1
        for what in self._judge_state(change, answers):
            if what == TARGET_IS_PAST and self.clock_went_back:
                self.hazards[f"a clock that went back: {what}"] += 1
                continue
            self.add(f"invariant of the coordinator: {what}", type(change.request).__name__)

    def _judge_state(self, change: Change, answers: Answers) -> Iterator[str]:
        after = change.after
        if isinstance(after, ClassicGroup):
            yield from classic_invariants.find_broken(after)
        elif isinstance(after, ConsumerGroup) and (change.before is None or isinstance(change.before, ConsumerGroup)):
            sent = change.request if isinstance(change.request, ConsumerGroupHeartbeatRequest) else None
            answer = None if sent is None else answers[0]
            is_join = isinstance(change.request, JoinGroupRequest)
            names = find_broken(Moment(change.before, after, self._cluster.context, sent, answer))
            yield from (name for name in names if not is_join or name != REVOKED_BEFORE_ASSIGNED)

    def watch_member(self, client: Client) -> None:
        """Watches a member from its first step on, if it is one of the first."""
        shell = client.member
        if not isinstance(shell, ConsumerMember) or self._watched >= MEMBERS_WATCHED:
            return
        self._watched += 1
        watch = Watch()

        def observe(given: MemberInput, effects: tuple[MemberEffect, ...]) -> None:
            new: Member = shell.member
            for one in watch.violations(shell.stepped_from, given, Step(new, effects)):
                status = one.status_in(new.settings.dialect)
                if status in (Status.HOLDS, Status.WITHOUT_FAILING_CALLBACKS):
                    self.add(f"invariant of the member: {one.name}", f"{client.name}: {one.statement}")
                else:
                    self.hazards[f"{one.name} ({one.hazards or status.value})"] += 1

        shell.observe = observe

    def note_doubles(self) -> None:
        """Checks the double ownership since the last call."""
        for double in self._cluster.doubles[self._doubles :]:
            if double.cause is None:
                users = " and ".join(double.users)
                self.add("a partition has two users, and nothing explains it", f"{double.partition}: {users}")
            else:
                self.hazards[f"two users: {double.cause}"] += 1
        self._doubles = len(self._cluster.doubles)

    def note_end(self, client: Client, errors: list[Any]) -> None:
        """Notes an application that an error has ended."""
        for error in errors:
            if error.name in EXPECTED:
                self.hazards[f"ended: {error.name}"] += 1
                continue
            self.add("an application is ended by an error", f"{client.name}: {error.name}")


def _size(group: Group) -> int:
    """Members, and partitions that have an owner."""
    return len(group.members) + (len(group.members.holders) if isinstance(group, ConsumerGroup) else 0)
