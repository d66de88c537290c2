"""The group coordinator without IO: its decisions about groups, their members, partitions and offsets.

Everything here works on frozen values: requests and instants go in, records, answers and deadlines come out. Nothing
reads a clock, draws a random number or opens a socket. `Host` drives a coordinator as a broker does; `handle` and its
siblings are its single steps.

* `Host`, `Sent`, `Appended`: drives one coordinator; the result of a request, and a record in its log;
* `Coordinator`, `Step`, `Happened`: the state, the result of a step, and a row of a table that it took;
* `Request`, `Answer`: messages with their client and token;
* `ConsumerGroupHeartbeatRequest`, `JoinGroupRequest`, `SyncGroupRequest`, `HeartbeatRequest`, `LeaveGroupRequest`,
  `OffsetCommitRequest`, `TxnOffsetCommitRequest`, `OffsetFetchRequest`, `OffsetDeleteRequest`,
  `DeleteGroupsRequest`: the requests; their structs are in `fsm.protocol.messages`;
* `Context`, `BrokerConfig`, `Image`, `Topic`, `PersistentMap`: the context of a step: time, settings, topics;
* `Dialect`, `dialect`, `Choice`: the rules of a release;
* `handle`, `handle_timer`, `next_deadline_ms`: a request, due timers, and the next deadline;
* `resolutions`, `handle_resolution`, `handle_failed_resolution`: regular expressions resolved in the background;
* `change_image`, `delete_topics`, `end_transaction`, `clean_up`: the other inputs of a broker;
* `describe`: the description of a group;
* `canonicalize`: one form for all states that differ only by ids and time, for a search;
* `Assignor`, `GroupSpec`, `MemberSpec`, `Assignments`, `PartitionAssignorError`: the interface of an assignor.
"""

from __future__ import annotations

from fsm.coordinator.assignors import Assignments, Assignor, GroupSpec, MemberSpec, PartitionAssignorError
from fsm.coordinator.canonical_form import canonicalize
from fsm.coordinator.coordinator import (
    Coordinator,
    change_image,
    clean_up,
    delete_topics,
    describe,
    end_transaction,
    handle,
    handle_failed_resolution,
    handle_resolution,
    handle_timer,
    next_deadline_ms,
    resolutions,
)
from fsm.coordinator.host import Appended, Host, Sent
from fsm.coordinator.model.context import BrokerConfig, Context, Image, Topic
from fsm.coordinator.model.dialect import Choice, Dialect, dialect
from fsm.coordinator.model.persistent import PersistentMap
from fsm.coordinator.model.step import Answer, Happened, Request, Step
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)

__all__ = [
    "Answer",
    "Appended",
    "Assignments",
    "Assignor",
    "BrokerConfig",
    "Choice",
    "ConsumerGroupHeartbeatRequest",
    "Context",
    "Coordinator",
    "DeleteGroupsRequest",
    "Dialect",
    "GroupSpec",
    "Happened",
    "HeartbeatRequest",
    "Host",
    "Image",
    "JoinGroupRequest",
    "LeaveGroupRequest",
    "MemberSpec",
    "OffsetCommitRequest",
    "OffsetDeleteRequest",
    "OffsetFetchRequest",
    "PartitionAssignorError",
    "PersistentMap",
    "Request",
    "Sent",
    "Step",
    "SyncGroupRequest",
    "Topic",
    "TxnOffsetCommitRequest",
    "canonicalize",
    "change_image",
    "clean_up",
    "delete_topics",
    "describe",
    "dialect",
    "end_transaction",
    "handle",
    "handle_failed_resolution",
    "handle_resolution",
    "handle_timer",
    "next_deadline_ms",
    "resolutions",
]
