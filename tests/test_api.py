"""What users may import: each package names it in `__all__`, and its docstring says what it is for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from fsm.protocol.messages import APIS
from fsm.protocol.schema import Struct, struct_of

ROOT = Path(__file__).parents[1]
PACKAGES = [
    ".".join(path.relative_to(ROOT).parent.parts)
    for path in sorted((ROOT / "fsm").rglob("__init__.py"))
    if len(path.relative_to(ROOT).parts) <= 3 or "__all__" in path.read_text(encoding="utf-8")
]
"""`fsm`, each package directly below it, and what names below that are public by themselves."""


def documented(text: str) -> list[str]:
    """Names at the head of the bullets of a docstring: "* `Table`, `row`: how a table is written"."""
    heads = re.findall(r"^\* ((?:`\w+`(?:,| and)?\s*)+):", text, re.MULTILINE)
    return [name for head in heads for name in re.findall(r"`(\w+)`", head)]


def list_structs(struct: Struct) -> Iterator[str]:
    """The names of a message's class and of those inside it."""
    if struct.cls not in {None, tuple}:
        yield struct.cls.__name__
    for field in struct.fields:
        declared = field.type
        while declared.element is not None:
            declared = declared.element
        if declared.struct is not None:
            yield from list_structs(declared.struct)


@pytest.mark.parametrize("name", PACKAGES)
def test_what_is_public_is_documented(name: str) -> None:
    """`__all__` and the bullets of the docstring are the same names, each once, and each can be imported.

    Kafka's messages, and the structs inside them, are documented by being what `APIS` lists.
    """
    package = import_module(name)
    named = documented(package.__doc__ or "")
    if name == "fsm.protocol.messages":
        named += {
            each
            for api in APIS.values()
            for message in (api.request, api.response)
            for each in list_structs(struct_of(message))
        }
    assert sorted(named) == sorted(package.__all__)
    assert len(set(package.__all__)) == len(package.__all__)
    for public in package.__all__:
        assert getattr(package, public) is not None


@pytest.mark.parametrize("name", [name for name in PACKAGES if hasattr(import_module(name), "__getattr__")])
def test_dir_of_a_package_that_loads_lazily_lists_what_is_public(name: str) -> None:
    """Names that are not loaded yet too, and none that the package has only imported for itself."""
    package = import_module(name)
    listed = [one for one in dir(package) if not one.startswith("__")]
    assert set(package.__all__) <= set(listed)
    assert {type(getattr(package, one)) for one in set(listed) - set(package.__all__)} <= {ModuleType}


def test_an_unknown_name_is_refused_as_always() -> None:
    """What is loaded on demand does not hide misspelt names."""
    with pytest.raises(AttributeError, match="module 'fsm' has no attribute 'bnid'"):
        import_module("fsm").bnid  # noqa: B018
