"""Members of both protocols in one group, which changes its type as they join and leave: online migration in both
directions.

The properties of a consumer group apply while it is one; a group of either type must settle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fsm.check.kafka.application import BROKER, NOW
from fsm.check.kafka.classic.coordinator import AnyCoordinator
from fsm.check.kafka.classic.group import (
    CLASSIC_SETTINGS,
    FEATURES,
    NOT_OF_ANY_CLASSIC_MEMBER,
    ClassicGroupProperties,
    describe,
    list_classic_kinds,
    strategies_of,
)
from fsm.check.kafka.classic.member import ClassicModel
from fsm.check.kafka.classic.promises import ASKED_OF_STEPS, FOR_SOMETHING, OF_HEARTBEATS
from fsm.check.kafka.classic.shell import ASKED_OF_MEMBERS
from fsm.check.kafka.consumer.compaction import SAYS_THE_SAME
from fsm.check.kafka.consumer.group import (
    INTERVAL_MS,
    check_regex,
    choose_names,
    fewer_of,
    list_asked_of_members,
    list_wires,
    name_dialects,
    name_those,
    read_dialects,
    rules_of,
)
from fsm.check.kafka.consumer.member import ConsumerModel, Setting
from fsm.check.kafka.group_properties import GroupProperties
from fsm.check.kafka.live.consumers import LiveConsumer, LiveMember
from fsm.check.kafka.live.replay import Replay
from fsm.check.kafka.live.timed_replay import Timeouts, find_times, make_live, make_replay
from fsm.check.kafka.mixed.member import ConvertingConsumerModel
from fsm.check.kafka.topics import Topics
from fsm.check.model import Goal, Model, Property, View
from fsm.coordinator.consumer.invariants import INVARIANTS
from fsm.coordinator.migration.conversion import DOWNGRADES, POLICIES, UPGRADES
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice as Rule
from fsm.coordinator.model.dialect import Dialect
from fsm.coordinator.model.persistent import PersistentMap
from fsm.errors import InputError
from fsm.member.dialect.dialect import Dialect as MemberDialect
from fsm.member.runtime.trace import TraceTo
from fsm.protocol.releases import LATEST

if TYPE_CHECKING:
    from fsm.check.model import Mask

ALL_POLICIES = (*sorted(POLICIES), "disabled")
NOT_MODELLED = ("pattern subscriptions of classic members", "changes of topics", *NOT_OF_ANY_CLASSIC_MEMBER)


def mixed_group(
    members: int = 2,
    classic: int = 1,
    topics: Mapping[str, int] = PersistentMap({"foo": 2}),
    *,
    protocol: str = "eager",
    policy: str = "bidirectional",
    client: str | MemberDialect = LATEST,
    coordinator: str | Dialect = LATEST,
    static: bool = False,
    commits: bool = False,
    pattern: str = "",
    assignment_interval: bool = False,
    search: bool = False,
    compaction: bool = False,
    loading: bool = False,
) -> Model:
    """`members`, of which the last `classic` ones begin as classic ones, and their coordinator with its policy.

    Members of KIP-848 subscribe to `pattern`, if given; `client`, `search`, `compaction` and `loading` are as in
    `consumer_group`. Raises `InputError` for invalid numbers, protocols, policies, dialects and patterns.
    """
    names = choose_names(members)
    if not 0 <= classic <= members:
        raise InputError(f"{classic} classic members of {members}", "--classic", f"give 0 to {members}")
    if policy not in ALL_POLICIES:
        raise InputError(f"unknown policy {policy!r}", "--policy", f"choose from {', '.join(ALL_POLICIES)}")
    check_regex(pattern)
    known, strategies = Topics(topics, change=False), strategies_of(protocol, members)
    dialects, fewer = read_dialects(client, members), fewer_of(known.first)
    config = replace(
        CLASSIC_SETTINGS,
        group_consumer_migration_policy=policy,
        group_consumer_assignment_interval_ms=INTERVAL_MS * assignment_interval,
    )
    context = Context(NOW, rules_of(coordinator), config, known.image(()))
    kinds = (*list_classic_kinds(fewer, search=search, compaction=compaction), "convert")
    setting = Setting(
        known.subscribed, pattern, static=static, commits=commits, searches=search, fewer=fewer, kinds=kinds
    )
    models = {}
    for at, name in enumerate(names):
        consumer = ConsumerModel(name, setting, dialects[at], known)
        other = ClassicModel(name, replace(setting, pattern=""), dialects[at], strategies[at], known)
        models[name] = ConvertingConsumerModel(consumer, other, begins_classic=at >= members - classic)
    asked = _MixedGroupProperties(names, known, resubscribes=bool(fewer or pattern))
    asked.policy = policy
    hub = AnyCoordinator(names, known, context, converts=True, moves=search, compacts=compaction, loads=loading)
    options = {
        "static": static,
        "they commit": commits,
        f"pattern {pattern!r}": pattern,
        "with an assignment interval": assignment_interval,
        "with a search for the coordinator": search,
        "with compaction": compaction,
        "with a coordinator that loads": loading,
    }
    given_up = () if Rule.CLASSIC_REJOINS_BEHIND_TARGET in context.dialect else (FOR_SOMETHING,)
    return Model(
        f"mixed-group, {members} members of {name_dialects(dialects)}, {classic} of them classic ({protocol}), "
        f"policy {policy}, coordinator of {context.dialect.name}, {known}{name_those(options)}",
        [*(one.component() for one in models.values()), hub.component()],
        list_wires(names, known, context.dialect, describe, FEATURES),
        asked.properties(),
        asked.goal(),
        asked.conditions(),
        {
            "W1": asked.w1,
            "W14": asked.upgrades_unsynced,
            "W15": asked.downgrades_waiting,
            "W33": asked.is_forgotten,
            "early": asked.joins_early,
            "interrupted": asked.keeps_too_long,
            "late_join": asked.joins_late,
            "refused": asked.is_refused,
            "restarts": asked.restarts_twice,
            "unreleased": asked.is_unreleased,
            **({"loading": asked.syncs_too_early} if loading else {}),
        },
        kinds,
        lambda path: find_times(path, partial(_make_replay, models, hub), models),
        [
            *list_asked_of_members(dialects),
            *ASKED_OF_MEMBERS,
            *(name for name, _ in INVARIANTS if name not in OF_HEARTBEATS),
            *(name for name in ASKED_OF_STEPS if name not in given_up),
            *([SAYS_THE_SAME] if compaction else []),
        ],
        given_up,
        not_modelled=NOT_MODELLED,
    )


def _make_replay(
    models: Mapping[str, ConvertingConsumerModel],
    hub: AnyCoordinator,
    timeouts: Timeouts | None,
    trace: TraceTo | None,
) -> Replay:
    """Makes the live members, each with its initial protocol."""

    def convert(before: LiveMember) -> LiveMember:
        model = models[before.name]
        other = model.classic if isinstance(before, LiveConsumer) else model.consumer
        return make_live(other, before.now_ms, timeouts, trace, before.life + 1)

    first = [one.classic if one.begins_classic else one.consumer for one in models.values()]
    return make_replay(first, hub, timeouts, trace, convert)


class _MixedGroupProperties(ClassicGroupProperties):
    """The properties of a group of either type, and the conditions under which the other protocol is refused."""

    policy = ""

    def properties(self) -> list[Property]:
        """The properties of a consumer group, that it becomes a classic one when possible, and that it ends."""
        meaning = "if the policy allows it, a group whose members are all classic is a classic group"
        converges = Property(
            "a group of classic members is a classic group", lambda view: view.of(BROKER, "all classic") == 0, meaning
        )
        ended = Property(
            "a group that is gone is gone from the log",
            lambda view: ~self.is_forgotten(view),
            "no broker loads it again",
        )
        return [*GroupProperties.properties(self), ended, *([converges] if self.policy in DOWNGRADES else [])]

    def goal(self) -> Goal:
        """The goal; that of a consumer group relies on rebalance timers."""
        return GroupProperties.goal(self)

    def _client_safety(self, view: View) -> Mask:
        """No partition has two users; the last assignment of a classic group does not count while members follow it."""
        holds: Mask = super()._client_safety(view) | (view.of(BROKER, "consumer") == 0)
        return holds

    def joins_early(self, view: View) -> Mask:
        """Whether a consumer's join reaches a classic group without a generation: the error gives no reason."""
        fresh = (view.of(BROKER, "has members") == 1) & (view.of(BROKER, "has a protocol") == 0)
        early: Mask = fresh & (view.of(BROKER, "consumer") == 0) & self._is_under_way(view, "consumer joins")
        return early

    def is_forgotten(self, view: View) -> Mask:
        """Whether the log still has a group that the coordinator has dropped."""
        found: Mask = view.of(BROKER, "forgotten") == 1
        return found

    def is_refused(self, view: View) -> Mask:
        """Whether a join reaches a group of the other type and the migration policy refuses it."""
        is_consumer, lives = view.of(BROKER, "consumer") == 1, view.of(BROKER, "has members") == 1
        refused = np.zeros(len(view), np.bool_)
        if self.policy not in UPGRADES:
            refused |= lives & ~is_consumer & self._is_under_way(view, "consumer joins")
        if self.policy not in POLICIES:
            refused |= lives & is_consumer & self._is_under_way(view, "classic joins")
        return refused

    def _is_other_process(self, view: View, name: str) -> Mask:
        is_other = view.of(BROKER, f"id {name}") != view.of(name, "id")
        found: Mask = is_other & (view.of(BROKER, f"speaks KIP-848 {name}") == 1)
        return found

    def joins_late(self, view: View) -> Mask:
        """Whether an abandoned join is in flight: that of a static KIP-848 member replaces its next process, too."""
        return self._any(lambda name: view.on(name, BROKER, "late consumer joins") > 0) | super().joins_late(view)

    def upgrades_unsynced(self, view: View) -> Mask:
        """Whether a static member returns with KIP-848 while its classic group has no assignment yet."""
        is_unsynced: Mask = (view.of(BROKER, "consumer") == 0) & (view.of(BROKER, "rests") == 0)
        return is_unsynced & self._any(
            lambda name: (view.of(BROKER, f"member {name}") == 1) & (view.on(name, BROKER, "consumer joins") > 0)
        )

    def downgrades_waiting(self, view: View) -> Mask:
        """Whether a static member returns as a classic one while another classic member waits for a partition."""

        def is_new(name: str) -> Any:
            return view.of(BROKER, f"speaks KIP-848 {name}") == 1

        back = self._any(lambda name: is_new(name) & (view.on(name, BROKER, "classic joins") > 0))
        return back & self._any(lambda name: (view.of(BROKER, f"waits {name}") == 1) & ~is_new(name))

    def _is_under_way(self, view: View, joins: str) -> Mask:
        return self._any(lambda name: view.on(name, BROKER, joins) > 0)
