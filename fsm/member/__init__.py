"""Members of groups: `consumer` is the KIP-848 member and `classic` the classic one, without IO; around them what an
application embeds.

    from fsm.member import Consumer, ConsumerConfig

The cores read no clock, draw no random number, start no thread and open no socket: time and jitter are arguments,
effects are returned, and the embedding carries them out. Threads and asyncio come in with the two runtimes alone, and
only when one is asked for: what this package names is loaded with its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fsm.kafka.config import ConsumerConfig
    from fsm.member.asyncio_runtime import AsyncConsumer, AsyncConsumerRebalanceListener
    from fsm.member.background import Transport
    from fsm.member.calls import BackgroundFailed, SubscriptionPattern
    from fsm.member.choices import Choice
    from fsm.member.classic_shell import ClassicConsumerMember
    from fsm.member.classic_state import ClassicConfig
    from fsm.member.dialect import Dialect
    from fsm.member.embedding import ConsumerRebalanceListener
    from fsm.member.queues import KafkaException
    from fsm.member.runtime import Consumer
    from fsm.member.shell import ConsumerMember

_HOMES = {
    "AsyncConsumer": "fsm.member.asyncio_runtime",
    "AsyncConsumerRebalanceListener": "fsm.member.asyncio_runtime",
    "BackgroundFailed": "fsm.member.calls",
    "Choice": "fsm.member.choices",
    "ClassicConfig": "fsm.member.classic_state",
    "ClassicConsumerMember": "fsm.member.classic_shell",
    "Consumer": "fsm.member.runtime",
    "ConsumerConfig": "fsm.kafka.config",
    "ConsumerMember": "fsm.member.shell",
    "ConsumerRebalanceListener": "fsm.member.embedding",
    "Dialect": "fsm.member.dialect",
    "KafkaException": "fsm.member.queues",
    "SubscriptionPattern": "fsm.member.calls",
    "Transport": "fsm.member.background",
}

__all__ = [
    "AsyncConsumer",
    "AsyncConsumerRebalanceListener",
    "BackgroundFailed",
    "Choice",
    "ClassicConfig",
    "ClassicConsumerMember",
    "Consumer",
    "ConsumerConfig",
    "ConsumerMember",
    "ConsumerRebalanceListener",
    "Dialect",
    "KafkaException",
    "SubscriptionPattern",
    "Transport",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
