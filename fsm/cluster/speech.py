"""What a consumer of a cluster speaks: a dialect of KIP-848, or the classic protocol with some assignors.

A word that stands for a classic member is what its `partition.assignment.strategy` would say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fsm.member.classic.assignors import COOPERATIVE_STICKY, RANGE, ClientAssignor
from fsm.member.classic.state import ClassicConfig
from fsm.member.runtime.classic_shell import ClassicConsumerMember
from fsm.member.runtime.consumer_shell import ConsumerMember
from fsm.protocol.codec import API_OF
from fsm.protocol.config import ConsumerConfig

GROUP = "g"
MAX_POLL_INTERVAL_MS, REQUEST_TIMEOUT_MS = 4_000, 1_000
SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS = 3_000, 500

EAGER, COOPERATIVE, BOTH = "range", "cooperative-sticky", "range,cooperative-sticky"
CLASSIC: Mapping[str, tuple[ClientAssignor, ...]] = {
    EAGER: (RANGE,),
    COOPERATIVE: (COOPERATIVE_STICKY,),
    BOTH: (RANGE, COOPERATIVE_STICKY),
}
"""The last one, Kafka's default, is eager, and has a protocol in common with either of the others."""


def new_member(
    spoken: str, member_id: str, instance_id: str | None, now_ms: int, *, commits: bool
) -> ConsumerMember | ClassicConsumerMember:
    """A member that speaks this; a classic one is named by its coordinator."""
    if spoken in CLASSIC:
        return ClassicConsumerMember(
            ClassicConfig(
                GROUP,
                group_instance_id=instance_id,
                max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                enable_auto_commit=commits,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
                assignors=CLASSIC[spoken],
            )
        )
    config = ConsumerConfig(
        GROUP,
        group_instance_id=instance_id,
        max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        enable_auto_commit=commits,
    )
    return ConsumerMember(config, member_id=member_id, now_ms=now_ms, dialect=spoken)


def version_of(message: Any) -> int:
    """The newest version of a request or response in which topics have names: later ones have ids (KIP-848)."""
    return min(API_OF[type(message)].newest, 9)
