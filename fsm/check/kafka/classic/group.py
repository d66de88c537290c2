"""A group of the classic protocol: production members, eager or cooperative, and the production coordinator.

Properties: no partition has two users of one generation, none is assigned twice, no error ends an application,
generations never decrease, the invariants of a classic group hold after each step, and, without further disturbance,
the group settles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np

from fsm.check.kafka.application import BROKER, NOW, OF_APPLICATIONS
from fsm.check.kafka.classic.coordinator import (
    MANY_IDS,
    NOT_JOINED,
    NOT_SYNCED,
    AnyCoordinator,
    describe_gone,
)
from fsm.check.kafka.classic.member import ASSIGNORS, ClassicModel, number_of
from fsm.check.kafka.classic.promises import ASKED_OF_STEPS
from fsm.check.kafka.classic.shell import ASKED_OF_MEMBERS
from fsm.check.kafka.consumer.compaction import SAYS_THE_SAME
from fsm.check.kafka.consumer.group import NOT_MODELLED as NOT_OF_ANY_MEMBER
from fsm.check.kafka.consumer.group import (
    SETTINGS,
    choose_names,
    fewer_of,
    list_kinds,
    list_wires,
    name_dialects,
    name_those,
    one_each,
    read_dialects,
    rules_of,
)
from fsm.check.kafka.consumer.member import LIVES, Setting
from fsm.check.kafka.descriptions import describe_message, is_consumer_join, list_partitions
from fsm.check.kafka.group_properties import GroupProperties
from fsm.check.kafka.live.timed_replay import find_times, make_replay
from fsm.check.kafka.topics import Topics
from fsm.check.model import Condition, Goal, Model, Property, Queue, View
from fsm.coordinator.model.context import UNLIMITED, Context
from fsm.coordinator.model.dialect import Choice, Dialect
from fsm.coordinator.model.persistent import PersistentMap
from fsm.member.classic.assignors import ClientAssignor
from fsm.member.dialect.dialect import Dialect as MemberDialect
from fsm.protocol.assignment import TopicNames
from fsm.protocol.consumer_protocol import decode_assignment, decode_subscription
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    SyncGroupRequest,
    SyncGroupResponse,
    TransportFailure,
)
from fsm.protocol.releases import LATEST

if TYPE_CHECKING:
    from fsm.check.model import Integers, Mask

CLASSIC_SETTINGS = replace(SETTINGS, group_initial_rebalance_delay_ms=500)
NOT_OF_ANY_CLASSIC_MEMBER = (
    "an interrupt of a classic member outside a callback of poll()",
    "a second heartbeat of a classic member before the first is answered",
    "the session timer of a classic member with a request in flight",
    "the disconnect of a classic member that loses its coordinator",
    *NOT_OF_ANY_MEMBER,
)
NOT_MODELLED = ("pattern subscriptions", *NOT_OF_ANY_CLASSIC_MEMBER)


def classic_group(
    members: int = 2,
    topics: Mapping[str, int] = PersistentMap({"foo": 2}),
    protocol: str = "eager",
    client: str | MemberDialect = LATEST,
    coordinator: str | Dialect = LATEST,
    *,
    static: bool = False,
    commits: bool = False,
    search: bool = False,
    topic_changes: bool = False,
    compaction: bool = False,
    loading: bool = False,
    max_size: int = UNLIMITED,
) -> Model:
    """Members of the classic protocol and their coordinator.

    `protocol` is of all, or of one each, and so is `client`, the dialect of the members; `search`, `topic_changes`,
    `compaction` and `loading` are as in `consumer_group`; `max_size` is group.max.size. Raises `InputError` for too
    many members or partitions, and for an unknown protocol.
    """
    known = Topics(topics, change=topic_changes)
    names = choose_names(members)
    strategies = strategies_of(protocol, members)
    fewer = fewer_of(known.first)
    kinds = list_classic_kinds(fewer, search=search, compaction=compaction, topic_changes=topic_changes)
    setting = Setting(
        known.subscribed,
        static=static,
        commits=commits,
        searches=search,
        asks=topic_changes,
        fewer=fewer,
        kinds=kinds,
    )
    dialects = read_dialects(client, members)
    models = {
        name: ClassicModel(name, setting, rules, mine, known)
        for name, rules, mine in zip(names, dialects, strategies, strict=True)
    }
    settings = replace(CLASSIC_SETTINGS, group_max_size=max_size)
    context = Context(NOW, rules_of(coordinator), settings, known.image(()))
    hub = AnyCoordinator(names, known, context, moves=search, compacts=compaction, loads=loading)
    learns = Choice.OUTDATED_REBALANCES in context.dialect
    receivers = [*([BROKER] if learns else []), *names]
    wires = list_wires(names, known, context.dialect, describe, FEATURES)
    asked = ClassicGroupProperties(names, known, resubscribes=bool(fewer))
    options = name_those(
        {
            "static": static,
            "they commit": commits,
            "with a search for the coordinator": search,
            "with changes of topics": topic_changes,
            "with compaction": compaction,
            "with a coordinator that loads": loading,
            f"group.max.size {max_size}": max_size < UNLIMITED,
        }
    )

    return Model(
        f"classic-group, {members} {protocol} members of {name_dialects(dialects)}, "
        f"coordinator of {context.dialect.name}, {known}{options}",
        [*(one.component() for one in models.values()), hub.component(), *known.components(receivers)],
        [*wires, *known.wires(receivers)],
        asked.properties(),
        asked.goal(),
        asked.conditions(),
        {
            "interrupted": asked.keeps_too_long,
            "late_join": asked.joins_late,
            "restarts": asked.restarts_twice,
            **({"loading": asked.syncs_too_early} if loading else {}),
        },
        kinds,
        replay=lambda path: find_times(path, partial(make_replay, models.values(), hub), models),
        asked_of_steps=(*ASKED_OF_STEPS, *OF_APPLICATIONS, *ASKED_OF_MEMBERS, *([SAYS_THE_SAME] if compaction else [])),
        not_modelled=NOT_MODELLED,
    )


def list_classic_kinds(fewer: Sequence[str], *, search: bool, **options: bool) -> list[str]:
    """The kinds of disturbance of classic members and their coordinator, with these options."""
    return [*list_kinds(fewer, search=search, **options), *(["session_timeout"] if search else [])]


def strategies_of(protocol: str, members: int) -> list[tuple[ClientAssignor, ...]]:
    """The assignors of each member: of a classic protocol, or of one each. Raises `InputError` for an unknown one."""
    named = one_each(protocol, members, "--protocol", "protocols", known=ASSIGNORS, kind="classic protocol")
    return [ASSIGNORS[name] for name in named]


def speaking(queue: Queue) -> int:
    """The ids, as bits, in requests in flight, or in answers that create ids."""
    return reduce(or_, map(_id_bit, queue.line), 0)


def count_syncs(queue: Queue) -> int:
    """The number of SyncGroup requests in flight."""
    return sum(isinstance(getattr(message, "body", None), SyncGroupRequest) for message in queue.line)


def _is_classic_join(message: Any) -> bool:
    return isinstance(getattr(message, "body", None), JoinGroupRequest)


def _is_first_join(message: Any) -> bool:
    """Whether it joins without an id."""
    body = getattr(message, "body", None)
    return isinstance(body, JoinGroupRequest) and not body.member_id


def _id_bit(message: Any) -> int:
    body = message.body if hasattr(message, "body") else message[1]
    if isinstance(body, LeaveGroupRequest):
        body = body.members[0]
    number = number_of(getattr(body, "member_id", "") or "")
    return 1 << number if number >= 0 else 0


FEATURES: Mapping[str, Callable[[Queue], int]] = {
    "ids": speaking,
    "late joins": lambda queue: sum(map(_is_first_join, queue.late)),
    "late consumer joins": lambda queue: sum(map(is_consumer_join, queue.late)),
    "classic joins": lambda queue: sum(map(_is_classic_join, queue.line)),
    "syncs": count_syncs,
}
"""Features of a wire with messages of classic members."""


class ClassicGroupProperties(GroupProperties):
    """The properties of a classic group; a member is in good standing under its newest id at the coordinator."""

    def properties(self) -> list[Property]:
        """All properties except that of the coordinator's assignment: a cooperative member uses partitions while it
        revokes them.
        """
        asked = [one for one in super().properties() if one.name != "members use only assigned partitions"]
        meaning = "an application that has unsubscribed has had a callback for every partition that it used"
        alone = Property(
            "no two processes share a member id", self._one_process, "no two running processes have the same member id"
        )
        return [*asked, Property("a member that left uses no partition", self._left_behind, meaning), alone]

    def goal(self) -> Goal:
        """The goal; it does not rely on timers of live members."""
        return replace(super().goal(), by=())

    def joins_late(self, view: View) -> Mask:
        """Whether an abandoned join without a member id is in flight: a static member's fences its next process."""
        return self._any(lambda name: view.on(name, BROKER, "late joins") > 0)

    def syncs_too_early(self, view: View) -> Mask:
        """Whether a SyncGroup comes to a coordinator that loads: COORDINATOR_LOAD_IN_PROGRESS ends its client."""
        found: Mask = (view.of(BROKER, "loads") == 1) & self._any(lambda name: view.on(name, BROKER, "syncs") > 0)
        return found

    def keeps_too_long(self, view: View) -> Mask:
        """Whether an eager member that was interrupted in its revoked callback joins with what it was to give up."""
        return self._any(lambda name: view.of(name, "keeps") == 1)

    def _of_subscriptions(self) -> list[Property]:
        """The properties if subscriptions change: a classic consumer keeps its partitions until it has rejoined."""
        return []

    def _of_requests(self) -> list[Property]:
        """None: joins and syncs wait at the coordinator."""
        return []

    def _one_process(self, view: View) -> Mask:
        return self._all_pairs(
            view, lambda one, other: (view.of(one, "name") == 0) | (view.of(one, "name") != view.of(other, "name"))
        )

    def _left_behind(self, view: View) -> Mask:
        return self._all(lambda name: (view.of(name, "left") != 1) | (view.of(name, "using") == 0))

    def conditions(self) -> dict[str, Condition]:
        """The conditions under which timers expire without a disturbance."""
        found: dict[str, Condition] = {
            describe_gone(name, number): partial(self._is_gone, name, number)
            for name in self.names
            for number in range(MANY_IDS)
        }
        found[NOT_JOINED] = partial(self._are_all_gone, "unjoined")
        found[NOT_SYNCED] = partial(self._are_all_gone, "unsynced")
        return found

    def _speaking(self, view: View, name: str) -> Integers:
        """The member ids, as bits, under which requests of a client may still arrive."""
        under_way = view.on(name, BROKER, "ids") | view.on(BROKER, name, "ids")
        for life in range(LIVES):
            under_way = under_way | np.where(view.of(name, "life") == life, view.of(BROKER, f"delays {name} {life}"), 0)
        found: Integers = view.of(name, "speaks") | np.where(view.of(name, "ended") == 1, 0, under_way)
        return found

    def _is_gone(self, name: str, number: int, view: View) -> Mask:
        found: Mask = ((self._speaking(view, name) >> number) & 1) == 0
        return found

    def _are_all_gone(self, feature: str, view: View) -> Mask:
        return self._all(lambda name: (view.of(BROKER, f"{feature} {name}") & self._speaking(view, name)) == 0)

    def _stands_well(self, view: View, name: str) -> Mask:
        found: Mask = super()._stands_well(view, name) & (view.of(name, "id") == view.of(BROKER, f"id {name}"))
        return found


