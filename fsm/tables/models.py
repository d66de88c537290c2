"""Base classes for type checkers: a model that inherits from one has the state and events of its table.

    class Prototype(ConsumerMemberNotesModel):
        ...

    prototype = Prototype()
    bind(consumer_member_notes.TABLE, prototype)
    prototype.subscribed()          # checked; so are prototype.state and prototype.trigger(Event.SUBSCRIBED)

`AsyncConsumerMemberNotesModel` is for `bind(asynchronous=True)`. The classes are empty: `bind` adds the methods at run
time, and `models.pyi` declares them.
"""

from __future__ import annotations

from fsm.tables import ALL

NAMES = ["".join(part.capitalize() for part in table.name.split("-")) + "Model" for table in ALL]
globals().update({name: type(name, (), {"__module__": __name__}) for base in NAMES for name in (base, f"Async{base}")})
