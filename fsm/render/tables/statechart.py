"""A table as a statechart for other tools: SCXML, and the configuration of an XState machine (version 5).

Both step as the table does: a nested table is a compound state whose own transitions come first, an ignored event is a
transition without target or action, an event without a cell is left to the tool (XState and SCXML drop it). They cannot
express a state that is passed through within one step: its name is kept beside the transition. There are no guards. A
terminal state is `final` only if it handles no event, because a final state may have no transitions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

from fsm.render.tables.graph import unique_words
from fsm.render.wording import plain
from fsm.table import Row, Symbol, Table


class Transition(NamedTuple):
    """A transition by one line of a table on one event."""

    event: str
    target: Symbol | None
    """None if the machine stays without leaving."""
    effects: tuple[str, ...]
    via: tuple[str, ...]
    """States passed through on the way."""
    note: str


def transitions(table: Table, state: Symbol) -> Iterator[Transition]:
    """The transitions of a state of this table, without those of a table that it holds."""
    for line in table.rows:
        if state not in line.states:
            continue
        steps = line.steps if isinstance(line, Row) else ()
        entered = [step for step in steps if isinstance(step, type(table.initial))]
        effects = tuple(step.name for step in steps if step not in entered)
        remark = line.note if isinstance(line, Row) else f"ignored: {line.why}"
        note = ": ".join(plain(text) for text in (line.clause, remark) if text)
        target = entered[-1] if entered else None
        for event in line.events:
            yield Transition(event.name, target, effects, tuple(s.name for s in entered[:-1]), note)


def xstate(table: Table) -> str:
    """The table as JSON for XState's `createMachine`."""
    words = unique_words({state.name: state.name for state in table.all_states()})
    head = {"id": table.name, **({"description": plain(table.title)} if table.title else {})}
    return json.dumps(head | _xstate_level(table, words), ensure_ascii=False, indent=2) + "\n"


def _xstate_level(table: Table, words: Mapping[str, str]) -> dict[str, Any]:
    return {
        "initial": words[table.initial.name],
        "states": {words[state.name]: _xstate_state(table, state, words) for state in table.states},
    }


def _xstate_state(table: Table, state: Symbol, words: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"id": words[state.name], "description": plain(state.meaning)}
    on = {t.event: _xstate_transition(t, state, words) for t in transitions(table, state)}
    if state in table.terminal:
        found["tags"] = ["terminal"]
        if not on:
            found["type"] = "final"
    if on:
        found["on"] = on
    return found | (_xstate_level(table.nested[state], words) if state in table.nested else {})


def _xstate_transition(transition: Transition, state: Symbol, words: Mapping[str, str]) -> dict[str, Any]:
    found = {
        "target": transition.target and f"#{words[transition.target.name]}",
        "reenter": transition.target is state,
        "actions": transition.effects,
        "description": transition.note,
        "meta": transition.via and {"via": transition.via},
    }
    return {key: value for key, value in found.items() if value}


def scxml(table: Table) -> str:
    """The table as an SCXML document without data model; an effect is raised as the event `effect.NAME`."""
    enums = (table.all_states(), table.alphabet, table.effects or ())
    words = _Words(*(unique_words({member.name: member.name for member in enum}) for enum in enums))
    spaces = 'xmlns="http://www.w3.org/2005/07/scxml" xmlns:fsm="urn:rebalance-fsm"'
    (name,) = unique_words({"": table.name}).values()  # a name is one token, and some tools generate a function from it
    head = f'version="1.0" datamodel="null" name="{name}" initial="{words.states[table.initial.name]}"'
    body = _scxml_level(table, words, "  ")
    return "\n".join(('<?xml version="1.0" encoding="UTF-8"?>', f"<scxml {spaces} {head}>", *body, "</scxml>", ""))


class _Words(NamedTuple):
    states: Mapping[str, str]
    events: Mapping[str, str]
    effects: Mapping[str, str]


def _scxml_level(table: Table, words: _Words, indent: str) -> Iterator[str]:
    for state in table.states:
        found = list(transitions(table, state))
        tag = "final" if state in table.terminal and not found else "state"
        nested = table.nested.get(state)
        initial = f' initial="{words.states[nested.initial.name]}"' if nested else ""
        yield f'{indent}<{tag} id="{words.states[state.name]}"{initial} fsm:meaning={_attribute(state.meaning)}>'
        for transition in found:
            yield from _scxml_transition(transition, words, indent + "  ")
        if nested:
            yield from _scxml_level(nested, words, indent + "  ")
        yield f"{indent}</{tag}>"


def _scxml_transition(transition: Transition, words: _Words, indent: str) -> Iterator[str]:
    target = f' target="{words.states[transition.target.name]}"' if transition.target else ""
    via = f' fsm:via="{" ".join(words.states[name] for name in transition.via)}"' if transition.via else ""
    note = f" fsm:note={_attribute(transition.note)}" if transition.note else ""
    head = f'{indent}<transition event="{words.events[transition.event]}"{target}{via}{note}'
    if not transition.effects:
        yield f"{head}/>"
        return
    yield f"{head}>"
    yield from (f'{indent}  <raise event="effect.{words.effects[name]}"/>' for name in transition.effects)
    yield f"{indent}</transition>"


def _attribute(text: str) -> str:
    return quoteattr(plain(text))
