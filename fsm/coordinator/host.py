"""One coordinator with its environment in a broker: clock, tokens, timers, background tasks, metadata, log, fail-over.

    host = Host(Context(now_ms=0, image=Image(topics)))
    sent = host.send("app", ConsumerGroupHeartbeatRequest(...), now_ms=10)
    sent.token, sent.answers            # the answers that are due now: this request's, or those of earlier ones
    host.next_deadline_ms()             # when a timer is due
    host.advance(45_000)                # the answers of everything that is due by then
    host.change_topics({"orders": Topic(topic_id, 4)})
    host.describe("shop")
    host.fail_over()                    # another coordinator, from the log

The host does no IO and is deterministic: instants are arguments, and never run backwards unless the caller says so. It
holds only values, so `fork()` is free, and the two hosts are independent: for exploring alternatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from hashlib import blake2b
from operator import itemgetter
from typing import Any, NamedTuple

from fsm.coordinator import coordinator as steps
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.consumer_group import JOIN_GROUP_MEMBER_EPOCH
from fsm.coordinator.model.context import Context, Image, Topic
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.persistent import PersistentMap
from fsm.coordinator.model.step import Answer, Request, RequestBody, Step
from fsm.coordinator.storage.load import load
from fsm.coordinator.storage.replay import Replayed, replay_segment
from fsm.errors import InputError
from fsm.protocol.check import find_fault, quick_check
from fsm.protocol.codec import API_OF
from fsm.protocol.messages import (
    DISCONNECTED,
    ConsumerGroupHeartbeatRequest,
    DescribedConsumerGroup,
    DescribedGroup,
    JoinGroupRequest,
    SyncGroupRequest,
)
from fsm.protocol.record_batches import CONTROL, TRANSACTIONAL, Batch, LogRecord, batch_of, write_batch
from fsm.protocol.records import Record

HOST = "/127.0.0.1"
"""The default client host."""


class Sent(NamedTuple):
    """The result of a request."""

    token: int
    """Names the request in answers: its own may come later."""
    answers: tuple[Answer, ...]


class Appended(NamedTuple):
    """One entry of the log: a batch of records, or the end of a transaction."""

    at_ms: int
    records: tuple[Record, ...] = ()
    producer_id: int | None = None
    """The producer of the transaction; None outside a transaction."""
    commits: bool | None = None
    """Whether the transaction commits; None if it does not end."""


class _Log(NamedTuple):
    """The log as a chain from its end, so that forks share it."""

    last: Appended
    earlier: _Log | None


class Host:
    """A coordinator that is driven by its caller."""

    def __init__(
        self,
        context: Context | None = None,
        state: Coordinator | None = None,
        *,
        resolves: bool = True,
        keeps_log: bool = True,
        on_step: Callable[[Step[Coordinator]], None] | None = None,
    ) -> None:
        self.context = context or Context(0)
        """Clock, dialect, settings and metadata; may be replaced between two steps."""
        self.state = state or Coordinator()
        self.resolves = resolves
        """Whether regular expressions are resolved at once; otherwise by `resolve`."""
        self.keeps_log = keeps_log
        """Whether records are also kept here; otherwise `on_step` has to keep them."""
        self.on_step = on_step
        """Called with each step after it was taken."""
        self._tokens = 0
        self._log: _Log | None = None
        self._connections: PersistentMap[int, int] = PersistentMap()
        """The connection that each sender used last, by a hash."""

    @property
    def now_ms(self) -> int:
        """The instant of the last step."""
        return self.context.now_ms

    def fork(self) -> Host:
        """Another host in the same state. Both call the same `on_step`."""
        return copy(self)

    # Inputs

    def send(
        self,
        client_id: str,
        message: RequestBody,
        version: int | None = None,
        now_ms: int | None = None,
        *,
        client_host: str = HOST,
        fresh_id: str | None = None,
        token: int | None = None,
        connection: int | None = None,
    ) -> Sent:
        """Sends a client's request, by default in the newest version of its API and at the instant of the last step.

        `fresh_id` is the random part of a member id that the broker creates; by default it is derived from the token.
        `connection` is the number of the client's connection; a later one has a higher number. A dialect that closes
        older connections (F29) answers `DISCONNECTED` to a member that has used a later one, and to a join after one of
        its instance id on a later one; requests without a number are always handled.
        Raises `InputError`, without any change, for a message that is no request of a group coordinator, has a field of
        another type, or an unknown version.
        """
        is_good = _QUICK_CHECKS.get(type(message))
        if (
            is_good is None
            or not is_good(message)
            or (version is not None and (type(version) is not int or version < 0))
        ):
            _refuse(message, version)
        if version is None:
            version = API_OF[type(message)].newest
        self._tokens = self._tokens + 1 if token is None else token
        if now_ms is not None and now_ms != self.context.now_ms:
            self.context = self.context.at(now_ms)
        if connection is not None and not self._note_connection(message, connection):
            return Sent(self._tokens, (Answer(self._tokens, DISCONNECTED),))
        request = Request(self._tokens, client_id, client_host, version, message, fresh_id)
        step = steps.handle(self.state, request, self.context)
        self.take(step)
        if self.resolves and self.state.groups.resolving:
            self.resolve()
        return Sent(request.token, step.answers)

    def _note_connection(self, message: RequestBody, connection: int) -> bool:
        """Notes the connection of a request's senders; False if one of them has used a later one, which it keeps."""
        if Choice.OLDER_CONNECTION_IS_CLOSED not in self.context.dialect:
            return True
        keys = [_digest(sender) for sender in senders_of(message)]
        if any(self._connections.get(key, -1) > connection for key in keys):
            return False
        for key in keys:
            if self._connections.get(key, -1) < connection:
                self._connections = _with_connection(self._connections, key, connection)
        return True

    def advance(self, to_ms: int) -> tuple[Answer, ...]:
        """Advances the time; each timer that is due by then expires at its own instant. Returns the answers."""
        answers: tuple[Answer, ...] = ()
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= to_ms:
            answers += self.expire(max(deadline_ms, self.now_ms))
        self._set_clock(max(to_ms, self.now_ms))
        return answers

    def expire(self, now_ms: int) -> tuple[Answer, ...]:
        """Expires all due timers now, as a broker does that was late."""
        self._set_clock(now_ms)
        step = steps.handle_timer(self.state, self.context)
        self.take(step)
        if self.resolves:
            self.resolve()
        return step.answers

    def expire_member(self, group_id: str, member_id: str) -> tuple[Answer, ...]:
        """Ends the session of this member now, and no other timer; does nothing without a session."""
        step = steps.expire_member(self.state, group_id, member_id, self.context)
        self.take(step)
        return step.answers

    def next_deadline_ms(self) -> int | None:
        """The next deadline; None without a timer."""
        return self.state.groups.next_deadline_ms()

    def resolve(self, now_ms: int | None = None) -> None:
        """Ends the background tasks that resolve regular expressions."""
        self._set_clock(now_ms)
        for group_id in steps.resolutions(self.state):
            self.take(steps.handle_resolution(self.state, group_id, self.context))

    def fail_to_resolve(self) -> None:
        """Fails the background tasks that resolve regular expressions: the next request may start them again."""
        for group_id in steps.resolutions(self.state):
            self.take(steps.handle_failed_resolution(self.state, group_id, self.context))

    def change_topics(self, topics: Mapping[str, Topic]) -> None:
        """Sets the topics; offsets of deleted ones are deleted, too. Raises `InputError`."""
        for name, topic in topics.items():
            if not isinstance(name, str) or not isinstance(topic, Topic):
                raise InputError(f"{name!r} is {topic!r}", "topics", "give a Topic for each name")
        self.update(Image(PersistentMap(topics), self.context.image.version + 1))

    def update(self, image: Image) -> None:
        """Sets the metadata image; offsets of deleted topics are deleted, too."""
        before = self.context.image
        self.context = replace(self.context, image=image)
        self.state = steps.change_image(self.state, before, self.context)
        if gone := [name for name in before.topics if name not in image.topics]:
            self.take(steps.delete_topics(self.state, gone))

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        """Ends the producer's transaction, with or without offsets in this coordinator."""
        self.state = steps.end_transaction(self.state, producer_id, committed=commits)
        self._log = _Log(Appended(self.now_ms, producer_id=producer_id, commits=commits), self._log)

    def clean_up(self) -> None:
        """The cleanup that a broker runs every ten minutes: old offsets expire, groups without members and offsets are
        deleted.
        """
        self.take(steps.clean_up(self.state, self.context))

    def fail_over(self) -> Replayed:
        """Another coordinator takes over from the log; delayed requests get no answer."""
        found = replay_segment(self.segment(), self.context.dialect)
        self.take_over(found)
        return found

    def take_over(self, found: Replayed) -> None:
        """Sets the state that was loaded from a log; its members' timers start now."""
        self.state, self._connections = found.state, PersistentMap()
        self.take(load(found.state, self.context))

    def _set_clock(self, now_ms: int | None) -> None:
        if now_ms is not None and now_ms != self.context.now_ms:
            self.context = self.context.at(now_ms)

    def take(self, step: Step[Coordinator]) -> None:
        """Applies a step of its state from any source."""
        self.state = step.state
        if step.records and self.keeps_log:
            self._log = _Log(Appended(self.now_ms, step.records, step.producer_id), self._log)
        if self.on_step is not None:
            self.on_step(step)

    # Queries

    def describe(self, group_id: str) -> DescribedConsumerGroup | DescribedGroup | None:
        """The answer of ConsumerGroupDescribe or DescribeGroups; None for an unknown group."""
        return steps.describe(self.state, group_id, self.context)

    def list_appends(self) -> tuple[Appended, ...]:
        """The log so far: one entry per step with records."""

        def backwards() -> Iterator[Appended]:
            log = self._log
            while log is not None:
                yield log.last
                log = log.earlier

        return tuple(backwards())[::-1]

    @property
    def records(self) -> tuple[Record, ...]:
        """Every record of the log."""
        return tuple(record for one in self.list_appends() for record in one.records)

    def segment(self) -> bytes:
        """The log as bytes, as a broker stores it."""
        data = bytearray()
        offset = 0
        for one in self.list_appends():
            batch = _batch(offset, one)
            data += write_batch(batch)
            offset += len(batch.records)
        return bytes(data)


