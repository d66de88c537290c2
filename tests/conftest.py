"""Hypothesis here: every run tries the same examples, and none fails because the machine had something else to do.
They are the same whatever else was imported: Hypothesis would draw constants from all modules of ours, and read them.

The tests that were collected stay until the end, and none of what they refer to is garbage: looking through it again
and again took a sixth of a run's time.

With `--dist loadfile` a file's tests run in one process, and those of `tests/spark` all in one: they share a JVM.
"""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

sys.path.append(str(Path(__file__).parent))

settings.register_profile(
    "fsm", max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fsm")
providers._get_local_constants = lambda: providers._local_constants


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:  # noqa: ARG001  # pytest passes by name
    """Nothing is looked through while it is built up, and afterwards only what is newer."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before `-m` is applied
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Cases beside those that a test keeps in the loop are deep."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("loop") and not item.get_closest_marker("deep"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for its in cases.values():
        (keeps,) = its[0].get_closest_marker("loop").args  # type: ignore[union-attr]
        kept = {number * len(its) // keeps for number in range(keeps)}
        for number, item in enumerate(its):
            if number not in kept:
                item.add_marker(pytest.mark.deep)


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
