"""Tables as YAML and JSON documents: round trips, and hostile input that is refused in one line."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm import document
from fsm.document import from_json, from_yaml, to_document, to_json, to_yaml
from fsm.errors import InputError
from fsm.nodes import SIZE_LIMIT
from fsm.table import Symbol, Table, ignore, row
from fsm.tables import ALL


class State(Symbol):
    OFF = "yes"
    NO = "Two lines,\nand a colon: here  "
    BUSY = "Übergabe → läuft 😀"
    SHARED = ""


class Event(Symbol):
    ON = "- starts like a list"
    OFF = "'quoted' \"twice\""


class Effect(Symbol):
    SHARED = "Has the name of a state."
    SEND = "# not a comment"


S, E, F = State, Event, Effect

INSIDE = Table(
    name="inside",
    initial=S.BUSY,
    part=True,
    events=Event,
    effects=Effect,
    doc="One.\n\nTwo.\n",
    rows=(row(S.BUSY, E.ON, F.SEND, clause="c: 1", note="- n"),),
)
ODD = Table(
    name="odd: table",
    initial=S.OFF,
    terminal=(S.SHARED,),
    nested={S.NO: INSIDE},
    effects=Effect,
    title="A title, with: signs",
    source="somewhere # here",
    rows=(
        row((S.OFF, S.NO), E.OFF, F.SHARED, S.NO, F.SEND, S.SHARED, note="both"),
        row(S.OFF, E.ON, S.NO),
        ignore(S.SHARED, tuple(Event), why="it's over: done", clause="x"),
    ),
)
"""Names that YAML reads as booleans, a state and an effect of one name, and texts that need quotes."""

TABLES = (*ALL, ODD)
GOOD = """\
fsm: 1
name: door
states:
  SHUT: Closed.
  OPEN: Not closed.
events:
  PUSH: Someone pushes.
initial: SHUT
rows:
- states: [SHUT]
  events: [PUSH]
  steps: [OPEN]
- states: [OPEN]
  events: [PUSH]
  steps: [SHUT]
