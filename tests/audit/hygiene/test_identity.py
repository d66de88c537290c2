"""Which member a record belongs to."""

from __future__ import annotations

import pytest

from fsm.audit.hygiene.identity import Facts, facts_of, find_homeless, find_homes, identify
from fsm.audit.hygiene.rotation import stem
from fsm.audit.reading.records import Line, to_row
from fsm.trace import Kind, TraceRecord


def facts(
    file: str, member_id: str, first_ms: int, last_ms: int, *, starts: int = 0, group: str = "g", program: str = ""
) -> Facts:
    return Facts(group, "c", file, program, member_id, first_ms, last_ms, starts)


def names(*known: Facts) -> dict[str, str]:
    """The member of each file."""
    return {file: key.member + ("?" if key.shared else "") for (_, _, file, _), key in identify(known).items()}


def test_one_file_is_one_member():
    """The normal case: the client id names it."""
    assert names(facts("a.log", "x", 0, 100)) == {"a.log": "c"}


def test_two_processes_with_the_default_client_id():
    """Files that overlap in time and share no id: the file becomes part of the name."""
    assert names(facts("/l/a.log", "x", 0, 100), facts("/l/b.log", "y", 50, 150)) == {
        "/l/a.log": "c (a.log)",
        "/l/b.log": "c (b.log)",
    }


def test_files_of_one_name_in_several_folders():
    """The label is the shortest end of the path that tells them apart."""
    found = names(facts("/n1/app.log", "x", 0, 100), facts("/n2/app.log", "y", 50, 150))
    assert found == {"/n1/app.log": "c (n1/app.log)", "/n2/app.log": "c (n2/app.log)"}


def test_rotated_files_are_one_member_oldest_first():
    """They do not overlap; lines of one millisecond at the seam are read in the order of the files' age."""
    known = [facts("a.log", "x", 200, 300), facts("a.log.1", "x", 100, 200), facts("a.log.2.gz", "x", 0, 100)]
    keys = identify(known)
    assert {k.member for k in keys.values()} == {"c"}
    assert [keys["g", "c", f, ""].rank for f in ("a.log.2.gz", "a.log.1", "a.log")] == [0, 1, 2]


def test_a_restart_in_a_new_file_is_the_same_member():
    """One after the other, with another id."""
    assert names(facts("a.log", "x", 0, 100), facts("b.log", "y", 500, 900)) == {"a.log": "c", "b.log": "c"}


def test_lines_dealt_out_to_two_files_are_one_member():
    """Files that share an id."""
    assert names(facts("l.log", "x", 0, 100), facts("r.log", "x", 3, 99)) == {"l.log": "c", "r.log": "c"}


def test_one_start_is_one_process_even_if_a_file_names_no_id():
    """Dealt out so that all ids fell into one file."""
    known = [facts("l.log", "x", 0, 100), facts("r.log", "", 3, 99, starts=1)]
    assert names(*known) == {"l.log": "c", "r.log": "c"}
    assert names(known[0], known[1]._replace(starts=0)) == {"l.log": "c (l.log)", "r.log": "c (r.log)"}


def test_two_ids_at_once_in_one_file_are_mixed():
    """A collector wrote two processes into one file."""
    assert names(facts("all.log", "x", 0, 100), facts("all.log", "y", 50, 150)) == {"all.log": "c?"}


def of_programs(*known: Facts) -> dict[str, str]:
    """The member of each program."""
    return {program: key.member + ("?" if key.shared else "") for (*_, program), key in identify(known).items()}


def test_programs_of_one_file_are_members_of_their_own():
    """A collector names them; what it names is part of the member's name, like a file."""
    known = [facts("all.log", "x", 0, 100, program="p-1"), facts("all.log", "y", 50, 150, program="p-2")]
    assert of_programs(*known) == {"p-1": "c (p-1)", "p-2": "c (p-2)"}
    nameless = [one._replace(member_id="") for one in known]
    assert of_programs(*nameless) == {"p-1": "c (p-1)", "p-2": "c (p-2)"}


def test_a_program_that_takes_over_from_another_is_a_restart():
    """The pod has another name after a deployment."""
    known = [facts("all.log", "x", 0, 100, program="p-1"), facts("all.log", "y", 500, 900, program="p-2")]
    assert of_programs(*known) == {"p-1": "c", "p-2": "c"}


def test_one_process_under_two_names_is_not_split():
    """What looked like the name of a program is something else."""
    known = [facts("all.log", id_, 0, 100, program=program) for id_ in ("x", "y") for program in ("out", "err")]
    assert of_programs(*known) == {"out": "c?", "err": "c?"}


def test_programs_of_several_files_are_no_others_of_that_name():
    """Two hosts run a container of one name each."""
    known = [facts(file, "", 0, 100, program=p) for file in ("a.json", "b.json") for p in ("p-1", "p-2")]
    assert {(file, program): key.member for (*_, file, program), key in identify(known).items()} == {
        (file, program): f"c ({file}/{program})" for file in ("a.json", "b.json") for program in ("p-1", "p-2")
    }


