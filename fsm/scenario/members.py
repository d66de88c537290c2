"""The member of a conversation, made from the head of its document: protocol, dialect, settings, listener, topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Protocol

from fsm.errors import InputError
from fsm.member.classic.assignors import COOPERATIVE_STICKY, RANGE, ClientAssignor, PartitionCounts
from fsm.member.classic.state import ClassicConfig
from fsm.member.dialect.dialect import dialect as release
from fsm.member.events import GroupMembershipOperation
from fsm.nodes import Node, nearest
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.messages import Offsets
from fsm.protocol.releases import LATEST
from fsm.scenario.classic_side import ClassicSide
from fsm.scenario.consumer_side import ConsumerSide
from fsm.scenario.listener import Listener, listener_of
from fsm.scenario.record import Record
from fsm.scenario.words import of_setting

PARTITIONS = 4
"""How many partitions a topic has that says nothing of it."""
PARTITIONS_LIMIT = 100_000
"""More of them in all topics are no scenario."""
ASSIGNORS = {assignor.name: assignor for assignor in (RANGE, COOPERATIVE_STICKY)}


class Side(Protocol):
    """What a conversation does with a member of either protocol."""

    record: Record
    listener: Listener | None
    reachable: bool
    commits_answered: bool

    @property
    def now_ms(self) -> int:
        """The time of the conversation."""

    @property
    def unanswered(self) -> Mapping[int, tuple[object, Any]]:
        """Requests without an answer, by their numbers."""

    @property
    def inside(self) -> str | None:
        """The call that the application is in."""

    def seen(self) -> dict[str, str]:
        """The member as it is now."""

    def subscribe(self, to: Any) -> None:
        """The application subscribes."""

    def poll(self, timeout_ms: int | None, consumed: Offsets) -> None:
        """The application polls."""

    def unsubscribe(self) -> None:
        """The application unsubscribes."""

    def close(self, timeout_ms: int, operation: GroupMembershipOperation) -> None:
        """The application closes its consumer."""

    def callback_returns(self, raises: str | None) -> None:
        """A callback that was held ends."""

    def answer(self, number: int, response: Any) -> None:
        """An answer arrives."""

    def topics_are(self, topics: PartitionCounts) -> None:
        """The client's metadata changes."""

    def wait(self, ms: int) -> None:
        """Time passes."""

    def settle(self) -> None:
        """What happens by itself happens."""


def side_of(given: Mapping[str, Node], dialect: str | None, where: str) -> tuple[Side, str]:
    """The member as the document's head describes it, and the dialect it speaks.

    `dialect` overrides the document's. Raises `InputError` with the line for what cannot be.
    """
    spoken = _spoken(given, dialect)
    topics = topics_of(given["topics"]) if "topics" in given else ()
    side = _made(given, spoken, topics, where)
    side.commits_answered = _answers_commits(given)
    side.settle()
    side.record.take()
    return side, spoken


def _spoken(given: Mapping[str, Node], dialect: str | None) -> str:
    """The full name of the release."""
    if dialect is not None:
        return release(dialect).name
    if "dialect" not in given:
        return LATEST
    try:
        return release(given["dialect"].text()).name
    except InputError as problem:
        raise InputError(problem.what, given["dialect"].where, problem.remedy) from None


def _made(given: Mapping[str, Node], spoken: str, topics: PartitionCounts, where: str) -> Side:
    listener = listener_of(given.get("listener"))
    protocol = given["protocol"].text() if "protocol" in given else "consumer"
    settings = given.get("config")
    if protocol == "consumer":
        config = _config(ConsumerConfig, settings, where)
        member_id = given["member_id"].text() if "member_id" in given else "m-1"
        return ConsumerSide(config, member_id, release(spoken), listener, topics)
    if protocol != "classic":
        raise InputError(f"{protocol[:60]!r} is no protocol", given["protocol"].where, "consumer or classic")
    return ClassicSide(_config(ClassicConfig, settings, where), listener, topics)


def _answers_commits(given: Mapping[str, Node]) -> bool:
    word = given["commits"].text() if "commits" in given else "answered"
    if word not in ("answered", "by hand"):
        raise InputError(f"{word[:60]!r} is neither `answered` nor `by hand`", given["commits"].where)
    return word == "answered"


def topics_of(node: Node) -> PartitionCounts:
    """A list of topics, or a mapping from topic to the number of its partitions."""
    if isinstance(node.value, list):
        return tuple(sorted((item.text(), PARTITIONS) for item in node.value))
    found = {name: value.number() for name, (_, value) in node.mapping().items()}
    if min(found.values(), default=1) < 1 or sum(found.values()) > PARTITIONS_LIMIT:
        raise InputError(f"a topic has at least one partition, all together {PARTITIONS_LIMIT}", node.where)
    return tuple(sorted(found.items()))


def _config(kind: Any, node: Node | None, where: str) -> Any:
    kinds = {field.name: str(field.type) for field in fields(kind)}
    given = node.fields(tuple(kinds)) if node is not None else {}
    values: dict[str, Any] = {
        "group_id": "group",
        **{name: _setting(name, kinds[name], v) for name, v in given.items()},
    }
    try:
        return kind(**values)
    except InputError as problem:  # it names the setting
        place = given[problem.where].where if problem.where in given else where
        raise InputError(f"{problem.where} {problem.what}", place, problem.remedy) from None


def _setting(name: str, kind: str, node: Node) -> Any:
    if kind.startswith("tuple"):
        return tuple(map(_assignor, node.items()))
    with of_setting(name):
        if kind == "int":
            return node.number()
        if kind == "bool":
            return node.flag()
        return None if node.is_null else node.text()


def _assignor(node: Node) -> ClientAssignor:
    name = node.text()
    if name not in ASSIGNORS:
        raise InputError(f"{name[:60]!r} is no assignor", node.where, nearest(name, tuple(ASSIGNORS)))
    return ASSIGNORS[name]
