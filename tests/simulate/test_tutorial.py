"""The tutorial shows what its files hold. Its Python and its commands are run by tests/test_readme.py."""

from __future__ import annotations

import re
from pathlib import Path

SIMULATE = Path(__file__).parents[2] / "fsm" / "simulate"
TEXT = (SIMULATE / "TUTORIAL.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"\]\((tutorial/\w+\.yaml)\)[^`]*(?:`[^`\n]+`[^`]*)*?```yaml\n(.*?)```", TEXT, re.DOTALL)


def test_each_file_is_shown_as_it_is() -> None:
    """Both tables, the deployment, and the table that is mended."""
    assert [name for name, _ in SHOWN] == [f"tutorial/{n}.yaml" for n in ("signal", "barrier", "crossing", "mended")]
    for name, shown in SHOWN:
        assert shown == (SIMULATE / name).read_text(encoding="utf-8")


def test_it_takes_sixty_lines_from_table_to_fix() -> None:
    """Two tables, a deployment, and the table anew."""
    assert sum(len(shown.splitlines()) for _, shown in SHOWN) <= 60
