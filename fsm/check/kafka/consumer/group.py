"""A consumer group of KIP-848: production members and the production coordinator, their queues and their connections.

Properties are safety (no partition has two users that are members for the coordinator, every holder is unique, no error
ends an application) and liveness (without further disturbance every subscribed partition gets its user at last).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from fsm.check.kafka.application import BROKER, NOW, OF_APPLICATIONS
from fsm.check.kafka.consumer.compaction import SAYS_THE_SAME
from fsm.check.kafka.consumer.coordinator import ASKED_OF_REQUESTS, CoordinatorModel
from fsm.check.kafka.consumer.member import LIVES, ConsumerModel, Setting, id_of
from fsm.check.kafka.consumer.shell import (
    COMMITS_AS_ITSELF,
    COMMITS_FIRST,
    JOINS_EMPTY,
    KEEPS_EPOCH,
    LEAVES,
    LEAVES_AT_ONCE,
    LEAVES_FOR_A_WHILE,
    LEFT_FOR_GOOD,
    ONE_AWAITED,
    ONE_HEARTBEAT,
    STARTS_TIMER,
    select_invariants,
)
from fsm.check.kafka.descriptions import count_omitted, describe_message, is_consumer_join
from fsm.check.kafka.group_properties import GroupProperties
from fsm.check.kafka.live.timed_replay import find_times, make_replay
from fsm.check.kafka.targets import IS_EQUIVARIANT, equivariant_target
from fsm.check.kafka.topics import CHANGES, Topics
from fsm.check.model import Disturbance, Fault, Model, Notification, Queue, Wire
from fsm.coordinator.consumer.invariants import INVARIANTS
from fsm.coordinator.host import senders_of
from fsm.coordinator.model.context import BrokerConfig, Context
from fsm.coordinator.model.dialect import Choice as CoordinatorChoice
from fsm.coordinator.model.dialect import Dialect as CoordinatorDialect
from fsm.coordinator.model.dialect import dialect as coordinator_dialect
from fsm.coordinator.model.persistent import PersistentMap
from fsm.errors import InputError
from fsm.member.consumer.invariants import INVARIANTS as MEMBER_INVARIANTS
from fsm.member.dialect.choices import Choice
from fsm.member.dialect.dialect import Dialect as MemberDialect
from fsm.member.dialect.dialect import dialect as member_dialect
from fsm.protocol.releases import LATEST
from fsm.protocol.topic_patterns import find_problem

NAMES = "abcdef"
"""The names of the members."""
SETTINGS = BrokerConfig(
    group_consumer_session_timeout_ms=3_000,
    group_consumer_min_session_timeout_ms=3_000,
    group_consumer_heartbeat_interval_ms=500,
    group_consumer_min_heartbeat_interval_ms=500,
    group_consumer_assignment_interval_ms=0,
)
INTERVAL_MS = 1_000
REQUESTS = (Disturbance("lose", Fault.LOSE, Notification.SENDER), Disturbance("late", Fault.LATE, Notification.SENDER))
ANSWERS = (Disturbance("unanswered", Fault.LOSE, Notification.RECEIVER),)
LOSING = (Disturbance("failover_losing", Fault.LOSE, Notification.RECEIVER),)
"""A disturbance of requests: the coordinator fails over and loses the records of a request that was not answered."""
KINDS = (
    "close",
    "close_timeout",
    "commit_async",
    "commit_sync",
    "crash",
    "expire",
    "failover",
    "hanging",
    "interrupted",
    "leave",
    "poll_timeout",
    "raising",
    "rebalance_timeout",
    "rejoin",
    "restart",
)
DUPLICATES = "requests that arrive twice, other than as a late request and its retry"
NOT_MODELLED = (
    "timeouts of commits",
    "backoffs of commits by the application",
    "more than two restarts of a member",
    "the first FindCoordinator request",
    "an abandoned connection that outlives two moves of the coordinator",
    "the other requests that are lost with an abandoned connection",
    DUPLICATES,
)


def consumer_group(
    members: int = 2,
    topics: Mapping[str, int] = PersistentMap({"foo": 2}),
    client: str | MemberDialect = LATEST,
    coordinator: str | CoordinatorDialect = LATEST,
    *,
    static: bool = False,
    commits: bool = False,
    pattern: str = "",
    client_pattern: str = "",
    assignment_interval: bool = False,
    search: bool = False,
    topic_changes: bool = False,
    compaction: bool = False,
    loading: bool = False,
    equivariant: bool = False,
) -> Model:
    """Members of one dialect, or of one each (`4.0,4.4`), and their coordinator.

    `search` makes finding the coordinator a separate request, and lets it move; with `topic_changes` topics are
    created, grow, are deleted and recreated; with `compaction` another broker may read a compacted log; with
    `loading` it takes any time to load its log, and refuses requests meanwhile; `equivariant` targets let members be
    interchangeable. Raises `InputError` for too many members or partitions, and for an invalid
    pattern.
    """
    _check_patterns(pattern, client_pattern)
    names, dialects = choose_names(members), read_dialects(client, members)
    known = Topics(topics, change=topic_changes)
    fewer = fewer_of(known.first)
    kinds = list_kinds(fewer, search=search, compaction=compaction, topic_changes=topic_changes)
    setting = Setting(known.subscribed, pattern, client_pattern, static, commits, search, topic_changes, fewer, kinds)
    models = {name: ConsumerModel(name, setting, one, known) for name, one in zip(names, dialects, strict=True)}
    broker_settings = replace(SETTINGS, group_consumer_assignment_interval_ms=INTERVAL_MS * assignment_interval)
    rules = rules_of(coordinator)
    adopt = equivariant_target if equivariant else None
    context = Context(NOW, rules, broker_settings, known.image(()), adopt=adopt)
    hub = CoordinatorModel(names, known, context, moves=search, compacts=compaction, loads=loading)
    receivers = (BROKER, *names)
    group = GroupProperties(names, known, resubscribes=bool(fewer or pattern or client_pattern))
    options = {
        "static": static,
        "they commit": commits,
        f"pattern {pattern!r}": pattern,
        f"pattern {client_pattern!r} of the clients": client_pattern,
        "with an assignment interval": assignment_interval,
        "with a search for the coordinator": search,
        "with changes of topics": topic_changes,
        "with compaction": compaction,
        "with a coordinator that loads": loading,
        "targets independent of member ids": equivariant,
    }

    return Model(
        f"consumer-group, {members} members of {name_dialects(dialects)}, coordinator of {rules.name}, "
        f"{known}{name_those(options)}",
        [
            *(one.component() for one in models.values()),
            hub.component(),
            *known.components(receivers),
        ],
        [*list_wires(names, known, rules), *known.wires(receivers)],
        group.properties(),
        group.goal(),
        {
            f"{id_of(name, life)} is silent": partial(group.is_silent, name, life)
            for name in names
            for life in range(LIVES)
        },
        {
            "W1": group.w1,
            "restarts": group.restarts_twice,
            **({"anew": group.uses_anew} if topic_changes else {}),
            **({"unreleased": group.is_unreleased} if static else {}),
        },
        kinds,
        lambda path: find_times(path, partial(make_replay, models.values(), hub), models, may_be_classic=False),
        [
            *list_asked_of_members(dialects),
            *(name for name, _ in INVARIANTS),
            *ASKED_OF_REQUESTS,
            *([SAYS_THE_SAME] if compaction else []),
        ],
        list(_list_unchecked(dialects)),
        (*NOT_MODELLED, IS_EQUIVARIANT) if equivariant else NOT_MODELLED,
    )


def choose_names(members: int, what: str = "members") -> str:
    """A letter for each member. Raises `InputError` for no members, and for more members than letters."""
    if not 1 <= members <= len(NAMES):
        raise InputError(f"{members} {what}", "--members", f"give 1 to {len(NAMES)}")
    return NAMES[:members]


def name_those(options: Mapping[str, object]) -> str:
    """The enabled options, as part of the name of a model."""
    return "".join(f", {option}" for option, on in options.items() if on)


def list_kinds(fewer: Sequence[str], *, search: bool, compaction: bool, topic_changes: bool = False) -> list[str]:
    """The kinds of disturbance of members of either protocol and their coordinator, with these options."""
    given = {"resubscribe": fewer, "move": search, "failover_compacted": compaction}
    given |= dict.fromkeys(CHANGES, topic_changes)
    return [*KINDS, *(kind for kind, on in given.items() if on)]


def list_wires(
    names: Sequence[str],
    known: Topics,
    rules: CoordinatorDialect,
    describe: Callable[..., str] = describe_message,
    features: Mapping[str, Callable[[Queue], int]] = MappingProxyType({}),
) -> list[Wire]:
    """The connections between members of either protocol and their coordinator.

    Late requests are refused after a later one, if the coordinator's rules close connections.
    """
    closes = _outdates if CoordinatorChoice.OLDER_CONNECTION_IS_CLOSED in rules else None
    tell = partial(describe, names=known.all_names)
    features = {
        "line": lambda queue: len(queue.line),
        "omitted": lambda queue: count_omitted((*queue.line, *queue.late), known.ids),
        "consumer joins": lambda queue: sum(map(is_consumer_join, queue.line)),
        **features,
    }
    requests = (
        Wire(name, BROKER, (*REQUESTS, *LOSING), features=features, describe=tell, outdates=closes) for name in names
    )
    return [*requests, *(Wire(BROKER, name, ANSWERS, features=features, describe=tell) for name in names)]


def _outdates(arrived: Any, late: Any) -> bool:
    senders = senders_of(getattr(arrived, "body", None))
    return not {*senders}.isdisjoint(senders_of(getattr(late, "body", None)))


def list_asked_of_members(dialects: Sequence[MemberDialect]) -> Iterator[str]:
    """The invariants that are checked on each step of a member of these dialects."""
    for one in MEMBER_INVARIANTS:
        if any(one in select_invariants(dialect) for dialect in dialects):
            yield f"{one.name} {one.statement}"
    yield from [JOINS_EMPTY] if any(Choice.JOIN_AFTER_RELEASES in one for one in dialects) else []
    yield from (KEEPS_EPOCH, ONE_HEARTBEAT, ONE_AWAITED, COMMITS_AS_ITSELF, LEAVES, LEAVES_AT_ONCE)
    yield from (COMMITS_FIRST, STARTS_TIMER)
    yield from (LEAVES_FOR_A_WHILE, LEFT_FOR_GOOD)
    yield from OF_APPLICATIONS


def fewer_of(topics: Iterable[str]) -> tuple[str, ...]:
    """All topics but the last: a changed subscription."""
    return tuple(sorted(topics))[:-1]


def check_regex(pattern: str) -> None:
    """Raises `InputError` for a pattern that a broker cannot resolve."""
    if pattern and (problem := find_problem(pattern)):
        raise InputError(f"{pattern!r}: {problem}", "--pattern", "give a regular expression of RE2")


def _check_patterns(pattern: str, client_pattern: str) -> None:
    """Raises `InputError` for two patterns, and for one that broker or client cannot compile."""
    if pattern and client_pattern:
        raise InputError("a subscription has one pattern", "--client-pattern", "leave out --pattern")
    check_regex(pattern)
    try:
        re.compile(client_pattern)
    except re.error as problem:
        raise InputError(f"{client_pattern!r}: {problem}", "--client-pattern", "give a regular expression") from None


def rules_of(coordinator: str | CoordinatorDialect) -> CoordinatorDialect:
    """The dialect of a coordinator, given by its name or as a value."""
    return coordinator_dialect(coordinator) if isinstance(coordinator, str) else coordinator


def read_dialects(client: str | MemberDialect, members: int) -> list[MemberDialect]:
    """The dialect of each member."""
    if not isinstance(client, str):
        return [client] * members
    return [member_dialect(name) for name in one_each(client, members, "--client", "dialects")]


def name_dialects(dialects: Iterable[MemberDialect]) -> str:
    """The dialects of a group's members, each one once."""
    return ", ".join(dict.fromkeys(one.name for one in dialects))


def one_each(
    given: str,
    members: int,
    option: str,
    what: str,
    *,
    known: Collection[str] = (),
    kind: str = "",
    whose: str = "member",
) -> list[str]:
    """The name for each member: the same for all, or one of each (`4.0,4.4`).

    Raises `InputError` for another count, and for an unknown name if all are `known`.
    """
    found = [name.strip() for name in given.split(",")]
    if len(found) not in (1, members):
        problem = f"{len(found)} {what} for {members} {whose}s"
        raise InputError(problem, option, f"give one, or one for each {whose}")
    for name in found if known else ():
        if name not in known:
            raise InputError(f"unknown {kind} {name!r}", option, f"choose from {', '.join(known)}")
    return found * (members // len(found))


def _list_unchecked(dialects: Sequence[MemberDialect]) -> Iterator[str]:
    """The invariants that some members are known to break, with their dialects if not all do."""
    for one in MEMBER_INVARIANTS:
        breaking = list(dict.fromkeys(dialect.name for dialect in dialects if one not in select_invariants(dialect)))
        is_everybody = len(breaking) == len({dialect.name for dialect in dialects})
        if breaking:
            yield f"{one.name} {one.statement}" + ("" if is_everybody else f" (of {', '.join(breaking)})")
