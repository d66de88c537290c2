"""All tests that a table has for an implementation, as one class that pytest collects.

    TestDoor = suite_from("door.yaml", DoorAdapter)     # or a Table, or FILE.py:NAME

It tests every row and every ignored cell, every event that must be refused (if the adapter has `refuses`), and random
paths. A failure shows the same as `follow`: the shortest sequence of events after which the two differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fsm.table import Table
from fsm.tables.files import find_table
from fsm.testing.stateful import machine_from
from fsm.testing.tours import Case, all_refusals, all_transitions
from fsm.testing.trial import follow

if TYPE_CHECKING:
    from fsm.testing.trial import Adapter


def suite_from(table: Table | str, adapter: type[Adapter]) -> type[Any]:
    """The test class, for a name that pytest collects; a file is looked up relative to pytest's working directory.

    Raises `InputError` for a name that is no table.
    """
    known = table if isinstance(table, Table) else find_table(table)

    class TestsOfTable:
        @pytest.mark.parametrize("case", all_transitions(known, ignored=True).params())
        def test_takes_every_row(self, case: Case) -> None:
            follow(case, adapter)

        if adapter.refuses:

            @pytest.mark.parametrize("case", all_refusals(known).params())
            def test_refuses_what_is_illegal(self, case: Case) -> None:
                follow(case, adapter)

        TestAtRandom = machine_from(known, adapter).TestCase

    return TestsOfTable
