"""A group to talk to in tests with the classic protocol: clients join, sync, send heartbeats, leave; time passes."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from consumer_scene import IDS, NAMES, Scene, message

from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.step import Step
from fsm.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from fsm.protocol.json_form import to_recorded

__all__ = ["IDS", "NAMES", "ClassicScene", "given", "subscribed"]


def subscribed(
    *topics: str,
    owned: Mapping[str, list[int]] | None = None,
    user_data: bytes | None = None,
    generation: int | None = None,
) -> str:
    """What a consumer says of itself as it joins, as it stands in a body; older ones name no generation."""
    held = tuple((topic, number) for topic, numbers in (owned or {}).items() for number in numbers)
    if generation is None:
        return b64encode(encode_subscription(Subscription(topics, user_data, held), 1)).decode()
    return b64encode(encode_subscription(Subscription(topics, user_data, held, generation), 3)).decode()


def given(assignment: str) -> dict[str, list[int]]:
    """The assignment in a body, by topic name."""
    found: dict[str, list[int]] = {}
    for topic, number in decode_assignment(b64decode(assignment)).partitions if assignment else ():
        found.setdefault(topic, []).append(number)
    return found


def assignment(**topics: list[int]) -> str:
    """An assignment as a leader sends it."""
    held = tuple((topic, number) for topic, numbers in topics.items() for number in numbers)
    return b64encode(encode_assignment(Assignment(held), 1)).decode()


NOTHING: Mapping[str, Any] = {}


class ClassicScene(Scene):
    """A scene whose requests may be answered later: `answered` has every answer by the request's name."""

    def __init__(self, release: str = "4.4.0", topics: Mapping[str, int] | None = None, **settings: Any) -> None:
        settings = {"group_initial_rebalance_delay_ms": 3_000, **settings}
        super().__init__(release, topics, **settings)
        self.answered: dict[str, Mapping[str, Any]] = {}
        self.names: list[str] = []
        self.versions: dict[str, int] = {}

    @property
    def classic(self) -> ClassicGroup:
        """The group as it is, a classic one."""
        found = self.state.groups["g"]
        assert isinstance(found, ClassicGroup)
        return found

    @property
    def states(self) -> str:
        """The group's state as DescribeGroups prints it."""
        return str(self.described["state"])

    def ask(self, name: str, api: str, version: int, body: Mapping[str, Any], fresh_id: str = "") -> Any:
        """The answer to a request, None while it is delayed; `name` finds it in `answered` later."""
        self.names.append(name)
        self.answered.pop(name, None)
        token = len(self.names) - 1
        self.versions[name] = version
        self.host.send("client", message(api, version, body), version, fresh_id=fresh_id, token=token)
        return self.answered.get(name)

    def send(self, api: str, version: int, body: Mapping[str, Any], fresh_id: str = "") -> Mapping[str, Any]:
        """The answer to a request of the consumer protocol; those of delayed requests may come with it."""
        found: Mapping[str, Any] = self.ask(f"{api} {body.get('member_id')}", api, version, body, fresh_id)
        return found

    def _note_step(self, step: Step[Coordinator]) -> None:
        super()._note_step(step)
        for answer in step.answers:
            name = self.names[answer.token]
            self.answered[name] = to_recorded(answer.body, self.versions[name])

    def come(self, member_id: str = "", *, name: str = "", fresh_id: str = "", version: int = 9, **fields: Any) -> Any:
        """The answer to a JoinGroup with protocol `range` for foo, None while it is delayed."""
        body = {
            "member_id": member_id,
            "session_timeout": 10_000,
            "rebalance_timeout": 60_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscribed("foo")}],
            **fields,
        }
        return self.ask(name or member_id or fresh_id, "JoinGroup", version, body, fresh_id)

    def enter(self, *names: str) -> list[str]:
        """Dynamic members of these names join, and the join phase ends; their ids, the leader's first."""
        ids = [self.come(fresh_id=name)["member_id"] for name in names]
        for member_id in ids:
            self.come(member_id)
        self.wait(6_000 if len(ids) > 1 else 3_000)
        return ids

    def share(self, member_id: str, generation: int, sent: Mapping[str, Any] = NOTHING, **fields: Any) -> Any:
        """The answer to a SyncGroup, None while it is delayed; `assigns` has what a leader gives out.

        Without type or name of the protocol it is one of the version before these were asked for.
        """
        assigns = fields.pop("assigns", {})
        body = {
            "member_id": member_id,
            "generation_id": generation,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": i, "assignment": assignment(**part)} for i, part in assigns.items()],
            **fields,
            **sent,
        }
        version = 4 if None in (body["protocol_type"], body["protocol_name"]) else 5
        return self.ask(f"sync {member_id}", "SyncGroup", version, body)

    def pulse(self, member_id: str, generation: int, **fields: Any) -> Any:
        """The error of a Heartbeat, None for none."""
        body = {"member_id": member_id, "generation_id": generation, **fields}
        return self.ask(f"heartbeat {member_id}", "Heartbeat", 4, body)["error_code"]

    def go(self, *entries: str | tuple[str, str]) -> list[Any]:
        """The errors of a LeaveGroup, one by entry: a member id, or a member id and an instance id."""
        pairs = [(entry, None) if isinstance(entry, str) else entry for entry in entries]
        members = [{"member_id": member_id, "group_instance_id": instance_id} for member_id, instance_id in pairs]
        return [m["error_code"] for m in self.ask("leave", "LeaveGroup", 5, {"members": members})["members"]]

    def mix(self, member_id: str, *topics: str, owned: Mapping[str, list[int]] | None = None, **fields: Any) -> Any:
        """The answer to the JoinGroup of a classic member in a consumer group: it is never delayed."""
        metadata = subscribed(*(topics or ("foo",)), owned=owned, generation=fields.pop("generation", None))
        protocols = [{"name": fields.pop("protocol", "range"), "metadata": metadata}]
        return self.come(member_id, name=f"join {member_id}", **{"protocols": protocols, **fields})

    def mixed_in(self, name: str, *topics: str, **fields: Any) -> str:
        """A new classic member of a consumer group, joined and synced; its id."""
        member_id = str(self.mix("", *topics, fresh_id=name, **fields)["member_id"])
        self.mix(member_id, *topics, **fields)
        self.fetch(member_id)
        return member_id

    def fetch(self, member_id: str) -> dict[str, list[int]]:
        """What a SyncGroup of a classic member in a consumer group brings, by topic name."""
        return given(self.share(member_id, self.group.members[member_id].epoch)["assignment"])

    def beat_of(self, member_id: str) -> Any:
        """The error of a Heartbeat of such a member in its generation."""
        return self.pulse(member_id, self.group.members[member_id].epoch)

    def stable(self, *names: str) -> list[str]:
        """A stable classic group of these members in generation 1; the leader gives each one partition of foo."""
        ids = self.enter(*names)
        for follower in ids[1:]:
            self.share(follower, 1)
        self.share(ids[0], 1, assigns={member_id: {"foo": [i]} for i, member_id in enumerate(ids)})
        assert self.states == "Stable"
        return ids
