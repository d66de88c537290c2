"""Bases of models for type checkers: a model that inherits from one has the state and the events of its table.

    class Prototype(ConsumerMemberNotesModel):
        ...

    prototype = Prototype()
    bind(consumer_member_notes.TABLE, prototype)
    prototype.subscribed()          # checked; so are prototype.state and prototype.trigger(Event.SUBSCRIBED)

`AsyncConsumerMemberNotesModel` is the one for `bind(asynchronous=True)`. The classes are empty: `bind` adds the methods
when a model is bound, and `models.pyi` tells type checkers of them.
"""

from __future__ import annotations

from fsm.tables import ALL

NAMES = ["".join(part.capitalize() for part in table.name.split("-")) + "Model" for table in ALL]
globals().update({name: type(name, (), {"__module__": __name__}) for base in NAMES for name in (base, f"Async{base}")})
