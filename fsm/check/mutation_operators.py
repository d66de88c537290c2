"""Mutants of tables and rules: how each operator changes a row, a function or a choice.

A row is mutated as a whole, in all its states and on all its events. It is named by one of its cells,
`door.SHUT.PUSHED`; a function by its module. Operators:

    drop      the row is not there: its events are illegal
    ignore    its events are expected, and nothing happens
    stay      its effects are carried out, and the machine stays where it is
    target    it leads to another state
    lose      one effect is left out
    timer     one effect on a timer is left out: it is forgotten
    repeat    one effect is carried out twice
    reorder   two neighbouring steps change places
    skip      a check is not made
    always    a condition always holds
    never     a condition never holds
    epoch     an epoch is one less, or one more
    same      what was to be changed is given back as it is
    empty     nothing is found, or one of several things is not
    flip      a choice of a dialect is turned over
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from fsm.check.mutation import cell_of, replace_function, rewrite_cells
from fsm.table import Compiled, Ignore, Symbol, watch_cells

OPERATORS = (
    *("drop", "ignore", "stay", "target", "lose", "timer", "repeat", "reorder"),
    *("skip", "always", "never", "epoch", "same", "empty", "flip"),
)
COLLECTIONS = ("Collection", "Loads", "Mapping", "Sequence", "Units", "UnitsByWorker", "dict", "frozenset", "tuple")
"""The beginnings of annotations of collections."""
Patch = Callable[[], AbstractContextManager[None]]
Pair = tuple[Symbol, Symbol]


class Mutant(NamedTuple):
    """A change, and whether the changed place is ever reached."""

    operator: str
    place: str
    detail: str
    patch: Patch
    is_met: bool
    places: frozenset[str] = frozenset()
    """All names of the place: a row has one for each of its cells."""

    @property
    def name(self) -> str:
        """The name for `--mutate`."""
        return ":".join(part for part in (self.operator, self.place, self.detail) if part)


class Met:
    """Records which table cells are looked up, and what functions return, while a model is explored."""

    def __init__(self) -> None:
        self.cells: dict[int, tuple[Compiled, set[Pair]]] = {}
        self.answers: dict[Callable[..., Any], set[Any]] = {}
        self.now: set[str] = set()
        """The places that were reached since the caller last exchanged this set."""

    def _note_cell(self, table: Compiled, state: Symbol, event: Symbol) -> None:
        self.cells.setdefault(id(table), (table, set()))[1].add((state, event))
        self.now.add(_cell_place(table, state, event))

    @contextmanager
    def watching(self, functions: Iterable[FunctionType]) -> Iterator[None]:
        """Records lookups in all tables and results of these functions until the `with` ends."""
        with ExitStack() as patches:
            for one in functions:
                patches.enter_context(replace_function(one, partial(self._note_answer, one)))
            patches.enter_context(watch_cells(self._note_cell))
            yield

    def _note_answer(self, function: FunctionType, original: Callable[..., Any], *args: Any, **named: Any) -> Any:
        answers = self.answers.setdefault(function, set())
        self.now.add(_place(function))
        found = original(*args, **named)
        answers.add(found if isinstance(found, bool) else None)
        return found


# Rows


def of_tables(met: Met) -> Iterator[Mutant]:
    """Mutants of the rows of every table that was looked up."""
    for table, cells in met.cells.values():
        for pairs in _rows(table):
            yield from _of_row(table, pairs, any(pair in cells for pair in pairs))


def _rows(table: Compiled) -> Iterable[list[Pair]]:
    """The cells of each row, in the order of the table's cells."""
    found: dict[int, list[Pair]] = {}
    for pair, cell in table.items():
        found.setdefault(id(cell.source), []).append(pair)
    return found.values()


def _cell_place(table: Compiled, state: Symbol, event: Symbol) -> str:
    return f"{table.name}.{state.name}.{event.name}"


