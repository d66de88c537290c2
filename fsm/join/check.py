"""Checks whether a cluster can be joined, once before the start: each problem is one clear line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fsm.errors import InputError
from fsm.join.network import Network, Purpose
from fsm.protocol.codec import API_OF
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.json_form import error_name
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    FetchRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
    MetadataResponse,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from fsm.wire.dialogue import PeerError, suggest_remedy

ALL = (
    FindCoordinatorRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    FetchRequest,
    ListOffsetsRequest,
)
CONSUMER = (ConsumerGroupHeartbeatRequest,)
CLASSIC = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest)
OLDEST = {MetadataRequest: 4, LeaveGroupRequest: 3}
"""The oldest usable versions: earlier ones create topics on request, or lack a list of leaving members."""


async def check_cluster(network: Network, topics: Sequence[str] | None, *, is_classic: bool) -> MetadataResponse:
    """The metadata of these topics, None for all.

    Raises `InputError` if there is no broker, if it requires something unsupported, and for unknown topics.
    """
    place = " or ".join(f"{host}:{port}" for host, port in network.bootstrap)
    first: InputError | None = None
    for address in network.bootstrap:
        try:
            link = await network.link(Purpose.CONTROL, address)
        except PeerError as problem:
            first = first or InputError(str(problem), remedy=suggest_remedy(problem))
            continue
        for message in (*ALL, *(CLASSIC if is_classic else CONSUMER)):
            _check_version(message, link.versions.get(API_OF[message].key), link.peer)
        break
    else:
        assert first is not None  # noqa: S101  # there is an address at least
        raise first
    metadata = await _learn(network, topics)
    for topic in metadata.topics if topics is not None else ():
        if topic.error_code:
            known = "create it first" if topic.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else ""
            raise InputError(f"topic {topic.name}: {error_name(topic.error_code)}", place, known)
    return metadata


async def _learn(network: Network, topics: Sequence[str] | None) -> MetadataResponse:
    """Fetches metadata in two attempts, because a connection may break once; a broker that requires a login breaks it
    each time.
    """
    try:
        return await network.learn(topics)
    except PeerError:
        try:
            return await network.learn(topics)
        except PeerError as problem:
            why = f"{problem} when it was asked for topics"
            raise InputError(why, remedy="if it requires SASL, add --user, or choose a listener without one") from None


def _check_version(message: type[Any], supported: range | None, peer: str) -> None:
    api = API_OF[message]
    oldest = max(api.oldest, OLDEST.get(message, 0))
    if supported and range(max(oldest, supported.start), min(api.newest + 1, supported.stop)):
        return
    if message is ConsumerGroupHeartbeatRequest:
        remedy = "Kafka has it since 4.0; --protocol classic needs none"
        raise InputError(f"the broker is too old: it does not support {api.name}", peer, remedy)
    raise InputError(f"it does not support {api.name} in versions {oldest} to {api.newest}", peer)
