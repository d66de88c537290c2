"""What an audit has to know of a client beside its words: which of its callbacks it tells, and how they end.

Facts are data, and part of a `Client`; the defaults are those of the Java client. An audit knows the client by the
client id of its records: where the lines of a client name no client id, its records have its name there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from fsm.trace import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """How one client tells what happens to its consumers."""

    name: str
    """The client id of its records where its lines name none."""
    title: str = ""
    """What people call it, and what else its rules read; its name where empty."""
    speaks: str
    """Of which protocols it has members, in words."""
    tells: str
    """How its log shows who owned what, in words."""
    untold: str
    """What its log does not tell, in words."""
    mark: str = ""
    """What its client ids contain where they tell the client; empty where nothing does."""
    protocols: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    """`consumer` or `classic`, by the machine or the kind of a record that only a member of that protocol has."""
    begins_in: Mapping[tuple[str, Kind], tuple[str, ...]] = field(
        default_factory=lambda: MappingProxyType({}), hash=False
    )
    """By machine and kind of a record: the only states of the machine in which the client prints it."""
    chosen_id_length: int = 0
    """Characters of a member id that a consumer chooses when it is created and then keeps; 0 where none does."""
    id_names_instance: bool = False
    """Each consumer has a client id of its own."""
    names_each_partition: bool = False
    """It prints each partition that it adds and drops, and its callbacks count partitions without naming them."""
    last_step_since: tuple[int, int] = (0, 0)
    """The release since which the step that a close ends with is printed at INFO; older ones do at DEBUG."""
    tells_each_heartbeat: bool = False
    """It prints each rebalance and, as a member of the consumer protocol, each heartbeat that it gives up."""
    one_thread: bool = False
    """Lines of joins and heartbeats are in order."""
    leaves_at_poll: bool = False
    """A member of the consumer protocol whose poll timeout expired leaves when the application polls again."""
    epoch_before_assignment: bool = False
    """An assignment is printed without its epoch, which the answer before it has."""
    begins_with: Kind = Kind.STARTED
    """What a log begins with that shows the start of its consumer."""
    closes_quietly: bool = False
    """No line says that a consumer is closed: its log ends after it has left, or began to close."""
    close_calls_back_quietly: bool = False
    """A close calls the revoked callback without a line."""
    tells_return: bool = True
    """A revoked callback has returned shortly before the next line that shows the application at work; otherwise no
    line need follow, and only where the member was thrown out meanwhile does the next one show that it lasted."""
    tells_members: bool = True
    """Its lines name the consumer, or the member, so that several in one file can be told apart."""
    tells_loss: bool = True
    """There is a lost callback: the application is told that it was thrown out. Otherwise that is a revocation."""
    tells_subscription: bool = True
    """Otherwise a consumer wants the topics of what it owns."""
    pattern_matches_beginning: bool = False
    """A subscribed pattern need only match the beginning of a topic's name."""


JAVA = "java"
"""The client whose client ids tell nothing."""
