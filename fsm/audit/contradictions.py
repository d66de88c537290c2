"""What the records of one member say that cannot all be true, though no step of its table is wrong.

* What cannot be true of its epochs, generations and ids is the matter of `epochs`.
* Assignments come, and callbacks begin, in certain states only. Where one does in another state, lines are missing: a
  step, or all steps of a rebalance, after which the member is where it was.
* A poll timeout after which the member did not leave: both are one action of one thread. Members of librdkafka are
  the exception in the consumer protocol: they leave when the application polls again.

What stands in two files that follow each other is not judged where one between them may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fsm.audit.epochs import Epochs, contradiction, leaves
from fsm.audit.findings import Finding
from fsm.audit.life import LIBRDKAFKA, Living
from fsm.audit.limits import REORDER_MS, SETTLED_MS
from fsm.audit.rows import Place, Seen
from fsm.tables.classic_member import TABLE as CLASSIC
from fsm.tables.consumer_member import TABLE as CONSUMER
from fsm.tables.rdkafka_join_state import TABLE as RDKAFKA
from fsm.trace import Kind


class Contradictions:
    """Follows one life."""

    def __init__(self, living: Living) -> None:
        self.living = living
        self.epochs = Epochs(living)
        self.steps = False
        """The log prints steps."""
        self.at: dict[str, tuple[str, int, Place]] = {}
        """Where each machine is, since when, and the step that led there."""
        self.given: Place | None = None
        """Where a classic member got the assignment of its generation; it gets one in each."""
        self.failed = False
        """A callback failed in this generation, whose assignment then comes again."""
        self.expired: tuple[int, Place] | None = None
        """A poll timeout that nothing followed yet."""

    def see(self, seen: Seen) -> Iterator[Finding]:
        """The findings this record completes."""
        yield from self._stays(seen)
        yield from self.epochs.see(seen)
        step = _STEPS.get(seen.record.kind)
        if step is not None and self._is_judged:
            yield from step(self, seen)

    @property
    def _is_judged(self) -> bool:
        return self.living.in_order or self.living.dealt

    # -- states -----------------------------------------------------------------------------------------

    def _transition(self, seen: Seen) -> Iterator[Finding]:
        record, place = seen
        self.steps = True
        self.at[record.machine] = (record.next_state, record.ts_ms, place)
        self.given, self.failed = None, False
        return iter(())

    def _fails(self, _seen: Seen) -> Iterator[Finding]:
        self.failed = True
        return iter(())

    def _assigned(self, seen: Seen) -> Iterator[Finding]:
        yield from self._begins(seen)
        if CLASSIC.name not in self.at or self.living.dealt:
            return
        before, self.given = self.given, seen.place
        if before is not None and not self.failed and self.living.unbroken(before.file, seen.place.file):
            ts_ms = seen.record.ts_ms
            summary = f"{self.living.member} got two assignments in one generation; lines are missing"
            yield contradiction(self.living, ts_ms, ts_ms, summary, [before, seen.place])

    def _begins(self, seen: Seen) -> Iterator[Finding]:
        """What begins here begins in certain states only."""
        record, place = seen
        if self.living.dealt:
            return
        for machine, (state, since_ms, since) in self.at.items():
            allowed = _BEGINS_IN.get((machine, record.kind))
            apart = record.kind in _OTHER_THREAD and record.ts_ms - since_ms < REORDER_MS
            if allowed is None or state in allowed or apart or not self.living.unbroken(since.file, place.file):
                continue
            del self.at[machine]
            what = _WHAT[record.kind]
            summary = f"{self.living.member} {what} while it was {state}; lines are missing"
            yield contradiction(self.living, record.ts_ms, record.ts_ms, summary, [since, place])
            return

    # -- poll timeouts ----------------------------------------------------------------------------------

    def _expires(self, seen: Seen) -> Iterator[Finding]:
        away = not self.living.in_group or self.living.closing_ms is not None
        sends_later = self.living.client == LIBRDKAFKA and self.epochs.joined is None
        if self.steps and not away and not sends_later:
            self.expired = (seen.record.ts_ms, seen.place)
        return iter(())

    def _stays(self, seen: Seen) -> Iterator[Finding]:
        """Nothing in time says that the member leaves."""
        if self.expired is None or not self._is_judged:
            return
        ts_ms, place = self.expired
        late = seen.record.ts_ms - ts_ms > SETTLED_MS
        left = leaves(seen.record) or seen.record.kind is Kind.LEAVE_SENT
        if late or (left and seen.place != place):
            self.expired = None
        if late:
            yield contradiction(
                self.living,
                ts_ms,
                seen.record.ts_ms,
                f"{self.living.member} said that its poll timeout had expired, but did not leave; lines are missing",
                [place, seen.place],
            )


_BEGINS_IN: dict[tuple[str, Kind], tuple[str, ...]] = {
    (CLASSIC.name, Kind.TARGET): ("STABLE",),
    (CLASSIC.name, Kind.RECONCILING): ("STABLE",),
    (CLASSIC.name, Kind.ASSIGN_BEGIN): ("STABLE",),
    (CONSUMER.name, Kind.RECONCILING): ("RECONCILING",),
    (CONSUMER.name, Kind.ASSIGN_BEGIN): ("RECONCILING",),
    (RDKAFKA.name, Kind.RECONCILING): ("INIT", "STEADY"),
    (RDKAFKA.name, Kind.ASSIGN_BEGIN): ("WAIT_ASSIGN_CALL",),
    (RDKAFKA.name, Kind.REVOKE_BEGIN): ("WAIT_UNASSIGN_CALL",),
    (RDKAFKA.name, Kind.LOST_BEGIN): ("WAIT_UNASSIGN_CALL",),
}
"""In which states of its machine a client does something, where it can be in no others."""
_OTHER_THREAD = (Kind.ASSIGN_BEGIN,)
"""What Java prints on another thread than its steps."""
_WHAT = {
    Kind.TARGET: "got an assignment",
    Kind.RECONCILING: "got an assignment",
    Kind.ASSIGN_BEGIN: "got an assignment",
    Kind.REVOKE_BEGIN: "gave an assignment up",
    Kind.LOST_BEGIN: "lost an assignment",
}

_STEPS: dict[Kind, Callable[[Contradictions, Seen], Iterator[Finding]]] = {
    Kind.TRANSITION: Contradictions._transition,
    Kind.TARGET: Contradictions._begins,
    Kind.RECONCILING: Contradictions._begins,
    Kind.ASSIGN_BEGIN: Contradictions._assigned,
    Kind.CALLBACK_FAILED: Contradictions._fails,
    Kind.REVOKE_BEGIN: Contradictions._begins,
    Kind.LOST_BEGIN: Contradictions._begins,
    Kind.POLL_EXPIRED: Contradictions._expires,
}
