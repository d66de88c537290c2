"""The naive search, and models that share their steps, stand beside the tests."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent)]

import models  # noqa: E402


@pytest.fixture(autouse=True)
def _steps_under_changed_rules_are_nobody_elses(request: pytest.FixtureRequest) -> None:
    models.remember(is_wanted="monkeypatch" not in request.fixturenames)


@pytest.fixture(scope="module", autouse=True)
def _steps_are_kept_for_a_module() -> Iterator[None]:
    yield
    models.forget()