def describe(message: Any, names: TopicNames) -> str:
    """A request or response in flight, on one line."""
    if isinstance(message, str):
        return message
    if isinstance(message, tuple):
        order, answer = message
        if isinstance(answer, str):
            return answer
        return _describe_answer(order.body, answer, names)
    body = message.body
    if isinstance(body, ConsumerGroupHeartbeatRequest | OffsetCommitRequest):
        return describe_message(message, names)
    text = describe_request(body, lambda given: list_partitions(decode_assignment(given).partitions))
    if not isinstance(body, JoinGroupRequest):
        return text
    return f"{text}, owns {list_partitions(decode_subscription(body.protocols[-1].metadata).owned_partitions)}"


def describe_request(body: Any, show: Callable[[bytes], str]) -> str:
    """A request of a classic member, on one line; `show` decodes an assignment."""
    match body:
        case JoinGroupRequest(member_id=who):
            return "JoinGroup" + (f" as {who}" if who else "")
        case SyncGroupRequest():
            text = "; ".join(f"{who}: {show(given)}" for who, given in body.assignments)
            return f"SyncGroup of generation {body.generation_id}" + (f", gives {text}" if text else "")
        case HeartbeatRequest():
            return f"Heartbeat of generation {body.generation_id}"
        case LeaveGroupRequest():
            return f"LeaveGroup of {body.members[0].member_id}"
    return type(body).__name__


def _describe_answer(asked: Any, answer: Any, names: TopicNames) -> str:
    if isinstance(answer, TransportFailure):
        return "the connection broke" if answer.disconnected else "is given up unanswered"
    if isinstance(asked, ConsumerGroupHeartbeatRequest | OffsetCommitRequest):
        return describe_message((None, answer), names)
    code = "ok" if answer.error_code.name == "NONE" else answer.error_code.name
    match answer:
        case JoinGroupResponse(generation_id=int(generation), leader=leader, member_id=who) if code == "ok":
            return f"generation {generation} as {who}" + (", leads" if leader == who else "")
        case JoinGroupResponse(member_id=who) if who:
            return f"{code}: {who}"
        case SyncGroupResponse() if code == "ok":
            given = decode_assignment(answer.assignment).partitions if answer.assignment else ()
            return f"is assigned {list_partitions(given)}"
        case LeaveGroupResponse(members=members) if code == "ok" and members:
            return str(members[0].error_code.name).replace("NONE", "ok")
    return code
