"""The Python of every README runs, its commands print what stands below them, and its links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import recordings

from fsm.cli import main, parser
from fsm.serve import Do, read_rules
from fsm.testing import LiveBroker

ROOT = Path(__file__).parents[1]
FOLDERS = ("*.md", ".github/*.md", "fsm/**/*.md", "tests/*.md", "tests/bench/*.md")
DOCUMENTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for folder in FOLDERS
    for path in sorted(ROOT.glob(folder))
}
PAGES = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("diagrams/*.md"))]
PYTHON = [
    pytest.param(block, id=f"{name}-{number}")
    for name, text in DOCUMENTS.items()
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL), 1)
]
DEEP = ("fsm/check/README.md", "fsm/capture/README.md", "fsm/simulate/README.md", "fsm/simulate/TUTORIAL.md")
"""The documents whose commands take longest; those of the README are in the loop."""
CONSOLES = [
    pytest.param(block, id=f"{name}-{number}", marks=[pytest.mark.deep] if name in DEEP else [])
    for name, text in DOCUMENTS.items()
    for number, block in enumerate(re.findall(r"```console\n(.*?)```", text, re.DOTALL), 1)
]
NOT_RUN = {
    "make": "each target sets up an environment, and the tests are one of them",
    "pip": "installs",
    "python": "benches take minutes",
    "fsm conform --broker": "needs a broker",
    "fsm join": "needs a broker",
}
"""Commands of console blocks that no test runs, by how they begin, each with its reason.

Blocks of plain text show what needs another program, Spark or minutes, or goes on until it is stopped.
"""
TYPED = [
    pytest.param(line, id=f"{name}: {line[:60]}")
    for name, text in DOCUMENTS.items()
    for block in re.findall(r"```(?:console|text)\n(.*?)```", text, re.DOTALL)
    for line in re.findall(r"^\$ (.*)", block, re.MULTILINE)
    if re.search(r"\bfsm ", line)
]
"""Lines with the command `fsm` in any block, run or not."""


def commands(block: str) -> Iterator[tuple[str, str]]:
    """(command, what is shown below it) of a console block, without the commands that are not run."""
    for command, shown in re.findall(r"^\$ ([^\n]*)\n(.*?)(?=^\$ |\Z)", block, re.DOTALL | re.MULTILINE):
        if not any(f"{command} ".startswith(f"{begin} ") for begin in NOT_RUN):
            yield command, shown


def test_the_readme_has_its_examples() -> None:
    """A table, a bound model, the member and the coordinator, in at most 300 lines."""
    text = DOCUMENTS["README.md"]
    assert text.count("```python\n") == 4
    assert len(text.splitlines()) <= 300


def test_the_readme_names_every_package() -> None:
    """Each package and module directly below `fsm` stands in the map, with one file a row to be read first."""
    names = {path.stem for path in (ROOT / "fsm").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    shown = set(re.findall(r"\[`(\w+)`\]\(fsm/", DOCUMENTS["README.md"]))
    assert shown == names - {"__init__", "__main__"}
    rows = DOCUMENTS["README.md"].split("| package | is | read first |\n|---|---|---|\n")[1].split("\n\n")[0]
    for row in rows.splitlines():
        assert re.fullmatch(r"\[`[\w/]+\.py`\]\(fsm/[\w/]+\.py\)", row.rsplit("|", 2)[1].strip()), row


def test_no_example_stands_in_two_documents() -> None:
    """A block of Python is shown once; other documents link to it."""
    blocks = [block.values[0] for block in PYTHON]
    assert len(set(blocks)) == len(blocks)


@pytest.mark.parametrize("source", PYTHON)
def test_python_block_runs(source: str) -> None:
    """Each block runs by itself, its assertions included; a test in it that wants a broker gets one."""
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(source, "README.md", "exec", dont_inherit=True), names)  # noqa: S102  the documents are ours
    for name in [name for name in names if name.startswith("test_")]:
        with LiveBroker() as broker:
            names[name](broker)


@pytest.mark.parametrize("line", TYPED)
def test_what_is_typed_is_understood(line: str) -> None:
    """Each `fsm` of a line is a command with options that it has, whether or not a test runs it."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    given = list(words)
    for at in (at for at, word in enumerate(given) if word == "fsm"):
        end = next((i for i in range(at, len(given)) if set(given[i]) <= set("();<>|&")), len(given))
        parser([given[at + 1]]).parse_args(given[at + 1 : end])


