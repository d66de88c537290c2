"""The settings of a Connect worker that its group and its rebalances depend on.

Source: `DistributedConfig` and `GroupRebalanceConfig` of apache/kafka at 1eb7644; KIP-415 for the mode `cooperative`,
which was never shipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Self

from fsm.connect.dialect import DOCUMENT, SHIPPED, Profile
from fsm.errors import InputError

HIGHEST_INT = 2**31 - 1


class Mode(Enum):
    """`connect.protocol`: the protocols a worker advertises, as (name, version), the most preferred first."""

    EAGER = (("default", 0),)
    COMPATIBLE = (("compatible", 1), ("default", 0))
    SESSIONED = (("sessioned", 2), ("compatible", 1), ("default", 0))
    """Since 2.4 (KIP-507). The same rounds as version 1; requests between workers are signed."""
    COOPERATIVE = (("sessioned", 2), ("compatible", 1))
    """Of the document alone: it cannot be in a group with an eager worker."""

    __hash__ = object.__hash__

    @property
    def names(self) -> tuple[str, ...]:
        """The names on the wire."""
        return tuple(name for name, _ in self.value)


VERSIONS = dict(Mode.SESSIONED.value)
"""The version that each name on the wire stands for."""
EAGER_PROTOCOL = "default"


def version_of(protocol: str) -> int:
    """The version of an elected protocol.

    Raises:
        InputError: the name is none of Connect's.
    """
    if protocol not in VERSIONS:
        raise InputError(f"{protocol!r} is no protocol of Connect", remedy=f"known: {', '.join(VERSIONS)}")
    return VERSIONS[protocol]


@dataclass(frozen=True, slots=True)
class ConnectConfig:
    """Settings by their Kafka names in snake case.

    Raises `InputError` that names the setting and what it may be.
    """

    group_id: str
    connect_protocol: str = "sessioned"
    """In any case of letters; `mode` is what it means."""
    scheduled_rebalance_max_delay_ms: int = 300_000
    """0 turns delays and the pauses between revoking rounds off."""
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    """Also how long a coordinator is looked for before held work is given up."""
    rebalance_timeout_ms: int = 60_000
    """How long a join waits for the others, and how long the worker may go without a poll."""
    worker_sync_timeout_ms: int = 3_000
    worker_unsync_backoff_ms: int = 300_000
    """Under the eager protocol only."""
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    task_shutdown_graceful_timeout_ms: int = 5_000
    inter_worker_key_ttl_ms: int = 3_600_000
    profile: Profile = SHIPPED
    """`document` also knows the mode cooperative, and has eager for its default."""

    def __post_init__(self) -> None:
        if not self.group_id:
            raise InputError("must be given", "group.id", "workers of one cluster share it")
        self._check_mode()
        self._check_times()

    def _check_mode(self) -> None:
        name = self.connect_protocol.upper()
        if name == Mode.COOPERATIVE.name and self.profile != DOCUMENT:
            raise InputError(
                "cooperative was never shipped", "connect.protocol", "use compatible or sessioned, or profile document"
            )
        if name not in Mode.__members__:
            allowed = ", ".join(m.lower() for m in Mode.__members__ if self.profile == DOCUMENT or m != "COOPERATIVE")
            raise InputError(f"cannot be {self.connect_protocol!r}", "connect.protocol", f"choose from {allowed}")

    def _check_times(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_ms") and not 0 <= value <= HIGHEST_INT:
                raise InputError(f"cannot be {value}", key(field.name), f"it is from 0 to {HIGHEST_INT} ms")
        if not 0 < self.heartbeat_interval_ms < self.session_timeout_ms:
            raise InputError(
                f"cannot be {self.heartbeat_interval_ms}",
                "heartbeat.interval.ms",
                f"it is above 0 and below session.timeout.ms, {self.session_timeout_ms}",
            )

    @property
    def mode(self) -> Mode:
        """What `connect.protocol` means."""
        return Mode[self.connect_protocol.upper()]

    @property
    def max_poll_interval_ms(self) -> int:
        """A worker has no setting of its own for it."""
        return self.rebalance_timeout_ms

    @classmethod
    def of(cls, properties: Mapping[str, Any], profile: Profile = SHIPPED) -> Self:
        """The settings in a worker's properties, by Kafka's keys; what else is in there is passed over.

        Raises:
            InputError: `group.id` is missing, a number is none, or a value is out of its range.
        """
        given: dict[str, Any] = {"profile": profile, "group_id": ""}
        if profile == DOCUMENT:
            given["connect_protocol"] = "eager"
        for field in fields(cls):
            if key(field.name) in properties:
                given[field.name] = _read(field.name, properties[key(field.name)])
        return cls(**given)


def key(name: str) -> str:
    """Kafka's key of a setting."""
    return name.replace("_", ".")


def _read(name: str, value: Any) -> Any:
    if not name.endswith("_ms"):
        return str(value)
    try:
        return int(str(value))
    except ValueError:
        raise InputError(f"{value!r} is no number", key(name), "give milliseconds") from None
