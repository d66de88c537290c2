"""Families of walks: their clients and actions, in the proportions of the recorded walks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fsm.errors import InputError


@dataclass(frozen=True)
class Family:
    """The composition of a walk."""

    what: str
    consumer: bool = True
    """Whether it has clients of the consumer protocol."""
    classic: bool = False
    """Whether it has clients of the classic protocol."""
    clients: int = 5
    instances: tuple[str, ...] = ()
    """Instance ids of static members; a client may use any of them."""
    switches: float = 0.0
    """Probability that a joining client switches its protocol."""
    cooperative: bool = False
    patterns: tuple[str, ...] = ()
    commits: bool = False
    changes_topics: bool = False
    waits: bool = False
    """Whether it has waits, so that timers expire."""

    def needs(self) -> tuple[str, ...]:
        """APIs that the family needs."""
        needed = {
            "ConsumerGroupHeartbeat": self.consumer,
            **dict.fromkeys(("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"), self.classic),
            "OffsetCommit": self.classic or self.commits,
            "OffsetFetch": self.commits,
            **dict.fromkeys(("CreateTopics", "CreatePartitions", "DeleteTopics"), self.changes_topics),
        }
        return tuple(api for api, is_needed in needed.items() if is_needed)


SEVERAL_VERSIONS = ("OffsetCommit", "OffsetFetch")
"""Requests that clients in the field send in many versions; walks send each version that both sides support."""

TOPICS = {"foo": 6, "bar": 3, "baz": 2}
"""The topics of walks, with their partition counts."""

STATIC = ("i1", "i2")
PATTERNS = ("foo", "ba[rz]", "foo.*", "nothing", ".*a.*", "[")
ADMIN_PATTERNS = (*PATTERNS, ".*-t[12]", "conform-.*")
"""Such a walk has topics with names of its own."""

FAMILIES: Mapping[str, Family] = {
    "plain": Family("members of the consumer protocol join, acknowledge, change their minds, leave"),
    "many": Family("the same with up to twelve members", clients=12),
    "static": Family("static members that leave for a while and are replaced", instances=STATIC),
    "commit": Family("offsets committed and fetched with member epochs", commits=True),
    "regex": Family("subscriptions by regular expression", patterns=PATTERNS),
    "regex-admin": Family("the same while topics come, grow and go", patterns=ADMIN_PATTERNS, changes_topics=True),
    "regex-mixed": Family(
        "the same beside members of the classic protocol, static ones too",
        True,
        True,
        4,
        STATIC,
        0.3,
        patterns=PATTERNS,
    ),
    "admin": Family("topics created, grown and deleted under the group", changes_topics=True),
    "classic": Family("members of the classic protocol", consumer=False, classic=True),
    "classic-static": Family("static members of the classic protocol", consumer=False, classic=True, instances=STATIC),
    "classic-coop": Family("cooperative members of the classic protocol", False, True, cooperative=True),
    "mixed": Family("both protocols in one group", classic=True, clients=4),
    "mixed-coop": Family("both protocols in one group, cooperative", classic=True, clients=4, cooperative=True),
    "migrate": Family("members leave and come back with the other protocol", classic=True, clients=3, switches=0.5),
    "migrate-static": Family(
        "the same with static members", classic=True, clients=3, switches=0.5, instances=STATIC, cooperative=True
    ),
    "timers": Family("members of the consumer protocol that fall silent", waits=True),
    "classic-timers": Family("members of the classic protocol that fall silent", False, True, waits=True),
}
"""Every family by name."""


def choose(names: str) -> tuple[str, ...]:
    """The families of a comma-separated list, all if it is empty. Raises `InputError` for an unknown one."""
    given = tuple(name.strip() for name in names.split(",") if name.strip())
    for name in given:
        if name not in FAMILIES:
            raise InputError(f"unknown family of walks {name!r}", remedy=f"one of {', '.join(FAMILIES)}")
    return given or tuple(FAMILIES)