def test_the_faults_of_the_broker_are_read() -> None:
    """The rules that its README shows."""
    (shown,) = re.findall(r"```yaml\n(.*?)```", DOCUMENTS["fsm/serve/README.md"], re.DOTALL)
    assert [rule.do for rule in read_rules(shown, "rules.yaml")] == [Do.REFUSE, Do.LOSE, Do.REWRITE]


def make_logs(root: Path) -> None:
    """What the documents audit: the logs of two consumers, by themselves and as a node of Kubernetes keeps them."""
    for name, data in recordings.logs("java")["j07_maxpoll"].items():
        plain = root / "logs" / Path(name).name
        pod = root / "pods" / f"shop_orders-{plain.stem.lower()}_0c9e" / "app" / "0.log"
        time, lines = b"", []
        for line in data.splitlines():
            if stamp := re.search(rb"\[(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d),(\d{3})\]", line):
                time = stamp[1] + b"T" + stamp[2] + b"." + stamp[3]
            lines.append(time + b"000000Z stdout F " + line + b"\n")
        for file, content in ((plain, data), (pod, b"".join(lines))):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


@pytest.mark.parametrize("block", CONSOLES)
def test_console_block_prints_what_is_shown(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Line by line, in a folder that has those of this repository; a line of three dots stands for any lines.

    CPU time differs from run to run: any figure will do. What asks nothing of the shell runs in this process.
    """
    monkeypatch.chdir(tmp_path)
    for folder in ("fsm", "tests", "diagrams"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    if "fsm audit " in block:
        make_logs(tmp_path)
    script = tmp_path / "bin" / "fsm"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m fsm "$@"\n')
    script.chmod(0o755)
    environment = os.environ | {"PATH": f"{script.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    for command, shown in commands(block):
        if re.fullmatch(r"fsm [\w ./:,=%-]*(#.*)?", command):
            status = main(shlex.split(command, comments=True)[1:])
        else:
            status = subprocess.run(["sh", "-c", command], env=environment, check=False).returncode
        out, err = capfd.readouterr()
        assert (status in (0, 1), err) == (True, ""), command
        lines = [".*" if line == "..." else re.escape(line) for line in shown.splitlines() if line]
        lines = [re.sub(r"\d+\\\.\d\\ CPU", r"\\d+\\.\\d CPU", line) for line in lines]
        printed = "\n".join(line for line in out.splitlines() if line)
        if lines and not re.fullmatch("\n".join(lines), printed, re.DOTALL):
            pytest.fail(f"{command} prints\n{printed}", pytrace=False)


def list_anchors(text: str) -> set[str]:
    """Of headings, as GitHub makes them, and those that are written."""
    heads = re.findall(r"^#+ (.*)", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    made = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
    return made | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("name", [*DOCUMENTS, *PAGES])
def test_every_link_leads_somewhere(name: str) -> None:
    """To a file of the repository, and to a heading or an anchor in it."""
    text, here = (ROOT / name).read_text(encoding="utf-8"), (ROOT / name).parent
    dead = []
    for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
        file = (here / link) if link else ROOT / name
        is_found = file.exists() and (
            not anchor or file.suffix != ".md" or anchor in list_anchors(file.read_text(encoding="utf-8"))
        )
        dead += [] if is_found else [f"{link}#{anchor}"]
    assert dead == []


def test_recipes_are_short() -> None:
    """One for each purpose, of at most four files, and what each names is there."""
    text = DOCUMENTS[".github/CONTRIBUTING.md"]
    recipes = re.findall(r"^## (A new .*)\n((?:.*\n)*?)(?=^## |\Z)", text, re.MULTILINE)
    assert [title for title, _ in recipes] == list(dict.fromkeys(title for title, _ in recipes))
    for title, recipe in recipes:
        steps = re.findall(r"^\d\. (.*)", recipe, re.MULTILINE)
        assert len(steps) <= 4, title
        for path in re.findall(r"`((?:fsm|tests)/[\w/.]+)`", recipe):
            assert "NAME" in path or (ROOT / path).exists(), path
