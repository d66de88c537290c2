"""The table of rules and clients in `tests/README.md`: runs every client in every scenario and writes it anew.

`python -m tests.kit.table` takes an hour of waiting; with folders of traces that were kept (`fsm kit run --keep`) it
only judges: `python -m tests.kit.table NAME=FOLDER...`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fsm.kit import documents
from fsm.kit.checks import CHECKS
from fsm.kit.judge import judge, merge
from fsm.kit.processes import Result
from fsm.kit.report import verdicts
from fsm.kit.scenarios import SCENARIOS
from fsm.wire import read_lines
from tests.kit.clients import BUILT, PYTHON

README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- clients: begin -->", "<!-- clients: end -->"
MARKS = {"passed": "+", "failed": "FAIL", "not seen": ""}
ON_KAFKA = {
    (
        "E2",
        "librdkafka",
    ): "after a heartbeat that timed out it says nothing, and what is to be revoked is never heard of",
    ("E5", "platformatic"): "it goes on with its old epoch for ever",
    ("L5", "franz-go"): "the goodbye of a static member has no instance id and is refused",
}
"""What Apache Kafka 4.4 was seen to answer with as well, when these clients were driven on it."""


class Judged(NamedTuple):
    """What came of one client."""

    title: str
    scenarios: int
    verdicts: Mapping[str, str]


def judge_folder(folder: Path, title: str) -> Judged:
    """What the traces of a client say."""
    results = []
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            trace = list(read_lines(lines, str(path)))
        results.append(Result(SCENARIOS[path.stem], judge(trace), trace))
    checks = verdicts(merge(result.report for result in results))
    return Judged(documents.software(results, title), len(results), checks)


def table(clients: Mapping[str, Judged]) -> str:
    """The clients with their versions, and each rule with what came of it."""
    lines = [f"* {name}: {judged.title}, {judged.scenarios} scenarios" for name, judged in clients.items()]
    lines += ["", f"| rule | | {' | '.join(clients)} |", f"|---|---|{'---|' * len(clients)}"]
    for check in CHECKS.values():
        cells = [_cell(check.id, name, judged) for name, judged in clients.items()]
        lines.append(f"| {check.id} {check.rule} | {check.grade.value} | {' | '.join(cells)} |")
    lines += ["", *(f"* [K] {check}, {name}: {what}." for (check, name), what in ON_KAFKA.items())]
    return "\n".join(lines)


def _cell(check: str, name: str, judged: Judged) -> str:
    mark = MARKS[judged.verdicts[check]]
    return f"{mark} [K]" if mark == "FAIL" and (check, name) in ON_KAFKA else mark


def rewrite(text: str, made: str) -> str:
    """The page with this table."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{made}\n{END}{tail}"


def run_clients(folder: Path) -> None:
    """Keeps the traces of all clients in all scenarios."""
    for client in (*PYTHON, *BUILT):
        command = [
            sys.executable,
            "-m",
            "fsm",
            "kit",
            "run",
            client.prepare(folder),
            "--keep",
            str(folder / client.name),
        ]
        protocol = ["--protocol", client.protocols[0]] if len(client.protocols) == 1 else []
        subprocess.run([*command, *protocol], stdout=subprocess.DEVNULL, check=False)


def main() -> None:
    """Writes the table."""
    titles = {client.name: client.title for client in (*PYTHON, *BUILT)}
    with tempfile.TemporaryDirectory() as made:
        given = [argument.partition("=") for argument in sys.argv[1:]]
        folders = {name: Path(path) for name, _, path in given} or {name: Path(made) / name for name in titles}
        if not given:
            run_clients(Path(made))
        judged = {name: judge_folder(folder, titles[name]) for name, folder in folders.items()}
    README.write_text(rewrite(README.read_text(encoding="utf-8"), table(judged)), encoding="utf-8")


if __name__ == "__main__":
    main()
