"""A consumer that may convert to the other protocol, as a component: each of its processes uses one protocol.

A restarted process may use the other one (`convert`), as in a migration in which clients are restarted one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fsm.check.kafka.application import ENDED, SUBSCRIBED, App
from fsm.check.kafka.classic.member import ClassicModel, Order, number_of
from fsm.check.kafka.classic.member import describe as describe_classic
from fsm.check.kafka.classic.shell import ClassicConsumer
from fsm.check.kafka.consumer.member import FIND, LIVES, SILENT, ConsumerModel, MemberModel, describe, id_of
from fsm.check.kafka.consumer.shell import Consumer
from fsm.check.kafka.looks import look_at_classic, look_at_consumer
from fsm.check.model import Choice, Component, Look, Missed, Received, Step, Undelivered

CONVERTED = ", and speaks the other protocol"
Either = Consumer | ClassicConsumer


class ConvertingConsumerModel:
    """Makes the component of one converting consumer."""

    def __init__(self, consumer: ConsumerModel, classic: ClassicModel, *, begins_classic: bool) -> None:
        self.name, self.kinds = consumer.name, consumer.setting.kinds
        self.consumer, self.classic, self.begins_classic = consumer, classic, begins_classic

    def component(self) -> Component:
        """The component; its features are those common to both protocols, of its current process."""
        mine, others = self.consumer.component(), self.classic.component()
        of_consumer = {
            **mine.features,
            "epoch": _epoch,
            "id": self._id,
            "speaks": self._speaks,
            "left": lambda _: 0,
            "keeps": lambda _: 0,
        }
        shared = [name for name in others.features if name in of_consumer]
        features = {name: _of_either(name, of_consumer, others.features) for name in shared}
        start = self.classic.new if self.begins_classic else self.consumer.new
        return Component(
            self.name,
            start,
            self.choices,
            self.step,
            features,
            describe=_describe,
            look=self.look,
            role="member",
            tables=(*mine.tables, *others.tables),
        )

    def _id(self, consumer: Consumer) -> int:
        return number_of(id_of(self.name, consumer.life))

    def _speaks(self, consumer: Consumer) -> int:
        is_active = consumer.app not in ENDED and consumer.member.state not in SILENT
        return 1 << self._id(consumer) if is_active else 0

    def model_of(self, state: Either, *, other: bool = False) -> MemberModel:
        """The model of the protocol of a process, or of the other protocol."""
        return self.classic if isinstance(state, ClassicConsumer) != other else self.consumer

    def choices(self, state: Either) -> Iterable[Choice]:
        """The choices of its protocol, and the start of its next process with the other protocol."""
        yield from self.model_of(state).choices(state)
        if "convert" in self.kinds and state.life + 1 < LIVES:
            if state.app in (App.DEAD, App.CLOSED):
                yield Choice(f"starts again{CONVERTED}", disturbance="convert")
            if state.app in SUBSCRIBED:
                yield Choice(f"is killed and starts again{CONVERTED}", disturbance="convert")

    def look(self, state: Either) -> Look:
        """The present process in detail."""
        if isinstance(state, ClassicConsumer):
            return look_at_classic(state)
        return look_at_consumer(state, self.consumer.known.all_names)

    def step(self, state: Either, given: Any) -> Step:
        """The step on an input; a response to a process that has ended changes nothing."""
        if isinstance(given, str) and given.endswith(CONVERTED):
            return self.model_of(state, other=True).begin(state.life + 1)
        match given:
            case Received(message=(order, _)) | Missed(message=(order, _)) | Undelivered(message=order):
                if order != FIND and isinstance(order, Order) != isinstance(state, ClassicConsumer):
                    return Step(state)
        return self.model_of(state).step(state, given)


Features = Mapping[str, Callable[[Any], int]]


def _of_either(name: str, of_consumer: Features, of_classic: Features) -> Callable[[Either], int]:
    return lambda state: (of_classic if isinstance(state, ClassicConsumer) else of_consumer)[name](state)


def _epoch(consumer: Consumer) -> int:
    return consumer.member.epoch


def _describe(state: Either) -> str:
    return describe_classic(state) if isinstance(state, ClassicConsumer) else describe(state)
