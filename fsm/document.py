"""A table as a YAML or JSON document, and back. The same table gives the same bytes.

A document holds the members of the three enums with their meanings, in their order, and the lines of the table:

    fsm: 1                                   # the version of the format
    name: door                               # one line; the name of its drawings
    title: A door                            # optional, as are source, doc and effects
    states:                                  # every state, also those of nested tables, with its meaning
      CLOSED: shut, not locked
      OPEN: one can pass
      AJAR: a hand fits through
      WIDE: a piano fits through
      BROKEN: off its hinges
    events:
      PUSHED: someone pushed
      PULLED: someone pulled
      KICKED: someone was in a hurry
    effects:                                 # actions for the code that uses the table
      CREAK: the hinge complains
    initial: CLOSED
    terminal: [BROKEN]                       # states that are never left; optional
    rows:                                    # steps: states to enter and effects to request, in this order
      - {states: [CLOSED], events: [PUSHED], steps: [CREAK, OPEN], clause: D1, note: It has not been oiled.}
      - {states: [CLOSED, OPEN], events: [KICKED], steps: [BROKEN]}
      - {states: [CLOSED], events: [PULLED], why: it opens the other way}       # an ignore: nothing happens
    nested:                                  # tables inside states; they share the enums
      OPEN:
        name: door-open
        initial: AJAR                        # entered when the outer table enters OPEN
        exits: [CLOSED]                      # outer states that its own rows enter; optional
        rows:
          - {states: [AJAR], events: [PUSHED], steps: [CREAK, WIDE]}
          - {states: [WIDE], events: [PULLED], steps: [AJAR]}
          - {states: [AJAR], events: [PULLED], steps: [CLOSED]}

A row without a state in `steps` stays where it is. A pair of state and event without a line is illegal. A name that is
both a state and an effect is written `State.X` or `Effect.X` in steps. JSON has the same keys. A nested table may have
`part: yes`: it is part of another table, which is implied here.

Import trusts nothing. It takes text, lists and mappings and builds enums and a `Table` from them, whose own checks
run; it resolves no tag, no alias, no reference and no expression, so nothing in a document is executed. Sizes and
depth are bounded. Anything invalid is one `InputError` with its place: `file:line` in YAML, the path of the
value in JSON.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from fsm.errors import InputError, TableError
from fsm.nodes import DEPTH_LIMIT, FLAGS, Node, nearest, refuse_half_characters, refuse_size, short, yaml_node
from fsm.table import Ignore, Row, Symbol, Table

if TYPE_CHECKING:
    import yaml

SCHEMA = 1
"""Version of the form, in `fsm`. A reader refuses another."""

_ENUMS = {"states": "State", "events": "Event", "effects": "Effect"}
_PROSE = ("title", "source", "doc")
_TABLE_KEYS = ("name", *_PROSE, "initial", "terminal", "exits", "part", "rows", "nested")
_TOP_KEYS = ("fsm", *_TABLE_KEYS, *_ENUMS)
_ROW_KEYS = ("states", "events", "steps", "clause", "note")
_IGNORE_KEYS = ("states", "events", "why", "clause")
_EITHER_KEYS = (*_ROW_KEYS, "why")


# Writing.


def to_document(table: Table) -> dict[str, Any]:
    """The table as text, lists and dicts, with keys in the order of a written document."""
    document: dict[str, Any] = {"fsm": SCHEMA, "name": table.name}
    document |= {key: getattr(table, key) for key in _PROSE if getattr(table, key)}
    states = tuple(cast("type[Symbol]", type(table.initial)))
    for key, members in (("states", states), ("events", table.alphabet), ("effects", table.all_effects)):
        if members:
            document[key] = {member.name: member.meaning for member in members}
    return document | _body(table, table)


def to_yaml(table: Table) -> str:
    """The table as a YAML document: blocks of mappings, short lists on one line, no aliases."""
    import yaml  # noqa: PLC0415

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
            return True

        def represent_list(self, data: Any) -> yaml.SequenceNode:
            on_one_line = not any(isinstance(item, dict) for item in data)
            return self.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=on_one_line)

        def represent_str(self, data: str) -> yaml.ScalarNode:
            return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)

    Dumper.add_representer(list, Dumper.represent_list)
    Dumper.add_representer(str, Dumper.represent_str)
    text: str = yaml.dump(to_document(table), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def to_json(table: Table) -> str:
    """The table as a JSON document, indented, with a newline at its end."""
    return json.dumps(to_document(table), ensure_ascii=False, indent=2) + "\n"


def _body(table: Table, top: Table) -> dict[str, Any]:
    """The keys of a table other than name, prose and enums; a step whose name is a state and an effect is qualified."""
    body: dict[str, Any] = {"initial": table.initial.name}
    for key in ("terminal", "exits"):
        if members := getattr(table, key):
            body[key] = [member.name for member in members]
    if table.part:
        body["part"] = "yes"
    both = {e.name for e in top.effects or ()} & {s.name for s in type(top.initial)}
    body["rows"] = [_line(line, both, type(top.initial)) for line in table.rows]
    if table.nested:
        body["nested"] = {holder.name: _describe_nested(nested, top) for holder, nested in table.nested.items()}
    return body


def _describe_nested(table: Table, top: Table) -> dict[str, Any]:
    prose = {key: getattr(table, key) for key in _PROSE if getattr(table, key)}
    return {"name": table.name, **prose, **_body(table, top)}


def _line(line: Row | Ignore, both: set[str], state_type: type[Symbol]) -> dict[str, Any]:
    entry: dict[str, Any] = {"states": [s.name for s in line.states], "events": [e.name for e in line.events]}
    if isinstance(line, Ignore):
        entry["why"] = line.why
    else:
        entry["steps"] = [
            f"{'State' if isinstance(s, state_type) else 'Effect'}.{s.name}" if s.name in both else s.name
            for s in line.steps
        ]
    for key in ("clause", "note"):
        if text := getattr(line, key, ""):
            entry[key] = text
    return entry


# Reading.


def from_yaml(text: str, where: str = "<text>") -> Table:
    """The table of a YAML document. Raises `InputError` with `where:line` for anything else."""
    return _table(yaml_node(text, where, "table"))


def from_json(text: str, where: str = "<text>") -> Table:
    """The table of a JSON document. Raises `InputError` with `where` and the path of the value for anything else."""
    return _table(_json_node(text, where))


@dataclass(frozen=True, slots=True)
class _Members:
    states: dict[str, Symbol]
    events: dict[str, Symbol]
    effects: dict[str, Symbol]

    def state(self, node: Node) -> Symbol:
        return _member(node, self.states, "state")

    def event(self, node: Node) -> Symbol:
        return _member(node, self.events, "event")

    def step(self, node: Node) -> Symbol:
        """A state or an effect; `State.X` or `Effect.X` where both have the name."""
        both = {**self.effects, **self.states}
        for name in self.states.keys() & self.effects.keys():
            del both[name]
        qualified = {f"State.{n}": s for n, s in self.states.items()}
        qualified |= {f"Effect.{n}": e for n, e in self.effects.items()}
        if node.text() in qualified:
            return qualified[node.text()]
        if node.text() in self.states.keys() & self.effects.keys():
            raise InputError(f"{node.text()} is a state and an effect", node.where, "write State. or Effect. before it")
        return _member(node, both, "state or effect")


def _table(node: Node) -> Table:
    version = node.mapping().get("fsm")
    if version and version[1].text() != str(SCHEMA):  # before its keys, which may be other ones
        what = f"a table of version {short(version[1].text())}"
        raise InputError(what, version[1].where, f"this release reads fsm: {SCHEMA}")
    fields = node.fields(_TOP_KEYS, ("fsm", "name", "states", "events", "initial", "rows"))
    enums = {key: _enum(fields[key], name) for key, name in _ENUMS.items() if key in fields}
    members = _Members(*({m.name: m for m in enums.get(key, ())} for key in _ENUMS))
    return _build(node, fields, members, enums)


def _build(
    node: Node,
    fields: Mapping[str, Node],
    members: _Members,
    enums: Mapping[str, type[Symbol]],
    around: frozenset[str] = frozenset(),
) -> Table:
    """The table of a document, or one nested in it; `around` has the states of the enclosing tables."""
    nested: dict[Symbol, Table] = {}
    outer = around | _own_states(fields)
    for holder, value in fields["nested"].mapping().values() if "nested" in fields else ():
        inner = value.fields(_TABLE_KEYS, ("name", "initial", "rows"))
        nested[members.state(holder)] = _build(value, inner, members, enums, outer)
    rows = fields["rows"].items()
    _refuse_hidden_exits(fields, around)
    options: dict[str, Any] = {key: fields[key].text() for key in _PROSE if key in fields}
    for key in ("terminal", "exits"):
        if key in fields:
            options[key] = tuple(map(members.state, fields[key].items()))
    options["part"] = _is_part(fields, bool(around))
    try:
        return Table(
            name=_one_line(fields["name"]),
            initial=members.state(fields["initial"]),
            rows=tuple(_row(row, members) for row in rows),
            nested=nested,
            events=enums["events"],
            effects=enums.get("effects"),
            **options,
        )
    except TableError as error:
        raise _at_rows(error, node, rows) from None


def _own_states(fields: Mapping[str, Node]) -> frozenset[str]:
    """Names of a table's states: those of its rows, holders of nested tables, initial and terminal states."""
    rows = [state for row in fields["rows"].items() if "states" in row.mapping() for state in _of(row, "states")]
    ends = fields["terminal"].items() if "terminal" in fields else []
    holders = fields["nested"].mapping() if "nested" in fields else {}
    return frozenset((fields["initial"].text(), *(state.text() for state in (*rows, *ends)), *holders))


