"""A real headless Chromium, driven over the DevTools protocol with nothing but aiohttp."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import aiohttp

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--mute-audio"),
    *("--no-default-browser-check", "--disable-extensions", "--hide-scrollbars", "--remote-debugging-port=0"),
)


class Browser:
    """One Chromium with one page; everything it asked for and said is kept."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        assert program, "chromium is not installed; try: apt-get install chromium"
        command = [program, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self._log = (folder.parent / f"{folder.name}.log").open("wb")
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, start_new_session=True)
        self._loop = asyncio.new_event_loop()
        self._number = 0
        self.requests: list[str] = []
        self.complaints: list[str] = []  # errors on the console, exceptions, violations of the content policy
        self._run(self._connect(folder))

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(work, 30))

    async def _connect(self, folder: Path) -> None:
        port_file = folder / "DevToolsActivePort"
        while not (port_file.exists() and port_file.read_text().count("\n")):
            assert self._process.poll() is None, "chromium did not start"
            await asyncio.sleep(0.05)
        port = port_file.read_text().split()[0]
        self._session = aiohttp.ClientSession()
        async with self._session.get(f"http://127.0.0.1:{port}/json") as answer:
            [target] = [one for one in await answer.json() if one["type"] == "page"]
        self._socket = await self._session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=1 << 28)
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self._call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the answer to one command of the protocol."""
        return self._run(self._call(method, **parameters))

    async def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = json.loads((await self._socket.receive()).data)
            if message.get("id") == self._number:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        method, found = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(found["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(found["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" and found["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{found['entry']['text']} {found['entry'].get('url', '')}")

    def open(self, url: str) -> None:
        """Go to a page."""
        self.call("Page.navigate", url=url)

    def forget(self) -> None:
        """Leave the page that a test before has opened, and what it asked for and said."""
        self.open("about:blank")
        self.wait("location.href === 'about:blank'")
        self.requests.clear()
        self.complaints.clear()

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script: str, *, within_s: float = 60.0) -> Any:
        """Return the value of an expression as soon as it is true; True for an element."""
        give_up_at = time.monotonic() + within_s
        while True:
            guarded = f"try {{ const one = {script}; return one instanceof Node || one }} catch {{ return null }}"
            found = self.run(f"(() => {{ {guarded} }})()")
            if found:
                return found
            assert time.monotonic() < give_up_at, f"not within {within_s:g} s: {script}"
            time.sleep(0.05)

    def text(self, selector: str) -> str:
        """Return the text of an element as it is shown."""
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    def click(self, selector: str) -> None:
        """Click in the middle of an element with the mouse."""
        quoted = json.dumps(selector)
        at = self.run(
            f"(() => {{ const one = document.querySelector({quoted}); one.scrollIntoView({{block: 'center'}});"
            "const box = one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1)

    def press(self, key: str) -> None:
        """Press and let go of a key: Tab, Enter, ArrowLeft, …"""
        code = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def screen(self, width: int, height: int, *, dark: bool = False, phone: bool = False) -> None:
        """Set the size of the window and the colours that the user prefers."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        colours = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[colours])

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Save what the page looks like."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        """End the browser and every process of its group."""
        self._run(self._socket.close())
        self._run(self._session.close())
        self._loop.close()
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)
        self._log.close()
