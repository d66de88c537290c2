"""What users may import: each package names it in `__all__`, and its docstring says what it is for."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

PACKAGES = (
    "fsm",
    "fsm.audit",
    "fsm.check",
    "fsm.cluster",
    "fsm.conformance",
    "fsm.connect",
    "fsm.coordinator",
    "fsm.kit",
    "fsm.logs",
    "fsm.member",
    "fsm.protocol",
    "fsm.reference",
    "fsm.render",
    "fsm.scenario",
    "fsm.spark",
    "fsm.tables",
    "fsm.testing",
    "fsm.wire",
)


def documented(text: str) -> list[str]:
    """Names at the head of the bullets of a docstring: "* `Table`, `row`: how a table is written"."""
    heads = re.findall(r"^\* ((?:`\w+`(?:,| and)?\s*)+):", text, re.MULTILINE)
    return [name for head in heads for name in re.findall(r"`(\w+)`", head)]


@pytest.mark.parametrize("name", PACKAGES)
def test_what_is_public_is_documented(name: str) -> None:
    """`__all__` and the bullets of the docstring are the same names, each once, and each can be imported."""
    package = import_module(name)
    assert sorted(documented(package.__doc__ or "")) == sorted(package.__all__)
    assert len(set(package.__all__)) == len(package.__all__)
    for public in package.__all__:
        assert getattr(package, public) is not None


def test_an_unknown_name_is_refused_as_always() -> None:
    """What is loaded on demand does not hide misspelt names."""
    with pytest.raises(AttributeError, match="module 'fsm' has no attribute 'bnid'"):
        import_module("fsm").bnid  # noqa: B018
