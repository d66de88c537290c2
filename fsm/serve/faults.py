"""Scripted faults: which requests a rule matches, and their treatment.

A rule is data. It matches requests by client, API, group, member, epoch, and so on, and does one thing to a number of
them. The first matching rule applies. Rules are checked on creation; in a YAML file they are a list:

- refuse: UNKNOWN_MEMBER_ID
  api: ConsumerGroupHeartbeat
  client: A
  epoch: 2
- lose: yes
  api: ConsumerGroupHeartbeat
  full: no
  nth: 3
  times: 2
- rewrite: {heartbeat_interval_ms: 3000}
  api: ConsumerGroupHeartbeat
  times: always
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, NamedTuple

from fsm.errors import InputError
from fsm.nodes import Node, nearest, short, yaml_node
from fsm.protocol.assignment import NO_TOPIC_ID, TopicPartition
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import APIS, ConsumerGroupHeartbeatRequest, FindCoordinatorRequest, OffsetFetchRequest
from fsm.protocol.schema import Kind, struct_of

ALWAYS = 1 << 31


class Do(Enum):
    """The kinds of faults, by their words in a file of rules."""

    REFUSE = "refuse"
    """It is answered with an error and not handled."""
    LOSE = "lose"
    """It is handled, its answer is lost, and the connection is closed."""
    MUTE = "mute"
    """It is handled and never answered; the connection stays open and answers nothing more."""
    SWALLOW = "swallow"
    """It is neither handled nor answered; the connection stays open and answers nothing more."""
    DELAY = "delay_ms"
    """It is handled with this delay; later requests on the same connection wait."""
    DELAY_ANSWER = "delay_answer_ms"
    """It is handled at once and answered with this delay."""
    CLOSE = "close"
    """It is not handled, and the connection is closed."""
    DUPLICATE = "duplicate"
    """It is handled twice; the second answer is lost."""
    REWRITE = "rewrite"
    """Fields of its answer are replaced."""
    THROTTLE = "throttle_ms"
    """Its answer has this throttle time, and the connection answers nothing until then."""
    PAUSE = "pause_ms"
    """Before it is handled, every broker pauses for this long: no request, no timer."""
    EXPIRE = "expire"
    """Before it is handled, the session of its member ends."""
    MOVE = "move"
    """Before it is handled, its group moves to another coordinator, or to the same one, which reloads it."""


@dataclass(slots=True)
class Rule:
    """A rule: the requests that it matches, and its fault. `met` and `done` are counters."""

    do: Do
    code: ErrorCode = ErrorCode.NONE
    """The error code of `REFUSE`."""
    ms: int = 0
    """The duration of faults that take time."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The values of `REWRITE`, by the field of the response."""
    name: str = ""
    client: str | None = None
    """The client id."""
    api: str | None = None
    version: int | None = None
    group: str | None = None
    member: str | None = None
    epoch: int | None = None
    """The member epoch or generation that the request names: 0 joins, -1 and -2 leave."""
    full: bool | None = None
    """For consumer heartbeats: whether the request has all fields (subscription, timeout, partitions)."""
    partition: TopicPartition | None = None
    """A partition that the request names by its topic's name, or a heartbeat reports as owned."""
    nth: int = 1
    """The first of the matching requests to which it applies."""
    times: int = 1
    """The number of requests to which it applies from there on."""
    after_ms: float = 0.0
    """Since the brokers began."""
    met: int = 0
    done: int = 0

    def meets(self, seen: Seen) -> bool:
        """Whether the rule applies to the request; counts matches."""
        if self.done >= self.times or not self._fits(seen):
            return False
        self.met += 1
        if self.met < self.nth:
            return False
        self.done += 1
        return True

    def _fits(self, seen: Seen) -> bool:
        request = seen.request
        return (
            self.api in (None, seen.api)
            and self.client in (None, seen.client_id)
            and self.version in (None, seen.version)
            and self.full in (None, is_full(request))
            and self.after_ms <= seen.since_ms
            and (self.epoch is None or self.epoch in epochs_of(request))
            and (self.group is None or self.group in groups_of(request))
            and (self.member is None or any(member == self.member for _, member in members_of(request)))
            and (self.partition is None or self.partition in partitions_of(request, seen.names))
        )


class Seen(NamedTuple):
    """A request as rules see it."""

    api: str
    version: int
    client_id: str | None
    request: Any
    since_ms: float
    """Since the brokers began."""
    names: Mapping[str, str]
    """Topic names by id."""


EPOCHS = ("member_epoch", "generation_id", "generation_id_or_member_epoch")


def groups_of(request: Any) -> frozenset[str]:
    """The groups that a request names."""
    found = {getattr(request, "group_id", "")}
    for name in ("groups", "group_ids", "groups_names", "coordinator_keys"):
        found |= {one if isinstance(one, str) else one.group_id for one in getattr(request, name, ())}
    if isinstance(request, FindCoordinatorRequest):
        found.add(request.key)
    return frozenset(found - {""})


