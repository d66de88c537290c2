"""The table of rules and clients in `tests/README.md`: runs every client in every scenario and writes it anew.

`python -m tests.kit.table` takes an hour of waiting; with documents of earlier runs (`fsm kit run --json`) it only
writes: `python -m tests.kit.table NAME=DOCUMENT.json...`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fsm.kit.checks import CHECKS
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


def table(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """The clients with their versions, and each rule with what came of it."""
    names = list(documents)
    lines = [f"* {name}: {documents[name]['client']}, {len(documents[name]['scenarios'])} scenarios" for name in names]
    lines += ["", f"| rule | | {' | '.join(names)} |", f"|---|---|{'---|' * len(names)}"]
    for check in CHECKS.values():
        cells = [_cell(check.id, name, documents[name]) for name in names]
        lines.append(f"| {check.id} {check.rule} | {check.grade.value} | {' | '.join(cells)} |")
    lines += ["", *(f"[K] {check}, {name}: {what}." for (check, name), what in ON_KAFKA.items())]
    return "\n".join(lines)


def _cell(check: str, name: str, document: Mapping[str, Any]) -> str:
    mark = MARKS[document["checks"][check]]
    return f"{mark} [K]" if mark == "FAIL" and (check, name) in ON_KAFKA else mark


def rewrite(text: str, made: str) -> str:
    """The page with this table."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{made}\n{END}{tail}"


def run_clients() -> dict[str, Any]:
    """The documents of all clients in all scenarios."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for client in (*PYTHON, *BUILT):
            command = [sys.executable, "-m", "fsm", "kit", "run", client.prepare(Path(folder)), "--json"]
            protocol = ["--protocol", client.protocols[0]] if len(client.protocols) == 1 else []
            done = subprocess.run([*command, *protocol], capture_output=True, text=True, check=False)
            found[client.name] = json.loads(done.stdout)
    return found


def main() -> None:
    """Writes the table."""
    given = [argument.partition("=") for argument in sys.argv[1:]]
    documents = {name: json.loads(Path(path).read_text()) for name, _, path in given} or run_clients()
    README.write_text(rewrite(README.read_text(), table(documents)))


if __name__ == "__main__":
    main()
