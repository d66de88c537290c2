"""`fsm audit` in a pipe and on a terminal: stdin as a log, progress, colours."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from unittest.mock import patch

import pytest

from fsm.cli import main
from fsm.render.report.folder import PAGE
from fsm.spark.progress import LINE_S, Progress
from fsm.spark.result import MARK

AUDIT = (sys.executable, "-m", "fsm", "audit")
IN_PROCESS = ("--master", "none")


def audit(folder: Path, *arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The command in a folder, without Spark; in this process, whose streams are no terminals meanwhile."""
    given, said, complained = (TextIOWrapper(BytesIO(data), encoding="utf-8") for data in (stdin, b"", b""))
    command = [str(one) for one in ("audit", *arguments, *IN_PROCESS)]
    with chdir(folder), patch.object(sys, "stdin", given), redirect_stdout(said), redirect_stderr(complained):
        status = main(command)
    for told in (said, complained):
        told.flush()
    return subprocess.CompletedProcess(command, status, *(told.buffer.getvalue() for told in (said, complained)))  # type: ignore[attr-defined]


# -- stdin ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_stdin_is_read_as_a_file(recordings: Path, tmp_path: Path, packed: bool) -> None:
    """Beside other files, packed or not: findings are those of a file, evidence names the copy in the result."""
    log = (recordings / "c06_maxpoll" / "B.log").read_bytes()
    (tmp_path / "given.log").write_bytes(log)
    other = recordings / "c06_maxpoll" / "A.log"
    expected = audit(tmp_path, "given.log", other, "-o", "expected", "--json")
    found = audit(tmp_path, "-", other, "-o", "out", "--json", stdin=gzip.compress(log, mtime=0) if packed else log)
    assert (found.returncode, found.stderr) == (expected.returncode, b"") == (1, b"")
    ours, theirs = json.loads(found.stdout), json.loads(expected.stdout)
    text = json.dumps(ours["findings"])
    assert "out/stdin.log" in text
    assert json.loads(text.replace("out/stdin.log", "given.log")) == theirs["findings"]
    kept = (tmp_path / "out" / "stdin.log").read_bytes()
    assert (gzip.decompress(kept) if packed else kept) == log


def test_stdin_alone(recordings: Path, tmp_path: Path) -> None:
    """It may be all there is."""
    log = (recordings / "c06_maxpoll" / "A.log").read_bytes()
    found = audit(tmp_path, "-", "-o", "out", stdin=log)
    assert found.stdout.startswith(b"read %d lines of 1 files" % log.count(b"\n"))


@pytest.mark.parametrize(
    ("stdin", "said"),
    [(b"", "stdin: is empty"), (bytes(range(256)) * 20, "stdin: binary file"), (b"hello\n", "no known client wrote")],
)
def test_stdin_that_is_no_log(tmp_path: Path, stdin: bytes, said: str) -> None:
    """One line, exit status 2, and no result."""
    found = audit(tmp_path, "-", "-o", "out", stdin=stdin)
    assert (found.returncode, found.stdout, found.stderr.count(b"\n")) == (2, b"", 1)
    assert said in found.stderr.decode()
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_called_as_stdin_is(recordings: Path, tmp_path: Path) -> None:
    """`./-` is a file."""
    (tmp_path / "-").write_bytes((recordings / "c06_maxpoll" / "A.log").read_bytes())
    assert audit(tmp_path, "./-", "-o", "out").returncode in (0, 1)
    assert not (tmp_path / "out" / "stdin.log").exists()


# -- a terminal -------------------------------------------------------------------------------------------------


def on_terminal(folder: Path, *arguments: str | Path, **environment: str) -> tuple[str, str]:
    """What the command writes to a terminal on stdout, and to another one on stderr."""
    told = []
    pairs = [pty.openpty() for _ in range(2)]
    out, err = (pair[1] for pair in pairs)
    settings = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | environment
    with subprocess.Popen([*AUDIT, *arguments], cwd=folder, stdout=out, stderr=err, env=settings) as child:
        for ours, theirs in pairs:
            os.close(theirs)
            told.append(_read(ours))
        assert child.wait() in (0, 1)
    return told[0], told[1]


def _read(terminal: int) -> str:
    parts = []
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # Linux says so where the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()


def test_a_terminal_shows_how_far_it_is(recordings: Path, tmp_path: Path) -> None:
    """In one line that is written again: what is done, the share of all, the time, the time that is left."""
    out, err = on_terminal(tmp_path, recordings / "c06_maxpoll", "-o", "out", *IN_PROCESS)
    shown = err.split("\r\x1b[K")
    assert shown[0] == shown[-1] == ""
    assert all(
        re.fullmatch(r"fsm audit: [\w ]+(, \d+%)?, \d+:\d\d(, about \d+:\d\d left)?", one) for one in shown[1:-1]
    )
    assert any(re.match(r"fsm audit: reading, [1-9]\d?%, 0:\d\d, about", one) for one in shown)
    assert any(re.match(r"fsm audit: judging, 60%, 0:\d\d, about", one) for one in shown)
    assert "report: out/" + PAGE in out


@pytest.mark.deep
def test_colours_are_for_terminals(recordings: Path, tmp_path: Path) -> None:
    """What is bad is red, unless NO_COLOR is set or stdout is no terminal."""
    given = (recordings / "r01_java_rdk", "-o", "out", *IN_PROCESS)
    out, _ = on_terminal(tmp_path, *given)
    assert "\x1b[31merror" in out
    out, _ = on_terminal(tmp_path, *given, NO_COLOR="1")
    assert "error" in out
    assert "\x1b" not in out
    piped = audit(tmp_path, recordings / "r01_java_rdk", "-o", "out")
    assert b"error" in piped.stdout
    assert b"\x1b" not in piped.stdout + piped.stderr
    assert (tmp_path / "out" / MARK).exists()


def test_a_pipe_gets_a_line_now_and_then() -> None:
    """A short audit says nothing; a long one a line every half minute, also where no share is known."""
    now, stream = [0.0], StringIO()
    say = Progress(stream, lambda: now[0])
    say("starting Spark")
    for seconds in range(1, 3 * LINE_S + 2):
        now[0] = seconds
        say("reading", seconds / 200)
    say.clear()
    assert stream.getvalue().splitlines() == [
        "fsm audit: reading, 15%, 0:30, about 2:50 left",
        "fsm audit: reading, 30%, 1:00, about 2:20 left",
        "fsm audit: reading, 45%, 1:30, about 1:50 left",
    ]
