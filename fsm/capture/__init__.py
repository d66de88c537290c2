"""Real clients and real brokers under observation: a proxy between them, and captured packets, as exchanges.

* `Link`, `Passed`: one connection through the proxy, without its sockets: bytes in, bytes out, and exchanges
* `Watch`: totals, groups and news of the exchanges
* `run_proxy`: the proxy with its sockets, until a signal stops it
"""

from __future__ import annotations

from fsm.capture.link import Link, Passed
from fsm.capture.run import run_proxy
from fsm.capture.watch import Watch

__all__ = ["Link", "Passed", "Watch", "run_proxy"]
