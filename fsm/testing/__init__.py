"""Tests for an implementation of your own, taken from a table: coverage, tours, and random runs with an oracle.

Three things to do with a table of `fsm.tables`, or with one of your own:

* **Which rows did my tests take?** `pytest --fsm-coverage` prints every row that no test took, with its clause
  (`fsm.testing.plugin`; `fsm.testing.coverage` without pytest).
* **Take them all.** `all_transitions(TABLE).params()` are test cases that take every row, in the fewest steps there
  are; `n_switch(TABLE, 1)` every pair of rows; `all_refusals(TABLE)` every event that must be refused
  (`fsm.testing.tours`, `fsm.testing.trial`).
* **Take them in ways nobody thought of.** `machine_from(TABLE, MyAdapter).TestCase` is a Hypothesis state machine
  (`fsm.testing.stateful`).

An adapter says how to reach the implementation, and that is all a user writes:

    class MyAdapter(Adapter):
        refuses = (UnexpectedMessage,)           # optional: what an illegal event raises

        def __init__(self):
            self.consumer = MyConsumer(self.note)
            self.noted = []

        def note(self, order):
            self.noted.append(order)             # "commit_offsets", "leave_group", ...

        def send(self, event):
            self.noted.clear()
            HAPPENS[event](self.consumer)        # {Event.LEFT: MyConsumer.left, ...}
            return self.noted

        def state(self):
            return self.consumer.status

    @pytest.mark.parametrize("case", all_transitions(TABLE, ignored=True).params())
    def test_my_consumer_does_what_the_notes_say(case):
        follow(case, MyAdapter)

    TestMyConsumer = machine_from(TABLE, MyAdapter).TestCase

or all of it at once, of a table in a file, too:

    TestMyDoor = suite_from("door.yaml", DoorAdapter)

A difference is shown by the shortest sequence of events there is, with the row of the table. Here a prototype takes the
callback of an older reconciliation for that of the one under way:

    consumer-member-notes: the implementation differs after 4 events
        1  in UNSUBSCRIBED  SUBSCRIBED
        2  in JOINING       JOIN_HEARTBEAT_SENT
        3  in STABLE        ASSIGNMENT_RECEIVED
        4  in RECONCILING   ABANDONED_STEP_ENDED
      table     RECONCILING on ABANDONED_STEP_ENDED: DROP_RECONCILIATION, RECONCILE [list: UNSUBSCRIBING, FENCED (how to cancel)]
      expected  state RECONCILING; effects DROP_RECONCILIATION, RECONCILE
      got       state ACK; effects HEARTBEAT_NOW

For tests of an embedded member there are scripted coordinators: `ScriptedCoordinator` of
`fsm.testing.coordinator` for KIP-848, `ScriptedClassicCoordinator` of `fsm.testing.classic_coordinator` for classic
groups. Each is the transport of all members of one group, answers on the calling thread, and records its requests:

    group = ScriptedCoordinator(["t"])
    group.give({"M": [("t", 0), ("t", 1)]})        # the target from now on
    with Consumer(ConsumerConfig("g"), group, member_id="M") as consumer:
        consumer.subscribe(["t"], listener)
        ...
        group.fence("M")                           # fenced; joins again by itself

For tests of a Kafka client in any language there is a real broker on loopback that starts in milliseconds and injects faults: `LiveBroker`, the fixture `broker` of the pytest plugin.

Names:

* `Adapter`, `follow`, `shorten`, `Mismatch`: an implementation compared with a table
* `all_transitions`, `n_switch`, `all_states`, `each_transition`, `all_refusals`, `Tour`, `Case`: tours of a table
* `machine_from`: random runs; needs Hypothesis
* `suite_from`: every row, every refusal and random runs, as one class of tests
* `ScriptedCoordinator`, `ScriptedClassicCoordinator`: coordinators for embedded members
* `LiveBroker`: a broker for tests of clients, with scripted faults
* `Recorder`: records the rows taken, as for `pytest --fsm-coverage`

A module is loaded when one of its names is used: pytest loads the plugin in every session.
"""  # noqa: E501

from typing import TYPE_CHECKING

from fsm.exports import on_demand

if TYPE_CHECKING:
    from fsm.testing.broker import LiveBroker
    from fsm.testing.classic_coordinator import ScriptedClassicCoordinator
    from fsm.testing.coordinator import ScriptedCoordinator
    from fsm.testing.coverage import Recorder
    from fsm.testing.stateful import machine_from, suite_from
    from fsm.testing.tours import Case, Tour, all_refusals, all_states, all_transitions, each_transition, n_switch
    from fsm.testing.trial import Adapter, Mismatch, follow, shorten

__all__ = [
    "Adapter",
    "Case",
    "LiveBroker",
    "Mismatch",
    "Recorder",
    "ScriptedClassicCoordinator",
    "ScriptedCoordinator",
    "Tour",
    "all_refusals",
    "all_states",
    "all_transitions",
    "each_transition",
    "follow",
    "machine_from",
    "n_switch",
    "shorten",
    "suite_from",
]

__getattr__, __dir__ = on_demand(
    __name__,
    {
        "trial": ("Adapter", "Mismatch", "follow", "shorten"),
        "tours": ("Case", "Tour", "all_refusals", "all_states", "all_transitions", "each_transition", "n_switch"),
        "stateful": ("machine_from", "suite_from"),
        "broker": ("LiveBroker",),
        "coordinator": ("ScriptedCoordinator",),
        "classic_coordinator": ("ScriptedClassicCoordinator",),
        "coverage": ("Recorder",),
    },
)
