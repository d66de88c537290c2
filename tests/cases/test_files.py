"""No case file is passed over."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent


def kinds(monkeypatch: pytest.MonkeyPatch) -> list[ModuleType]:
    """The modules beside this one that read case files."""
    found = []
    for path in sorted(HERE.glob("test_*.py")):
        spec = importlib.util.spec_from_file_location(f"case_kind_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        spec.loader.exec_module(module)
        found.append(module)
    return [module for module in found if hasattr(module, "reads")]


def test_every_file_has_exactly_one_reader(files: Sequence[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each case file is read by one module of this folder, and there is at least one file."""
    readers = kinds(monkeypatch)
    assert files
    assert {f.name: n for f in files if (n := sum(bool(kind.reads(f.head)) for kind in readers)) != 1} == {}
