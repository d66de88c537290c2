"""Rules of faults in a YAML file: a list, each with what it does, and to which requests.

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
from typing import Any, get_type_hints

from fsm.errors import InputError
from fsm.nodes import Node, nearest, short, yaml_node
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import APIS
from fsm.serve.faults import ALWAYS, Do, Rule

DEEDS = {do.value: do for do in Do}
CONDITIONS = (
    "name", "client", "api", "version", "group", "member", "epoch", "full", "partition", "nth", "times", "after_ms"
)  # fmt: skip


def read_rules(text: str, file: str) -> list[Rule]:
    """The rules of a file. Raises `InputError` with file and line for what is none, with the nearest name."""
    return [_rule(node) for node in yaml_node(text, file, "list of faults").items()]


def find_code(name: str) -> ErrorCode:
    """The error of this name. Raises `InputError` with the nearest name."""
    if name not in ErrorCode.__members__:
        raise InputError(f"no error {short(name)}", remedy=nearest(name, list(ErrorCode.__members__)))
    return ErrorCode[name]


def check_rewrite(api: str | None, values: dict[str, Any]) -> None:
    """Raises `InputError` where the answers of this API have no such fields, or fields of another type."""
    if api is None:
        raise InputError("say which answers: the key 'api' is missing")
    hints = get_type_hints(APIS[api].response)
    known = [one.name for one in fields(APIS[api].response) if hints[one.name] in _SCALARS]
    for name, value in values.items():
        if name not in known:
            raise InputError(
                f"answers of {api} have no number, flag or text {short(name)}", remedy=nearest(name, known)
            )
        if value is None and type(None) not in getattr(hints[name], "__args__", ()):
            raise InputError(f"{name} cannot be null")
        if value is not None and not isinstance(value, _SCALARS[hints[name]]):
            raise InputError(f"{name} cannot be {value!r}")


_SCALARS: dict[Any, type] = {int: int, bool: bool, str: str, str | None: str, ErrorCode: ErrorCode}


def _rule(node: Node) -> Rule:
    given = node.fields((*DEEDS, *CONDITIONS))
    deeds = [word for word in DEEDS if word in given]
    if len(deeds) != 1:
        remedy = f"one of {', '.join(DEEDS)}"
        raise InputError("a rule does one thing" if deeds else "a rule has to do something", node.where, remedy)
    (word,) = deeds
    rule = Rule(DEEDS[word])
    for name in CONDITIONS:
        if name in given:
            _set_condition(rule, name, given[name])
    _set_deed(rule, word, given[word])
    return rule


def _set_condition(rule: Rule, name: str, node: Node) -> None:
    if name == "api":
        rule.api = node.text()
        if rule.api not in APIS:
            raise InputError(f"no API {short(rule.api)}", node.where, nearest(rule.api, list(APIS)))
    elif name == "full":
        rule.is_full = node.flag()
    elif name == "partition":
        topic, _, number = node.text().rpartition("-")
        if not topic or not number.isascii() or not number.isdigit():
            raise InputError(f"{short(node.text())} is no partition", node.where, "write foo-0")
        rule.partition = (topic, int(number))
    elif name == "times" and node.value == "always":
        rule.times = ALWAYS
    elif name in ("nth", "times") and node.number() < 1:
        raise InputError(f"{node.number()} is too small", node.where, "1 is the smallest")
    elif name in ("name", "client", "group", "member"):
        setattr(rule, name, node.text())
    else:
        setattr(rule, name, node.number())


def _set_deed(rule: Rule, word: str, node: Node) -> None:
    if word.endswith("_ms"):
        rule.ms = node.number()
        if rule.ms < 1:
            raise InputError("takes at least 1 ms", node.where)
    elif rule.do not in (Do.REFUSE, Do.REWRITE):
        if not node.flag():
            raise InputError(f"{word}: no does nothing", node.where, "write yes, or leave the rule out")
    else:
        try:
            if rule.do is Do.REFUSE:
                rule.code = find_code(node.text())
            else:
                rule.fields = {name: _scalar(value) for name, (_, value) in node.mapping().items()}
                check_rewrite(rule.api, dict(rule.fields))
        except InputError as problem:
            raise InputError(problem.what, problem.where or node.where, problem.remedy) from None


def _scalar(node: Node) -> Any:
    if node.is_null:
        return None
    text = node.text()
    if text in ErrorCode.__members__:
        return ErrorCode[text]
    if node.plain and text.removeprefix("-").isdigit():
        return node.number()
    return node.flag() if node.plain and text in ("yes", "no", "true", "false") else text
