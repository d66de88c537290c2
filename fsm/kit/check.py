"""Checks: rules for clients with their sources, functions that test whether they are kept, and words for findings.

A check gets one moment of a client at a time: an action, with all that was known of the client before. It returns that
the rule was kept (True), how it was broken (`Broken`), or that there is nothing to judge (None).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from fsm.kit.client_history import CLASSIC, CONSUMER, Moment, What
from fsm.protocol.assignment import TopicPartition
from fsm.wire.exchange import Exchange

SLACK_MS = 350.0
SLACK_PART = 0.1
"""The tolerance of times, the larger of the two, since machines and networks are not exact."""
SOON_MS = 3_000.0
"""How late something is that should happen at once."""
BACKOFF_MS = 40.0
"""Less than Kafka's `retry.backoff.ms` with its jitter."""


class Grade(Enum):
    """The grade of a rule."""

    MUST = "MUST"
    """A violation harms the group, or is refused by Kafka."""
    SHOULD = "SHOULD"
    """A violation is slow or wasteful, or hides events from the application."""
    NOTE = "NOTE"
    """A difference between clients."""

    __hash__ = object.__hash__


class Broken(NamedTuple):
    """A violation of a rule: what was expected, and what was observed."""

    expected: str
    got: str


Verdict = Broken | bool | None


class Check(NamedTuple):
    """One rule."""

    id: str
    protocol: str
    """`consumer` for members of consumer groups (KIP-848), `classic` for those of classic groups."""
    grade: Grade
    clause: str
    """The KIP, class of Kafka's client, or API that specifies the rule."""
    rule: str
    """One sentence."""
    moments: frozenset[What]
    judge: Callable[[Moment], Verdict]

    @property
    def title(self) -> str:
        """`MUST J1`."""
        return f"{self.grade.value} {self.id}"


class Finding(NamedTuple):
    """A rule that a client broke, and when."""

    check: Check
    at_ms: float
    client: str
    expected: str
    got: str
    exchange: Exchange | None = None
    """The exchange that shows it; None for an omission."""

    @property
    def detail(self) -> str:
        """The finding on one line."""
        return f"expected {self.expected}; got {self.got}"


def hold(is_kept: object, expected: str, got: object) -> Verdict:
    """True if the condition holds, else the violation in these words."""
    return True if is_kept else Broken(expected, str(got))


def slack(of_ms: float) -> float:
    """The tolerance of a deadline after this time."""
    return max(SLACK_MS, SLACK_PART * of_ms)


CHECKS: list[Check] = []
"""All checks, as their modules declare them."""
Judge = Callable[[Moment], Verdict]


def rule(name: str, grade: Grade, clause: str, *moments: What, protocol: str = CONSUMER) -> Callable[[Judge], Judge]:
    """Makes a function the check of members of groups of this protocol; its docstring is the rule."""

    def declare(judge: Judge) -> Judge:
        words = " ".join((judge.__doc__ or "").split())
        CHECKS.append(Check(name, protocol, grade, clause, words, frozenset(moments), judge))
        return judge

    return declare


classic_rule = partial(rule, protocol=CLASSIC)


# Words for findings


SHOWN = 6
"""How many partitions are named."""


def partitions(given: Iterable[TopicPartition]) -> str:
    """
    >>> partitions([("foo", 1), ("foo", 0)])
    'foo-0, foo-1'
    """
    names = [f"{topic}-{number}" for topic, number in sorted(given)]
    more = [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return ", ".join(names[:SHOWN] + more) or "nothing"


def seconds(ms: float) -> str:
    """
    >>> seconds(1234.0)
    '1.23 s'
    """
    return f"{ms / 1000:.2f} s"


def heartbeat(request: Any) -> str:
    """A heartbeat in short: its epoch and its fields."""
    given = {
        "rebalance timeout": request.rebalance_timeout_ms != -1,
        "topics": request.subscribed_topic_names is not None,
        "pattern": request.subscribed_topic_regex is not None,
    }
    parts = [name for name, is_there in given.items() if is_there]
    if request.topic_partitions is not None:
        parts.append(f"{sum(len(numbers) for _, numbers in request.topic_partitions)} owned partitions")
    return f"epoch {request.member_epoch}" + (f" with {', '.join(parts)}" if parts else "")