def test_a_name_that_is_not_certain_needs_ids_at_the_same_time():
    """It may be the host of a relay."""
    known = [facts("all.log", "x", 0, 100, program="~h-1"), facts("all.log", "y", 50, 150, program="~h-2")]
    assert of_programs(*known) == {"~h-1": "c (h-1)", "~h-2": "c (h-2)"}
    later = known[1]._replace(first_ms=200, last_ms=300)
    assert of_programs(known[0], later) == {"~h-1": "c", "~h-2": "c"}
    nameless = [one._replace(member_id="") for one in known]
    assert of_programs(*nameless) == {"~h-1": "c", "~h-2": "c"}


def test_too_many_names_are_none():
    known = [facts("all.log", str(i), 0, 100, program=f"p-{i}") for i in range(1001)]
    assert set(of_programs(*known).values()) == {"c?"}


def test_a_record_without_client_id_belongs_to_the_client_of_its_program():
    """Or of its file, if nobody else writes there."""
    known = [facts("all.log", i, 0, 100, program=p) for i, p in (("x", "p-1"), ("y", "p-2"))]
    nameless = [Facts("", "", "all.log", p, "", 0, 100) for p in ("p-1", "p-3")]
    keys = identify([*known, *nameless])
    assert keys["", "", "all.log", "p-1"].member == "c (p-1)"
    assert ("", "", "all.log", "p-3") not in keys


def test_a_record_without_client_id_belongs_to_the_only_client_of_its_group() -> None:
    """One process with a consumer in each of two groups, whose lines do not tell the client that prints them."""
    named = [Facts(group, "c", "all.log", "", "", 0, 100) for group in ("g", "h")]
    nameless = [Facts(group, "", "all.log", "", "", 0, 100, 0, 1) for group in ("", "g", "h", "i")]
    keys = identify([*named, *nameless])
    for group in ("g", "h"):
        assert keys[group, "", "all.log", ""] == keys[group, "c", "all.log", ""]
    homes = find_homes([*named, *nameless])
    assert find_homeless(nameless, homes) == [nameless[0], nameless[3]]


def test_ids_that_follow_one_another_are_one_process():
    """A classic member gets a new id when it rejoins."""
    assert names(facts("a.log", "x", 0, 100), facts("a.log", "y", 120, 150)) == {"a.log": "c"}


def test_a_record_without_group_belongs_to_the_only_group_of_its_client():
    """Where a client id has two groups in a file, nobody knows."""
    known = [facts("a.log", "x", 0, 100), facts("a.log", "", 5, 6, group="")]
    assert identify(known)["", "c", "a.log", ""].group == "g"
    other = [*known, facts("a.log", "z", 0, 100, group="h")]
    assert ("", "c", "a.log", "") not in identify(other)


def test_facts_are_spans_starts_and_changes_of_each_id():
    """What a cluster has to aggregate."""
    records = [
        TraceRecord(5, Kind.STARTED, "g", "c"),
        TraceRecord(9, Kind.SUBSCRIBED, "g", "c"),
        TraceRecord(7, Kind.JOINED, "g", "c", "x"),
    ]
    rows = [to_row(record, "g", (0, 0), Line(1, "")) for record in records]
    assert facts_of({("g", "c", "f", "p"): rows}) == [
        Facts("g", "c", "f", "p", "", 5, 9, 1),
        Facts("g", "c", "f", "p", "x", 7, 7, 0, 1),
    ]


@pytest.mark.parametrize(
    ("file", "plain"),
    [
        ("a.log", "a"),
        ("a.log.12", "a"),
        ("a.3.log.gz", "a"),
        ("a-2026-11-21.log", "a"),
        ("app-b.log", "app-b"),
        ("app.log.2.xz", "app"),
        ("app.log.lz4", "app"),
        (".log", ".log"),
    ],
)
def test_what_rotation_adds_to_a_name(file, plain):
    """Numbers, dates and endings, but never the whole name."""
    assert stem(file) == plain


def nameless(member_id: str, first_ms: int, last_ms: int, program: str = "") -> Facts:
    return facts("all.log", member_id, first_ms, last_ms, program=program)._replace(client_id="librdkafka")


def test_an_id_in_use_before_the_last_use_of_another_is_another_process():
    """A client without a client id prints its member id only when it joins; a broker may answer two of them at once."""
    assert names(nameless("x", 10, 50), nameless("y", 10, 10)) == {"all.log": "librdkafka?"}
    assert names(nameless("x", 10, 50), nameless("y", 50, 60)) == {"all.log": "librdkafka"}


def test_a_word_before_the_lines_names_processes_if_their_ids_are_in_use_at_the_same_time():
    """As Heroku's dynos: of a client that prints its ids rarely, too."""
    known = [nameless("x", 10, 50, "~worker.1"), nameless("y", 10, 10, "~worker.2"), nameless("z", 50, 50, "~worker.2")]
    assert {key.member for key in identify(known).values()} == {
        "librdkafka (worker.1)",
        "librdkafka (worker.2)",
    }


@pytest.mark.parametrize(("program", "mark"), [("~worker.2", "?"), ("~worker.1", "")])
def test_a_log_of_what_may_be_two_processes_of_a_client_without_a_name_is_shared(program: str, mark: str):
    """Findings that rest on its lines are no errors then, and the report says so."""
    known = [nameless("", 0, 100, "~worker.1"), nameless("", 50, 150, program)]
    assert names(*known) == {"all.log": f"librdkafka{mark}"}
    assert names(known[0], known[1]._replace(first_ms=500, last_ms=600)) == {"all.log": "librdkafka"}