def _of(row: Node, key: str) -> list[Node]:
    return row.mapping()[key][1].items() if key in row.mapping() else []


def _refuse_hidden_exits(fields: Mapping[str, Node], around: frozenset[str]) -> None:
    """Raises `InputError` for a step of a nested table to a state of an enclosing table that is not among its exits."""
    inside = _own_states(fields) | {state.text() for state in (fields["exits"].items() if "exits" in fields else ())}
    for step in (step for row in fields["rows"].items() for step in _of(row, "steps")):
        name = step.text().removeprefix("State.")
        if name in around - inside:
            what = f"{name} is a state around the nested table {short(fields['name'].text())}"
            raise InputError(what, step.where, f"list it among its exits: exits: [{name}]")


def _is_part(fields: Mapping[str, Node], is_nested: bool) -> bool:
    """Whether the table is a part of another one. A nested table without exits is."""
    if "part" not in fields:
        return is_nested and "exits" not in fields
    is_part = _flag(fields["part"])
    if is_nested and not is_part and "exits" not in fields:
        raise InputError("a nested table is a part of the one around it", fields["part"].where, "leave part out")
    return is_part


def _row(node: Node, members: _Members) -> Row | Ignore:
    given = node.mapping()
    ignored = "why" in given
    known = _IGNORE_KEYS if ignored else _ROW_KEYS if "steps" in given else _EITHER_KEYS
    fields = node.fields(known, ("states", "events") + (() if ignored else ("steps",)))
    states = tuple(map(members.state, fields["states"].items()))
    events = tuple(map(members.event, fields["events"].items()))
    prose = {key: fields[key].text() for key in ("clause", "note", "why") if key in fields}
    if ignored:
        return Ignore(states, events, **prose)
    return Row(states, events, tuple(map(members.step, fields["steps"].items())), **prose)


