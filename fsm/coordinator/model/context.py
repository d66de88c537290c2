"""The context of the coordinator's decisions: the time, its dialect, the broker's settings, the topics.

Source: `GroupCoordinatorConfig` and `GroupConfig` of apache/kafka 4.4 for names and defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cached_property
from typing import Any

from fsm.coordinator.assignors import Assignments, Assignor, GroupSpec, make_assignors
from fsm.coordinator.model.dialect import Dialect, dialect
from fsm.coordinator.model.hash_order import HASHED
from fsm.coordinator.model.persistent import PersistentMap
from fsm.protocol.assignment import TopicId
from fsm.protocol.config import read_setting
from fsm.step import value

UNLIMITED = 2**31 - 1

NO_SETTINGS: PersistentMap[str, int] = PersistentMap()
NO_GROUPS: PersistentMap[str, PersistentMap[str, int]] = PersistentMap()
NO_TOPICS: PersistentMap[str, Topic] = PersistentMap()
NO_ASSIGNORS: PersistentMap[str, Assignor] = PersistentMap()


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The broker's settings under Kafka's keys in snake case."""

    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_max_size: int = UNLIMITED
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The first one is the default."""
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_coordinator_rebalance_protocols: tuple[str, ...] = ("classic", "consumer", "streams")
    group_max_size: int = UNLIMITED
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    groups: PersistentMap[str, PersistentMap[str, int]] = NO_GROUPS
    """Settings of single groups, by group id: `consumer_session_timeout_ms` and so on."""

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> BrokerConfig:
        """From Kafka's own keys (`group.consumer.max.size`); ignores keys unrelated to groups.

        Raises `InputError` naming the key of an invalid value.
        """
        known = cls._by_key()
        return cls(**{known[k].name: read_setting(k, str(known[k].type), v) for k, v in settings.items() if k in known})

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """Kafka's own keys of all group settings."""
        return tuple(cls._by_key())

    @classmethod
    def _by_key(cls) -> dict[str, Field[Any]]:
        return {f.name.replace("_", "."): f for f in fields(cls) if f.name != "groups"}

    def session_timeout_ms(self, group_id: str) -> int:
        """The session timeout of consumer-protocol members of this group."""
        if not self.groups:
            return self.group_consumer_session_timeout_ms
        return self._of_group(group_id, "session_timeout_ms")

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """The heartbeat interval for members of this group."""
        if not self.groups:
            return self.group_consumer_heartbeat_interval_ms
        return self._of_group(group_id, "heartbeat_interval_ms")

    def assignment_interval_ms(self, group_id: str) -> int:
        """The minimum time between two targets of this group."""
        return self._of_group(group_id, "assignment_interval_ms")

    def _of_group(self, group_id: str, name: str) -> int:
        """The group's own setting, within the broker's bounds; else the broker's."""
        own = self.groups.get(group_id, NO_SETTINGS).get(f"consumer_{name}")
        if own is None:
            return int(getattr(self, f"group_consumer_{name}"))
        lowest, highest = (int(getattr(self, f"group_consumer_{end}_{name}")) for end in ("min", "max"))
        return max(lowest, min(highest, int(own)))


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic in the broker's metadata."""

    topic_id: TopicId
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()
    """The racks of each partition's replicas; empty if no broker has a rack."""


@dataclass(frozen=True)
class Image:
    """The broker's metadata: topics by name."""

    topics: PersistentMap[str, Topic] = NO_TOPICS
    version: int = 0
    """The offset of the metadata log, which the records of regular expressions contain."""

    @cached_property
    def names(self) -> Mapping[TopicId, str]:
        """Topic names by id."""
        return {topic.topic_id: name for name, topic in self.topics.items()}


@value
class Context:
    """The context of one step."""

    now_ms: int
    dialect: Dialect = field(default_factory=dialect)
    config: BrokerConfig = BrokerConfig()
    image: Image = Image()
    custom_assignors: PersistentMap[str, Assignor] = NO_ASSIGNORS
    """Your own assignors by name; `config.group_consumer_assignors` lists those that members may vote for."""
    adopt: Callable[[str, GroupSpec, Assignments], Assignments] | None = None
    """Replaces a computed target: (assignor, its input, its result) -> target.

    For a recorded broker that broke a tie the other way. The function must return a target that the rules allow.
    """

    def at(self, now_ms: int) -> Context:
        """The context at another instant."""
        return Context(now_ms, self.dialect, self.config, self.image, self.custom_assignors, self.adopt)

    @property
    def assignors(self) -> Mapping[str, Assignor]:
        """Every assignor by name."""
        return {**make_assignors(self.dialect, HASHED), **self.custom_assignors}

    @property
    def default_assignor(self) -> str:
        """The assignor of a group without votes."""
        return self.config.group_consumer_assignors[0]
