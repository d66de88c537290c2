"""How long tests wait for what must come.

No test asserts how quick something is: a machine with other work is ten times slower, or stands still for seconds. What
takes longer than this hangs.
"""

import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 600.0


def wait_until(is_so: Callable[[], Any], each: Callable[[], object] = lambda: time.sleep(0.02)) -> None:
    """Waits for it; `each` is done between two looks."""
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until
        each()
