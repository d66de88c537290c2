"""The explorer's page: one that queries its server, or a self-contained file.

Its content may come from anyone who can send a packet or write a log line. So documents are embedded as JSON in which
no element can begin, scripts make text nodes of texts, never markup, and a content security policy allows the page only
its own style and script, by their hashes, and requests to its server, if there is one.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from fsm.render.wording import name

_SCRIPTS = ("words", "source", "walk", "list", "diagram", "stage", "sequence", "options", "trouble", "main")
"""In their order in the one script element of the page."""
TITLE = "fsm explore"


def page(opening: Mapping[str, Any] | None = None, steps: Iterable[Mapping[str, Any]] = (), *, key: str = "") -> str:
    """The page as HTML; the same arguments give the same text.

    Args:
        opening: the document about the explored object; without it the page queries its server for everything.
        steps: all steps of the path, with their deltas, for a self-contained page.
        key: the secret that a served page sends with a request that makes the server work.
    """
    held = None if opening is None else _collect(opening, steps)
    style, script = _asset("page.css"), "".join(_asset(f"{part}.js") for part in _SCRIPTS)
    values = {
        "policy": _policy(style, script, served=held is None),
        "title": escape(name(str(opening["title"]))) if opening else TITLE,
        "key": escape(key),
        "style": style,
        "script": script,
        "data": json.dumps(held, separators=(",", ":")).replace("<", "\\u003c"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], _asset("page.html"))


def _collect(opening: Mapping[str, Any], steps: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The data of a self-contained page; it adds up deltas, so it needs no intermediate positions."""
    some = [{name: value for name, value in step.items() if name != "position"} for step in steps]
    return {"opening": {**opening, "can_branch": False, "length": len(some)}, "steps": some}


def _policy(style: str, script: str, *, served: bool) -> str:
    asked = "connect-src 'self'; " if served else ""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; {asked}img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _asset(file: str) -> str:
    return (files("fsm.explore") / "page" / file).read_text(encoding="utf-8")