def _of_row(table: Compiled, pairs: Sequence[Pair], is_met: bool) -> Iterator[Mutant]:
    names = [_cell_place(table, *pair) for pair in pairs]
    cell = table[pairs[0]]
    made: set[Any] = {cell.steps}
    for operator, detail, steps in _variants(table, cell):
        if steps is None or steps not in made:
            made.add(steps)
            cells = {pair: None if steps is None else cell_of(pair[0], steps, table[pair].source) for pair in pairs}
            patch = partial(rewrite_cells, table, cells)
            yield Mutant(operator, names[0], detail, patch, is_met, frozenset(names))


Steps = tuple[Symbol, ...]


def _variants(table: Compiled, cell: Any) -> Iterator[tuple[str, str, Steps | None]]:
    """Each operator with the steps that replace those of the row; None removes the row."""
    steps: Steps = cell.steps
    yield "drop", "", None
    if isinstance(cell.source, Ignore):
        return
    entered = set(cell.path)
    yield "ignore", "", ()
    yield "stay", "", tuple(step for step in steps if step not in entered)
    yield from _other_targets(table, cell)
    for at, effect in enumerate(steps):
        if effect in entered:
            continue
        name = effect.name + ("" if steps.index(effect) == at else f"#{steps[:at].count(effect) + 1}")
        is_timer = "TIMER" in name or "DEADLINE" in name
        yield "timer" if is_timer else "lose", name, (*steps[:at], *steps[at + 1 :])
        yield "repeat", name, (*steps[: at + 1], *steps[at:])
    for at, (one, other) in enumerate(pairwise(steps)):
        if not (one in entered and other in entered):
            swapped = (*steps[:at], other, one, *steps[at + 2 :])
            yield "reorder", f"{one.name}-{other.name}", swapped


def _other_targets(table: Compiled, cell: Any) -> Iterator[tuple[str, str, Steps]]:
    """Replaces the row's target by the next state of the table."""
    states = list(table.by_state)
    other = states[(states.index(cell.target) + 1) % len(states)]
    if cell.path:
        at = len(cell.steps) - 1 - cell.steps[::-1].index(cell.target)
        yield "target", other.name, (*cell.steps[:at], other, *cell.steps[at + 1 :])
    else:
        yield "target", other.name, (*cell.steps, other)


# Rules


def find_rules(modules: Iterable[ModuleType], computing: Iterable[ModuleType] = ()) -> list[FunctionType]:
    """Functions and methods of these modules that decide: conditions, checks, and functions about an epoch.

    For `computing` modules also functions that return a collection, or their changed argument.
    """
    computing = frozenset(computing)
    found: dict[str, FunctionType] = {}
    for module in (*modules, *sorted(computing, key=lambda one: one.__name__)):
        classes = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__]
        for owner in (module, *classes):
            for one in vars(owner).values():
                function = inspect.unwrap(one.fget if isinstance(one, property) and one.fget else one)
                is_own = isinstance(function, FunctionType) and function.__module__ == module.__name__
                if is_own and not function.__closure__ and _list_changes(function, computes=module in computing):
                    found.setdefault(_place(function), function)
    return [found[name] for name in sorted(found)]


def _list_changes(function: FunctionType, *, computes: bool) -> list[Change]:
    return [*_changes(function), *(_value_changes(function) if computes else ())]


def of_rules(functions: Iterable[FunctionType], met: Met, computing: Collection[str] = ()) -> Iterator[Mutant]:
    """Mutants of these functions; one whose result never differs is not met. Some modules are `computing`."""
    for function in functions:
        answers = met.answers.get(function, set())
        for operator, detail, by, same in _list_changes(function, computes=function.__module__ in computing):
            is_met = bool(answers) and answers != {same}
            place = _place(function)
            yield Mutant(operator, place, detail, partial(replace_function, function, by), is_met, frozenset((place,)))


def _place(function: FunctionType) -> str:
    return f"{function.__module__}.{function.__qualname__}"


Change = tuple[str, str, Callable[..., Any], Any]