"""


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
@pytest.mark.parametrize(("write", "read"), [(to_yaml, from_yaml), (to_json, from_json)], ids=["yaml", "json"])
def test_every_table_comes_back_as_it_was(table, write, read):
    """The imported table gives the same document, the same bytes, the same cells and the same columns."""
    text = write(table)
    back = read(text)
    assert to_document(back) == to_document(table)
    assert write(back) == text
    assert back.columns == table.columns
    assert back.counts() == table.counts()
    assert cells(back) == cells(table)


def cells(table):
    """The cells by names, with all that a cell says."""
    return [
        (state.name, event.name, cell.target.name, [step.name for step in cell.steps], cell.ignored)
        for (state, event), cell in table.compiled.items()
    ]


def test_meanings_and_prose_come_back_to_the_letter():
    """Line ends, quotes, characters beyond ASCII, clauses, notes, reasons and the prose of nested tables survive."""
    for back in (from_yaml(to_yaml(ODD)), from_json(to_json(ODD))):
        state = type(back.initial)
        assert [(s.name, s.meaning) for s in state] == [(s.name, s.meaning) for s in State]
        assert [(e.name, e.meaning) for e in back.event_type] == [(e.name, e.meaning) for e in Event]
        assert (back.name, back.title, back.source) == ("odd: table", "A title, with: signs", "somewhere # here")
        assert back.nested[state["NO"]].doc == "One.\n\nTwo.\n"
        assert back.nested[state["NO"]].part is True
        assert (back.nested[state["NO"]].rows[0].clause, back.nested[state["NO"]].rows[0].note) == ("c: 1", "- n")
        assert (back.rows[2].why, back.rows[2].clause) == ("it's over: done", "x")
        assert [type(step).__name__ for step in back.rows[0].steps] == ["Effect", "State", "Effect", "State"]


def test_the_yaml_form_is_for_reading():
    """Mappings are blocks in the order of the enums, short lists stand on one line."""
    assert to_yaml(from_yaml(GOOD)) == GOOD


def documented():
    """The example in the docstring of `fsm.document`, which `fsm tables --grammar` prints."""
    lines = document.__doc__.splitlines()
    return "\n".join(line.removeprefix("    ") for line in lines if line.startswith("    ")) + "\n"


def test_the_documented_example_is_a_table():
    """It has what the grammar tells of: effects, an ignore, an end, a nested table with an exit; and it comes back."""
    table = from_yaml(documented())
    assert table.counts() == {
        "states": 4,
        "events": 3,
        "effects": 1,
        "rows": 5,
        "ignores": 1,
        "row_cells": 7,
        "ignored_cells": 1,
        "illegal_cells": 4,
    }
    assert [nested.exits[0].name for nested in table.nested.values()] == ["CLOSED"]
    assert to_document(from_yaml(to_yaml(table))) == to_document(table)


def without_exits(part=""):
    """The documented example with a nested table that only its holder leaves."""
    lines = [line for line in documented().splitlines() if "exits:" not in line and "steps: [CLOSED]" not in line]
    return "\n".join(lines).replace("    initial: AJAR", f"{part}    initial: AJAR")


class TestNested:
    """Tables inside tables, as their writers get them wrong."""

    def test_a_nested_table_needs_no_word_that_it_is_one(self):
        """Without exits it is a part of the table around it; that its events and ways out are elsewhere is no error."""
        nested = next(iter(from_yaml(without_exits()).nested.values()))
        assert (nested.part, nested.exits) == (True, ())

    @pytest.mark.parametrize("word", ["yes", "true", "'yes'"])
    def test_part_is_read_as_flags_are(self, word):
        """`true` as well as the `yes` that the export writes, in quotes or without."""
        table = from_yaml(without_exits(f"    part: {word}\n"))
        assert next(iter(table.nested.values())).part
        assert from_json(to_json(table).replace('"part": "yes"', '"part": true')).counts() == table.counts()

    def test_a_way_out_that_is_not_listed_is_named(self):
        """By the line of the step, and what to write."""
        text = "\n".join(line for line in documented().splitlines() if "exits:" not in line)
        with pytest.raises(InputError) as caught:
            from_yaml(text, "t.yaml")
        assert str(caught.value) == (
            "t.yaml:29: CLOSED is a state around the nested table 'door-open'; list it among its exits: exits: [CLOSED]"
        )

    def test_what_is_nested_is_a_part(self):
        """`part: no` without exits contradicts the place where it stands."""
        with pytest.raises(InputError, match=r"t.yaml:\d+: a nested table is a part of the one around it; leave part"):
            from_yaml(without_exits("    part: no\n"), "t.yaml")


def test_an_imported_table_steps():
    """The import gives a `Table` like any other."""
    table = from_yaml(GOOD)
    shut, opened = type(table.initial)
    (push,) = table.event_type
    assert table.compiled[shut, push].target is opened
    assert (shut.code, opened.code, opened.meaning) == (0, 1, "Not closed.")


def edited(old, new):
    assert GOOD.count(old) >= 1
    return GOOD.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (edited("rows:", "rowz:"), "t.yaml:9: unknown key 'rowz'; did you mean rows?"),
        (edited("name: door", "nome: door"), "t.yaml:2: unknown key 'nome'; did you mean name?"),
        (edited("name: door\n", ""), "t.yaml:1: the key 'name' is missing"),
        (edited("name: door", 'name: "a\\nb"'), "t.yaml:2: must be text on one line"),
        (edited("fsm: 1", "fsm: 2"), "t.yaml:1: a table of version '2'; this release reads fsm: 1"),
        ("cells: {}\nfsm: 2\n", "t.yaml:2: a table of version '2'; this release reads fsm: 1"),
        (edited("steps: [OPEN]", "steps: [OPNE]"),
         "t.yaml:12: 'OPNE' is not a known state or effect of this document; did you mean OPEN?"),
        (edited("events: [PUSH]", "events: [XYZ]"),
         "t.yaml:11: 'XYZ' is not a known event of this document; choose from PUSH"),
        (edited("initial: SHUT", "initial: [SHUT]"), "t.yaml:8: must be text"),
        (edited("states: [SHUT]", "states: SHUT"), "t.yaml:10: must be a list"),
        (edited("  steps: [OPEN]\n", ""), "t.yaml:10: the key 'steps' is missing"),
        (edited("steps: [OPEN]", "wy: late"), "t.yaml:12: unknown key 'wy'; did you mean why?"),
        (edited("steps: [OPEN]", "xyz: late"),
         "t.yaml:12: unknown key 'xyz'; choose from states, events, steps, clause, note, why"),
        (edited("steps: [OPEN]", "why: x\n  note: y"),
         "t.yaml:13: unknown key 'note'; choose from states, events, why, clause"),
        (edited("  SHUT: Closed.", "  no-name: x"),
         "t.yaml:4: 'no-name' is not a name; names are letters, digits and _"),
        (edited("  SHUT: Closed.", "  class: x"), "t.yaml:4: 'class' is not a name; names are letters, digits and _"),
        (edited("  SHUT: Closed.", "  _a: x"),
         "t.yaml:4: _a cannot be the name of a member; an enum needs it for itself"),
        (edited("  SHUT: Closed.", "  mro: x"),
         "t.yaml:4: mro cannot be the name of a member; an enum needs it for itself"),
        (edited("  OPEN: Not closed.", "  SHUT: again"), "t.yaml:5: the key 'SHUT' appears twice"),
        (edited("initial: SHUT", "initial: SHUT\npart: maybe"), "t.yaml:9: 'maybe' is neither yes nor no"),
        (edited("states:\n", "states: &a\n"),
         "t.yaml:3: anchors and aliases are not supported: a; write the value out"),
        (edited("initial: SHUT", "initial: *a"),
         "t.yaml:8: anchors and aliases are not supported: a; write the value out"),
        (edited("initial: SHUT", "initial: !!python/object/apply:os.system [echo]"),
         ("t.yaml:8: the tag 'tag:yaml.org,2002:python/object/apply:os.system' is not supported; "
         "a table is text, lists and mappings")),
        (edited("initial: SHUT", "initial: !x SHUT"),
         "t.yaml:8: the tag '!x' is not supported; a table is text, lists and mappings"),
        (edited("initial: SHUT", "<<: {initial: SHUT}"),
         ("t.yaml:8: unknown key '<<'; choose from fsm, name, title, source, "
         "doc, initial, terminal, exits, part, rows, nested, states, events, effects")),
        (edited("initial: SHUT", "? [a]\n: b"), "t.yaml:8: must be text"),
        (edited("initial: SHUT", "initial: [SHUT"), "t.yaml:9: not YAML: expected ',' or ']', but got ':'"),
        (edited("name: door", "name: a\x00b"),
         ('t.yaml: not YAML: unacceptable character #x0000: special characters are not allowed in "<unicode string>", '
         "position 14")),
        (edited("SHUT: Closed.", 'SHUT: "\\ud800"'), "t.yaml:4: not valid text: half of a surrogate pair"),
        (GOOD + "---\n" + GOOD, "t.yaml: 2 documents in one text; a table is one document"),
        ("", "t.yaml: it is empty; a table is one document"),
        ("just text", "t.yaml:1: must be a mapping"),
        ("- a", "t.yaml:1: must be a mapping"),
        ("[" * 60, "t.yaml:1: nested deeper than 40 levels"),
        ("#" * (SIZE_LIMIT + 1), "t.yaml: too long; a table has at most 262,144 characters"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_yaml_is_one_line_with_its_place(text, message):
    """Each defect is an `InputError` that names file, line and, where there is one, the remedy."""
    with pytest.raises(InputError) as caught:
        from_yaml(text, "t.yaml")
    assert str(caught.value) == message


def broken_json(edit):
    document = to_document(from_yaml(GOOD))
    edit(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (broken_json(lambda d: d["rows"][1].update(stepz=[])),
         "t.json: rows[1].stepz: unknown key 'stepz'; did you mean steps?"),
        (broken_json(lambda d: d["rows"][1]["steps"].append("SHUTT")),
         "t.json: rows[1].steps[1]: 'SHUTT' is not a known state or effect of this document; did you mean SHUT?"),
        (broken_json(lambda d: d.update(name=5)), "t.json: name: must be text, a list or a mapping"),
        (broken_json(lambda d: d.update(fsm=True)), "t.json: fsm: must be text, a list or a mapping"),
        (broken_json(lambda d: d.update(title=float("nan"))), "t.json: title: must be text, a list or a mapping"),
        (broken_json(lambda d: d.update(title=None)), "t.json: title: must be text, a list or a mapping"),
        (broken_json(lambda d: d.update(title="\ud800")), "t.json: title: not valid text: half of a surrogate pair"),
        (broken_json(lambda d: d.update({"a\nb": "x"})), "t.json: 'a\\nb' is not a key"),
        ('{"fsm": 2, "cells": []}', "t.json: fsm: a table of version '2'; this release reads fsm: 1"),
        ('{"fsm": 1, "fsm": 1}', "t.json: the key 'fsm' appears twice"),
        ('{"fsm": 1,\n"name" "x"}', "t.json:2: not JSON: Expecting ':' delimiter"),
        ("[]", "t.json: must be a mapping"),
        ("[" * 45 + "]" * 45, f"t.json: {'[0]' * 41}: nested deeper than 40 levels"),
        ('"' + "x" * SIZE_LIMIT + '"', "t.json: too long; a table has at most 262,144 characters"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_json_is_one_line_with_its_path(text, message):
    """The place in JSON is the path of the value, or the line where it is no JSON."""
    with pytest.raises(InputError) as caught:
        from_json(text, "t.json")
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 40_000, '{"a": ' + "9" * 100_000 + "}"])
def test_json_made_to_exhaust_the_reader_is_refused(text):
    """Nesting beyond the interpreter's stack and numbers of 100,000 digits are input errors like any other."""
    with pytest.raises(InputError, match=r"^t\.json: (not JSON|a: must be text)"):
        from_json(text, "t.json")


