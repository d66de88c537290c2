"""Every machine of the protocols, one module each: State, Event, Effect and TABLE."""

from __future__ import annotations

from fsm.errors import InputError
from fsm.table import Table
from fsm.tables import (
    classic_group,
    classic_member,
    connect_group,
    connect_worker,
    consumer_group,
    consumer_group_member,
    consumer_member,
    consumer_member_draft,
    consumer_member_notes,
    rdkafka_join_state,
    rebalance_notes,
)

# fmt: off
ALL: tuple[Table, ...] = (
    consumer_member.TABLE,
    consumer_member_notes.TABLE,
    consumer_member_draft.TABLE,
    rebalance_notes.TABLE,
    consumer_group.TABLE,
    consumer_group_member.TABLE,
    classic_group.TABLE,
    classic_member.TABLE,
    connect_worker.TABLE,
    connect_group.TABLE,
    rdkafka_join_state.TABLE,
)
"""Every table, in the order in which they are listed, drawn and counted."""
# fmt: on


def find(name: str) -> Table:
    """The table of that name. Raises `InputError` with the nearest names, or with all of them, if there is none."""
    tables = {table.name: table for table in ALL}
    if name in tables:
        return tables[name]
    import difflib  # noqa: PLC0415  only a wrong name needs it

    nearest = difflib.get_close_matches(name, tables, n=3) or list(tables)
    raise InputError(f"there is no table {name!r}", remedy="did you mean " + " or ".join(nearest) + "?")
