"""A headless Chromium, led through its own pipe: pages are opened, scripts run in them, pictures taken."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any, Self

from patience import PATIENCE_S, wait_until

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Browser:
    """One page. A context manager; fails where there is no Chromium."""

    def __init__(self, folder: Path) -> None:
        program = next((found for name in NAMES if (found := shutil.which(name))), None)
        assert program, "no Chromium; install it (apt-get install chromium)"
        there, self._write = os.pipe()
        self._read, back = os.pipe()
        # The browser reads commands from descriptor 3 and writes answers to 4.
        command = (
            f"exec {program} --headless --no-sandbox --disable-gpu --remote-debugging-pipe --user-data-dir={folder}"
        )
        self._process = subprocess.Popen(
            ["bash", "-c", f"{command} 3<&{there} 4>&{back}"],
            pass_fds=(there, back),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(there)
        os.close(back)
        self._bytes = b""
        self._number = 0
        self._session: str | None = None
        self.errors: list[str] = []
        """What the console had to complain about since the browser began."""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self._ask(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None
        self._ask("Browser.close")
        self._process.wait(PATIENCE_S)
        os.close(self._write)
        os.close(self._read)

    def open(self, url: str) -> None:
        """Goes to another page, and waits until it is there."""
        self.run("document.isLeft = true")
        self._ask("Page.navigate", url=url)
        self.wait_for("!document.isLeft && document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """The value of the expression, once it is true; True for an element."""
        found: list[Any] = []

        def is_so() -> Any:
            found[:] = [self.run(f"(found => found instanceof Node || found)({script})")]
            return found[0]

        wait_until(is_so)
        return found[0]

    def resize(
        self, width: int, height: int = 900, *, dark: bool = False, phone: bool = False, media: str = ""
    ) -> None:
        """Gives the page another size, colours or medium."""
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def press(self, key: str, code: int = 0) -> None:
        """A key goes down and up; one with a name needs its code."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            typed = text if kind == "keyDown" else {}
            self._ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **typed)

    def point(self, kind: str, x: float, y: float, **fields: Any) -> None:
        """The mouse does something there: `mousePressed`, `mouseMoved`, `mouseReleased` or `mouseWheel`."""
        self._ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1, **fields)

    def click(self, selector: str) -> None:
        """Clicks with the mouse on the first element that the selector finds, once it is in view."""
        at = f"document.querySelector({json.dumps(selector)})"
        box = self.run(f"(e => (e.scrollIntoView({{block: 'center'}}), e.getBoundingClientRect().toJSON()))({at})")
        for kind in ("mousePressed", "mouseReleased"):
            self.point(kind, box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def print(self) -> bytes:
        """The page as a PDF."""
        return b64decode(self._ask("Page.printToPDF", printBackground=True)["data"])

    def picture(self) -> bytes:
        """The page as a PNG."""
        return b64decode(self._ask("Page.captureScreenshot")["data"])

    def _ask(self, method: str, **fields: Any) -> Any:
        self._number += 1
        command = {"id": self._number, "method": method, "params": fields}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._write, json.dumps(command).encode() + b"\0")
        while True:
            while b"\0" not in self._bytes:
                more = os.read(self._read, 1 << 16)
                assert more, "the browser has ended"
                self._bytes += more
            line, _, self._bytes = self._bytes.partition(b"\0")
            answer = json.loads(line)
            self._note(answer)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _note(self, message: dict[str, Any]) -> None:
        """Keeps what the console was told, where it is a complaint."""
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str(params["args"]))
