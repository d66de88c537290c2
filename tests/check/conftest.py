"""The naive search, and models that share their steps, stand beside the tests."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent)]

import models  # noqa: E402

from fsm.check.kafka.connect import replay as connect_replay  # noqa: E402
from fsm.check.kafka.live import timed_replay  # noqa: E402


@pytest.fixture(autouse=True)
def _steps_under_changed_rules_are_nobody_elses(request: pytest.FixtureRequest) -> None:
    models.remember(is_wanted="monkeypatch" not in request.fixturenames)


@pytest.fixture(scope="module", autouse=True)
def _steps_are_kept_for_a_module() -> Iterator[None]:
    yield
    models.forget()


@pytest.fixture
def timed() -> None:
    """Live objects are asked, too, when a path can happen."""


@pytest.fixture(autouse=True)
def _live_objects_only_compare(request: pytest.FixtureRequest) -> Iterator[None]:
    """They take each path once, unless a test asks for `timed`: idle steps that make room are hundreds of tries."""
    with pytest.MonkeyPatch.context() as patch:
        for module in () if "timed" in request.fixturenames else (connect_replay, timed_replay):
            patch.setattr(module, "find_room", lambda *_, **__: None)
        yield
