"""Documents as values with their positions, for errors with `file:line`.

A document consists of text, lists and mappings only. Tags, aliases and anchors are not resolved, so a document cannot
execute code or expand to more than its own size. Size and depth are bounded. Every error is an `InputError` with
`file:line`. The caller decides the type of a text (number, flag, null).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fsm.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    import yaml

SIZE_LIMIT = 256 * 1024
"""Maximum length of a document in characters."""
DEPTH_LIMIT = 40
"""Maximum nesting depth of lists and mappings; a nested table takes two levels."""
NUMBER_LIMIT = 2**63 - 1
"""Largest number in a document: Kafka's int64."""

FLAGS = {"yes": True, "no": False, "true": True, "false": False}
_NULLS = ("null", "~", "")


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the document with its position: a text, a list, or a mapping whose keys have positions too."""

    value: str | list[Node] | dict[str, tuple[Node, Node]]
    where: str
    label: str
    """Position inside the file, for the texts of a `TableError`."""
    plain: bool = False
    """True for an unquoted text, which may be a number, a flag or null."""

    def text(self) -> str:
        """The text. Raises `InputError` for a list or a mapping."""
        if isinstance(self.value, str):
            return self.value
        raise InputError("must be text", self.where)

    def items(self) -> list[Node]:
        """The values of a list. Raises `InputError` for anything else."""
        if isinstance(self.value, list):
            return self.value
        raise InputError("must be a list", self.where)

    def mapping(self) -> dict[str, tuple[Node, Node]]:
        """(key, value) by the text of the key. Raises `InputError` for a text or a list."""
        if isinstance(self.value, dict):
            return self.value
        raise InputError("must be a mapping", self.where)

    def fields(self, known: Sequence[str], required: Sequence[str] = ()) -> dict[str, Node]:
        """The values by key. Raises `InputError` for an unknown key and for a missing required one."""
        fields = {}
        for name, (key, value) in self.mapping().items():
            if name not in known:
                raise InputError(f"unknown key {short(name)}", key.where, nearest(name, known))
            fields[name] = value
        for name in required:
            if name not in fields:
                raise InputError(f"the key {name!r} is missing", self.where)
        return fields

    @property
    def is_null(self) -> bool:
        """Whether the value is empty or `null`."""
        return self.plain and self.value in _NULLS

    def number(self) -> int:
        """A whole number. Raises `InputError` for anything else and beyond `NUMBER_LIMIT`."""
        text = self.text()
        digits = text.removeprefix("-")
        if not (self.plain and digits.isascii() and digits.isdigit()):
            raise InputError(f"{short(text)} is not a whole number", self.where)
        if len(digits) > 19 or int(digits) > NUMBER_LIMIT:
            raise InputError(f"{short(text)} is too large", self.where, f"at most {NUMBER_LIMIT}")
        return int(text)

    def flag(self) -> bool:
        """The flag's value. Raises `InputError` if it is not one of `FLAGS`."""
        text = self.text()
        if not self.plain or text not in FLAGS:
            raise InputError(f"{short(text)} is neither yes nor no", self.where)
        return FLAGS[text]


def nearest(name: str, known: Sequence[str], *, others: str = "") -> str:
    """A remedy for an unknown name: the closest known one and `others`, or else the list of known names."""
    near = difflib.get_close_matches(name[:80], known, n=1)
    meant = f"did you mean {near[0]}?" if near else ""
    listed = f"choose from {', '.join(known[:20])}" if known else "there are none"
    return " ".join(filter(None, (meant, others))) or listed


