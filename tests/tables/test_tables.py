"""The list of all tables: its order, and finding a table by its name."""

from __future__ import annotations

import pytest

from fsm.errors import InputError
from fsm.tables import ALL, consumer_member, find


def test_every_table_has_a_name_of_its_own() -> None:
    """Names are what the commands take."""
    names = [table.name for table in ALL]
    assert len(set(names)) == len(names)


def test_a_table_is_found_by_its_name() -> None:
    """The name of a table gives that very table."""
    assert find("consumer-member") is consumer_member.TABLE


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    """A name that no table has raises, and the error offers the name that was probably meant."""
    with pytest.raises(InputError, match="there is no table 'consumer_membr'; did you mean consumer-member"):
        find("consumer_membr")


def test_a_name_like_no_other_gets_no_list_of_all() -> None:
    """Where nothing is near, the error names the command that lists them."""
    with pytest.raises(InputError) as caught:
        find("42")
    assert caught.value.remedy == "`fsm tables` lists them"
