"""Headless Chromium, driven through its debugging pipe."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from typing import Any


def chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page:
    """One page: `evaluate` runs JavaScript in it, `click` and `drag` use the mouse."""

    def __init__(self, program: str, folder: str) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def place() -> None:
            # Aside first: the pipes themselves may have the numbers 3 and 4, which the program expects to inherit.
            aside = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_read, to_write)]
            os.dup2(aside[0], 3)
            os.dup2(aside[1], 4)

        self._process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--no-proxy-server", "--disable-background-networking", "--disable-component-update",
             "--window-size=1200,900", f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._buffer, self._number, self._session = b"", 0, None
        self.messages: list[Any] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, seconds: float = 120.0, **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + seconds
        while True:
            answer = self._next(end)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return answer["result"]
            self.messages.append(answer)

    def _next(self, end: float) -> Any:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("Chromium did not answer")
            content = os.read(self._read, 2**20)
            if not content:
                raise RuntimeError("Chromium ended")
            self._buffer += content
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def wait_for(self, script: str, seconds: float = 120.0) -> Any:
        end = time.monotonic() + seconds
        while not (value := self.evaluate(script)):
            if time.monotonic() > end:
                raise TimeoutError(f"{script} did not become true")
            time.sleep(0.05)
        return value

    def mouse(self, kind: str, x: float, y: float) -> None:
        held = int(kind != "mouseReleased")
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=held, clickCount=1)

    def click(self, element: str) -> None:
        self.evaluate(f"document.querySelector({element!r}).scrollIntoView({{block: 'center'}})")
        x, y = self.centre(element)
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def centre(self, element: str) -> tuple[float, float]:
        return tuple(
            self.evaluate(
                f"(() => {{ const b = document.querySelector({element!r}).getBoundingClientRect();"
                "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
            )
        )

    def screenshot(self, path: Any) -> None:
        content = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(content))

    def complaints(self) -> list[str]:
        """Errors of the console, and requests to anywhere but the server."""
        bad = []
        for message in self.messages:
            text = json.dumps(message.get("params", {}))
            entry = message.get("params", {}).get("entry", {})
            if message.get("method") == "Runtime.exceptionThrown" or entry.get("level") == "error":
                bad.append(text)
            if message.get("method") == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                if not url.startswith(("http://127.0.0.1:", "about:", "data:")):
                    bad.append(url)
        return bad

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._session = None
            self.call("Browser.close", seconds=10)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)
        os.close(self._read)
        os.close(self._write)


@contextlib.contextmanager
def browsing(folder: Any):
    page = Page(chromium() or "", str(folder))
    try:
        yield page
    finally:
        page.close()
