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
from fsm.protocol.config import check_kind

HIGHEST_INT = 2**31 - 1
HIGHEST_LONG = 2**63 - 1
LONGS = frozenset({"retry_backoff_ms", "retry_backoff_max_ms"})
"""Settings with the range of a long."""
HMACS = ("HmacSHA1", "HmacSHA224", "HmacSHA256", "HmacSHA384", "HmacSHA512")
"""Algorithms that every Java platform in use has, for keys and for signatures."""


class Mode(Enum):
    """`connect.protocol`: the protocols a worker advertises, as (name, version), the most preferred first."""

    EAGER = (("default", 0),)
    COMPATIBLE = (("compatible", 1), ("default", 0))
    SESSIONED = (("sessioned", 2), ("compatible", 1), ("default", 0))
    """Since 2.4 (KIP-507). The same rounds as version 1; requests between workers are signed."""
    COOPERATIVE = (("sessioned", 2), ("compatible", 1))
    """Only KIP-415 has it: such a worker cannot be in a group with an eager worker."""

    __hash__ = object.__hash__

    @property
    def names(self) -> tuple[str, ...]:
        """The names on the wire."""
        return tuple(name for name, _ in self.value)

    @property
    def versions(self) -> frozenset[int]:
        """The versions of the names."""
        return frozenset(version for _, version in self.value)


VERSIONS = dict(Mode.SESSIONED.value)
"""The version of each name on the wire."""


def version_of(protocol: str) -> int:
    """The version of an elected protocol.

    Raises:
        InputError: the name is none of Connect's.
    """
    if protocol not in VERSIONS:
        raise InputError(f"{protocol!r} is not a protocol of Connect", remedy=f"known: {', '.join(VERSIONS)}")
    return VERSIONS[protocol]


@dataclass(frozen=True, slots=True)
class ConnectConfig:
    """Settings by their Kafka names in snake case. Raises `InputError` with the setting and its valid values."""

    group_id: str
    connect_protocol: str = "sessioned"
    """Case-insensitive; `mode` is its parsed value."""
    scheduled_rebalance_max_delay_ms: int = 300_000
    """0 disables delays and the pauses between revoking rounds."""
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    """Also the time of a coordinator search after which the worker drops its units."""
    rebalance_timeout_ms: int = 60_000
    """How long a join waits for the others, and how long the worker may go without a poll."""
    worker_sync_timeout_ms: int = 3_000
    worker_unsync_backoff_ms: int = 300_000
    """Under the eager protocol only."""
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    task_shutdown_graceful_timeout_ms: int = 5_000
    inter_worker_key_ttl_ms: int = 3_600_000
    """These five are of the sessioned protocol alone: requests between workers are signed with a session key."""
    inter_worker_key_generation_algorithm: str = "HmacSHA256"
    inter_worker_key_size: int | None = None
    """In bits; the algorithm's own where it is None."""
    inter_worker_signature_algorithm: str = "HmacSHA256"
    inter_worker_verification_algorithms: tuple[str, ...] = ("HmacSHA256",)
    profile: Profile = SHIPPED
    """`document` also has the mode cooperative, and its default is eager."""

    def __post_init__(self) -> None:
        for field in fields(self):
            check_kind(key(field.name), str(field.type), getattr(self, field.name))
        if not isinstance(self.profile, Profile):
            raise InputError(f"must be a profile, not {self.profile!r}", "profile", "SHIPPED or DOCUMENT")
        if not self.group_id.strip():
            raise InputError("must be given", "group.id", "workers of one cluster share it")
        self._check_mode()
        self._check_times()
        if self.mode is Mode.SESSIONED:
            self._check_keys()

    def _check_mode(self) -> None:
        name = self.connect_protocol.upper()
        if name == Mode.COOPERATIVE.name and self.profile != DOCUMENT:
            raise InputError(
                "cooperative was never released", "connect.protocol", "use compatible or sessioned, or profile document"
            )
        if name not in Mode.__members__:
            allowed = ", ".join(m.lower() for m in Mode.__members__ if self.profile == DOCUMENT or m != "COOPERATIVE")
            raise InputError(f"cannot be {self.connect_protocol!r}", "connect.protocol", f"choose from {allowed}")

    def _check_times(self) -> None:
        for field in fields(self):
            if not field.name.endswith("_ms"):
                continue
            value, highest = getattr(self, field.name), HIGHEST_LONG if field.name in LONGS else HIGHEST_INT
            if not 0 <= value <= highest:
                raise InputError(f"cannot be {value}", key(field.name), f"it is from 0 to {highest} ms")
        if not 0 < self.heartbeat_interval_ms < self.session_timeout_ms:
            raise InputError(
                f"cannot be {self.heartbeat_interval_ms}",
                "heartbeat.interval.ms",
                f"it is above 0 and below session.timeout.ms, {self.session_timeout_ms}",
            )

    def _check_keys(self) -> None:
        verifying = self.inter_worker_verification_algorithms
        if not verifying:
            raise InputError(
                "must name at least one", "inter.worker.verification.algorithms", f"one of {', '.join(HMACS)}"
            )
        named = {
            "inter_worker_key_generation_algorithm": (self.inter_worker_key_generation_algorithm,),
            "inter_worker_signature_algorithm": (self.inter_worker_signature_algorithm,),
            "inter_worker_verification_algorithms": verifying,
        }
        for setting, algorithms in named.items():
            unknown = next((each for each in algorithms if each not in HMACS), None)
            if unknown is not None:
                raise InputError(f"cannot be {unknown!r}", key(setting), f"choose from {', '.join(HMACS)}")
        if self.inter_worker_signature_algorithm not in verifying:
            raise InputError(
                f"cannot be {self.inter_worker_signature_algorithm!r}",
                "inter.worker.signature.algorithm",
                f"it must be among inter.worker.verification.algorithms, {', '.join(verifying)}",
            )
        if self.inter_worker_key_size is not None and self.inter_worker_key_size < 1:
            raise InputError(f"cannot be {self.inter_worker_key_size}", "inter.worker.key.size", "it is above 0")

    @property
    def mode(self) -> Mode:
        """The parsed `connect.protocol`."""
        return Mode[self.connect_protocol.upper()]

    @property
    def max_poll_interval_ms(self) -> int:
        """Equal to the rebalance timeout; a worker has no separate setting."""
        return self.rebalance_timeout_ms

    @classmethod
    def of(cls, properties: Mapping[str, Any], profile: Profile = SHIPPED) -> Self:
        """The settings in a worker's properties, by Kafka's keys; others are ignored.

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
    if name == "inter_worker_verification_algorithms":
        return tuple(filter(None, (part.strip() for part in str(value).split(","))))
    if not name.endswith(("_ms", "_size")):
        return str(value)
    try:
        return int(str(value))
    except ValueError:
        unit = "milliseconds" if name.endswith("_ms") else "bits"
        raise InputError(f"{value!r} is not a number", key(name), f"give {unit}") from None