def _changes(function: FunctionType) -> Iterator[Change]:
    """The operator, its detail, the replacement, and the only result for which the replacement is equivalent."""
    answer, name = function.__annotations__.get("return"), function.__name__.lstrip("_")
    if answer == "bool" and not name.startswith("__"):
        yield "always", "", lambda _original, *_, **__: True, True
        yield "never", "", lambda _original, *_, **__: False, False
    if answer == "None" and name.startswith("check"):
        yield "skip", "", lambda _original, *_, **__: None, ...
    if answer == "int" and "epoch" in name:
        yield "epoch", "+1", lambda original, *given, **named: original(*given, **named) + 1, ...
        yield "epoch", "-1", lambda original, *given, **named: original(*given, **named) - 1, ...
    if "epoch" in function.__annotations__ and function.__annotations__["epoch"] == "int":
        at = list(inspect.signature(function).parameters).index("epoch")
        yield "epoch", "given -1", partial(_with_epoch, at, -1), ...
        yield "epoch", "given +1", partial(_with_epoch, at, 1), ...


def _value_changes(function: FunctionType) -> Iterator[Change]:
    """The changes of a computing function: it returns its first argument, or an empty collection."""
    answer = str(function.__annotations__.get("return"))
    first = next((name for name in function.__annotations__ if name != "return"), "")
    if first and answer == function.__annotations__[first]:
        yield "same", "", lambda _original, given, *_, **__: given, ...
    if _is_collection(answer):
        yield "empty", "", lambda original, *given, **named: type(original(*given, **named))(), ...
    several = function.__globals__.get(answer)
    if hasattr(several, "_fields"):
        for name, kind in several.__annotations__.items():
            if _is_collection(getattr(kind, "__forward_arg__", str(kind))):
                yield "empty", name, partial(_without_field, name), ...


def _is_collection(annotation: str) -> bool:
    return annotation.partition("[")[0] in COLLECTIONS


def _without_field(name: str, original: Callable[..., Any], *given: Any, **named: Any) -> Any:
    found = original(*given, **named)
    return found._replace(**{name: type(getattr(found, name))()})


def _with_epoch(at: int, more: int, original: Callable[..., Any], *given: Any, **named: Any) -> Any:
    if "epoch" in named:
        return original(*given, **{**named, "epoch": named["epoch"] + more})
    if at >= len(given):
        return original(*given, **named)
    return original(*given[:at], given[at] + more, *given[at + 1 :], **named)


# Choices


class RecordedChoices(frozenset[Any]):
    """Choices that record which of them were read."""

    asked: set[Any]

    def __contains__(self, choice: object) -> bool:
        self.asked.add(choice)
        return super().__contains__(choice)


class Dialects(NamedTuple):
    """The dialects of one side of a model."""

    side: str
    choices: Iterable[Any]
    find: Callable[..., Any]
    """Gives the dialect of a name."""
    field: str = "choices"
    """The field of a dialect that has its choices."""
    make: Callable[[str, frozenset[Any]], Any] | None = None
    """Makes a dialect of a name and choices, if more of it depends on them."""

    def flip(self, choice: Any) -> AbstractContextManager[None]:
        """Flips a choice in every dialect."""

        def flip(original: Callable[..., Any], *given: Any) -> Any:
            found = original(*given)
            choices = getattr(found, self.field) ^ {choice}
            return self.make(found.name, choices) if self.make else replace(found, **{self.field: choices})

        return replace_function(self.find, flip)

    def record(self, asked: set[Any]) -> AbstractContextManager[None]:
        """Notes which choices are read."""

        def record(original: Callable[..., Any], *given: Any) -> Any:
            found = original(*given)
            choices = RecordedChoices(getattr(found, self.field))
            choices.asked = asked
            return replace(found, **{self.field: choices})

        return replace_function(self.find, record)


def of_choices(dialects: Iterable[Dialects], asked: Mapping[str, set[Any]]) -> Iterator[Mutant]:
    """A mutant for each choice of each side."""
    for one in dialects:
        for choice in one.choices:
            place = f"{one.side}.{choice.name}"
            patch = partial(one.flip, choice)
            yield Mutant("flip", place, "", patch, choice in asked[one.side], frozenset((place,)))
