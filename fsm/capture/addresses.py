"""Answers with broker addresses, rewritten so that clients stay with the proxy; and the versions that allow it.

An answer without addresses stays the very same object.

Source: `MetadataResponse.json`, `FindCoordinatorResponse.json`, `DescribeClusterResponse.json`, `FetchResponse.json`,
`ProduceResponse.json` (KIP-951: where a new leader is); `share_groups` has those of share groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from fsm.capture import share_groups
from fsm.protocol.messages import APIS, ApiVersion, ApiVersionsResponse, FindCoordinatorResponse

Place = Callable[[int, str, int], tuple[str, int]]
"""Node id, host and port of a broker to the host and port where clients find it."""

NAMING: Mapping[str, str] = {
    "Metadata": "brokers",
    "FindCoordinator": "coordinators",
    "DescribeCluster": "brokers",
    "Fetch": "node_endpoints",
    "Produce": "node_endpoints",
}
"""APIs whose answers have broker addresses, and their fields."""
READABLE: Mapping[int, tuple[int, int]] = {
    **{APIS[name].key: (0, APIS[name].newest) for name in (*NAMING, "ApiVersions")},
    **dict.fromkeys(share_groups.SHARING, (share_groups.OLDEST, share_groups.NEWEST)),
}
"""APIs whose responses have to be read, by key, with the versions that clients may use, which are those known here.
Older versions have no broker addresses, except those of ShareFetch and ShareAcknowledge.
"""
_FIELDS: Mapping[type[Any], str] = {
    **{APIS[name].response: naming for name, naming in NAMING.items()},
    **dict.fromkeys(share_groups.SHARING.values(), "node_endpoints"),
}


def with_places(response: Any, place: Place) -> Any:
    """The answer with the brokers' addresses for clients."""
    if isinstance(response, ApiVersionsResponse):
        return _with_readable_versions(response)
    naming = _FIELDS.get(type(response))
    if not naming:
        return response
    brokers = getattr(response, naming)
    changed: dict[str, Any] = {naming: tuple(_move(one, place) for one in brokers)} if brokers else {}
    if isinstance(response, FindCoordinatorResponse) and _is_address(response.host, response.port):
        changed["host"], changed["port"] = place(response.node_id, response.host, response.port)
    if not changed:
        return response
    if type(response) in share_groups.SHARING.values():
        return response._replace(**changed)
    return replace(response, **changed)


def _move(broker: Any, place: Place) -> Any:
    if not _is_address(broker.host, broker.port):
        return broker
    node_id = broker.broker_id if hasattr(broker, "broker_id") else broker.node_id
    host, port = place(node_id, broker.host, broker.port)
    return broker._replace(host=host, port=port)


def _is_address(host: str, port: int) -> bool:
    """Whether it is an address; an unavailable coordinator has none."""
    return bool(host) and 0 < port < 1 << 16


def _with_readable_versions(response: ApiVersionsResponse) -> ApiVersionsResponse:
    offered = (_narrow(one, *READABLE[one.api_key]) if one.api_key in READABLE else one for one in response.api_keys)
    return replace(response, api_keys=tuple(one for one in offered if one.min_version <= one.max_version))


def _narrow(offered: ApiVersion, oldest: int, newest: int) -> ApiVersion:
    return offered._replace(min_version=max(offered.min_version, oldest), max_version=min(offered.max_version, newest))