def test_the_kernel_checks_an_imported_table():
    """A table that contradicts itself is refused with the line of the first row that does."""
    twice = GOOD + "- states: [SHUT]\n  events: [PUSH]\n  why: again\n"
    with pytest.raises(InputError) as caught:
        from_yaml(twice, "t.yaml")
    assert str(caught.value) == "t.yaml:16: table 'door': line 16: SHUT on PUSH has a cell already in line 10"
    with pytest.raises(InputError) as caught:
        from_json(json.dumps({**to_document(from_yaml(GOOD)), "rows": []}), "t.json")
    assert str(caught.value) == "t.json: table 'door': has no rows that name an event"


def test_a_name_of_two_enums_must_be_qualified():
    """Where a state and an effect share a name, a bare one in the steps is refused."""
    with pytest.raises(InputError, match=r"SHARED is a state and an effect; write State\. or Effect\. before it"):
        from_yaml(to_yaml(ODD).replace("Effect.SHARED", "SHARED"))


def test_a_billion_laughs_cost_nothing():
    """The document is refused at its first anchor, before anything is multiplied."""
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"b{i}: &b{i} [*a,*a,*a,*a,*a,*a,*a,*a]\n" for i in range(20))
    with pytest.raises(InputError, match=r"^t\.yaml:1: anchors and aliases are not supported: a;"):
        from_yaml(bomb, "t.yaml")


