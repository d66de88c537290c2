"""Members of groups: `consumer` is the KIP-848 member and `classic` the classic one, without IO; around them what an
application embeds.

    from fsm.member import Consumer, ConsumerConfig

The cores read no clock, draw no random number, start no thread and open no socket: time and jitter are arguments,
effects are returned, and the embedding carries them out. Threads and asyncio come in with the two runtimes alone, and
only when one is asked for: what this package names is loaded with its first use.

* `Consumer`, `AsyncConsumer`: a consumer's membership on two threads, and on asyncio;
* `ConsumerMember`, `ClassicConsumerMember`: the same for an event loop of yours;
* `ConsumerConfig`, `ClassicConfig`: Kafka's settings; the second makes a member of a classic group;
* `ConsumerRebalanceListener`, `AsyncConsumerRebalanceListener`: the callbacks of an application;
* `SubscriptionPattern`: a pattern that the coordinator matches;
* `Transport`: the network that a consumer is given;
* `Dialect`, `Choice`: a release, and a rule in which releases differ;
* `KafkaException`, `BackgroundFailed`: what calls raise.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fsm.member.classic.state import ClassicConfig
    from fsm.member.dialect.choices import Choice
    from fsm.member.dialect.dialect import Dialect
    from fsm.member.runtime.asyncio_runtime import AsyncConsumer, AsyncConsumerRebalanceListener
    from fsm.member.runtime.background import Transport
    from fsm.member.runtime.classic_shell import ClassicConsumerMember
    from fsm.member.runtime.consumer_api import BackgroundFailed, SubscriptionPattern
    from fsm.member.runtime.consumer_shell import ConsumerMember
    from fsm.member.runtime.queues import ConsumerRebalanceListener, KafkaException
    from fsm.member.runtime.threads import Consumer
    from fsm.protocol.config import ConsumerConfig

_HOMES = {
    "AsyncConsumer": "fsm.member.runtime.asyncio_runtime",
    "AsyncConsumerRebalanceListener": "fsm.member.runtime.asyncio_runtime",
    "BackgroundFailed": "fsm.member.runtime.consumer_api",
    "Choice": "fsm.member.dialect.choices",
    "ClassicConfig": "fsm.member.classic.state",
    "ClassicConsumerMember": "fsm.member.runtime.classic_shell",
    "Consumer": "fsm.member.runtime.threads",
    "ConsumerConfig": "fsm.protocol.config",
    "ConsumerMember": "fsm.member.runtime.consumer_shell",
    "ConsumerRebalanceListener": "fsm.member.runtime.queues",
    "Dialect": "fsm.member.dialect.dialect",
    "KafkaException": "fsm.member.runtime.queues",
    "SubscriptionPattern": "fsm.member.runtime.consumer_api",
    "Transport": "fsm.member.runtime.background",
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
