"""`TraceRecord`: one record is one JSON line, and anything else is one clear error."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm.errors import FsmError, InputError
from fsm.trace import SCHEMA, Kind, TraceRecord, as_trace, by_partition, from_dict, from_json, to_dict

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
partitions = st.lists(st.tuples(texts, st.integers(0, 2**31 - 1)), max_size=3).map(tuple)
records = st.builds(
    TraceRecord,
    ts_ms=st.integers(-(2**63), 2**63 - 1),
    kind=st.sampled_from(Kind),
    group=texts,
    client_id=texts,
    member_id=texts,
    instance_id=texts,
    thread=st.sampled_from(["", "app", "background"]),
    machine=texts,
    state=texts,
    event=texts,
    next_state=texts,
    effects=st.lists(texts, max_size=3).map(tuple),
    epoch=st.none() | st.integers(-(2**31), 2**31 - 1),
    partitions=partitions,
    revoked=partitions,
    full=st.none() | partitions,
    topics=st.lists(texts, max_size=3).map(tuple),
    detail=texts,
    settings=st.dictionaries(texts, texts, max_size=3),
)
GOOD = {"v": 1, "ts_ms": 5, "kind": "owned"}


@settings(max_examples=100)
@given(records)
def test_a_record_comes_back_from_its_line(record):
    """Every record gives one line of JSON that reads back as the same record and writes the same line."""
    line = record.to_json()
    assert "\n" not in line
    assert from_json(line) == record
    assert from_json(line).to_json() == line
    assert from_dict(to_dict(record)) == record


@settings(max_examples=100)
@given(records)
def test_the_processor_writes_the_line_of_the_record(record):
    """A structlog entry with the fields of a record becomes exactly the line of `to_json`."""
    assert as_trace(None, "info", to_dict(record)) == record.to_json()


def test_the_line_is_compact_ordered_and_leaves_defaults_out():
    """`v` first, then the fields in their order; settings are sorted; characters stand as they are."""
    record = TraceRecord(
        1_700_000_000_123,
        Kind.RECONCILING,
        group="gruppe-ä",
        epoch=0,
        partitions=(("t", 1), ("t", 0)),
        full=(),
        settings={"b": "2", "a": "1"},
    )
    assert record.to_json() == (
        '{"v":1,"ts_ms":1700000000123,"kind":"reconciling","group":"gruppe-ä","epoch":0,'
        '"partitions":[["t",1],["t",0]],"full":[],"settings":{"a":"1","b":"2"}}'
    )


def test_an_assignment_that_was_not_printed_is_none_and_an_empty_one_is_empty():
    """`full` tells the two apart; null stands for not printed."""
    assert from_json(json.dumps(GOOD)).full is None
    assert from_json(json.dumps({**GOOD, "full": None})).full is None
    assert from_json(json.dumps({**GOOD, "full": []})).full == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"v": 2}, "v: trace schema 2, this release reads 1"),
        ({"v": None}, "v: trace schema None, this release reads 1"),
        ({"kind": "nonsense"}, "kind: unknown kind 'nonsense'"),
        ({"kind": None}, "kind: unknown kind None"),
        ({"kind": ["owned"]}, "kind: unknown kind ['owned']"),
        ({"ts_ms": None}, "ts_ms: must be epoch milliseconds"),
        ({"ts_ms": "5"}, "ts_ms: must be epoch milliseconds"),
        ({"ts_ms": 5.0}, "ts_ms: must be epoch milliseconds"),
        ({"ts_ms": True}, "ts_ms: must be epoch milliseconds"),
        ({"ts_ms": float("nan")}, "ts_ms: must be epoch milliseconds"),
        ({"ts_ms": float("inf")}, "ts_ms: must be epoch milliseconds"),
        ({"ts_ms": 2**63}, "ts_ms: must be epoch milliseconds"),
        ({"ts_ms": 10**400}, "ts_ms: must be epoch milliseconds"),
        ({"epoch": "1"}, "epoch: must be a whole number of 32 bits"),
        ({"epoch": False}, "epoch: must be a whole number of 32 bits"),
        ({"epoch": 2**31}, "epoch: must be a whole number of 32 bits"),
        ({"epoch": float("nan")}, "epoch: must be a whole number of 32 bits"),
        ({"group": 5}, "group: must be text"),
        ({"detail": None}, "detail: must be text"),
        ({"next_state": ["S"]}, "next_state: must be text"),
        ({"client_id": "\ud800"}, "client_id: not valid text: half of a surrogate pair"),
        ({"settings": {"\udfff": "x"}}, "settings: not valid text: half of a surrogate pair"),
        ({"partitions": None}, 'partitions: must be a list of ["topic", partition]'),
        ({"partitions": "t-0"}, 'partitions: must be a list of ["topic", partition]'),
        ({"partitions": [["t"]]}, 'partitions: must be a list of ["topic", partition]'),
        ({"partitions": [["t", "0"]]}, 'partitions: must be a list of ["topic", partition]'),
        ({"partitions": [["t", True]]}, 'partitions: must be a list of ["topic", partition]'),
        ({"partitions": [[0, "t"]]}, 'partitions: must be a list of ["topic", partition]'),
        ({"partitions": ["t0"]}, 'partitions: must be a list of ["topic", partition]'),
        ({"partitions": [["t", 2**31]]}, 'partitions: must be a list of ["topic", partition]'),
        ({"revoked": {}}, 'revoked: must be a list of ["topic", partition]'),
        ({"full": 0}, 'full: must be a list of ["topic", partition]'),
        ({"topics": "t"}, "topics: must be a list of texts"),
        ({"effects": [1]}, "effects: must be a list of texts"),
        ({"effects": None}, "effects: must be a list of texts"),
        ({"settings": []}, "settings: must map names to texts"),
        ({"settings": {"a": 1}}, "settings: must map names to texts"),
        ({"settings": None}, "settings: must map names to texts"),
        ({"states": "S"}, "states: no such field in a trace record"),
    ],
)
def test_each_field_that_does_not_fit_is_named(change, message):
    """One bad field is one `InputError` that begins with its name."""
    with pytest.raises(InputError) as caught:
        from_json(json.dumps({**GOOD, **change}))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("{", "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("[]", "a trace record is a JSON object"),
        ("5", "a trace record is a JSON object"),
        ("NaN", "a trace record is a JSON object"),
        ("{}", "v: trace schema None, this release reads 1"),
        ('{"v":1}', "kind: unknown kind None"),
        ('{"v":1,"kind":"owned"}', "ts_ms: must be epoch milliseconds"),
    ],
)
def test_what_is_no_record_is_refused(line, message):
    """Broken JSON, other JSON and records without their first fields."""
    with pytest.raises(InputError) as caught:
        from_json(line)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"v":1,"settings":' * 50_000,
        '{"v":1,"ts_ms":' + "9" * 100_000 + "}",
        '{"v":1,"ts_ms":1,"kind":"owned","effects":' + "[" * 800 + "]" * 800 + "}",
        '{"v":1,"ts_ms":1,"kind":"owned","epoch":1e999}',
    ],
)
def test_a_line_made_to_exhaust_the_reader_is_refused(line):
    """Nesting beyond the stack, numbers of 100,000 digits and infinity are input errors like any other."""
    with pytest.raises(InputError):
        from_json(line)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from([*TraceRecord.__slots__, "v", "other"]), json_values, max_size=4))
def test_any_json_object_gives_a_record_that_can_be_written_or_an_input_error(change):
    """Whatever stands in the fields, reading ends in a record that round-trips or in one line of complaint."""
    record = read(json.dumps({**GOOD, **change}))
    if isinstance(record, TraceRecord):
        assert from_json(record.to_json()) == record
        assert record.to_json().encode()
    else:
        assert len(record.splitlines()) == 1


def read(line):
    """The record, or the complaint about the line."""
    try:
        return from_json(line)
    except InputError as error:
        return str(error)


def test_input_errors_are_errors_of_this_package():
    """One `except FsmError` catches them; they carry the place and what is wrong there."""
    with pytest.raises(FsmError) as caught:
        from_dict({"kind": "owned"})
    assert vars(caught.value) == {"what": "must be epoch milliseconds", "where": "ts_ms", "remedy": ""}


def test_every_kind_has_a_name_of_its_own_and_the_schema_is_the_first():
    """Kinds are the wire names; a new schema number needs a new reader."""
    assert [kind.value for kind in Kind] == [kind.name.lower() for kind in Kind]
    assert SCHEMA == 1


def test_partitions_are_reported_in_order_without_repeats():
    """Topics by name, partitions by number."""
    assert by_partition([("b", 0), ("a", 10), ("a", 2), ("b", 0)]) == (("a", 2), ("a", 10), ("b", 0))