def members_of(request: Any) -> frozenset[tuple[str, str]]:
    """The members that a request names, each with its group."""
    group_id = getattr(request, "group_id", "")
    found = {(group_id, getattr(request, "member_id", ""))}
    found |= {(group_id, one.member_id) for one in getattr(request, "members", ())}
    if isinstance(request, OffsetFetchRequest):
        found |= {(one.group_id, one.member_id or "") for one in request.groups}
    return frozenset(one for one in found if one[1])


def epochs_of(request: Any) -> frozenset[int]:
    """The member epochs or generations that a request names."""
    found = {getattr(request, name) for name in EPOCHS if hasattr(request, name)}
    if isinstance(request, OffsetFetchRequest):
        found |= {one.member_epoch for one in request.groups}
    return frozenset(found)


def topic_of(topic: Any, names: Mapping[str, str]) -> str:
    """The name of a topic in a message, or its id where that is all that is known."""
    topic_id: str = getattr(topic, "topic_id", NO_TOPIC_ID)
    name: str = getattr(topic, "name", "") or getattr(topic, "topic", "")
    return name or names.get(topic_id, topic_id)


def partitions_of(request: Any, names: Mapping[str, str]) -> frozenset[TopicPartition]:
    """The partitions that a request names."""
    found: set[TopicPartition] = set()
    for topic_id, numbers in getattr(request, "topic_partitions", None) or ():
        found |= {(names.get(topic_id, topic_id), number) for number in numbers}
    topics = [*(getattr(request, "topics", None) or ()), *getattr(request, "topic_data", ())]
    for group in getattr(request, "groups", ()):
        topics += getattr(group, "topics", None) or ()
    for topic in topics:
        name = topic_of(topic, names)
        for field_name in ("partitions", "partition_indexes", "partition_data"):
            for one in getattr(topic, field_name, ()):
                number = next(
                    (getattr(one, n) for n in ("partition_index", "partition", "index") if hasattr(one, n)), one
                )
                if isinstance(number, int):
                    found.add((name, number))
    return frozenset(found)


def is_full(request: Any) -> bool | None:
    """Whether a heartbeat of a consumer group has all fields, so that the coordinator repeats the assignment.

    None for other requests.
    """
    if not isinstance(request, ConsumerGroupHeartbeatRequest):
        return None
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return subscribes and request.topic_partitions is not None and request.rebalance_timeout_ms != -1


DEEDS = {do.value: do for do in Do}
TEXTS = ("name", "client", "api", "group", "member")
NUMBERS = ("version", "epoch", "nth", "times", "after_ms")
CONDITIONS = (*TEXTS, *NUMBERS, "full", "partition")
INT_MAX = (1 << 31) - 1
LONGEST_TEXT = (1 << 15) - 1
"""Bytes of a text in versions of messages that are not flexible."""


def read_rules(text: str, file: str) -> list[Rule]:
    """The rules of a file. Raises `InputError` with file, line and the nearest valid name."""
    return [_read(node) for node in yaml_node(text, file, "list of faults").items()]


def make_rule(do: Do, value: Any = None, **conditions: Any) -> Rule:
    """A rule: `value` is the name of an error, milliseconds, or fields of the answer, depending on `do`.

    Conditions are those of a file: `times` may be "always", a partition "foo-0" or ("foo", 0). Raises `InputError` for
    an invalid condition, or one that never matches.
    """
    for name in conditions:
        if name not in CONDITIONS:
            raise InputError(f"unknown condition {short(str(name))}", remedy=nearest(str(name), CONDITIONS))
    rule = Rule(do, **{name: _check(name, given) for name, given in conditions.items()})
    _check_api(rule)
    if do is Do.REFUSE:
        rule.code = find_code(value)
    elif do is Do.REWRITE:
        rule.fields = dict(value)
        _check_rewrite(rule)
    elif do.value.endswith("_ms"):
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= INT_MAX:
            raise InputError(f"takes 1 to {INT_MAX} ms, not {short(str(value))}", do.value)
        rule.ms = value
    return rule


def find_code(name: Any) -> ErrorCode:
    """The error of this name. Raises `InputError` with the nearest name."""
    if name == "NONE" or name not in ErrorCode.__members__:
        raise InputError(
            f"unknown error {short(str(name))}", remedy=nearest(str(name), [one.name for one in ErrorCode if one])
        )
    return ErrorCode[name]


def _check(name: str, given: Any) -> Any:
    """The value of a condition, in the form of a rule."""
    if name == "api" and given not in APIS:
        raise InputError(f"unknown API {short(str(given))}", name, nearest(str(given), list(APIS)))
    if name == "times" and given == "always":
        return ALWAYS
    if name in ("nth", "times") and (not _is_whole(given) or given < 1):
        raise InputError(f"{given!r} is too small", name, "give at least 1")
    if name == "partition":
        return _partition(given)
    if name in TEXTS and not isinstance(given, str):
        raise InputError(f"{given!r} is not text", name)
    if name in NUMBERS and not _is_whole(given):
        raise InputError(f"{given!r} is not a whole number", name)
    if name == "full" and not isinstance(given, bool):
        raise InputError(f"{given!r} is not a flag", name)
    return given


