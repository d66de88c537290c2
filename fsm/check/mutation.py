"""Temporary changes to running code, each undone at the end of its `with`: a function, or a row of a table.

    with replaced(decisions.is_awaited, lambda _original, _member, _number: True):
        verdict = check(consumer_group(), disturb=["late"], disturbances=1)

A function is changed in place: its code object is exchanged, so that every reference to it runs the other code, be it
an imported name, a table of methods or a bound method. A row is changed in the compiled table that steps look up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import unwrap
from types import FunctionType
from typing import Any

from fsm.table import Cell, Compiled, Row, Symbol


@contextmanager
def replace_function(function: Callable[..., Any], by: Callable[..., Any]) -> Iterator[None]:
    """Redirects calls of `function` to `by`, whose first argument is the original function.

    Raises `TypeError` for anything but a Python function, and for a closure.
    """
    found = unwrap(function)
    if not isinstance(found, FunctionType) or found.__closure__:
        raise TypeError(f"{function!r} cannot be replaced: it is no function, or closes over names")
    was = found.__code__, found.__defaults__, found.__kwdefaults__
    original = FunctionType(was[0], found.__globals__, found.__name__, was[1])
    original.__kwdefaults__ = was[2]
    found.__code__, found.__defaults__ = _passes_on.__code__, None
    found.__kwdefaults__ = {"__original": original, "__by": by}
    _forget(function)
    try:
        yield
    finally:
        found.__code__, found.__defaults__, found.__kwdefaults__ = was
        _forget(function)


def _passes_on(*args: Any, __original: Any, __by: Any, **named: Any) -> Any:
    return __by(__original, *args, **named)


def _forget(function: Callable[..., Any]) -> None:
    """Clears the cache of a function, which has results of the replaced one."""
    clear = getattr(function, "cache_clear", None)
    if clear is not None:
        clear()


@contextmanager
def rewrite_cells(table: Compiled, cells: Mapping[tuple[Symbol, Symbol], Cell | None]) -> Iterator[None]:
    """Replaces cells of a compiled table; None removes a cell."""
    was = {pair: table.get(pair) for pair in cells}
    _write(table, cells)
    try:
        yield
    finally:
        _write(table, was)


def _write(table: Compiled, cells: Mapping[tuple[Symbol, Symbol], Cell | None]) -> None:
    for (state, event), cell in cells.items():
        by_event: Any = table.by_state[state]
        if cell is None:
            table.pop((state, event), None)
            by_event.pop(event, None)
        else:
            table[state, event] = by_event[event] = cell


def cell_of(state: Symbol, steps: Iterable[Symbol], source: Any = None) -> Cell:
    """The cell of a state with these steps, in order."""
    steps = tuple(steps)
    path = tuple(step for step in steps if isinstance(step, type(state)))
    effects = tuple(step for step in steps if not isinstance(step, type(state)))
    return Cell(path[-1] if path else state, effects, path, steps, source or Row((state,), (), steps))
