"""A baseline: known findings, which are left out of the result.

It is the `audit.json` of an earlier audit, or its folder, or a file with an id on each line: of a finding, or of an
incident for all its findings. Text after a # is a comment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fsm.audit.findings import ID_DIGITS, Finding
from fsm.audit.incidents import Incident
from fsm.errors import InputError, refuse_os_errors

DOCUMENT = "audit.json"
_ID = re.compile(rf"i?[0-9a-f]{{{ID_DIGITS}}}(-[1-9]\d*)?", re.ASCII)
_REMEDY = "give the audit.json of an earlier audit, or a file with an id on each line"


def read_baseline(path: Path) -> frozenset[str]:
    """The ids in a baseline. Raises `InputError` if it cannot be read or is not a baseline."""
    file = path / DOCUMENT if path.is_dir() else path
    try:
        with refuse_os_errors("the baseline cannot be read", file, _REMEDY):
            text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError("is not a baseline: it is not text", str(file), _REMEDY) from None
    return frozenset(_of_document(text, file) if text.lstrip().startswith("{") else _of_lines(text, file))


def _of_document(text: str, file: Path) -> Iterator[str]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("is not a baseline: its JSON is incomplete", str(file), _REMEDY) from None
    findings: Any = document.get("findings")
    if not isinstance(findings, list) or not all(isinstance(one, dict) for one in findings):
        raise InputError("is not a baseline: JSON without findings", str(file), _REMEDY)
    for one in findings:
        if not isinstance(one.get("id"), str):
            raise InputError("is not a baseline: its findings have no ids", str(file), "audit those logs again")
        yield one["id"]


def _of_lines(text: str, file: Path) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        id_ = line.partition("#")[0].strip()
        if id_ and not _ID.fullmatch(id_):
            raise InputError(f"{id_[:40]!r} is not an id", f"{file}:{number}", _REMEDY)
        if id_:
            yield id_


def find_unknown(findings: Sequence[Finding], incidents: Iterable[Incident], known: frozenset[str]) -> list[Finding]:
    """The findings that are not in a baseline, by their own id or by that of their incident."""
    all_known = known.union(*(one.findings for one in incidents if one.id in known))
    return [one for one in findings if one.id not in all_known]
