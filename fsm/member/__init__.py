"""Members of groups: `consumer` is the KIP-848 member and `classic` the classic one, without IO; around them are the
classes that an application embeds.

    from fsm.member import Consumer, ConsumerConfig

The cores read no clock, draw no random number, start no thread and open no socket: time and jitter are arguments,
effects are returned, and the runtime carries them out. Only the two runtimes import threading and asyncio; every name
of this package is imported at its first use.

* `Consumer`, `AsyncConsumer`: a consumer's membership on two threads, and on asyncio;
* `ConsumerMember`, `ClassicConsumerMember`: the same for an event loop of yours;
* `ConsumerConfig`, `ClassicConfig`: Kafka's settings; the second makes a member of a classic group;
* `ConsumerRebalanceListener`, `AsyncConsumerRebalanceListener`: the callbacks of an application;
* `SubscriptionPattern`: a pattern that the coordinator matches;
* `Transport`, `ClassicTransport`, `TransportFailure`: the network of a consumer; why a request got no response;
* `ClientAssignor`, `RANGE`, `COOPERATIVE_STICKY`: an assignor of classic members; Kafka's two;
* `Dialect`, `Choice`, `custom`, `choices_of`: a release, a rule in which releases differ, and a dialect of one's own;
* `KafkaException`, `BackgroundFailed`: errors of calls;
* `canonicalize`: one form for all members that differ only by ids and time, for a search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsm.exports import on_demand
from fsm.protocol.config import ConsumerConfig

if TYPE_CHECKING:
    from fsm.member.canonical_form import canonicalize
    from fsm.member.classic.assignors import COOPERATIVE_STICKY, RANGE, ClientAssignor
    from fsm.member.classic.state import ClassicConfig
    from fsm.member.dialect.choices import Choice
    from fsm.member.dialect.dialect import Dialect, choices_of, custom
    from fsm.member.runtime.asyncio_runtime import AsyncConsumer, AsyncConsumerRebalanceListener
    from fsm.member.runtime.background import ClassicTransport, Transport
    from fsm.member.runtime.classic_shell import ClassicConsumerMember
    from fsm.member.runtime.consumer_api import BackgroundFailed, SubscriptionPattern
    from fsm.member.runtime.consumer_shell import ConsumerMember
    from fsm.member.runtime.queues import ConsumerRebalanceListener, KafkaException
    from fsm.member.runtime.threads import Consumer
    from fsm.protocol.messages import TransportFailure

__all__ = [
    "COOPERATIVE_STICKY",
    "RANGE",
    "AsyncConsumer",
    "AsyncConsumerRebalanceListener",
    "BackgroundFailed",
    "Choice",
    "ClassicConfig",
    "ClassicConsumerMember",
    "ClassicTransport",
    "ClientAssignor",
    "Consumer",
    "ConsumerConfig",
    "ConsumerMember",
    "ConsumerRebalanceListener",
    "Dialect",
    "KafkaException",
    "SubscriptionPattern",
    "Transport",
    "TransportFailure",
    "canonicalize",
    "choices_of",
    "custom",
]


__getattr__, __dir__ = on_demand(
    __name__,
    {
        "runtime.asyncio_runtime": ("AsyncConsumer", "AsyncConsumerRebalanceListener"),
        "runtime.consumer_api": ("BackgroundFailed", "SubscriptionPattern"),
        "dialect.choices": ("Choice",),
        "classic.assignors": ("COOPERATIVE_STICKY", "RANGE", "ClientAssignor"),
        "classic.state": ("ClassicConfig",),
        "inputs": ("TransportFailure",),
        "runtime.classic_shell": ("ClassicConsumerMember",),
        "runtime.background": ("ClassicTransport", "Transport"),
        "runtime.threads": ("Consumer",),
        "runtime.consumer_shell": ("ConsumerMember",),
        "runtime.queues": ("ConsumerRebalanceListener", "KafkaException"),
        "dialect.dialect": ("Dialect", "choices_of", "custom"),
        "canonical_form": ("canonicalize",),
    },
)
