"""A page of Markdown for a complete table: every state, event, effect, row and ignore; and the index of such pages.

This page is unabridged, unlike drawings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fsm.render.tables.text import sizes
from fsm.render.wording import plain
from fsm.table import Ignore, Row, Symbol, Table

_SPECIAL = re.compile(r"([\\`*\[\]<>|#~&$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")


def markdown(table: Table) -> str:
    """The page of one table; its drawing is expected beside it, as `<name>.svg`."""
    return "\n".join([*_head(table), *_states(table), *_events(table), *_effects(table), *_lines(table)])


def index(tables: Iterable[Table], pictures: Iterable[str] = (), pages: Iterable[str] = ()) -> str:
    """The page that lists the tables of one folder, and the names of the pictures and pages beside them."""
    heads = ("Table", "What it is", "States", "Events", "Rows", "Ignores", "Illegal cells", "Files")
    lines = ["# State tables", "", "Written by `fsm draw`; do not edit.", ""]
    beside = [line for name in pictures for line in ("", f"- [{escape(name)}]({_target(name, 'svg')}), as a picture")]
    beside += [line for name in pages for line in ("", f"- [{escape(name.removesuffix('.md'))}]({name})")]
    return "\n".join([*lines, *grid(heads, (_entry(table) for table in tables)), *beside, ""])


def _entry(table: Table) -> tuple[str, ...]:
    files = ", ".join(f"[{suffix}]({_target(table.name, suffix)})" for suffix in ("svg", "dot", "mmd", "puml"))
    return (f"[{escape(table.name)}]({_target(table.name, 'md')})", escape(table.title), *sizes(table), files)


def _target(name: str, suffix: str) -> str:
    return f"<{name}.{suffix}>" if re.search(r"[^A-Za-z0-9._-]", name) else f"{name}.{suffix}"


def _head(table: Table) -> Iterator[str]:
    counts = table.counts()
    title = table.title or table.name
    yield from (f"# {escape(title)}", "", f"![{escape(title)}]({_target(table.name, 'svg')})", "")
    facts = [("Table", _code(table.name)), ("Source", escape(table.source)), ("Begins in", _code(table.initial.name))]
    facts.append(("Ends in", ", ".join(_code(s.name) for s in table.terminal) or "no state"))
    yield from (f"- {head}: {text}" for head, text in facts if text)
    yield f"- Lines: {counts['rows']} rows, {counts['ignores']} ignored"
    yield (
        f"- Cells: {counts['states']} states by {counts['events']} events, of which "
        f"{counts['row_cells']} handled, {counts['ignored_cells']} ignored, {counts['illegal_cells']} illegal"
    )
    yield ""
    for paragraph in table.doc.strip().split("\n\n"):
        if paragraph.strip():
            yield from (escape(paragraph), "")


def _states(table: Table) -> Iterator[str]:
    nested = dict(_holders(table))
    yield from ("## States", "")
    rows = ((_code(s.name), escape(s.meaning), _role(table, s, nested)) for s in table.all_states())
    yield from (*grid(("State", "Meaning", "Role"), rows), "")


def _holders(table: Table) -> Iterator[tuple[Symbol, Table]]:
    for holder, nested in table.nested.items():
        yield holder, nested
        yield from _holders(nested)


def _role(table: Table, state: Symbol, nested: Mapping[Symbol, Table]) -> str:
    roles = [f"in {_code(holder.name)}" for holder, inner in nested.items() if state in inner.states]
    if state is table.initial:
        roles.append("initial")
    if state in table.terminal:
        roles.append("terminal")
    if state in nested:
        roles.append(f"holds a table, entered at {_code(nested[state].initial.name)}")
    return ", ".join(roles)


def _events(table: Table) -> Iterator[str]:
    handled = {event for _, line in table.lines() for event in line.events}
    yield from ("## Events", "")
    rows = ((_code(e.name), escape(e.meaning)) for e in table.alphabet if e in handled)
    yield from (*grid(("Event", "Meaning"), rows), "")


def _effects(table: Table) -> Iterator[str]:
    if table.effects:
        yield from ("## Effects", "")
        rows = ((_code(e.name), escape(e.meaning)) for e in table.effects)
        yield from (*grid(("Effect", "Meaning"), rows), "")


def _lines(table: Table, holder: Symbol | None = None) -> Iterator[str]:
    rows = [line for line in table.rows if isinstance(line, Row)]
    ignores = [line for line in table.rows if isinstance(line, Ignore)]
    yield from ("## Rows" if holder is None else f"## Rows inside {_code(holder.name)}", "")
    yield "States entered and effects ordered, in this order. A row that enters no state stays where it is."
    yield ""
    heads = ("In", "On", "Then", "Clause", "Note")
    yield from (*grid(heads, (_row(table, line) for line in rows)), "")
    if ignores:
        yield from ("### Ignored, and why", "")
        entries = ((_codes(i.states), _codes(i.events), escape(i.why), escape(i.clause)) for i in ignores)
        yield from (*grid(("In", "On", "Why", "Clause"), entries), "")
    for state, nested in table.nested.items():
        yield from _lines(nested, state)


def _row(table: Table, line: Row) -> tuple[str, ...]:
    state = type(table.initial)
    steps = (f"→ **{_code(s.name)}**" if isinstance(s, state) else _code(s.name) for s in line.steps)
    return (_codes(line.states), _codes(line.events), ", ".join(steps), escape(line.clause), escape(line.note))


def grid(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table, without its empty columns."""
    cells = [tuple(row) for row in rows]
    kept = [i for i in range(len(heads)) if any(row[i] for row in cells)]
    yield f"| {' | '.join(heads[i] for i in kept)} |"
    yield f"|{'---|' * len(kept)}"
    for row in cells:
        yield f"| {' | '.join(row[i] for i in kept)} |"


def _codes(members: Iterable[Symbol]) -> str:
    return ", ".join(_code(member.name) for member in members)


def _code(name: str) -> str:
    text = plain(name)
    return escape(text) if "`" in text or "|" in text else f"`{text}`"


def escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", plain(text))
