"""The list of all tables: its order, and finding a table by its name."""

from __future__ import annotations

import pytest

from fsm.errors import InputError
from fsm.tables import ALL, consumer_member, find

ORDER = (
    "consumer-member",
    "consumer-member-notes",
    "consumer-member-draft",
    "rebalance-notes",
    "consumer-group",
    "consumer-group-member",
    "classic-group",
    "classic-member",
    "connect-worker",
    "connect-group",
    "rdkafka-join-state",
)


def test_tables_stand_in_a_fixed_order() -> None:
    """Tables are listed as the order says, each once, and none that the order does not know."""
    names = [table.name for table in ALL]
    assert names == [name for name in ORDER if name in names]


def test_a_table_is_found_by_its_name() -> None:
    """The name of a table gives that very table."""
    assert find("consumer-member") is consumer_member.TABLE


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    """A name that no table has raises, and the error offers the name that was probably meant."""
    with pytest.raises(InputError, match="there is no table 'consumer_membr'; did you mean consumer-member"):
        find("consumer_membr")


def test_a_name_like_no_other_is_answered_with_all() -> None:
    """Where nothing is near, the error lists every table in its order."""
    with pytest.raises(InputError) as caught:
        find("42")
    assert caught.value.remedy == "did you mean " + " or ".join(table.name for table in ALL) + "?"
