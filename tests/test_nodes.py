"""Values of documents with their places: what a text may mean, and where the error is when it means nothing."""

from __future__ import annotations

import pytest

from fsm.errors import InputError
from fsm.nodes import Node, nearest, yaml_node


def value(text: str) -> Node:
    """What stands after `a:`."""
    return yaml_node(f"a: {text}\n", "f.yaml", "document").mapping()["a"][1]


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("-7", -7), ("9223372036854775807", 2**63 - 1), ("007", 7)])
def test_whole_numbers(text: str, number: int) -> None:
    """Digits without quotes are a number, up to Kafka's largest."""
    assert value(text).number() == number


@pytest.mark.parametrize(
    "text",
    ["1.5", "1e3", "0x10", "\N{ARABIC-INDIC DIGIT ONE}", "--1", "-", "'7'", "~", "9223372036854775808", "1" * 400],
)
def test_what_is_no_whole_number(text: str) -> None:
    """Anything else is refused with its line; quotes make a text of it."""
    with pytest.raises(InputError, match=r"^f\.yaml:1: "):
        value(text).number()


@pytest.mark.parametrize(("text", "flag"), [("yes", True), ("no", False), ("true", True), ("false", False)])
def test_flags(text: str, flag: bool) -> None:
    """Yes and no, true and false."""
    assert value(text).flag() is flag


@pytest.mark.parametrize("text", ["on", "'yes'", "1", "Yes!"])
def test_what_is_no_flag(text: str) -> None:
    """Nothing else is one."""
    with pytest.raises(InputError, match=r"^f\.yaml:1: .* is neither yes nor no$"):
        value(text).flag()


@pytest.mark.parametrize(("text", "null"), [("", True), ("~", True), ("null", True), ("''", False), ("[]", False)])
def test_nothing(text: str, null: bool) -> None:
    """No value, `~` and `null` are nothing; an empty text and an empty list are something."""
    assert value(text).is_null is null


def test_places_are_lines() -> None:
    """A value, a key and an item know the line they begin in."""
    node = yaml_node("a: 1\nb:\n- x\n- y\n", "f.yaml", "document")
    key, held = node.mapping()["b"]
    assert (node.where, key.where, held.where) == ("f.yaml:1", "f.yaml:2", "f.yaml:3")
    assert [item.where for item in held.items()] == ["f.yaml:3", "f.yaml:4"]


def test_fields_are_known_and_present() -> None:
    """A key that is unknown is refused at its own line, one that is missing at the mapping's."""
    node = yaml_node("a: 1\nbb: 2\n", "f.yaml", "document")
    assert list(node.fields(("a", "bb"))) == ["a", "bb"]
    with pytest.raises(InputError, match=r"^f\.yaml:2: unknown key 'bb'; did you mean bbb\?$"):
        node.fields(("a", "bbb"))
    with pytest.raises(InputError, match=r"^f\.yaml:1: the key 'c' is missing$"):
        node.fields(("a", "bb", "c"), ("c",))


@pytest.mark.parametrize("ask", [Node.text, Node.number, Node.flag])
def test_a_list_is_no_text(ask: object) -> None:
    """What is asked for as a text is not taken from a list."""
    with pytest.raises(InputError, match=r"^f\.yaml:1: must be text$"):
        ask(value("[1]"))  # type: ignore[operator]


def test_nearest_name_is_proposed() -> None:
    """A name that is close, or else all there are."""
    assert nearest("polll", ("poll", "wait")) == "did you mean poll?"
    assert nearest("zzz", ("poll", "wait")) == "choose from poll, wait"
    assert nearest("zzz", ()) == "there are none"
