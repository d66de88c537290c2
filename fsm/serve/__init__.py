"""Our coordinator as a broker for real clients: sockets at the edge, everything else without IO.

* `Brokers`, `Served`: brokers without sockets, and their options
* `Send`, `HangUp`, `ReadOn`, `Append`, `Replace`: their effects on connections and files
* `Rule`, `Do`, `read_rules`: scripted faults, and their parser
* `Edge`: the sockets, for your own event loop
"""

from typing import TYPE_CHECKING

from fsm.exports import on_demand

if TYPE_CHECKING:
    from fsm.serve.brokers import Brokers
    from fsm.serve.cluster import Served
    from fsm.serve.edge import Edge
    from fsm.serve.effects import Append, HangUp, ReadOn, Replace, Send
    from fsm.serve.faults import Do, Rule, read_rules

__all__ = ["Append", "Brokers", "Do", "Edge", "HangUp", "ReadOn", "Replace", "Rule", "Send", "Served", "read_rules"]

__getattr__, __dir__ = on_demand(
    __name__,
    {
        "brokers": ("Brokers",),
        "cluster": ("Served",),
        "edge": ("Edge",),
        "effects": ("Append", "HangUp", "ReadOn", "Replace", "Send"),
        "faults": ("Do", "Rule", "read_rules"),
    },
)
