"""The content of a table's picture, independent of its drawing.

Only `picture(table)` extracts it: every renderer draws its `Picture`, so no two of them can disagree. It has:

* a **node** for each state a machine can be in, with the rows that stay there and the events ignored there;
* a **cluster** for each state that holds a nested table, and for each *region*: states that share all their edges to
  some other state, so that the edge is drawn once, from their common frame;
* an **edge** for each observable hop between two states. Rows between the same two states share one edge with several
  labels. A row that passes through states is a chain of hops; from its second hop on the label names the states where
  it began. A performed self transition is a loop;
* a **note** for each line that stays, or is ignored, in most states: once, not in every node.

Drawings are read from top to bottom in the order of `Picture.states`: the initial state first, then as the table
lists them. An edge that leads upwards in this order `goes_back`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

from fsm.render.tables.view import WHOLE, Cells, View
from fsm.render.wording import plain
from fsm.table import Ignore, Row, Symbol, Table

Pair = tuple[str, str]
"""(state, next_state), by name: how traffic is counted."""

WIDE = 5
"""The minimum number of states a line must stay in, besides most of the table's, to become a note."""
LONGEST_CLAUSE = 10
"""The maximum length of a clause in a drawing; a longer one is prose, for the Markdown page."""
SMALLEST_REGION = 3
"""The minimum number of states in a region."""
LEAST_SAVED = 3
"""The minimum number of edges that a region saves, because a frame has a cost for the reader, too."""


class Kind(Enum):
    """The role of a state in its machine."""

    INITIAL = "initial"
    RESTING = "resting"
    """A machine can be found in it."""
    PASSING = "passing"
    """Only passed through within one step."""
    TERMINAL = "terminal"


COLOURS = {Kind.INITIAL: "#d9f2e3", Kind.RESTING: "#e3eefc", Kind.PASSING: "#ffffff", Kind.TERMINAL: "#e4e7eb"}
"""The fill colour of each kind of state."""
LIT = "#ffe08a"
"""The fill colour of a lit state."""


@dataclass(frozen=True, slots=True)
class Label:
    """The content of one line of the table for one edge or node."""

    events: tuple[str, ...]
    clause: str = ""
    effects: tuple[str, ...] = ()
    note: str = ""
    """The row's note, or why the event is ignored."""
    origin: tuple[str, ...] = ()
    """On a later hop of a row: the states where the row began."""