def _at_rows(error: TableError, node: Node, rows: Sequence[Node]) -> InputError:
    """The error with line numbers of the file in place of the table's row numbers."""
    place = re.search(r"line (\d+)", error.problems[0])
    where = rows[int(place[1]) - 1].where if place else node.where
    return InputError(re.sub(r"\bline (\d+)", lambda m: rows[int(m[1]) - 1].label, str(error)), where)


def _enum(node: Node, name: str) -> type[Symbol]:
    members = []
    for key, meaning in node.mapping().values():
        text = key.text()
        if not (text.isascii() and text.isidentifier()) or keyword.iskeyword(text):
            raise InputError(f"{short(text)} is not a name", key.where, "names are letters, digits and _")
        if text.startswith("_") or text in ("name", "value", "code", "meaning", "mro"):
            raise InputError(f"{text} cannot be the name of a member", key.where, "an enum needs it for itself")
        members.append((text, meaning.text()))
    make: Callable[[str, list[tuple[str, str]]], type[Symbol]] = Symbol  # type: ignore[assignment]
    return make(name, members)


def _member(node: Node, known: Mapping[str, Symbol], role: str) -> Symbol:
    name = node.text()
    if name not in known:
        raise InputError(
            f"{short(name)} is not a known {role} of this document", node.where, nearest(name, list(known))
        )
    return known[name]


def _one_line(node: Node) -> str:
    if not node.text().strip() or not node.text().isprintable():
        raise InputError("must be text on one line", node.where)
    return node.text()


def _flag(node: Node) -> bool:
    if node.text() not in FLAGS:
        raise InputError(f"{short(node.text())} is neither yes nor no", node.where)
    return FLAGS[node.text()]


# JSON: positions are paths.


def _json_node(text: str, where: str) -> Node:
    refuse_size(text, where, "table")
    try:
        data = json.loads(text, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as problem:
        raise InputError(f"not JSON: {problem.msg}", f"{where}:{problem.lineno}") from None
    except (ValueError, RecursionError) as problem:
        raise InputError(f"not JSON: {problem}", where) from None
    return _from_json(data, where, "", 0)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with its repeated keys."""


def _from_json(data: Any, where: str, path: str, depth: int) -> Node:
    place = f"{where}: {path}" if path else where
    if depth > DEPTH_LIMIT:
        raise InputError(f"nested deeper than {DEPTH_LIMIT} levels", place[:200])
    if isinstance(data, _Pairs):
        return Node(_json_mapping(data, where, path, depth), place, path)
    if isinstance(data, list):
        items = [_from_json(item, where, f"{path}[{i}]", depth + 1) for i, item in enumerate(data)]
        return Node(items, place, path)
    if isinstance(data, str):
        refuse_half_characters(data, place)
        return Node(data, place, path)
    if path == "fsm" and type(data) is int:
        return Node(str(data), place, path)
    if isinstance(data, bool) and path.rpartition(".")[2] == "part":
        return Node("yes" if data else "no", place, path, plain=True)
    raise InputError("must be text, a list or a mapping", place)


def _json_mapping(data: _Pairs, where: str, path: str, depth: int) -> dict[str, tuple[Node, Node]]:
    found: dict[str, tuple[Node, Node]] = {}
    for name, value in data:
        inner = f"{path}.{name}" if path else name
        refuse_half_characters(name, where)
        if not name.isprintable() or len(name) > 200:
            raise InputError(f"{short(name)} is not a key", f"{where}: {path}" if path else where)
        if name in found:
            raise InputError(f"the key {short(name)} appears twice", f"{where}: {path}" if path else where)
        found[name] = (Node(name, f"{where}: {inner}", inner), _from_json(value, where, inner, depth + 1))
    return found
