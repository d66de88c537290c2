"""What one step of the coordinator gives: the state afterwards, answers, records.

Every request is one atomic step. An error answer comes with the same state and without records.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from fsm.coordinator.messages import Answer
from fsm.coordinator.records import Record

State = TypeVar("State")
Other = TypeVar("Other")


class Step(NamedTuple, Generic[State]):
    """The outcome of a step; a batch of records is stored whole or not at all."""

    state: State
    answers: tuple[Answer, ...] = ()
    """Those that are due now, of this request or of earlier ones; their order says nothing."""
    records: tuple[Record, ...] = ()

    def leading_to(self, state: Other) -> Step[Other]:
        """The same answers and records with another state around them."""
        return Step(state, self.answers, self.records)

    def after(self, earlier: Step[Other]) -> Step[State]:
        """This step with the answers and records of an earlier one in front of its own."""
        return Step(self.state, (*earlier.answers, *self.answers), (*earlier.records, *self.records))