@dataclass(frozen=True, slots=True)
class Node:
    """A state a machine can be in."""

    name: str
    meaning: str
    kind: Kind
    stays: tuple[Label, ...]
    """Rows that are handled without leaving or entering a state."""
    ignored: tuple[Label, ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A frame around states: one that holds a nested table, or a region (`holder` is false, `name` is made up)."""

    name: str
    meaning: str
    holder: bool
    entry: str
    """The state entered by going to the holder; empty for a region."""
    nodes: tuple[Node, ...]
    clusters: tuple[Cluster, ...]
    stays: tuple[Label, ...] = ()
    """Rows handled in every state inside without leaving or entering one."""
    ignored: tuple[Label, ...] = ()

    def members(self) -> tuple[str, ...]:
        """Names of the states inside, at any depth."""
        inner = (name for cluster in self.clusters for name in cluster.members())
        return (*(n.name for n in self.nodes), *inner)


@dataclass(frozen=True, slots=True)
class Edge:
    """A hop from a state, or from every state of a cluster, to a state."""

    source: str
    target: str
    labels: tuple[Label, ...]
    pairs: tuple[Pair, ...]
    """The (state, next_state) it stands for: one, or one for each state of the cluster."""
    count: int | None = None
    """How often real traffic took it; None without counts."""
    highlighted: bool = False
    goes_back: bool = False
    """Whether it leads to a state further up, or to its own source."""


@dataclass(frozen=True, slots=True)
class Note:
    """A line that stays, or is ignored, in most states."""

    states: tuple[str, ...]
    label: Label
    ignored: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """A table, or a part of one, ready to be drawn."""

    name: str
    title: str
    source: str
    initial: str
    """Empty if the part lacks the initial state."""
    terminal: tuple[str, ...]
    states: tuple[str, ...]
    """Every state drawn, in reading order."""
    nodes: tuple[Node, ...]
    """States outside every cluster."""
    clusters: tuple[Cluster, ...]
    edges: tuple[Edge, ...]
    notes: tuple[Note, ...]
    sizes: Mapping[str, int]
    """`Table.counts()`."""
    effects: bool = False
    """Whether labels have effects."""
    lit: str = ""
    """A state to be marked; empty for none."""

    def all_clusters(self) -> Iterator[Cluster]:
        """Every cluster, outer before inner."""
        pending = list(self.clusters)
        while pending:
            cluster = pending.pop(0)
            yield cluster
            pending.extend(cluster.clusters)

    def all_nodes(self) -> Iterator[Node]:
        """Every node, those outside clusters first."""
        yield from self.nodes
        for cluster in self.all_clusters():
            yield from cluster.nodes


def picture(
    table: Table,
    counts: Mapping[Pair, int] | None = None,
    highlighted: Collection[Pair] = (),
    *,
    regions: bool = True,
    view: View = WHOLE,
) -> Picture:
    """The picture of a table.

    Args:
        table: the table to draw.
        counts: how often each hop was taken, written on the edges.
        highlighted: hops to mark.
        regions: whether states with common edges get a frame.
        view: what to draw of the table.
    """
    cells = view.cells(table)
    states = view.shows(table, cells)
    hops = _hops(table, cells, states)
    contents = {pair: _content(labels, effects=view.effects) for pair, labels in hops.items()}
    frames = _holder_frames(table, states)
    if regions:
        frames = [*frames, *_regions(states, contents, frames)]
    stays, ignored, notes = _find_staying(table, cells, states, frames)
    shown = [state for state in table.leaves() if state.name in states]
    nodes = {s.name: _node(table, s, stays, ignored) for s in shown}
    labels = {frame.name: (_join(stays[frame.name]), _join(ignored[frame.name])) for frame in frames}
    placed = {name for frame in frames for name in frame.members}
    initial = table.compiled.initial.name
    marked = {*highlighted, *(pair for pair in hops if pair[0] == view.lit)}
    return Picture(
        name=table.name,
        title=table.title or table.name,
        source=table.source,
        initial=initial if initial in states else "",
        terminal=tuple(s.name for s in table.terminal if s.name in states),
        states=states,
        nodes=tuple(node for name, node in nodes.items() if name not in placed),
        clusters=_tree(frames, nodes, labels),
        edges=tuple(_finish(edge, counts, marked, states) for edge in _edges(hops, contents, frames)),
        notes=notes,
        sizes=table.counts(),
        effects=view.effects,
        lit=view.lit,
    )


# Hops: the labels of pairs of states.


@dataclass(slots=True)
class _Collected:
    """A label being collected: one line of the table, over the cells that come from it."""

    line: Row
    events: dict[str, None]
    origin: dict[str, None]

    def label(self) -> Label:
        effects = tuple(effect.name for effect in self.line.effects)
        return Label(tuple(self.events), self.line.clause, effects, self.line.note, tuple(self.origin))


_Content = frozenset[tuple[str, bool, str, tuple[str, ...]]]


def _hops(table: Table, cells: Cells, states: Sequence[str]) -> dict[Pair, tuple[Label, ...]]:
    """(state, next_state) -> labels, in the order of the table's lines."""
    found: dict[Pair, dict[tuple[int, bool], _Collected]] = {}
    number = {id(line): i for i, (_, line) in enumerate(table.lines())}
    for (state, event), cell in cells.items():
        if not isinstance(cell.source, Row):
            continue
        for position, (at, entered) in enumerate(pairwise((state, *cell.path))):
            if entered.name not in states or at.name not in states:
                continue
            key = (number[id(cell.source)], position > 0)
            labels = found.setdefault((at.name, entered.name), {})
            entry = labels.setdefault(key, _Collected(cell.source, {}, {}))
            entry.events[event.name] = None
            if position:
                entry.origin[state.name] = None
    pairs = sorted(found, key=lambda pair: (states.index(pair[0]), states.index(pair[1])))
    return {pair: _join(entry.label() for _, entry in sorted(found[pair].items())) for pair in pairs}


def _join(labels: Iterable[Label]) -> tuple[Label, ...]:
    """Joins labels that differ only in their events, and cite the same clause."""
    joined: dict[object, Label] = {}
    for label in labels:
        key = replace(label, events=()) if label.clause else label
        found = joined.get(key)
        joined[key] = label if found is None else replace(label, events=(*found.events, *label.events))
    return tuple(joined.values())


# Frames: sets of states that can be the common source of an edge.


@dataclass(frozen=True, slots=True)
class _Frame:
    name: str
    meaning: str
    members: frozenset[str]
    holder: bool = False
    entry: str = ""


def _holder_frames(table: Table, states: Sequence[str]) -> list[_Frame]:
    frames: list[_Frame] = []
    for holder, nested in table.nested.items():
        members = frozenset(s.name for s in nested.leaves()).intersection(states)
        if members:
            entry = table.enter(holder).name
            frames.append(_Frame(holder.name, holder.meaning, members, True, entry if entry in members else ""))
            frames.extend(_holder_frames(nested, states))
    return frames


def _regions(order: Sequence[str], contents: Mapping[Pair, _Content], frames: Sequence[_Frame]) -> list[_Frame]:
    """Sets of states that save the most edges, none crossing another frame."""
    saved: dict[frozenset[str], int] = {}
    for target in order:
        for members in _alike(contents, target):
            saved[members] = saved.get(members, 0) + len(members) - 1
    worthy = [m for m, edges in saved.items() if edges >= LEAST_SAVED and _is_cohesive(contents, m)]
    ranked = sorted(worthy, key=lambda m: (-saved[m], -len(m), sorted(order.index(s) for s in m)))
    taken = [frame.members for frame in frames]
    chosen: list[_Frame] = []
    for members in ranked:
        if len(members) < len(order) and all(_nests(members, other) for other in taken):
            taken.append(members)
            named = " or ".join(name for name in order if name in members)
            chosen.append(_Frame(f"any of {named}", "", members))
    return chosen


def _alike(contents: Mapping[Pair, _Content], target: str) -> Iterator[frozenset[str]]:
    """Sets of at least `SMALLEST_REGION` states whose edges to `target` have equal labels."""
    by_content: dict[_Content, set[str]] = {}
    for (state, entered), content in contents.items():
        if entered == target and state != target:
            by_content.setdefault(content, set()).add(state)
    return (frozenset(members) for members in by_content.values() if len(members) >= SMALLEST_REGION)


def _content(labels: Iterable[Label], *, effects: bool) -> _Content:
    """What two edges to one state must have in common to be one: events, drawn clauses, and effects if drawn."""
    return frozenset(
        (event, bool(label.origin), _short_clause(label), label.effects if effects else ())
        for label in labels
        for event in label.events
    )


def _short_clause(label: Label) -> str:
    """The clause in a drawing; empty if it is prose."""
    return label.clause if len(label.clause) <= LONGEST_CLAUSE else ""


def _same_from_all(contents: Mapping[Pair, _Content], members: frozenset[str], target: str) -> bool:
    """Whether all members have an edge to this state outside, with equal labels."""
    return target not in members and len({contents.get((state, target)) for state in members}) == 1


def _is_cohesive(contents: Mapping[Pair, _Content], members: frozenset[str]) -> bool:
    """Whether more edges stay inside than cross the frame, not counting the saved ones."""
    inside = crossing = 0
    for state, target in contents:
        if state in members and target in members:
            inside += state != target
        elif target in members or (state in members and not _same_from_all(contents, members, target)):
            crossing += 1
    return crossing <= inside


def _nests(one: frozenset[str], other: frozenset[str]) -> bool:
    return one != other and (one < other or other < one or not one & other)


_FrameLabels = Mapping[str, tuple[tuple[Label, ...], tuple[Label, ...]]]


def _tree(
    frames: Sequence[_Frame], nodes: Mapping[str, Node], labels: _FrameLabels, inside: frozenset[str] | None = None
) -> tuple[Cluster, ...]:
    """Clusters directly inside `inside` (None: outside everything), in the order of their first states."""
    within = [f for f in frames if inside is None or f.members < inside]
    outer = [f for f in within if not any(f.members < g.members for g in within)]
    order = list(nodes)
    outer.sort(key=lambda f: min(order.index(name) for name in f.members))
    return tuple(_cluster(frame, frames, nodes, labels) for frame in outer)


def _cluster(frame: _Frame, frames: Sequence[_Frame], nodes: Mapping[str, Node], labels: _FrameLabels) -> Cluster:
    inner = _tree(frames, nodes, labels, frame.members)
    placed = {name for cluster in inner for name in cluster.members()}
    own = tuple(node for name, node in nodes.items() if name in frame.members - placed)
    return Cluster(frame.name, frame.meaning, frame.holder, frame.entry, own, inner, *labels[frame.name])


# Edges: one for each pair of states, or one from a frame if all its states have the same.


def _edges(
    hops: Mapping[Pair, tuple[Label, ...]], contents: Mapping[Pair, _Content], frames: Sequence[_Frame]
) -> Iterator[Edge]:
    drawn: set[Pair] = set()
    largest_first = sorted((f for f in frames if len(f.members) > 1), key=lambda f: (-len(f.members), f.name))
    for state, target in hops:
        if (state, target) in drawn:
            continue
        source = state
        pairs: tuple[Pair, ...] = ((state, target),)
        for frame in largest_first:
            if state in frame.members and _same_from_all(contents, frame.members, target):
                source = frame.name
                pairs = tuple(pair for pair in hops if pair[0] in frame.members and pair[1] == target)
                break
        drawn.update(pairs)
        yield Edge(source, target, tuple(dict.fromkeys(label for pair in pairs for label in hops[pair])), pairs)


def _finish(
    edge: Edge, counts: Mapping[Pair, int] | None, highlighted: Collection[Pair], states: Sequence[str]
) -> Edge:
    count = None if counts is None else sum(counts.get(pair, 0) for pair in edge.pairs)
    marked = any(pair in highlighted for pair in edge.pairs)
    back = states.index(edge.target) <= min(states.index(state) for state, _ in edge.pairs)
    return replace(edge, count=count, highlighted=marked, goes_back=back)


# Lines that stay in a state.


_Staying = dict[str, list[Label]]


def _find_staying(
    table: Table, cells: Cells, names: Sequence[str], frames: Sequence[_Frame]
) -> tuple[_Staying, _Staying, tuple[Note, ...]]:
    """Staying rows and ignores: by state or frame, and separately those of most states."""
    frame_of = {frame.members: frame.name for frame in frames}
    stays: _Staying = {name: [] for name in (*names, *frame_of.values())}
    ignored: _Staying = {name: [] for name in stays}
    notes: list[Note] = []
    for _, line in table.lines():
        is_row = isinstance(line, Row)
        for states, label in _stays_of(cells, line):
            frame = frame_of.get(frozenset(states))
            if frame is None and len(states) >= WIDE and 2 * len(states) > len(names):
                notes.append(Note(states, label, ignored=not is_row))
                continue
            for place in states if frame is None else (frame,):
                (stays if is_row else ignored)[place].append(label)
    return stays, ignored, tuple(notes)


def _stays_of(cells: Cells, line: Row | Ignore) -> Iterator[tuple[tuple[str, ...], Label]]:
    """(states, label) of the cells of a line in which nothing is entered, states that share their events together."""
    events_in: dict[str, list[str]] = {}
    for (state, event), cell in cells.items():
        if cell.source is line and not cell.path:
            events_in.setdefault(state.name, []).append(event.name)
    states_of: dict[tuple[str, ...], list[str]] = {}
    for name, events in events_in.items():
        states_of.setdefault(tuple(events), []).append(name)
    for shared, names in states_of.items():
        yield tuple(names), _stay_label(line, shared)


def _stay_label(line: Row | Ignore, events: tuple[str, ...]) -> Label:
    if isinstance(line, Row):
        return Label(events, line.clause, tuple(effect.name for effect in line.effects), line.note)
    return Label(events, line.clause, (), line.why)


def _node(table: Table, state: Symbol, stays: Mapping[str, list[Label]], ignored: Mapping[str, list[Label]]) -> Node:
    name = state.name
    return Node(name, state.meaning, _kind(table, state), _join(stays[name]), _join(ignored[name]))


def _kind(table: Table, state: Symbol) -> Kind:
    if state in table.terminal:
        return Kind.TERMINAL
    if state is table.compiled.initial:
        return Kind.INITIAL
    rests = any(cell.target is state and cell.path for cell in table.compiled.values())
    return Kind.RESTING if rests else Kind.PASSING


# Texts that every renderer shares.


def lines(labels: Iterable[Label], *, effects: bool = False) -> tuple[str, ...]:
    """The text of labels: events, a short clause, the origin of a later hop, and the effects if requested.

    Labels with the same events are one line, which cites a clause only if they agree on it.
    """
    alike: dict[tuple[tuple[str, ...], ...], list[Label]] = {}
    for label in labels:
        alike.setdefault((label.events, label.effects if effects else ()), []).append(label)
    return tuple(_line(events, orders, same) for (events, orders), same in alike.items())


def _line(events: tuple[str, ...], effects: tuple[str, ...], labels: Sequence[Label]) -> str:
    text = ", ".join(events)
    clauses = {_short_clause(label) for label in labels}
    if len(clauses) == 1 and clauses != {""}:
        text += f" ({_short_clause(labels[0])})"
    origin = tuple(dict.fromkeys(state for label in labels for state in label.origin))
    if origin:
        also = "" if all(label.origin for label in labels) else "also "
        text += f", {also}from {' or '.join(origin) if len(origin) < 3 else f'{len(origin)} states'}"
    return plain(f"{text} / {', '.join(effects)}" if effects else text)


def where(note: Note, names: Iterable[str]) -> str:
    """The text for the states of a note; `names` are all states of the picture."""
    missing = [name for name in names if name not in note.states]
    if not missing:
        return "in every state"
    if len(missing) < len(note.states):
        return plain(f"in every state but {', '.join(missing)}")
    return plain(f"in {', '.join(note.states)}")


def identifiers(picture: Picture, reserved: Collection[str] = ()) -> dict[str, str]:
    """An identifier for each state and cluster, safe in any diagram language: the name itself if possible.

    `reserved` are the language's keywords, in lower case.
    """
    regions = [c.name for c in picture.all_clusters() if not c.holder]
    wanted = {
        name: name for name in (*(n.name for n in picture.all_nodes()), *(c.name for c in picture.all_clusters()))
    }
    wanted |= {name: f"any_{number}" for number, name in enumerate(regions, 1)}
    return unique_words(wanted, reserved)


def unique_words(wanted: Mapping[str, str], reserved: Collection[str] = ()) -> dict[str, str]:
    """The wishes as ASCII words, unique even without regard to case."""
    words: dict[str, str] = {}
    taken: set[str] = set()
    for name, wish in wanted.items():
        base = "".join(c if c.isascii() and c.isalnum() else "_" for c in wish)
        word = base if base[:1].isalpha() and base.casefold() not in reserved else f"s_{base}"
        while word.casefold() in taken:
            word += "_"
        taken.add(word.casefold())
        words[name] = word
    return words
