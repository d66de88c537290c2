"""Properties of a client's logging that an audit depends on: which callbacks it logs, and how they end.

The facts are data, `FACTS` of a client's module; the defaults describe the Java client. An audit identifies the client
by the client id of its records. If a client's lines have no client id, its records have the client's name instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from fsm.trace import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """How one client logs the events of its consumers."""

    name: str
    """The client id of its records if its lines have none."""
    title: str = ""
    """The display name, including other clients that its rules cover; `name` if empty."""
    supported_protocols: str
    """The protocols of its members, as prose."""
    ownership_lines: str
    """How its log shows ownership, as prose."""
    not_logged: str
    """What its log lacks, as prose."""
    mark: str = ""
    """The part of its client ids that identifies the client; empty if there is none."""
    protocols: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    """`consumer` or `classic`, by a machine or kind of record that occurs only in that protocol."""
    begins_in: Mapping[tuple[str, Kind], tuple[str, ...]] = field(
        default_factory=lambda: MappingProxyType({}), hash=False
    )
    """By machine and kind of record: the only states of the machine in which the client logs it."""
    chosen_id_length: int = 0
    """The length of member ids that a consumer generates when it is created and then keeps; 0 if it does not."""
    id_names_instance: bool = False
    """Each consumer has its own client id."""
    names_each_partition: bool = False
    """It logs each partition that it adds and drops; its callbacks log only the number of partitions."""
    last_step_since: tuple[int, int] = (0, 0)
    """The release since which the last step of a close is logged at INFO; older releases log it at DEBUG."""
    logs_each_heartbeat: bool = False
    """It logs each rebalance and, as a member of the consumer protocol, each heartbeat that it gives up."""
    one_thread: bool = False
    """The lines of joins and heartbeats are in order."""
    leaves_at_poll: bool = False
    """After an expired poll timeout, a member of the consumer protocol leaves when the application polls again."""
    epoch_before_assignment: bool = False
    """An assignment is logged without its epoch, which is in the response before it."""
    begins_with: Kind = Kind.STARTED
    """The kind of the first record that shows the start of a consumer."""
    close_is_unlogged: bool = False
    """No line marks the end of a consumer: its log ends after it has left, or has begun to close."""
    close_callback_is_unlogged: bool = False
    """A close calls the revoked callback without logging it."""
    close_calls_nothing: bool = False
    """A close never calls a callback: its application has to know."""
    shows_callback_return: bool = True
    """The next line that shows activity of the application implies that a revoked callback has returned shortly before.
    If False, no such line need follow, and only after the member was fenced does the next line show how long the
    callback took."""
    identifies_members: bool = True
    """Its lines identify the consumer or the member, so that several of them in one file can be distinguished."""
    has_lost_callback: bool = True
    """It has a lost callback, called after the member was fenced. If False, the revoked callback is called instead."""
    logs_subscription: bool = True
    """It logs subscriptions. If False, a consumer is assumed to want the topics that it owns."""
    early_end: str = ""
    """The `event` of records that mark the end of ownership only if no `OWNED` follows them, for the last callback may
    still run."""
    pattern_matches_beginning: bool = False
    """A subscribed pattern need only match a prefix of a topic's name."""


JAVA = "java"
"""The client of all client ids without a mark."""
