"""The value that tells a group that its topics changed."""

from __future__ import annotations

import pytest

from fsm.coordinator.model.context import Context, Image, Topic
from fsm.coordinator.model.dialect import dialect
from fsm.coordinator.model.persistent import PersistentMap
from fsm.coordinator.model.subscribed_metadata import NOTHING, subscribed_metadata

RECORDED = PersistentMap(
    {
        "foo": Topic("ulJlgWggSXSgNVKMZGN_nQ", 6),
        "bar": Topic("yTRkttyLQnO3DQuRqvJDvg", 3),
        "baz": Topic("Hdfdxxy8SOWvUQFp1LLSDQ", 2),
    }
)


def context(topics: PersistentMap[str, Topic] = RECORDED, release: str = "4.4.0") -> Context:
    """A broker with these topics."""
    return Context(0, dialect(release), image=Image(topics))


@pytest.mark.parametrize(
    ("names", "digest"),
    [
        (("bar", "baz"), -1011449515375126563),
        (("foo", "baz", "bar"), -3692722823917273181),
        (("absent", "bar", "baz"), -1011449515375126563),
        (("absent",), 0),
        ((), 0),
    ],
)
def test_the_hash_is_the_one_a_broker_wrote(names: tuple[str, ...], digest: int) -> None:
    """Taken from a recording of Kafka 4.4.0; topics that do not exist do not count."""
    assert subscribed_metadata(names, context()).digest == digest


def test_before_4_1_the_metadata_is_spelled_out() -> None:
    """Names, ids and counts, in the order of the names."""
    found = subscribed_metadata(("foo", "bar"), context(release="4.0.0"))
    assert found.digest == 0
    assert [(topic.topic_name, topic.num_partitions) for topic in found.topics] == [("bar", 3), ("foo", 6)]
    assert subscribed_metadata((), context(release="4.0.0")) == NOTHING


def test_a_moved_rack_is_a_change() -> None:
    """The racks of a partition's replicas count, in whatever order; those of another topic do not."""
    one = context(PersistentMap({"foo": Topic("ulJlgWggSXSgNVKMZGN_nQ", 1, (("a", "b"),))}))
    same = context(PersistentMap({"foo": Topic("ulJlgWggSXSgNVKMZGN_nQ", 1, (("b", "a"),))}))
    moved = context(PersistentMap({"foo": Topic("ulJlgWggSXSgNVKMZGN_nQ", 1, (("a", "c"),))}))
    found = [subscribed_metadata(("foo",), given).digest for given in (one, same, moved)]
    assert found[0] == found[1] != found[2]
