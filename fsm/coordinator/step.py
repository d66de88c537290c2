"""What one step of the coordinator gives: the state afterwards, answers, records.

Every request is one atomic step. An error answer comes with the same state and without records.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from fsm.coordinator.messages import Answer
from fsm.coordinator.records import Record
from fsm.table import Symbol

State = TypeVar("State")
Other = TypeVar("Other")


class Happened(NamedTuple):
    """One step of a table that the coordinator took."""

    member_id: str
    """Whose table it is; empty for the group's own."""
    state: Symbol
    event: Symbol
    target: Symbol


class Step(NamedTuple, Generic[State]):
    """The outcome of a step; a batch of records is stored whole or not at all."""

    state: State
    answers: tuple[Answer, ...] = ()
    """Those that are due now, of this request or of earlier ones; their order says nothing."""
    records: tuple[Record, ...] = ()
    happened: tuple[Happened, ...] = ()
    """Which rows of the tables were taken, in their order."""
    producer_id: int | None = None
    """Whose transaction the records belong to: they are a transactional batch of their own. None for no transaction."""

    def leading_to(self, state: Other) -> Step[Other]:
        """The same with another state around it."""
        return Step(state, self.answers, self.records, self.happened, self.producer_id)

    def after(self, earlier: Step[Other]) -> Step[State]:
        """This step with what an earlier one gave in front of its own."""
        return Step(
            self.state,
            (*earlier.answers, *self.answers),
            (*earlier.records, *self.records),
            (*earlier.happened, *self.happened),
        )
