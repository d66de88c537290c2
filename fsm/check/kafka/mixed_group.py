"""Members of both protocols in one group, which changes its type as they come and go: online migration in both ways.

What is asked of a consumer group is asked while it is one, and that the group settles whatever it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fsm.check.kafka.application import BROKER, ENDED, NOW
from fsm.check.kafka.classic import ClassicModel
from fsm.check.kafka.classic_coordinator import ASKED_OF_STEPS, OF_HEARTBEATS, AnyCoordinator
from fsm.check.kafka.classic_group import (
    CLASSIC_SETTINGS,
    DISTURBANCES,
    NOT_MODELLED,
    ClassicQuestions,
    strategy_of,
    wires,
)
from fsm.check.kafka.classic_replay import ClassicReplay, LiveClassic
from fsm.check.kafka.consumer import ConsumerModel, Setting
from fsm.check.kafka.consumer_group import NAMES
from fsm.check.kafka.consumer_shell import Consumer, asked_of
from fsm.check.kafka.live import LONG_MS, LiveConsumer, LiveMember
from fsm.check.kafka.questions import Questions
from fsm.check.kafka.timed_replay import Timeouts, find_times
from fsm.check.kafka.topics import Topics
from fsm.check.model import Component, Goal, Model, Property, View
from fsm.coordinator.consumer.invariants import INVARIANTS
from fsm.coordinator.migration.conversion import POLICIES, UPGRADES
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import dialect as coordinator_dialect
from fsm.coordinator.model.persistent import FrozenMap
from fsm.errors import InputError
from fsm.member.dialect.dialect import dialect as member_dialect
from fsm.protocol.releases import LATEST
from fsm.tables.consumer_member import State

if TYPE_CHECKING:
    from fsm.check.model import Mask

ALL_POLICIES = (*sorted(POLICIES), "disabled")
KINDS = tuple(kind for kind in DISTURBANCES if kind not in ("close", "restart"))
SILENT = (State.STALE, State.UNSUBSCRIBED, State.FATAL)


def mixed_group(
    members: int = 2,
    classic: int = 1,
    topics: Mapping[str, int] = FrozenMap({"foo": 2}),
    *,
    protocol: str = "eager",
    policy: str = "bidirectional",
    client: str = LATEST,
    coordinator: str = LATEST,
    static: bool = False,
    commits: bool = False,
) -> Model:
    """`members`, of whom the last `classic` ones speak the classic protocol, and their coordinator with its policy.

    Raises `InputError` for numbers, protocols and policies that it does not have.
    """
    if not 2 <= members <= len(NAMES):
        raise InputError(f"{members} members", "--members", f"give 2 to {len(NAMES)}")
    if not 1 <= classic < members:
        raise InputError(f"{classic} classic members of {members}", "--classic", "some of each kind make a mixed group")
    if policy not in ALL_POLICIES:
        raise InputError(f"no policy {policy!r}", "--policy", f"choose from {', '.join(ALL_POLICIES)}")
    known, names, strategy, spoken = (
        Topics(topics, change=False),
        NAMES[:members],
        strategy_of(protocol),
        member_dialect(client),
    )
    consumers, others = names[: members - classic], names[members - classic :]
    config = replace(CLASSIC_SETTINGS, group_consumer_migration_policy=policy)
    context = Context(NOW, coordinator_dialect(coordinator), config, known.image(()))
    setting = Setting(known.subscribed, static=static, commits=commits, kinds=KINDS)
    models = {name: ConsumerModel(name, setting, spoken, known) for name in consumers}
    components = [_component(one) for one in models.values()]
    classics = {name: ClassicModel(name, setting, strategy, known) for name in others}
    components += [one.component() for one in classics.values()]
    asked = _Questions(names, known.everything(()), consumers, policy)

    def make(timeouts: Timeouts | None) -> ClassicReplay:
        live: dict[str, LiveMember] = {}
        for at, name in enumerate(names, 1):
            if name in others:
                live[name] = LiveClassic(
                    classics[name], 1_000 * at, timeouts and timeouts.member(name, classics[name].config)
                )
            else:
                live[name] = LiveConsumer(
                    models[name], 1_000 * at, timeouts.max_poll_interval_ms(name) if timeouts else LONG_MS, None
                )
        return ClassicReplay(live, timeouts.context(context) if timeouts else context)

    return Model(
        f"mixed-group, {len(consumers)} members of {client}, {classic} {protocol} ones, policy {policy}, "
        f"coordinator of {coordinator}, {known}" + ", static" * static + ", they commit" * commits,
        [*components, AnyCoordinator(names, known.ids, context).component()],
        wires(names, known),
        asked.properties(),
        asked.goal(),
        asked.conditions(),
        {"W1": asked.w1, "early": asked.joins_early, "refused": asked.is_refused},
        KINDS,
        lambda path: find_times(path, make),
        [
            *(f"{one.name} {one.statement}" for one in asked_of(spoken)),
            *(name for name, _ in INVARIANTS if name not in OF_HEARTBEATS),
            *ASKED_OF_STEPS,
        ],
        not_modelled=(*NOT_MODELLED, "close()", "restarts", "the assignment interval"),
    )


def _component(model: ConsumerModel) -> Component:
    """A consumer of KIP-848, whose id is one for life."""

    def speaks(consumer: Consumer) -> int:
        return int(consumer.app not in ENDED and consumer.member.state not in SILENT)

    made = model.component()
    return replace(made, features={**made.features, "id": lambda _: 0, "speaks": speaks})


class _Questions(ClassicQuestions):
    """What is asked of a group of either type, and where one of the other protocol may not join it."""

    def __init__(self, names: Sequence[str], everything: int, consumers: Sequence[str], policy: str) -> None:
        super().__init__(names, everything)
        self.consumers, self.policy = consumers, policy

    def properties(self) -> list[Property]:
        """Those of a consumer group."""
        return Questions.properties(self)

    def goal(self) -> Goal:
        """A consumer group's counts on rebalance timers."""
        return Questions.goal(self)

    def _client_safety(self, view: View) -> Mask:
        """The book of a classic group is its last assignment, which a cooperative member may still have to follow."""
        holds: Mask = super()._client_safety(view) | (view.of(BROKER, "consumer") == 0)
        return holds

    def joins_early(self, view: View) -> Mask:
        """A consumer's join reaches a classic group that never had a generation: it is not told why it may not join."""
        fresh = (view.of(BROKER, "has members") == 1) & (view.of(BROKER, "has a protocol") == 0)
        early: Mask = fresh & (view.of(BROKER, "consumer") == 0) & self._is_under_way(view, self.consumers)
        return early

    def is_refused(self, view: View) -> Mask:
        """A join reaches a group of the other type, and the policy lets it not in."""
        is_consumer, lives = view.of(BROKER, "consumer") == 1, view.of(BROKER, "has members") == 1
        refused = np.zeros(len(view), np.bool_)
        if self.policy not in UPGRADES:
            refused |= lives & ~is_consumer & self._is_under_way(view, self.consumers)
        if self.policy not in POLICIES:
            others = [name for name in self.names if name not in self.consumers]
            refused |= lives & is_consumer & self._is_under_way(view, others)
        return refused

    def _is_under_way(self, view: View, names: Sequence[str]) -> Mask:
        found = np.zeros(len(view), np.bool_)
        for name in names:
            found |= view.on(name, BROKER, "joins") > 0
        return found
