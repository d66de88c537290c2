"""The command line: what it prints, its exit status, and one line for everything that cannot be used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from fsm import __main__
from fsm.cli import main
from fsm.cli.arguments import write
from fsm.document import from_json, from_yaml, to_json, to_yaml
from fsm.errors import InputError
from fsm.tables import ALL

MEMBER = next(table for table in ALL if table.name == "consumer-member")
HEAVY = (
    "pyspark pandas numpy pyarrow graphviz transitions hypothesis pytest yaml structlog duckdb jinja2 json "
    "importlib.resources tempfile subprocess xml fsm.document fsm.render.tables.svg fsm.machine fsm.spark"
)
TURNSTILE = """\
fsm: 1
name: turnstile
title: A turnstile
states:
  LOCKED: nobody passes
  OPEN: one may pass
events:
  COIN: a coin fell
  PUSH: someone pushed
initial: LOCKED
rows:
  - {states: [LOCKED], events: [COIN], steps: [OPEN]}
  - {states: [OPEN], events: [PUSH], steps: [LOCKED]}
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of one command."""
    status = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command says that refuses its input: one line on stderr, nothing on stdout, exit status 2."""
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("fsm: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    return err[len("fsm: ") : -1]


def started(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """`python -m fsm` as a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "fsm", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, **options)  # type: ignore[call-overload,no-any-return]


# fsm tables


def test_tables_lists_every_table_with_its_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    """One line each, in the fixed order, under a line of heads."""
    status, out, err = run(capsys, "tables")
    lines = [line.split() for line in out.splitlines()]
    assert (status, err) == (0, "")
    assert lines[0] == ["table", "states", "events", "rows", "ignores", "illegal", "title"]
    assert [line[0] for line in lines[1:]] == [table.name for table in ALL]
    sizes = MEMBER.counts()
    numbers = [str(sizes[n]) for n in ("states", "events", "rows", "ignores", "illegal_cells")]
    assert next(line for line in lines if line[0] == "consumer-member")[1:6] == numbers


def test_tables_json_is_one_document_and_the_same_as_format_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The list for programs: names, ends and counts; `--json` and `--format json` print the same bytes."""
    _, out, err = run(capsys, "tables", "--json")
    entries = json.loads(out)
    assert err == ""
    assert [entry["name"] for entry in entries] == [table.name for table in ALL]
    assert entries[0]["counts"] == ALL[0].counts()
    assert run(capsys, "tables", "--format", "json")[1] == out


def test_tables_prints_a_table_in_each_format(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON and YAML can be read back to the same table; text and Markdown name every row's states and events."""
    assert run(capsys, "tables", "consumer-member", "--json")[1] == to_json(MEMBER)
    assert to_json(from_json(run(capsys, "tables", "consumer-member", "--json")[1])) == to_json(MEMBER)
    assert to_yaml(from_yaml(run(capsys, "tables", "consumer-member", "--format", "yaml")[1])) == to_yaml(MEMBER)
    for form in ("text", "markdown"):
        status, out, _ = run(capsys, "tables", "consumer-member", "--format", form)
        assert status == 0
        assert all(name in out for line in MEMBER.rows for m in (*line.states, *line.events) for name in [m.name])


def test_the_list_in_yaml_and_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    """The other two formats of the list name every table as well."""
    for form in ("yaml", "markdown"):
        status, out, _ = run(capsys, "tables", "--format", form)
        assert status == 0
        assert all(table.name in out for table in ALL)


def test_tables_takes_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A table of one's own, as YAML or JSON, is checked and printed."""
    (tmp_path / "mine.yaml").write_text(TURNSTILE, encoding="utf-8")
    (tmp_path / "mine.json").write_text(to_json(from_yaml(TURNSTILE)), encoding="utf-8")
    for name in ("mine.yaml", "mine.json"):
        status, out, _ = run(capsys, "tables", tmp_path / name)
        assert status == 0
        assert out.startswith("turnstile: A turnstile\n")
        assert "  LOCKED on COIN\n      -> OPEN\n" in out


def test_tables_says_how_a_file_is_written_and_shows_what_is_nested(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The grammar's example is a table; printed, the states and rows of what it nests stand below their holder."""
    with pytest.raises(SystemExit) as left:
        main(["tables", "--grammar"])
    grammar = capsys.readouterr().out
    assert left.value.code == 0
    example = [line.removeprefix("    ") for line in grammar.splitlines() if line.startswith("    ")]
    (tmp_path / "door.yaml").write_text("\n".join(example), encoding="utf-8")
    _, out, _ = run(capsys, "tables", tmp_path / "door.yaml")
    assert "  OPEN    one can pass\n    AJAR  a hand fits through\n    WIDE  a piano fits through\n" in out
    below = out.split("ROWS inside OPEN: door-open, begins in AJAR, goes out to CLOSED\n")[1]
    assert below.startswith("  AJAR on PUSHED\n      CREAK, -> WIDE\n")


def test_a_table_that_does_not_exist_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """A slip of one letter is answered with the name that was meant."""
    assert refused(capsys, "tables", "consumer-membr").startswith(
        "there is no table 'consumer-membr'; did you mean consumer-member"
    )


def test_a_name_that_is_near_to_none_does_not_get_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    """Eleven names are no suggestion; the command that lists them is."""
    assert refused(capsys, "tables", "nope") == "there is no table 'nope'; `fsm tables` lists them"


def test_an_unknown_format_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """Both commands answer a wrong `--format` on one line."""
    assert "'text', 'markdown', 'json', 'yaml'" in refused(capsys, "tables", "--format", "toml")
    assert refused(capsys, "draw", "-o", "x", "--format", "dot,gif") == (
        "argument --format: unknown format 'gif'; choose from dot, svg, png, mermaid, plantuml, markdown, "
        "scxml, xstate; see fsm draw --help"
    )


def test_a_missing_file_and_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Both are named with what is wrong with them."""
    assert refused(capsys, "tables", tmp_path / "gone.yaml") == (
        f"{tmp_path}/gone.yaml: cannot be read: No such file or directory; give a table's name or file"
    )
    assert refused(capsys, "draw", tmp_path, "-o", tmp_path).startswith(f"{tmp_path}: cannot be read: Is a directory")


def test_a_pipe_is_not_waited_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Nobody writes to it: it is refused before it is opened, as a table and as a scenario."""
    os.mkfifo(tmp_path / "pipe.yaml")
    for command in ("tables", "replay"):
        assert refused(capsys, command, tmp_path / "pipe.yaml").startswith(f"{tmp_path}/pipe.yaml: not a regular file")


def test_a_typo_in_a_yaml_table_is_found_by_file_and_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Line 13 says OPNE: the message begins with the file and that line."""
    path = tmp_path / "typo.yaml"
    path.write_text(TURNSTILE.replace("steps: [LOCKED]", "steps: [OPNE]"), encoding="utf-8")
    printed = refused(capsys, "tables", path)
    assert printed.startswith(f"{path}:13: ")
    assert "OPNE" in printed


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00", b"", b"[", b"- a\n- b\n", b"!!python/object/apply:os.system [ls]", b"&a [*a]"]
)
@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_what_is_no_table_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes, suffix: str
) -> None:
    """Bytes, nothing, a torn document, another document, a tag that would run code, an endless alias."""
    path = tmp_path / f"bad.{suffix}"
    path.write_bytes(content)
    assert refused(capsys, "tables", path).startswith(str(path))


# fsm draw


def test_draw_writes_every_shipped_form_and_names_the_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One table, its five files, a folder that did not exist; no index, no temporary file left."""
    folder = tmp_path / "deep" / "folder"
    status, out, _ = run(capsys, "draw", "rebalance-notes", "-o", folder)
    files = [f"rebalance-notes.{suffix}" for suffix in ("dot", "svg", "mmd", "puml", "md")]
    assert (status, out.splitlines()) == (0, [f"{folder}/{file}" for file in files])
    assert sorted(path.name for path in folder.iterdir()) == sorted(files)


def test_draw_everything_is_current_to_check(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """All tables with their index; `--check` then finds nothing, in silence."""
    assert run(capsys, "draw", "-o", tmp_path, "--format", "dot,markdown")[0] == 0
    assert run(capsys, "draw", "--check", "-o", tmp_path, "--format", "dot,markdown") == (0, "", "")
    assert (tmp_path / "README.md").is_file()


def test_check_lists_every_difference_and_exits_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A stale, a missing and a surplus file; as text with the remedy, and as JSON."""
    run(capsys, "draw", "-o", tmp_path, "--format", "dot")
    (tmp_path / "consumer-member.dot").write_text("digraph {}", encoding="utf-8")
    (tmp_path / "rebalance-notes.dot").unlink()
    (tmp_path / "window.dot").touch()
    arguments = ("draw", "--check", "-o", tmp_path, "--format", "dot")
    status, out, _ = run(capsys, *arguments)
    assert status == 1
    assert out.splitlines() == [
        f"stale: {tmp_path}/consumer-member.dot",
        f"missing: {tmp_path}/rebalance-notes.dot",
        f"surplus: {tmp_path}/window.dot",
        f"redraw with: fsm draw -o {tmp_path}",
    ]
    status, out, _ = run(capsys, *arguments, "--json")
    problems = [(d["file"], d["problem"]) for d in json.loads(out)["differences"]]
    assert (status, problems[0]) == (1, ("consumer-member.dot", "stale"))


def test_draw_a_png(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The file is a PNG."""
    assert run(capsys, "draw", "rebalance-notes", "-o", tmp_path, "--format", "png")[0] == 0
    assert (tmp_path / "rebalance-notes.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_draw_a_part_of_a_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The normal course with its effects, a few events, a lit state: each in the forms that can show it."""
    folder = ("-o", tmp_path, "--format", "mermaid")
    assert run(capsys, "draw", "consumer-member", *folder, "--path", "happy", "--effects", "--lit", "STABLE")[0] == 0
    drawn = (tmp_path / "consumer-member.mmd").read_text(encoding="utf-8")
    assert "JOINING --> RECONCILING : RESP_NEW (J2) / ADOPT_EPOCH, BUMP_TARGET" in drawn
    assert "class STABLE litState" in drawn
    assert "FENCED" not in drawn
    assert run(capsys, "draw", "connect-group", *folder, "--events", "ALL_JOINED, LEADER_SYNCED")[0] == 0
    drawn = (tmp_path / "connect-group.mmd").read_text(encoding="utf-8")
    assert [line for line in drawn.splitlines() if "-->" in line] == [
        "    [*] --> EMPTY",
        "    PREPARING_REBALANCE --> COMPLETING_REBALANCE : ALL_JOINED (1.2#45;3)",
        "    COMPLETING_REBALANCE --> STABLE : LEADER_SYNCED (1.2#45;8)",
    ]
    _, out, _ = run(capsys, "draw", "connect-group", "-o", tmp_path, "--states", "EMPTY,STABLE")
    assert "connect-group.md\n" not in out  # the page that cuts nothing


def test_parts_that_cannot_be_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Names that are not there, paths that end, all tables at once, a path that nobody has told."""
    folder = ("-o", tmp_path)
    for options, message in (
        (("connect-group", "--states", "EMPTYY"), "connect-group has no state 'EMPTYY'; did you mean EMPTY?"),
        (("connect-group", "--path", "ALL_JOINED"), "no such path: connect-group: ALL_JOINED is illegal in EMPTY"),
        (("--effects",), "draw: options that draw part of a table need a table; name a table, and leave out --check"),
        (("connect-group", "--lit", "EMPTY", "--check"), "draw: options that draw part of a table need a table"),
        (("connect-group", "--effects", "--format", "scxml"), "scxml has the whole table; leave out effects, or"),
    ):
        assert refused(capsys, "draw", *folder, *options).startswith(message)
    (tmp_path / "mine.yaml").write_text(TURNSTILE, encoding="utf-8")
    assert refused(capsys, "draw", tmp_path / "mine.yaml", *folder, "--path", "happy") == (
        "draw: no happy path of turnstile is known; give its events: --path EVENT,EVENT"
    )


def test_a_python_file_needs_the_name_of_its_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It may have several, and is not read as YAML."""
    (tmp_path / "mine.py").write_text("TABLE: int = 1\n", encoding="utf-8")
    mine = tmp_path / "mine.py"
    message = f"{mine}: a Python file may have several tables; name one: {mine}:TABLE"
    assert refused(capsys, "tables", mine) == refused(capsys, "draw", mine, "-o", tmp_path) == message


def test_draw_for_other_tools(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """SCXML and XState are further forms; they are not drawn unless asked for."""
    _, out, _ = run(capsys, "draw", "rebalance-notes", "-o", tmp_path, "--format", "scxml,xstate")
    assert [Path(line).name for line in out.splitlines()] == ["rebalance-notes.scxml", "rebalance-notes.xstate.json"]
    assert json.loads((tmp_path / "rebalance-notes.xstate.json").read_text(encoding="utf-8"))["id"] == "rebalance-notes"


def test_draw_a_table_of_ones_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A YAML file is drawn under the name that stands in it."""
    (tmp_path / "mine.yaml").write_text(TURNSTILE, encoding="utf-8")
    status, out, _ = run(capsys, "draw", tmp_path / "mine.yaml", "-o", tmp_path, "--format", "mermaid", "--json")
    assert (status, json.loads(out)) == (0, {"files": [f"{tmp_path}/turnstile.mmd"]})
    assert "LOCKED --> OPEN : COIN" in (tmp_path / "turnstile.mmd").read_text(encoding="utf-8")


def test_a_hostile_table_file_breaks_no_drawing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Markup, quotes and ends of notes in titles, meanings, clauses and reasons stay text in every form."""
    attack = json.dumps('"></svg><script>x</script> end note @enduml %% ]]> | ` \\')
    text = TURNSTILE.replace("A turnstile", attack).replace("a coin fell", attack).replace("nobody passes", attack)
    text = text.replace("steps: [OPEN]}", f"steps: [OPEN], clause: {attack}, note: {attack}}}")
    text += f"  - {{states: [OPEN], events: [COIN], why: {attack}}}\n"
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    assert run(capsys, "draw", tmp_path / "mine.yaml", "-o", tmp_path)[0] == 0
    for suffix in ("svg", "dot", "mmd", "puml", "md"):
        drawn = (tmp_path / f"turnstile.{suffix}").read_text(encoding="utf-8")
        assert "script" in drawn
    drawing = (tmp_path / "turnstile.svg").read_text(encoding="utf-8")
    assert not [e for e in ET.fromstring(drawing).iter() if e.tag.endswith("script")]  # noqa: S314
    for suffix, end in (("mmd", "end note"), ("puml", "@enduml")):
        lines = (tmp_path / f"turnstile.{suffix}").read_text(encoding="utf-8").splitlines()
        assert [line for line in lines if line.strip() == end] == ([end] if suffix == "puml" else [])


def test_without_the_graphviz_package_the_remedy_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A base install draws every text form; svg says which forms those are, and how to get the package."""
    monkeypatch.setitem(sys.modules, "graphviz", None)
    assert run(capsys, "draw", "rebalance-notes", "-o", tmp_path, "--format", "dot,mermaid,plantuml,markdown")[0] == 0
    assert len(list(tmp_path.iterdir())) == 4
    assert refused(capsys, "draw", "rebalance-notes", "-o", tmp_path, "--format", "svg") == (
        "svg needs the graphviz package and its program dot; in a checkout: pip install '.[diagrams]', "
        "or ask for --format dot,mermaid,plantuml,markdown, which need nothing"
    )


def test_draw_refuses_two_tables_of_one_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The second would overwrite the first."""
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(TURNSTILE, encoding="utf-8")
    printed = refused(capsys, "draw", tmp_path / "a.yaml", tmp_path / "b.yaml", "-o", tmp_path)
    assert printed == f"{tmp_path}/b.yaml: holds 'turnstile', as {tmp_path}/a.yaml does; draw them one by one"


def test_a_folder_that_cannot_be_written_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "taken").touch()
    printed = refused(capsys, "draw", "rebalance-notes", "-o", tmp_path / "taken", "--format", "dot")
    assert printed.startswith(f"{tmp_path}/taken/rebalance-notes.dot: cannot be written: ")
    assert printed.endswith("; give -o a folder that can be written to")


def test_check_of_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Unusable input, not a list of everything missing."""
    printed = refused(capsys, "draw", "--check", "-o", tmp_path / "gone")
    assert printed == f"{tmp_path}/gone: no such folder; draw it with: fsm draw -o {tmp_path}/gone"


def test_without_dot_the_text_forms_are_still_drawn(tmp_path: Path) -> None:
    """With an empty PATH svg is refused on one line with a way out, and that way works."""
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": ""}
    command = [sys.executable, "-m", "fsm", "draw", "rebalance-notes", "-o", str(tmp_path), "--format"]
    done = subprocess.run([*command, "svg"], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "fsm: the dot program is not on PATH, and svg needs it; "
        "install Graphviz, or ask for --format dot,mermaid,plantuml,markdown, which need nothing\n"
    )
    forms = "dot,mermaid,plantuml,markdown"
    done = subprocess.run([*command, forms], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr, len(list(tmp_path.iterdir()))) == (0, "", 4)


# fsm audit, and what all commands share


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit"], "the following arguments are required: PATH, -o; see fsm audit --help"),
        (["audit", "x", "-o", "y", "--tolerance-ms", "1s"], "'1s' is not a whole number of at least 0"),
        (["audit", "x", "-o", "y", "--split-bytes", "0"], "'0' is not a whole number of at least 1"),
        (["audit", "x", "-o", "y", "--format", "log4j"], "invalid choice: 'log4j'"),
        ([], "the following arguments are required: COMMAND; see fsm --help"),
        (["tabels"], "invalid choice: 'tabels'"),
        (["draw", "--out", "x"], "the following arguments are required: -o; see fsm draw --help"),
        (["tables", "--json", "--format", "yaml"], "not allowed with argument"),
    ],
)
def test_wrong_arguments_are_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    """argparse's own messages keep the form of every other refusal."""
    assert message in refused(capsys, *arguments)


@pytest.mark.parametrize("command", [[], ["tables"], ["draw"], ["audit"]])
def test_help_shows_examples(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    """Every command has help with examples of itself and its exit statuses; none starts Spark."""
    with pytest.raises(SystemExit) as left:
        main([*command, "--help"])
    out = capsys.readouterr().out
    assert left.value.code == 0
    for name in command:
        assert f"\n  fsm {name}" in out
        assert "exit status: 0" in out


def test_fsm_tables_loads_nothing_heavy() -> None:
    """A fresh interpreter that listed the tables has loaded none of what only other commands need."""
    code = f"import sys; from fsm.cli import main; main(['tables']); print(set('{HEAVY}'.split()) & set(sys.modules))"
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines()[-1] == "set()"


def test_the_package_runs_as_a_module() -> None:
    """`python -m fsm` is the same program, exit status and all."""
    assert started("tables").returncode == 0
    done = started("tables", "nonsense")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    """`fsm tables consumer-member | head -1`: nothing on stderr, and the exit status of a closed pipe."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "fsm", "tables", "consumer-member"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_full_disk_is_no_traceback() -> None:
    """Where stdout cannot take the text, one line says so and the status is 2."""
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "fsm", "tables"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (
        2,
        "fsm: output: No space left on device; check the disk and the permissions\n",
    )


def test_ctrl_c_is_no_traceback(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt while a table is read ends the command with 130 and a word."""

    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("fsm.render.tables.text.listing", interrupted)
    assert run(capsys, "tables") == (130, "", "fsm: stopped\n")


def test_an_interrupt_while_the_command_line_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is heard before there is any command."""

    def interrupted(_argv: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("fsm.cli.main", interrupted)
    assert __main__.main(["tables"]) == 130
    assert capsys.readouterr().err == "fsm: stopped\n"


def test_output_in_an_encoding_without_the_character() -> None:
    """An arrow in a note is written with its code where stdout is ASCII."""
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "fsm", "tables", "consumer-member", "--format", "markdown"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u2192 **`JOINING`**" in done.stdout


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """Where the rename fails, the old content stays and no temporary file is left."""
    target = tmp_path / "page.md"
    write(target, b"first")
    write(target, b"second")
    assert target.read_bytes() == b"second"
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write(tmp_path / "folder", b"third")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "page.md"]


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        (("audit", "-o", "out", "--follow"), "pyspark", "spark"),
        (("audit", "-o", "out", "--follow", "--master", "none"), "pyspark", "spark"),
        (("capture", "--read"), "dpkt", "capture"),
    ],
)
def test_a_package_of_an_extra_that_is_missing_is_one_line(
    tmp_path: Path, command: tuple[str, ...], package: str, extra: str
) -> None:
    """With the extra that has it, and the status of bad input: that of findings would be an alarm."""
    (tmp_path / "a.log").write_text("x\n")
    given = [*command, "a.log"]
    code = f"import sys; sys.modules[{package!r}] = None\nfrom fsm.cli import main\nsys.exit(main({given!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    told = [line for line in done.stderr.splitlines() if not line.startswith("fsm: following ")]
    assert (done.returncode, told) == (2, [f"fsm: {package} is not installed; in a checkout: pip install '.[{extra}]'"])
