"""`fsm explore`: what it opens, the one file that it writes, how it ends, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S

from fsm.check import check, make_model, scenario
from fsm.cli import main
from fsm.trace import Kind, TraceRecord

DOOR = """
fsm: 1
name: door
states: {OPEN: one can pass, SHUT: nobody can}
events: {PUSHED: somebody pushed}
initial: SHUT
rows:
  - {states: [SHUT], events: [PUSHED], steps: [OPEN]}
  - {states: [OPEN], events: [PUSHED], steps: [SHUT]}
"""
MODEL = """
from fsm.check import Choice, Component, Model, Step

MODEL = Model("mine", [Component("one", 0, lambda _: [Choice("goes")], lambda state, _: Step(state + 1))])
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(*args: str) -> dict[str, Any]:
    """What a page that was written holds."""
    assert main(["explore", *args, "-o", "page.html"]) == 0
    html = Path("page.html").read_text(encoding="utf-8")
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return dict(json.loads(text))


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """The one line that it is refused with."""
    assert main(["explore", *args, "-o", "page.html"]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert not Path("page.html").exists()
    return printed


def test_a_path_as_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    """The same arguments give the same bytes."""
    held = written("lock", "--path", "0.0.1")
    assert capsys.readouterr().out == "page.html\n"
    assert held["steps"][0]["text"] == "ann asks"
    first = Path("page.html").read_bytes()
    written("lock", "--path", "0.0.1")
    assert Path("page.html").read_bytes() == first


def test_models_take_the_options_of_check() -> None:
    """Of groups, of tables, and of Python files."""
    Path("door.yaml").write_text(DOOR)
    Path("doors.yaml").write_text(
        "deployment: doors\nlasts: 1m\nmachines: {door: {table: door.yaml, count: 2, happens: {PUSHED: 1s}}}\n"
    )
    Path("lock").write_text("a file may be called as a model is")
    Path("mine.py").write_text(MODEL)
    opened = [
        written("mixed-group", "--members", "3", "--policy", "upgrade"),
        written("door.yaml", "--never", "door.OPEN", "--path", "0"),
        written("doors.yaml", "--path", "0"),
        written("mine.py:MODEL", "--path", "0.0"),
        written("classic-member"),
        written("lock"),
    ]
    sources = [one["opening"]["source"] for one in opened]
    assert sources[0].startswith("mixed-group, 3 members of 4.4.0, 1 of them classic (eager), policy upgrade")
    assert sources[1:] == ["door", "2 door", "mine", "classic-member", "lock"]


def test_what_was_recorded_is_opened_by_what_it_holds() -> None:
    """A counterexample, a trace."""
    model = make_model("lock")
    (found,) = check(model, disturb=["expire"], disturbances=1).violations
    Path("found.yaml").write_text(scenario(found, model.made_by))
    Path("trace.txt").write_text(TraceRecord(1, Kind.STARTED, group="g", client_id="a").to_json())
    titles = [written(name)["opening"]["title"] for name in ("found.yaml", "trace.txt")]
    assert titles == ["writes come in the order of the lock", "trace.txt"]


def test_what_is_missing_is_told_before_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """On the terminal, and in the page."""
    lines = [TraceRecord(at, Kind.STARTED, group="g", client_id="a").to_json() for at in (1, 2)]
    Path("trace.jsonl").write_text("\n".join(lines)[:-5])
    assert written("trace.jsonl")["opening"]["missing"] == ["1 line left out: it is the last one, and was cut"]
    printed = capsys.readouterr()
    assert printed.err == "fsm: trace.jsonl: missing: 1 line left out: it is the last one, and was cut\n"
    assert printed.out == "page.html\n"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("nothing",), "unknown model 'nothing'; choose from consumer-group"),
        (("consumer-grup",), "unknown model 'consumer-grup'; did you mean consumer-group? choose from consumer-group"),
        (("nothing.jsonl",), "nothing.jsonl: cannot be read: No such file"),
        (("lock", "--path", "0.9"), "--path: step 2: no step 9 here: there are 2, numbered from 0"),
        (("lock", "--path", "one"), "'one' is not the number of a step"),
        (("lock", "--members", "3"), "lock: --members is for consumer-group, classic-group"),
        (("lock", "--group", "g"), "lock: --group does not apply to it"),
        (("odd.py",), "odd.py: a Python file may have several models; name one: odd.py:MODEL"),
        (("odd.json",), "odd.json:"),
        (("odd.yaml",), "odd.yaml:1: unknown key 'x'"),
        (("folder",), "folder: is a folder; name a file in it"),
        (("odd.txt",), "odd.txt: holds no model, scenario, trace, capture or log"),
        (("odd.pcap",), "odd.pcap: holds packets; fsm capture --read odd.pcap -o trace.jsonl makes a trace of it"),
        (("odd.txt", "--members", "3"), "odd.txt: --members is for"),
        (("odd.txt", "--path", "0"), "odd.txt: --path does not apply to it"),
        (("old.yaml",), "old.yaml:2: unknown model 'gone'; choose from"),
        (("old.yaml", "--path", "0"), "old.yaml: --path does not apply to it"),
        (("lock", "--port", "99999"), "'99999' is not a whole number from 0 to 65535"),
    ],
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], args: tuple[str, ...], words: str) -> None:
    """With where and what to do."""
    Path("folder").mkdir()
    Path("odd.yaml").write_text("x: 1\n")
    for suffix in ("txt", "py", "json"):
        Path(f"odd.{suffix}").write_text("hello\n")
    Path("odd.pcap").write_bytes(b"\xd4\xc3\xb2\xa1\2\0\4\0")
    Path("old.yaml").write_text("path: no partition has two users\nmodel: gone\nsteps: [{do: a polls}]\n")
    assert words in refused(capsys, *args)


def test_a_folder_is_no_page(capsys: pytest.CaptureFixture[str]) -> None:
    """-o names the file."""
    Path("folder").mkdir()
    assert main(["explore", "lock", "-o", "folder"]) == 2
    assert capsys.readouterr().err == "fsm: folder: cannot be written: Is a directory; give -o a file\n"


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.deep)])
def test_it_says_where_the_page_is_and_ends_when_it_is_told_to(how: signal.Signals) -> None:
    """The page comes with its policy; the end is clean."""
    command = [sys.executable, "-m", "fsm", "explore", "lock"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        text = process.stdout.readline()
        url = re.fullmatch(r"exploring on http://(127\.0\.0\.1:\d+)/\n", text)
        assert url is not None, text
        connection = HTTPConnection(url[1], timeout=PATIENCE_S)
        connection.request("GET", "/")
        assert b"<title>" in connection.getresponse().read()
        connection.close()
        process.send_signal(how)
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()
