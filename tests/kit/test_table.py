"""The table of rules and clients in `tests/README.md`: it has today's rules, and is made from traces."""

from __future__ import annotations

import re
from pathlib import Path

from fsm.kit.checks import CHECKS
from fsm.wire import to_line
from tests.kit.recorded import TRACES, load, traces
from tests.kit.table import README, judge_folder, rewrite, table


def test_the_page_has_every_rule() -> None:
    """In order, in today's words."""
    rows = re.findall(
        r"^\| ([A-Z]\d+) (.*?) \| (MUST|SHOULD|NOTE) \|", README.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert rows == [(check.id, check.rule, check.grade.value) for check in CHECKS.values()]


def test_a_table_is_made_of_traces(tmp_path: Path) -> None:
    """What failed is marked, and what a real Kafka showed, too; writing it again changes nothing."""
    for scenario, client, lines in traces(TRACES):
        if (scenario, client) == ("unknown_member", "plat"):
            text = "".join(f"{to_line(one)}\n" for one in load(lines))
            (tmp_path / f"{scenario}.jsonl").write_text(text, encoding="utf-8")
    judged = judge_folder(tmp_path, "some client")
    assert re.search(r"^\| E5 .* \| MUST \| FAIL \|$", table({"platformatic": judged}, {}), re.MULTILINE)
    fixed = judged._replace(verdicts={**judged.verdicts, "J1": "failed", "J2": "not seen"})
    made = table({"platformatic": judged}, {"platformatic": fixed})
    assert "* platformatic: some client, 1 scenarios" in made or "platformatic-kafka" in made
    assert re.search(r"^\| E5 .* \| MUST \| FAIL \[K\] \|$", made, re.MULTILINE)
    assert re.search(r"^\| J1 .* \| MUST \| \+, FAIL \[K\] \|$", made, re.MULTILINE)
    assert re.search(r"^\| J2 .* \| MUST \| \+ \|$", made, re.MULTILINE)
    page = "before\n<!-- clients: begin -->\nwhat stood there\n<!-- clients: end -->\nafter\n"
    once = rewrite(page, made)
    assert once.startswith("before\n")
    assert once.endswith("after\n")
    assert "what stood there" not in once
    assert rewrite(once, made) == once