def test_nothing_in_a_document_is_executed(tmp_path):
    """Every constructor tag of the YAML library is refused, and the file it would make is not made."""
    target = tmp_path / "made"
    calls = (
        f"!!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['{target}']]",
        f"!!python/object/new:os.system [touch {target}]",
        "!!python/name:os.system",
        "!!python/module:os",
    )
    for call in calls:
        with pytest.raises(InputError, match="is not supported; a table is text, lists and mappings"):
            from_yaml(GOOD.replace("initial: SHUT", f"initial: {call}"))
    assert not target.exists()


@settings(max_examples=80)
@given(st.data())
def test_damaged_documents_are_refused_in_one_line(data):
    """A document with a piece cut out, doubled or replaced gives a table or one `InputError` of one line."""
    text = data.draw(st.sampled_from([GOOD, to_json(from_yaml(GOOD)), to_yaml(ODD)]))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    new = data.draw(
        st.text(max_size=8) | st.sampled_from(["[", "{", "- ", "\n", ": ", "*a", "&a ", "!!map ", "\t", "%", '"'])
    )
    damaged = text[:start] + new + text[end:]
    for read in (from_yaml, from_json):
        problem = refusal(read, damaged)
        assert problem is None or (problem.startswith("t:") and len(problem.splitlines()) == 1)


def refusal(read, text):
    """What the reader says against the text; None where it takes it. Anything but an `InputError` passes through."""
    try:
        read(text, "t")
    except InputError as error:
        return str(error)
    return None
