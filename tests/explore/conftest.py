"""A browser for the explorer's page, which is a file or comes from its server."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from browser import Browser
from explore_pages import Opened, Serve
from patience import PATIENCE_S

from fsm.check.catalog import make_model
from fsm.explore import ModelSession, Session
from fsm.explore.documents import page
from fsm.explore.server import Explorer


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all; each test opens its own page."""
    with Browser(tmp_path_factory.mktemp("browser")) as made:
        yield made


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    """Opens a page from its file, or from where it is served, and wants no complaint of it in the end."""

    def go(where: str, address: str = "", width: int = 1600, height: int = 1000, **fields: Any) -> Browser:
        if not where.startswith("http"):
            file = tmp_path / "explore.html"
            file.write_text(where, encoding="utf-8")
            where = f"file://{file}"
        browser.resize(width, height, **fields)
        browser.open("about:blank")
        browser.open(f"{where}{address}")
        browser.wait_for("document.body?.classList.contains('running')")
        return browser

    browser.errors.clear()
    yield go
    browser.open("about:blank")
    assert browser.errors == []


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves sessions on loopback; gives their addresses."""
    running: list[tuple[Explorer, threading.Thread]] = []

    def start(session: Session) -> str:
        explorer = Explorer(session, page=lambda key: page(key=key))
        thread = threading.Thread(target=explorer.serve, daemon=True)
        thread.start()
        running.append((explorer, thread))
        return explorer.url

    yield start
    for explorer, thread in running:
        explorer.close()
        thread.join(PATIENCE_S)


@pytest.fixture
def group(serve: Serve) -> str:
    """A served consumer group."""
    return serve(ModelSession(make_model("consumer-group")))
