"""Functions are verbs: what a function does is its name, and what it gives is said by its type."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import fsm

PACKAGE = Path(fsm.__file__).parent

IRREGULAR = re.compile(
    "(un|re)?(begun|born|borne|bound|broken|built|chosen|done|drawn|fallen|felt|forgotten|found|frozen|given|gone|grown|heard|"
    "held|hidden|kept|known|laid|led|left|lent|lost|made|meant|met|paid|said|seen|sent|shown|sold|spoken|spent|stolen|taken|"
    "taught|thrown|told|torn|woken|won|worn|written)"
)
"""Participles that do not end in -ed."""

DEFINED = re.compile(f"def _*(?:{IRREGULAR.pattern}|[a-z]{{3,}}ed)_*\\(")
"""A definition of a function with such a name."""

VERBS = {"embed", "feed", "need", "proceed", "seed", "succeed"}
"""They end in -ed as they are."""

ALLOWED = {
    ("step.py", "frozen"): "`dataclasses` and `attrs` call it so, and so do those who decorate a class with it",
}
"""By file and name, and why."""


PRIVATE = {"told", "said", "heard", "spoken", "handed"}
"""Words of no meaning in the field: names say what a value is, not that somebody told it."""

PUBLIC = {
    ("render/timeline/views.py", "told"): "a key of `audit.json`, under `inputs.learned`",
}
"""By file and name, and why."""


def walk(file: Path, words: re.Pattern[str]) -> Iterator[ast.AST]:
    """The nodes of a module that contains one of the words; of the others there is nothing to find."""
    text = file.read_text(encoding="utf-8")
    return ast.walk(ast.parse(text)) if words.search(text) else iter(())


def find_private_words(file: Path) -> Iterator[tuple[str, str, int]]:
    """Names of classes, arguments, variables and attributes that are such a word: file, name and line."""
    for node in walk(file, re.compile("|".join(PRIVATE))):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.arg(arg=name):
                pass
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                pass
            case _:
                continue
        if name.strip("_").lower() in PRIVATE:
            yield file.relative_to(PACKAGE).as_posix(), name, node.lineno


def find_participles(file: Path) -> Iterator[tuple[str, str, int]]:
    """Functions and methods that are called by a participle: file, name and line. Properties are no functions."""
    for node in walk(file, DEFINED):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = {ast.unparse(one).rpartition(".")[2] for one in node.decorator_list}
            name = node.name.strip("_")
            if not decorators & {"property", "cached_property", "setter"} and is_participle(name):
                yield file.relative_to(PACKAGE).as_posix(), node.name, node.lineno


def is_participle(name: str) -> bool:
    """Whether a whole name is one; with a word before or behind it, it is read otherwise."""
    return name not in VERBS and bool(IRREGULAR.fullmatch(name) or re.fullmatch("[a-z]{3,}ed", name))


def test_no_function_is_called_by_a_participle() -> None:
    found = [one for file in sorted(PACKAGE.rglob("*.py")) for one in find_participles(file)]
    assert [one for one in found if one[:2] not in ALLOWED] == []
    assert {one[:2] for one in found} == set(ALLOWED)


def test_no_name_is_a_private_word() -> None:
    found = [one for file in sorted(PACKAGE.rglob("*.py")) for one in find_private_words(file)]
    assert [one for one in found if one[:2] not in PUBLIC] == []
    assert set(PUBLIC) <= {one[:2] for one in found}


def test_participles_are_known() -> None:
    """Also those without -ed; verbs that end so are none, nor is what has another word."""
    names = (
        "assigned",
        "led",
        "unsettled",
        "told",
        "renewed",
        "held",
        "read",
        "feed",
        "list_assigned",
        "open",
        "shorten",
    )
    assert [is_participle(name) for name in names] == [True] * 6 + [False] * 5
