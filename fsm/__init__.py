"""Kafka's rebalance protocols as executable state tables.

The kernel is here: `Table`, `row`, `each`, `ignore` and what a compiled table answers. The machines
themselves are in `fsm.tables`; `fsm.machine.bind` puts a table under a model of yours.
"""

from fsm.errors import FsmError, IllegalTransition, InputError, TableError
from fsm.table import Cell, Columns, Compiled, Ignore, Kind, Row, Symbol, Table, each, ignore, row

__all__ = [
    "Cell",
    "Columns",
    "Compiled",
    "FsmError",
    "Ignore",
    "IllegalTransition",
    "InputError",
    "Kind",
    "Row",
    "Symbol",
    "Table",
    "TableError",
    "each",
    "ignore",
    "row",
]