def short(text: str) -> str:
    """A text of the document in quotes, cut to 60 characters for error messages."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def read_text(path: Path, saved: str, given: str) -> str:
    """The text of a file, as much as the readers of documents take.

    Raises `InputError` for an unreadable file (`given` names the right kind) and if `saved` is not UTF-8.
    """
    try:
        with path.open("rb") as file:  # a character has at most four bytes; the readers refuse longer texts
            return file.read(4 * SIZE_LIMIT + 1).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", str(path), f"save {saved} as UTF-8") from None
    except OSError as problem:
        raise InputError(f"cannot be read: {problem.strerror}", str(path), f"give {given}") from None


def refuse_size(text: str, where: str, role: str) -> None:
    """Raises `InputError` for a text longer than `SIZE_LIMIT`."""
    if len(text) > SIZE_LIMIT:
        raise InputError(f"too long; a {role} has at most {SIZE_LIMIT:,} characters", where)


def refuse_half_characters(text: str, where: str) -> None:
    """Raises `InputError` for half of a surrogate pair, which escapes can produce and UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError("not valid text: half of a surrogate pair", where) from None


# YAML: positions are lines. Nodes are built from the library's events, so that nothing else is constructed.


def yaml_node(text: str, where: str, role: str) -> Node:
    """The single document in the text; errors call it a `role`. Raises `InputError` with `where:line`."""
    import yaml  # noqa: PLC0415

    refuse_size(text, where, role)
    try:
        return _compose(yaml.parse(text, Loader=yaml.SafeLoader), where, role)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        place = f"{where}:{mark.line + 1}" if mark else where
        raise InputError(f"not YAML: {problem.problem or problem.context}", place) from None
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        raise InputError("not YAML: " + " ".join(str(problem).split()), where) from None


_PLAIN_TAGS = (None, "!", "tag:yaml.org,2002:str", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map")


def _compose(events: Iterator[yaml.Event], where: str, role: str) -> Node:
    """The single document in the events. Open lists and mappings are kept on a stack, without recursion."""
    import yaml  # noqa: PLC0415

    open_: list[tuple[str, bool, list[Node]]] = [(where, False, [])]
    for event in events:
        place = f"{where}:{event.start_mark.line + 1}" if event.start_mark else where
        if isinstance(event, yaml.NodeEvent):
            _refuse_event(event, place, role)
        if isinstance(event, yaml.CollectionStartEvent):
            if len(open_) > DEPTH_LIMIT:
                raise InputError(f"nested deeper than {DEPTH_LIMIT} levels", place)
            open_.append((place, isinstance(event, yaml.MappingStartEvent), []))
        elif isinstance(event, yaml.CollectionEndEvent):
            start, is_mapping, nodes = open_.pop()
            open_[-1][2].append(Node(_yaml_mapping(nodes) if is_mapping else nodes, start, _line_of(start)))
        elif isinstance(event, yaml.ScalarEvent):
            refuse_half_characters(event.value, place)
            open_[-1][2].append(Node(event.value, place, _line_of(place), plain=event.style is None))
    documents = open_[0][2]
    if len(documents) != 1:
        problem = f"{len(documents)} documents in one text" if documents else "it is empty"
        raise InputError(f"{problem}; a {role} is one document", where)
    return documents[0]


def _refuse_event(event: yaml.NodeEvent, place: str, role: str) -> None:
    """Raises `InputError` for aliases, anchors and tags: none is needed, and each has been used in attacks."""
    import yaml  # noqa: PLC0415

    if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
        raise InputError(f"anchors and aliases are not supported: {event.anchor}", place, "write the value out")
    tag = getattr(event, "tag", None)
    if tag not in _PLAIN_TAGS:
        raise InputError(f"the tag {short(tag)} is not supported", place, f"a {role} is text, lists and mappings")


def _yaml_mapping(nodes: Sequence[Node]) -> dict[str, tuple[Node, Node]]:
    found: dict[str, tuple[Node, Node]] = {}
    for key, value in zip(nodes[::2], nodes[1::2], strict=True):
        name = key.text()
        if name in found:
            raise InputError(f"the key {short(name)} appears twice", key.where)
        found[name] = (key, value)
    return found


def _line_of(place: str) -> str:
    return "line " + place.rpartition(":")[2]
