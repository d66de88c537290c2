"""The state machines of the protocols, one module each: State, Event, Effect and TABLE.

* `ALL`, `find`: every table in order, and one by name;
* `HAPPY_PATHS`: the events of the normal course, by table.

`fsm.tables.models` has typed bases for models that are bound to them. Importing one table loads no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsm.exports import on_demand

if TYPE_CHECKING:
    from fsm.tables.listing import ALL, HAPPY_PATHS, find

__all__ = ["ALL", "HAPPY_PATHS", "find"]

__getattr__, __dir__ = on_demand(__name__, {"listing": tuple(__all__)})
