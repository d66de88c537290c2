"""Hypothesis here: every run tries the same examples, and none fails because the machine had something else to do.

With `--dist loadfile` a file's tests run in one process, and those of `tests/spark` all in one: they share a JVM.
"""

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

sys.path.append(str(Path(__file__).parent))

settings.register_profile("fsm", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fsm")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """By file costs pytest-xdist half of what it costs it to hand out fifteen thousand tests one by one."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415  # nobody else needs it

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "tests/spark" if nodeid.startswith("tests/spark/") else super()._split_scope(nodeid)

    return ByFile(config, log)