def _partition(given: Any) -> TopicPartition:
    topic, number = given if isinstance(given, tuple) else str(given).rpartition("-")[::2]
    if not topic or not str(number).isascii() or not str(number).isdigit():
        raise InputError(f"{short(str(given))} is not a partition", "partition", "write foo-0")
    return str(topic), int(number)


def _check_api(rule: Rule) -> None:
    """Raises `InputError` if no request of the rule's API can match its conditions."""
    if rule.api is None:
        return
    api = APIS[rule.api]
    if rule.version is not None and not api.oldest <= rule.version <= api.newest:
        known = f"known versions are {api.oldest} to {api.newest}"
        raise InputError(f"no version {rule.version} of {rule.api}", "version", known)
    names = {one.name for one in fields(api.request)}
    wanted = {
        "group": (rule.group is not None or rule.do in (Do.EXPIRE, Do.MOVE), _GROUPS),
        "member": (rule.member is not None or rule.do is Do.EXPIRE, _MEMBERS),
        "epoch": (rule.epoch is not None, EPOCHS),
    }
    for what, (is_wanted, known_as) in wanted.items():
        if is_wanted and names.isdisjoint(known_as) and api.request is not OffsetFetchRequest:
            raise InputError(f"requests of {rule.api} have no {what}", what)
    if rule.full is not None and api.request is not ConsumerGroupHeartbeatRequest:
        raise InputError(f"requests of {rule.api} cannot be full", "full", "only ConsumerGroupHeartbeat can")


_GROUPS = ("group_id", "groups", "group_ids", "groups_names", "coordinator_keys")
_MEMBERS = ("member_id", "members")


def _check_rewrite(rule: Rule) -> None:
    """Raises `InputError` if the answers of the rule's API lack these fields, or cannot have these values."""
    if rule.api is None:
        raise InputError("the key 'api' is missing: whose responses are rewritten")
    api = APIS[rule.api]
    known = {one.name: one for one in struct_of(api.response).fields if one.type.kind in _PYTHON}
    oldest = api.oldest if rule.version is None else rule.version
    value: Any
    for name, value in rule.fields.items():
        if name not in known:
            what = f"answers of {rule.api} have no number, flag or text {short(name)}"
            raise InputError(what, remedy=nearest(name, list(known)))
        kind, null_since = known[name].type.kind, known[name].wire.null_since
        if value is None:
            if not known[name].type.is_nullable:
                raise InputError(f"{name} cannot be null")
            if oldest < null_since:
                raise InputError(f"{name} cannot be null before version {null_since}", remedy="say which version")
        elif not isinstance(value, _PYTHON[kind]) or (kind is not Kind.BOOL and isinstance(value, bool)):
            raise InputError(f"{name} cannot be {value!r:.60}")
        elif kind in _BITS and value not in range(-(1 << _BITS[kind]), 1 << _BITS[kind]):
            raise InputError(f"{name} cannot be {value}: it has {_BITS[kind] + 1} bits")
        elif kind is Kind.STRING and len(str(value).encode()) > LONGEST_TEXT:
            raise InputError(f"{name} is too long", remedy=f"{LONGEST_TEXT} bytes are allowed")


_BITS = {Kind.INT8: 7, Kind.INT16: 15, Kind.INT32: 31, Kind.INT64: 63}
_PYTHON: dict[Kind, type] = {**dict.fromkeys(_BITS, int), Kind.BOOL: bool, Kind.STRING: str, Kind.CODE: ErrorCode}


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _read(node: Node) -> Rule:
    given = node.fields((*DEEDS, *CONDITIONS))
    deeds = [word for word in DEEDS if word in given]
    if len(deeds) != 1:
        remedy = f"one of {', '.join(DEEDS)}"
        raise InputError("a rule does one thing" if deeds else "a rule has to do something", node.where, remedy)
    (word,) = deeds
    value = _value(DEEDS[word], given[word])
    conditions = {name: _condition(name, given[name]) for name in CONDITIONS if name in given}
    try:
        return make_rule(DEEDS[word], value, **conditions)
    except InputError as problem:
        place = given.get(problem.where, given[word]).where
        raise InputError(problem.what, place, problem.remedy) from None


def _value(do: Do, node: Node) -> Any:
    if do is Do.REFUSE:
        return node.text()
    if do is Do.REWRITE:
        return {name: _scalar(value) for name, (_, value) in node.mapping().items()}
    if do.value.endswith("_ms"):
        return node.number()
    if not node.flag():
        raise InputError(f"{do.value}: no does nothing", node.where, "write yes, or leave the rule out")
    return None


def _condition(name: str, node: Node) -> Any:
    if name == "full":
        return node.flag()
    is_number = name in NUMBERS and not (name == "times" and node.value == "always")
    return node.number() if is_number else node.text()


def _scalar(node: Node) -> Any:
    if node.is_null:
        return None
    text = node.text()
    if text in ErrorCode.__members__:
        return ErrorCode[text]
    if node.plain and text.removeprefix("-").isdigit():
        return node.number()
    return node.flag() if node.plain and text in ("yes", "no", "true", "false") else text
