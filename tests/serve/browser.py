"""A headless Chromium, led through its own pipe: pages are opened, scripts run in them, pictures taken."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from base64 import b64decode
from pathlib import Path
from typing import Any, Self

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
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None
        self._ask("Browser.close")
        self._process.wait(10)
        os.close(self._write)
        os.close(self._read)

    def open(self, url: str) -> None:
        """Goes there."""
        self._ask("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, script: str, timeout_s: float = 10.0) -> Any:
        """The value of the expression, once it is true."""
        until = time.monotonic() + timeout_s
        while not (found := self.run(script)):
            assert time.monotonic() < until, script
            time.sleep(0.05)
        return found

    def picture(self) -> bytes:
        """The page as a PNG."""
        return b64decode(self._ask("Page.captureScreenshot")["data"])

    def _ask(self, method: str, **said: Any) -> Any:
        self._number += 1
        command = {"id": self._number, "method": method, "params": said}
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
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
