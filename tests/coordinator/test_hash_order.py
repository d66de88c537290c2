"""The order of Java's hash maps, against values that Java gives."""

from __future__ import annotations

import pytest

from fsm.coordinator.model.hash_order import (
    copy_order,
    state_order,
    state_table,
    string_hash,
    topic_order,
    uuid_hash,
    uuid_rank,
)


def member_order(ids: list[str]) -> list[str]:
    """Member ids as an assignor walks them: a map copied from the coordinator's state."""
    return copy_order(ids, state_table(ids))


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("a", 97), ("foo", 101574), ("polygenelubricants", 0x80000000), ("\U0001f600", 1772899)],
)
def test_strings_hash_as_in_java(text: str, code: int) -> None:
    """31 times the code so far plus the next UTF-16 unit, in 32 bits."""
    assert string_hash(text) == code


def test_topic_ids_hash_and_compare_by_their_halves() -> None:
    """The two halves are folded into 32 bits; compared they are signed, so an id that begins with a bit set is low."""
    assert uuid_hash("AAAAAAAAAAEAAAAAAAAAAg") == 3
    assert uuid_rank("AAAAAAAAAAEAAAAAAAAAAg") == (1, 2)
    assert uuid_rank("__________8AAAAAAAAAAA") < uuid_rank("AAAAAAAAAAAAAAAAAAAAAA")


def test_keys_come_bucket_by_bucket() -> None:
    """Three topic ids with hash codes 0, 3 and 2 come in the order of their codes."""
    ids = ["AAAAAAAAAAEAAAAAAAAAAQ", "AAAAAAAAAAEAAAAAAAAAAg", "AAAAAAAAAAEAAAAAAAAAAw"]
    assert topic_order(ids) == [ids[0], ids[2], ids[1]]


def test_members_of_one_slot_are_walked_from_the_last_to_the_first() -> None:
    """`Aa` and `BB` have the same hash code; Java's copy of the map keeps the order in which it met them."""
    assert (member_order(["Aa", "BB"]), member_order(["BB", "Aa"])) == (["BB", "Aa"], ["Aa", "BB"])


def test_a_growing_table_chains_keys_in_the_order_of_its_old_slots() -> None:
    """The order is that of a downgrade of Kafka 4.4.0, whose first member becomes leader: both share a slot."""
    met = ["gmigrate-11-m2", "fiCmvIAlQrmHZNVRMBKaow", "3xYxaJMATPuYRFdgMoCCwQ", "289dQRreSwq6G4qJQAm6Fw"]
    walked = ["3xYxaJMATPuYRFdgMoCCwQ", "fiCmvIAlQrmHZNVRMBKaow", "gmigrate-11-m2", "289dQRreSwq6G4qJQAm6Fw"]
    assert state_order(met, string_hash) == walked


def test_the_coordinator_s_own_maps_spread_by_the_highest_bits() -> None:
    """`uniform` comes before `range` whichever came first: its product begins with a 0, the other's with a 1."""
    assert state_order(["range", "uniform"], string_hash) == ["uniform", "range"]
    assert state_order(["uniform", "range"], string_hash) == ["uniform", "range"]


def test_members_of_one_bucket_come_as_the_state_has_them() -> None:
    """`a` and `A` share a bucket of 16; in the state's table of two slots `A` comes first."""
    assert member_order(["a", "A"]) == member_order(["A", "a"]) == ["A", "a"]


def test_a_larger_table_spreads_more_bits() -> None:
    """With twelve keys the table has 16 buckets, with thirteen 32: `p` (112) and `a` (97) change places."""
    twelve = [chr(c) for c in range(ord("a"), ord("a") + 11)] + ["p"]
    assert member_order(twelve)[0] == "p"
    assert member_order([*twelve, "l"])[0] == "a"
