"""The explorer's page: one that asks the server it came from, or a file that holds all it shows.

What it shows may have been written by anyone who can send a packet or write a log line. So documents stand in it as
JSON in which no element can begin, its scripts make text nodes of texts, never markup, and a content policy allows the
page its own style and script, by their hashes, and, where it is served, requests to where it came from.
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
"""They stand in one element of the page, one after the other, as they run."""
TITLE = "fsm explore"


def page(opening: Mapping[str, Any] | None = None, steps: Iterable[Mapping[str, Any]] = (), *, key: str = "") -> str:
    """The page as HTML; the same arguments give the same text.

    Args:
        opening: the document that tells what is explored; without it the page asks its server for everything.
        steps: every step of the path, with what it changed, for a page that holds all it shows.
        key: what a served page sends back with a request that makes the server work.
    """
    held = None if opening is None else _hold(opening, steps)
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


def _hold(opening: Mapping[str, Any], steps: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What a page by itself has; it adds up what steps changed, so it needs no positions on the way."""
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
