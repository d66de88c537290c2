"""Words for the sentences of findings: partitions, durations, counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from fsm.trace import Partition, by_partition

UNIT = "unit:"
"""Prefix of the topic of a row for a unit of Connect: `unit:A` for an instance, `unit:A:0` for a task."""
_SHOWN = 8
"""Partitions of one topic, and topics, that a sentence lists; the rest is counted."""
NAMED = 3
"""Most members that a sentence lists."""


def names(partitions: Iterable[Partition]) -> str:
    """Partitions by topic, as in `orders-[0, 1, 2], refunds-[4]`; long lists are cut and counted.

    >>> names([("b", 1), ("a", 3), ("a", 0)])
    'a-[0, 3], b-[1]'
    """
    given = by_partition(partitions)
    if any(topic.startswith(UNIT) for topic, _ in given):
        return _units(given)
    by_topic = {topic: [n for _, n in own] for topic, own in groupby(given, key=itemgetter(0))}
    shown = [f"{topic}-[{_cut(numbers)}]" for topic, numbers in list(by_topic.items())[:_SHOWN]]
    more = len(by_topic) - len(shown)
    return ", ".join(shown) + (f" and partitions of {more} more topics" if more else "")


def _units(given: Iterable[Partition]) -> str:
    """Connectors by name, tasks as Connect prints them; long lists are cut and counted.

    >>> names([("unit:A", -1), ("unit:A:0", 0), ("unit:A:1", 1)])
    'connector A, tasks A-0, A-1'
    """
    printed = [(n, f"{topic}-{n}" if n >= 0 else topic) for topic, n in map(unit, given)]
    connectors = [text for n, text in printed if n < 0]
    tasks = [text for n, text in printed if n >= 0]
    words = (("connector", connectors), ("task", tasks))
    return ", ".join(f"{word}{'s' if len(own) > 1 else ''} {_cut(own)}" for word, own in words if own)


def _cut(listed: Sequence[object]) -> str:
    """The first `_SHOWN` of them; the rest is counted."""
    more = len(listed) - _SHOWN
    return ", ".join(map(str, listed[:_SHOWN])) + (f" and {more} more" if more > 0 else "")


def units(partitions: Iterable[Partition]) -> str:
    """Connectors and tasks as findings show them; number -1 is the instance of a connector.

    >>> units([("A", -1), ("A", 0)])
    'connector A, task A-0'
    """
    return names(map(unit_partition, partitions))


def unit_partition(unit: Partition) -> Partition:
    """The partition as which a unit of Connect is kept; the inverse of `unit`."""
    connector, number = unit
    return (f"{UNIT}{connector}" if number < 0 else f"{UNIT}{connector}:{number}"), number


def unit(partition: Partition) -> Partition:
    """A partition as findings have it: (connector, number) for a unit of Connect, any other unchanged."""
    topic, number = partition
    return (topic.removeprefix(UNIT).removesuffix(f":{number}"), number) if topic.startswith(UNIT) else partition


def list_members(members: Sequence[str]) -> str:
    """Members as a list in a sentence.

    >>> list_members(["a"]), list_members(["a", "b"]), list_members(list("abcde"))
    ('a', 'a and b', 'a, b, c and 2 more')
    """
    if len(members) > NAMED:
        return f"{', '.join(members[:NAMED])} and {len(members) - NAMED} more"
    *first, last = members or ("somebody",)
    return f"{', '.join(first)} and {last}" if first else last


def seconds(ms: int) -> str:
    """A duration in seconds, minutes or hours.

    >>> seconds(740), seconds(3858), seconds(95_000), seconds(5_400_000)
    ('0.7 s', '3.9 s', '1 min 35 s', '1 h 30 min')
    """
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    if ms < 3_600_000:
        return f"{ms // 60_000} min {ms % 60_000 // 1000} s"
    return f"{ms // 3_600_000} h {ms % 3_600_000 // 60_000} min"


def describe_shared(read: Mapping[str, Any]) -> str:
    """What findings on consumers with one client id rest on, if not every line names its process. `read`: `inputs` of
    the document."""
    named = [f"{member} of {group}" for group, member in read["shared"]]
    more = read["shared_client_ids"] - len(named)
    return (
        f"Several consumers share a client id in one file: {', '.join(named)}{f' and {more} more' if more else ''}. "
        "Not every line names its process for certain, so lines are attributed by their content, and findings that "
        "rest on a guess are for information only. Collect one file for each consumer, or lines with the name of the "
        "pod (kubectl logs --prefix)"
    )
