"""Messages about settings: DescribeConfigs, IncrementalAlterConfigs, ListConfigResources.

A resource is a topic (type 2), a broker (4), a client's metrics (16) or a group (32).

Source: `DescribeConfigsRequest.json`, `IncrementalAlterConfigsRequest.json`, `ListConfigResourcesRequest.json`
and their responses; KIP-1142.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, NamedTuple

from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.schema import Int8, Wire
from fsm.step import value


class DescribeConfigsResource(NamedTuple):
    """A resource, and the requested settings; None: all."""

    resource_type: Int8
    resource_name: str
    configuration_keys: tuple[str, ...] | None = None


@value
class DescribeConfigsRequest:
    """Asks for settings."""

    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool = False
    include_documentation: Annotated[bool, Wire(since=3)] = False


class DescribeConfigsSynonym(NamedTuple):
    """The setting's value in another source."""

    name: str
    value: str | None
    source: Int8


class DescribeConfigsResourceResult(NamedTuple):
    """One setting and the source of its value."""

    name: str
    value: str | None
    read_only: bool = False
    config_source: Int8 = -1
    is_sensitive: bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...] = ()
    config_type: Annotated[Int8, Wire(since=3)] = 0
    documentation: Annotated[str | None, Wire(since=3)] = None


class DescribeConfigsResult(NamedTuple):
    """The settings of one resource."""

    error_code: ErrorCode
    error_message: str | None
    resource_type: Int8
    resource_name: str
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


@value
class DescribeConfigsResponse:
    """The settings of each resource."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    results: tuple[DescribeConfigsResult, ...] = ()


class AlterableConfig(NamedTuple):
    """A change of one setting: set (operation 0), delete (1), append (2) or subtract (3)."""

    name: str
    config_operation: Int8
    value: str | None


class AlterConfigsResource(NamedTuple):
    """Changes of one resource's settings."""

    resource_type: Int8
    resource_name: str
    configs: tuple[AlterableConfig, ...]


@value
class IncrementalAlterConfigsRequest:
    """Changes the named settings."""

    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool = False


class AlterConfigsResourceResponse(NamedTuple):
    """Result for one resource."""

    error_code: ErrorCode
    error_message: str | None
    resource_type: Int8
    resource_name: str


@value
class IncrementalAlterConfigsResponse:
    """Result for each resource."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    responses: tuple[AlterConfigsResourceResponse, ...] = ()


@value
class ListConfigResourcesRequest:
    """Asks for resources that have settings, of the given types; no type means all.

    Version 0, formerly ListClientMetricsResources, asks for client metrics only.
    """

    resource_types: Annotated[tuple[Int8, ...], Wire(since=1)] = ()


class ConfigResource(NamedTuple):
    """One resource; `ClientMetricsResource` in version 0."""

    resource_name: str
    resource_type: Annotated[Int8, Wire(since=1)] = 16


@value
class ListConfigResourcesResponse:
    """The resources that have settings."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    error_code: ErrorCode = ErrorCode.NONE
    config_resources: tuple[ConfigResource, ...] = ()