def senders_of(message: Any) -> tuple[tuple[str, ...], ...]:
    """Who sends a request over one connection: its group's member, if it names one, and the process with its instance
    id, if it joins as a new member.
    """
    if type(message) not in _OF_MEMBERS:
        return ()
    group_id, member_id = message.group_id, message.member_id
    instance_id = _instance_that_joins(message)
    of_member = ((group_id, member_id),) if member_id else ()
    return of_member if instance_id is None else (*of_member, (group_id, "", instance_id))


def _instance_that_joins(message: Any) -> str | None:
    """The instance id of a join that may replace another process. No other request names the process by it: a zombie
    that has been replaced has to learn of that.
    """
    if isinstance(message, JoinGroupRequest):
        return None if message.member_id else message.group_instance_id
    if isinstance(message, ConsumerGroupHeartbeatRequest) and message.member_epoch == JOIN_GROUP_MEMBER_EPOCH:
        return message.instance_id
    return None


def _digest(sender: tuple[str, ...]) -> int:
    return int.from_bytes(blake2b(repr(sender).encode(), digest_size=8).digest(), "big")


def _with_connection(known: PersistentMap[int, int], member: int, connection: int) -> PersistentMap[int, int]:
    """The connections with that of a member. Of too many the older half is forgotten."""
    if len(known) >= _MOST_CONNECTIONS and member not in known:
        newest = sorted(known.items(), key=itemgetter(1))[_MOST_CONNECTIONS // 2 :]
        known = PersistentMap(newest)
    return known.set(member, connection)


_OF_MEMBERS = frozenset({ConsumerGroupHeartbeatRequest, JoinGroupRequest, SyncGroupRequest})
"""Not heartbeats of the classic protocol: franz-go sends those on another connection than JoinGroup and SyncGroup."""
_MOST_CONNECTIONS = 100_000


def _batch(offset: int, one: Appended) -> Batch:
    if one.producer_id is None:
        return batch_of(offset, one.records, one.at_ms)
    if one.commits is None:
        return batch_of(offset, one.records, one.at_ms, producer_id=one.producer_id, attributes=TRANSACTIONAL)
    marker = LogRecord(offset, one.at_ms, b"\0\0" + int(one.commits).to_bytes(2, "big"), b"\0\0\0\0\0\0")
    return Batch(offset, (marker,), attributes=TRANSACTIONAL | CONTROL, producer_id=one.producer_id)


def _refuse(message: Any, version: int | None) -> None:
    """Raises `InputError` for an invalid request; returns for a valid one that failed only the fast check."""
    if type(message) not in steps.HANDLERS:
        known = ", ".join(request.__name__ for request in steps.HANDLERS)
        raise InputError(f"not a request of the group coordinator: {message!r}", remedy=f"send one of {known}")
    if fault := find_fault(message):
        raise InputError(f"{type(message).__name__}{fault}")
    if version is not None and (type(version) is not int or version < 0):
        raise InputError(f"{version!r} is not a version", "version", "give a whole number of at least 0")


_QUICK_CHECKS = {request: quick_check(request) for request in steps.HANDLERS}
