"""The clients of a walk: what each was told last, and the requests it can make of that, proper ones and others.

A client knows no more than its answers. Most of its requests are what a real client would send next; the others are
what a broken or late one would: old epochs, parts of an assignment, somebody else's id, fields that must not be so.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from fsm.protocol.assignment import partitions
from fsm.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription

T = TypeVar("T")
Body = dict[str, Any]

UNKNOWN_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAATQ"
OUT, PENDING, ASKED, IN = "out", "pending", "asked", "in"
"""Not in the group, with an id to join under, told to join again, in the group."""


class Chance(Protocol):
    """What a seeded `random.Random` gives."""

    def random(self) -> float:
        """Between 0 and 1."""

    def choice(self, given: Sequence[T], /) -> T:
        """One of them."""

    def randint(self, low: int, high: int, /) -> int:
        """One of these, both ends included."""

    def sample(self, given: Sequence[T], count: int, /) -> list[T]:
        """So many of them, in any order."""


@dataclass
class Client:
    """One client and what it was told last."""

    name: str
    group: str
    instance_id: str | None = None
    member_id: str = ""
    epoch: int = 0
    """Member epoch, or generation."""
    is_classic: bool = False
    state: str = OUT
    names: list[str] | None = None
    regex: str | None = None
    assigned: list[Body] = field(default_factory=list)
    """Partitions by topic id, as the last answer had them."""
    synced: bool = False
    """A classic member that has its assignment."""
    leads: bool = False
    protocol: str | None = None
    others: list[str] = field(default_factory=list)
    """Ids of the members, as the leader knows them."""
    parked: int | None = None
    """The step whose answer has not come."""
    timeout_ms: int = 30_000
    session_ms: int = 45_000
    rack_id: str | None = None
    lives: int = 0
    """How often it joined under another id."""

    def heartbeat(self, **said: Any) -> Body:
        """A ConsumerGroupHeartbeat that says no more than it has to."""
        return {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
            "rack_id": None,
            "rebalance_timeout": -1,
            "subscribed_topic_names": None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": None,
            **said,
        }

    def full(self, **said: Any) -> Body:
        """A heartbeat that says everything."""
        return self.heartbeat(
            **{
                "rack_id": self.rack_id,
                "rebalance_timeout": self.timeout_ms,
                "subscribed_topic_names": self.names,
                "subscribed_topic_regex": self.regex,
                "topic_partitions": self.assigned,
                **said,
            }
        )

    def join(self, protocols: Sequence[Body], reason: str) -> Body:
        """A JoinGroup."""
        return {
            "group_id": self.group,
            "session_timeout": self.session_ms,
            "rebalance_timeout": self.timeout_ms,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocols": list(protocols),
            "reason": reason,
        }

    def sync(self, assignments: Sequence[Body]) -> Body:
        """A SyncGroup."""
        return {
            **self.who(),
            "protocol_type": "consumer",
            "protocol_name": self.protocol,
            "assignments": list(assignments),
        }

    def who(self, **said: Any) -> Body:
        """A classic Heartbeat, and what other requests of a classic member begin with."""
        return {
            "group_id": self.group,
            "generation_id": self.epoch,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            **said,
        }

    def leave_group(self, *, with_stranger: bool) -> Body:
        """A LeaveGroup, perhaps with somebody in it whom the group does not know."""
        own = {"member_id": self.member_id, "group_instance_id": self.instance_id, "reason": "bye"}
        stranger = {"member_id": "nobody", "group_instance_id": None, "reason": None}
        return {"group_id": self.group, "members": [own, stranger] if with_stranger else [own]}

    def commit(self, epoch: int, topic: str, offset: int) -> Body:
        """An OffsetCommit of one partition."""
        partition = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        return {
            "group_id": self.group,
            "generation_id_or_member_epoch": epoch,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "topics": [{"name": topic, "partitions": [partition]}],
        }

    def fetch_offsets(self, epoch: int, topic: str, *, stable: bool) -> Body:
        """An OffsetFetch of three partitions."""
        wanted = [{"name": topic, "partition_indexes": [0, 1, 2]}]
        group = {"group_id": self.group, "member_id": self.member_id, "member_epoch": epoch, "topics": wanted}
        return {"groups": [group], "require_stable": stable}

    def learn(self, api: str, request: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Takes the answer to one of its requests."""
        error = answer.get("error_code")
        if request.get("member_id", self.member_id) != self.member_id:
            return
        if api == "ConsumerGroupHeartbeat":
            self._learn_heartbeat(request, answer, error)
        elif api == "JoinGroup":
            self._learn_join(answer, error)
        elif api == "SyncGroup":
            self.synced = error is None
            self._learn_error(error)
        elif api == "Heartbeat":
            self._learn_error(error)

    def _learn_heartbeat(self, request: Mapping[str, Any], answer: Mapping[str, Any], error: str | None) -> None:
        if error in {"unknown_member_id", "fenced_member_epoch", "group_id_not_found", "unreleased_instance_id"}:
            self.state = OUT
        if error is not None:
            return
        self.state = IN if answer["member_epoch"] >= 0 else OUT
        self.epoch = max(0, answer["member_epoch"])
        if request["subscribed_topic_names"] is not None:
            self.names = request["subscribed_topic_names"]
        if request["subscribed_topic_regex"] is not None:
            self.regex = request["subscribed_topic_regex"]
        if answer["assignment"] is not None:
            self.assigned = [
                {"topic_id": topic["topic_id"], "partitions": list(topic["partitions"])}
                for topic in answer["assignment"]["topic_partitions"]
            ]

    def _learn_join(self, answer: Mapping[str, Any], error: str | None) -> None:
        if error == "member_id_required":
            self.member_id, self.state = answer["member_id"], PENDING
        if error is None:
            self.member_id, self.epoch, self.state = answer["member_id"], answer["generation_id"], IN
            self.leads, self.synced = answer["leader"] == self.member_id, False
            self.protocol = answer["protocol_name"]
            self.others = [member["member_id"] for member in answer["members"]]
        self._learn_error(error)

    def _learn_error(self, error: str | None) -> None:
        if error == "rebalance_in_progress":
            self.synced, self.state = False, ASKED
        if error in {"unknown_member_id", "fenced_instance_id"}:
            self.state, self.member_id = OUT, ""
        if error == "illegal_generation":
            self.synced, self.state = False, ASKED


def subscription(topics: Sequence[str], version: int) -> str:
    """What a consumer says in JoinGroup, its topics in the order given."""
    return b64encode(encode_subscription(Subscription(tuple(topics)), version)).decode()


def assignments(members: Sequence[str], topics: Mapping[str, int]) -> list[Body]:
    """What a leader says in SyncGroup: every partition for somebody, in turn."""
    everything = [(name, i) for name in sorted(topics) for i in range(topics[name])]
    shares = {member: everything[i :: len(members)] for i, member in enumerate(members)}
    return [
        {"member_id": member, "assignment": b64encode(encode_assignment(Assignment(partitions(share)), 1)).decode()}
        for member, share in shares.items()
    ]
