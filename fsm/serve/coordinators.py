"""The group coordinators of the brokers: one for each partition of `__consumer_offsets`, at the broker that leads it.

The partition of a group is computed as in Kafka, so `kafka-consumer-groups` and logs agree on it. A coordinator starts
when a request first needs it. When its partition moves, the new leader loads the log, and delayed requests get no
answer.

Source: `GroupCoordinatorService.partitionFor`, `KafkaApis` of apache/kafka 4.4 for requests that name several groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any
from uuid import UUID

from fsm.coordinator import coordinator as steps
from fsm.coordinator.classic.responses import PRINTED
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.host import Host
from fsm.coordinator.model import hash_order
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.context import BrokerConfig, Context, Image
from fsm.coordinator.model.groups import Groups
from fsm.coordinator.model.step import Answer, Request, Step
from fsm.coordinator.storage.replay import replay_segment
from fsm.protocol import messages as m
from fsm.protocol.error_codes import ErrorCode
from fsm.serve.partition_logs import GroupLog
from fsm.serve.refusals import GROUPS_SINCE
from fsm.serve.requests import RequestContext

MISSING_IS_ERROR_SINCE = 6
"""The version of DescribeGroups from which on an unknown group is an error, not a dead group."""
MOST_STORED = 256 << 20
"""The bytes of all logs; their state takes several times as much memory."""
CLASSIC, CONSUMER = "classic", "consumer"

Removal = tuple[str, str]
"""Group and member that a timer removed."""


class Coordinators:
    """The coordinators, the broker that leads each, and their logs."""

    def __init__(self, context: Context, leaders: list[int], on_append: Callable[[int, bytes], None]) -> None:
        """`leaders` has the broker of each partition; `on_append` is called with the partition and its new bytes."""
        self.context = context
        self.leaders = leaders
        self.logs: dict[int, GroupLog] = {}
        self.on_append = on_append
        self._hosts: dict[int, Host] = {}
        self._deadlines: list[tuple[int, int]] = []
        """(when, partition): the first entry of a partition may be outdated, which is checked when it is due."""
        self._armed: dict[int, int] = {}

    # Partitions and leaders

    def partition_of(self, group_id: str) -> int:
        """The partition of the group's records."""
        return hash_order.partition_of(group_id, len(self.leaders))

    def leader_of(self, group_id: str) -> int:
        """The broker that coordinates the group."""
        return self.leaders[self.partition_of(group_id)]

    def lead(self, partition: int, broker: int, now_ms: float) -> None:
        """Moves the partition: from now on this broker coordinates its groups, loaded from the log."""
        self.leaders[partition] = broker
        if partition in self._hosts:
            del self._hosts[partition]
            self._host(partition, now_ms)

    def load(self, partition: int, log: GroupLog, now_ms: float) -> None:
        """Sets the partition's log, from an earlier run."""
        self.logs[partition] = log
        self._host(partition, now_ms)

    def _host(self, partition: int, now_ms: float) -> Host:
        """The partition's coordinator at this instant, in whole milliseconds."""
        host, at_ms = self._hosts.get(partition), int(now_ms)
        if host is None:
            host = self._hosts[partition] = self._start(partition, at_ms)
        elif host.context.now_ms != at_ms:
            host.context = host.context.at(at_ms)
        return host

    def _start(self, partition: int, now_ms: int) -> Host:
        log = self.logs.setdefault(partition, GroupLog())

        def store(step: Step[Coordinator]) -> None:
            if step.records:
                self.on_append(partition, log.append(step.records, host.now_ms))

        context = replace(self.context, now_ms=now_ms)
        host = Host(replace(context, image=Image()), on_step=store, keeps_log=False)
        host.take_over(replay_segment(log.segment(), context.dialect))
        host.update(context.image)
        self._arm(partition, host)
        return host

    # Requests

    def send(self, message: Any, context: RequestContext) -> list[Answer]:
        """Handles a request about groups; returns all responses that are ready, also to other requests."""
        answer = _WHOLE.get(type(message))
        if answer is not None and (
            type(message) is not m.OffsetFetchRequest or context.version >= GROUPS_SINCE[m.OffsetFetchRequest]
        ):
            return [Answer(context.token, answer(self, message, context))]
        partition = self.partition_of(message.group_id)
        if self.leaders[partition] != context.broker:
            refusal = ErrorCode.NOT_COORDINATOR
        elif self._brings_more(partition, message, context.now_ms) and self.is_full:
            refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            return self._forward(partition, message, context)
        request = Request(context.token, context.client_id, context.client_host, context.version, message)
        return [Answer(context.token, steps.refuse(request, refusal, self.context))]

    @property
    def is_full(self) -> bool:
        """Whether new groups and members are refused because the logs are too large."""
        return sum(log.size for log in self.logs.values()) > MOST_STORED

    def _brings_more(self, partition: int, message: Any, now_ms: float) -> bool:
        """Whether the request may add a group or a member."""
        if type(message) is m.ConsumerGroupHeartbeatRequest:
            if message.member_epoch:
                return False
        elif type(message) not in (m.JoinGroupRequest, m.OffsetCommitRequest):
            return False
        group = self._host(partition, now_ms).state.groups.get(message.group_id)
        return group is None or (
            type(message) is not m.OffsetCommitRequest and message.member_id not in group.members.by_id
        )

    def _forward(self, partition: int, message: Any, context: RequestContext) -> list[Answer]:
        """Passes a request to the partition's coordinator."""
        token, _, connection, client_id, client_host, version, now_ms, random = context
        host = self._host(partition, now_ms)
        fresh_id = str(UUID(int=random.getrandbits(128), version=4)) if type(message) is m.JoinGroupRequest else None
        sent = host.send(
            client_id, message, version, client_host=client_host, fresh_id=fresh_id, token=token, connection=connection
        )
        self._arm(partition, host)
        return list(sent.answers)

    def _refuses(self, group_id: str, context: RequestContext) -> ErrorCode | None:
        return None if self.leader_of(group_id) == context.broker else ErrorCode.NOT_COORDINATOR

    def _forward_one(self, group_id: str, message: Any, context: RequestContext) -> Any:
        """The coordinator's answer to a request about one group, which waits for nothing."""
        (answer,) = self._forward(self.partition_of(group_id), message, context)
        return answer.body

    def _fetch_offsets(self, message: m.OffsetFetchRequest, context: RequestContext) -> m.OffsetFetchResponse:
        def one(group: m.OffsetFetchRequestGroup) -> m.OffsetFetchResponseGroup:
            if refusal := self._refuses(group.group_id, context):
                return m.OffsetFetchResponseGroup(group.group_id, (), refusal)
            sent = m.OffsetFetchRequest(groups=(group,), require_stable=message.require_stable)
            found: m.OffsetFetchResponseGroup = self._forward_one(group.group_id, sent, context).groups[0]
            return found

        return m.OffsetFetchResponse(groups=tuple(map(one, message.groups)))

    def _delete(self, message: m.DeleteGroupsRequest, context: RequestContext) -> m.DeleteGroupsResponse:
        def one(group_id: str) -> m.DeletableGroupResult:
            if refusal := self._refuses(group_id, context):
                return m.DeletableGroupResult(group_id, refusal)
            sent = m.DeleteGroupsRequest((group_id,))
            found: m.DeletableGroupResult = self._forward_one(group_id, sent, context).results[0]
            return found

        return m.DeleteGroupsResponse(results=tuple(map(one, dict.fromkeys(message.groups_names))))

    def _describe_classic(self, message: m.DescribeGroupsRequest, context: RequestContext) -> m.DescribeGroupsResponse:
        def one(group_id: str) -> m.DescribedGroup:
            refusal = self._refuses(group_id, context)
            if refusal:
                return m.DescribedGroup(refusal, None, group_id)
            found = self.describe(group_id, context.now_ms)
            if isinstance(found, m.DescribedGroup):
                return found
            missing = ErrorCode.GROUP_ID_NOT_FOUND if context.version >= MISSING_IS_ERROR_SINCE else ErrorCode.NONE
            why = f"Group {group_id} not found." if found is None else f"Group {group_id} is not a classic group."
            return m.DescribedGroup(missing, why, group_id, "Dead")

        return m.DescribeGroupsResponse(groups=tuple(map(one, message.groups)))

    def _describe_consumer(
        self, message: m.ConsumerGroupDescribeRequest, context: RequestContext
    ) -> m.ConsumerGroupDescribeResponse:
        def one(group_id: str) -> m.DescribedConsumerGroup:
            refusal = self._refuses(group_id, context)
            found = None if refusal else self.describe(group_id, context.now_ms)
            if isinstance(found, m.DescribedConsumerGroup):
                return found
            why = f"Group {group_id} not found." if found is None else f"Group {group_id} is not a consumer group."
            code = refusal or ErrorCode.GROUP_ID_NOT_FOUND
            return m.DescribedConsumerGroup(code, None if refusal else why, group_id)

        return m.ConsumerGroupDescribeResponse(groups=tuple(map(one, message.group_ids)))

    def _list(self, message: m.ListGroupsRequest, context: RequestContext) -> m.ListGroupsResponse:
        states = {state.lower() for state in message.states_filter}
        types = {kind.lower() for kind in message.types_filter}
        found = (group for partition, group in self._list_groups() if self.leaders[partition] == context.broker)
        return m.ListGroupsResponse(
            groups=tuple(
                group
                for group in sorted(found)
                if (not states or group.group_state.lower() in states) and (not types or group.group_type in types)
            )
        )

    def _list_groups(self) -> Iterator[tuple[int, m.ListedGroup]]:
        for partition, host in sorted(self._hosts.items()):
            for group_id, group in host.state.groups.items():
                if isinstance(group, ClassicGroup):
                    yield partition, m.ListedGroup(group_id, group.protocol_type or "", PRINTED[group.state], CLASSIC)
                else:
                    state = group.state.name.capitalize()
                    yield partition, m.ListedGroup(group_id, CONSUMER, state, CONSUMER)

    def group_ids(self) -> list[str]:
        """Every group, sorted."""
        return sorted(group.group_id for _, group in self._list_groups())

    def describe(self, group_id: str, now_ms: float) -> m.DescribedConsumerGroup | m.DescribedGroup | None:
        """The group as in the describe APIs; None for an unknown group."""
        return self._host(self.partition_of(group_id), now_ms).describe(group_id)

    # Other inputs

    def update(self, now_ms: float, image: Image | None = None, config: BrokerConfig | None = None) -> None:
        """Changes topics or settings."""
        self.context = replace(self.context, image=image or self.context.image, config=config or self.context.config)
        for partition, host in sorted(self._hosts.items()):
            host.context = replace(host.context, now_ms=int(now_ms), config=self.context.config)
            if image is not None:
                host.update(image)
            self._arm(partition, host)

    def clean_up(self, now_ms: float) -> None:
        """Expires old offsets and groups without members and offsets, as brokers do every ten minutes."""
        for partition in sorted(self._hosts):
            self._host(partition, now_ms).clean_up()

    def next_deadline_ms(self) -> int | None:
        """The instant at which a timer may be due; None without a timer."""
        return self._deadlines[0][0] if self._deadlines else None

    def advance(self, now_ms: float) -> tuple[list[Answer], list[Removal]]:
        """Fires all timers that are due; returns the responses and the members that were removed."""
        answers: list[Answer] = []
        removed: list[Removal] = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, partition = heappop(self._deadlines)
            self._armed.pop(partition, None)
            host = self._hosts.get(partition)
            if host is None:
                continue
            due_ms = host.next_deadline_ms()
            if due_ms is not None and due_ms <= now_ms:
                before = host.state.groups
                answers += host.expire(int(now_ms))
                removed += _find_removed(before, host.state.groups, _due(before, now_ms))
            self._arm(partition, host)
        return answers, removed

    def expire(self, group_id: str, member_id: str, now_ms: float) -> tuple[list[Answer], list[Removal]]:
        """Ends this member's session and no other timer; nothing happens if it has none."""
        partition = self.partition_of(group_id)
        host = self._host(partition, now_ms)
        before = host.state.groups
        answers = host.expire_member(group_id, member_id)
        self._arm(partition, host)
        return list(answers), _find_removed(before, host.state.groups, [group_id])

    def _arm(self, partition: int, host: Host) -> None:
        due_ms = host.next_deadline_ms()
        if due_ms is not None and due_ms < self._armed.get(partition, due_ms + 1):
            self._armed[partition] = due_ms
            heappush(self._deadlines, (due_ms, partition))


def _due(groups: Groups, now_ms: float) -> list[str]:
    """The groups with a due timer."""
    return [group_id for chunk in groups.deadlines for due_ms, group_id in chunk if due_ms <= now_ms]


def _find_removed(before: Groups, after: Groups, group_ids: Iterable[str]) -> list[Removal]:
    """Members of these groups that are no longer there."""
    found = []
    for group_id in group_ids:
        was, now = before.get(group_id), after.get(group_id)
        if was is not None and now is not was:
            left = frozenset() if now is None else frozenset(now.members.by_id)
            found += [(group_id, member_id) for member_id in sorted(frozenset(was.members.by_id) - left)]
    return found


_WHOLE: dict[type[Any], Callable[..., Any]] = {
    m.OffsetFetchRequest: Coordinators._fetch_offsets,
    m.DeleteGroupsRequest: Coordinators._delete,
    m.DescribeGroupsRequest: Coordinators._describe_classic,
    m.ConsumerGroupDescribeRequest: Coordinators._describe_consumer,
    m.ListGroupsRequest: Coordinators._list,
}
"""Requests that name several groups, or none."""
