"""Kafka's rebalance protocols as executable state tables.

The kernel is here; the machines themselves are in `fsm.tables`:

* `Table`, `row`, `each`, `ignore`, `Symbol`: how a table is written;
* `Row`, `Ignore`, `Cell`, `Kind`, `Compiled`, `Columns`: what it consists of, compiles to, and steps many with;
* `bind`, `EventQueue`: a `transitions` machine for a table under a model of yours;
* `Draft`, `Pause`, `frozen`: rows carried out on values, for a core of your own without IO;
* `FsmError`, `TableError`, `IllegalTransition`, `IllegalSteps`, `InputError`: what is raised.

Nothing heavy is loaded before it is used: `transitions` comes with `bind`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsm.columns import Columns
from fsm.errors import FsmError, IllegalSteps, IllegalTransition, InputError, TableError
from fsm.exports import on_demand
from fsm.step import Draft, Pause, frozen
from fsm.table import Cell, Compiled, Ignore, Kind, Row, Symbol, Table, each, ignore, row

if TYPE_CHECKING:
    from fsm.machine import EventQueue, bind

__version__ = "0.2.0"

__all__ = [
    "Cell",
    "Columns",
    "Compiled",
    "Draft",
    "EventQueue",
    "FsmError",
    "Ignore",
    "IllegalSteps",
    "IllegalTransition",
    "InputError",
    "Kind",
    "Pause",
    "Row",
    "Symbol",
    "Table",
    "TableError",
    "bind",
    "each",
    "frozen",
    "ignore",
    "row",
]


__getattr__, __dir__ = on_demand(__name__, {"machine": ("EventQueue", "bind")})
