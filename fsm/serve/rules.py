"""Rules of faults, checked on creation; in a YAML file a list, each with its fault and its conditions.

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

from dataclasses import fields
from typing import Any

from fsm.errors import InputError
from fsm.nodes import Node, nearest, short, yaml_node
from fsm.protocol.assignment import TopicPartition
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import APIS, ConsumerGroupHeartbeatRequest, OffsetFetchRequest
from fsm.protocol.schema import Kind, struct_of
from fsm.serve.faults import ALWAYS, EPOCHS, Do, Rule

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
