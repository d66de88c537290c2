"""Messages of admin clients about groups: DescribeGroups, ListGroups, DeleteGroups.

Source: `DescribeGroupsRequest.json`, `ListGroupsRequest.json`, `DeleteGroupsRequest.json` and their responses.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, NamedTuple

from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.schema import Wire
from fsm.step import value


@value
class DescribeGroupsRequest:
    """Asks for the state of classic groups."""

    groups: tuple[str, ...]
    include_authorized_operations: Annotated[bool, Wire(since=3)] = False


class DescribedGroupMember(NamedTuple):
    """A member of a classic group."""

    member_id: str
    group_instance_id: Annotated[str | None, Wire(since=4)]
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class DescribedGroup(NamedTuple):
    """One classic group; in state `Dead` if it does not exist."""

    error_code: ErrorCode
    error_message: Annotated[str | None, Wire(since=6)]
    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    """The name of the assignor."""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: Annotated[int, Wire(since=3)] = -(1 << 31)


@value
class DescribeGroupsResponse:
    """The state of each group."""

    throttle_time_ms: Annotated[int, Wire(since=1)] = field(default=0, kw_only=True)
    groups: tuple[DescribedGroup, ...] = ()


@value
class ListGroupsRequest:
    """Asks for the groups of a broker."""

    states_filter: Annotated[tuple[str, ...], Wire(since=4)] = ()
    types_filter: Annotated[tuple[str, ...], Wire(since=5)] = ()


class ListedGroup(NamedTuple):
    """One group of the list."""

    group_id: str
    protocol_type: str
    group_state: Annotated[str, Wire(since=4)] = ""
    group_type: Annotated[str, Wire(since=5)] = ""


@value
class ListGroupsResponse:
    """The groups whose coordinator the broker is."""

    throttle_time_ms: Annotated[int, Wire(since=1)] = field(default=0, kw_only=True)
    error_code: ErrorCode = ErrorCode.NONE
    groups: tuple[ListedGroup, ...] = ()


@value
class DeleteGroupsRequest:
    """Deletes empty groups."""

    groups_names: tuple[str, ...]


class DeletableGroupResult(NamedTuple):
    """Result for one group."""

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: Annotated[str | None, Wire(since=3)] = None


@value
class DeleteGroupsResponse:
    """Result for each group."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    results: tuple[DeletableGroupResult, ...] = ()
