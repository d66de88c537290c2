"""Followers: small classes that take the records of one process and return rows and findings.

    for known in stream:
        yield from follower.see(known)
    yield from follower.finish()

A row is returned as soon as it is complete. State is plain values, so that a follower can be saved between two records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar

from fsm.audit.findings import Cause, Finding, FindingKind, finding
from fsm.audit.rows import (
    At,
    Begun,
    End,
    Ended,
    Interval,
    Known,
    Life,
    ObservedTransition,
    Order,
    RowOfGroup,
)
from fsm.trace import Kind, Partition

Row = RowOfGroup | ObservedTransition | Finding
Rows = Iterable[Row]
Step = Callable[[Any, Known], Rows | None]
_Step = TypeVar("_Step", bound=Step)


def on(*kinds: Kind) -> Callable[[_Step], _Step]:
    """Decorates the method of a follower that takes records of these kinds."""

    def mark(step: _Step) -> _Step:
        step.kinds = kinds  # type: ignore[attr-defined]  # functions have attributes
        return step

    return mark


class Follower:
    """Follows one aspect of a process. Methods decorated with `on` are its steps."""

    steps: ClassVar[dict[Kind, Step]] = {}
    every: ClassVar[bool] = False
    """`see` takes every record, also those without a step."""

    def __init_subclass__(cls) -> None:
        cls.steps = {kind: step for step in vars(cls).values() for kind in getattr(step, "kinds", ())}

    def see(self, known: Known) -> Rows:
        step = self.steps.get(known.record.kind)
        return () if step is None else step(self, known) or ()

    def finish(self) -> Rows:
        """The rows that the end of the process, or of its log, completes."""
        return ()


@dataclass(frozen=True, slots=True)
class Void:
    """When and why the coordinator stopped counting a member as owner."""

    ms: int
    cause: Cause


@dataclass(slots=True)
class Process:
    """A process, as shared by all its followers."""

    group: str
    member: str
    number: int
    start: At
    whole_start: bool
    """The log shows its start."""
    last: At
    order: Order = Order.KNOWN
    ended: Ended = Ended.LOG_ENDED
    client_id: str = ""
    instance_id: str = ""
    member_id: str = ""
    protocol: str = ""
    version: str = ""
    in_group: bool = False
    doubtful_ms: int | None = None
    """Since when its lines may include those of another process."""
    settings: dict[str, str] = field(default_factory=dict)

    def see(self, known: Known) -> None:
        """Updates the process from the record."""
        record = known.record
        self.last, self.order = known.at, known.order
        if known.doubtful and self.doubtful_ms is None:
            self.doubtful_ms = record.ts_ms
        self.client_id = record.client_id or self.client_id
        self.instance_id = record.instance_id or self.instance_id
        self.member_id = record.member_id or self.member_id

    def end(self, end: End) -> None:
        self.last, self.ended = end.last, end.how

    def setting_ms(self, name: str) -> int | None:
        """A setting in milliseconds; None if it was not printed or is not a number."""
        text = self.settings.get(name, "")
        return int(text) if text.isdecimal() else None

    @property
    def session_timeout_ms(self) -> int | None:
        return self.setting_ms("session.timeout.ms")

    @property
    def heartbeat_interval_ms(self) -> int | None:
        return self.setting_ms("heartbeat.interval.ms")

    @property
    def max_poll_interval_ms(self) -> int | None:
        return self.setting_ms("max.poll.interval.ms")

    def finding(
        self,
        kind: FindingKind,
        summary: str,
        shown: Sequence[At],
        *,
        start_ms: int | None = None,
        end_ms: int | None = None,
        partitions: Iterable[Partition] = (),
        cause: Cause = Cause.NONE,
    ) -> Finding:
        """A finding about this member, with its lines; from the first to the last of them if no time is given."""
        start_ms = shown[0].ts_ms if start_ms is None else start_ms
        end_ms = shown[-1].ts_ms if end_ms is None else end_ms
        about = self.group, self.member, start_ms, end_ms, summary, [at.place for at in shown]
        return finding(kind, *about, partitions=partitions, cause=cause)

    def interval(
        self,
        partition: Partition,
        start: At,
        end: At,
        begun: Begun,
        ended: Ended,
        *,
        exact: bool,
        doubtful: bool,
        void: Void | None,
        turn_ms: int | None,
    ) -> Interval:
        return Interval(
            group=self.group,
            member=self.member,
            topic=partition[0],
            partition=partition[1],
            start_ms=start.ts_ms,
            end_ms=max(start.ts_ms, end.ts_ms),
            begun=begun,
            ended=ended,
            end_exact=exact,
            doubtful=doubtful,
            void_ms=void.ms if void else None,
            void_cause=void.cause.value if void else "",
            life=self.number,
            start=start.place,
            end=end.place,
            turn_ms=turn_ms,
        )

    def life(self) -> Life:
        values: dict[str, Any] = {name: getattr(self, name) for name in _OF_LIFE}
        (start_ms, start, _), (end_ms, end, _) = self.start, self.last
        return Life(**values, start_ms=start_ms, end_ms=end_ms, start=start, end=end, settings=dict(self.settings))


_OF_LIFE = [one.name for one in fields(Life) if one.name not in ("start_ms", "end_ms", "start", "end", "settings")]
"""Attributes of a process that its life has under the same names."""
