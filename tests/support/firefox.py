"""A headless Firefox, driven by Marionette, the protocol that is built into it: messages of JSON over a socket."""

import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

NAMES = ("firefox-esr", "firefox")
FIREFOX = next((found for name in NAMES if (found := shutil.which(name))), None)
needs_firefox = pytest.mark.skipif(FIREFOX is None, reason="no Firefox here; apt-get install firefox-esr")
LIMIT_S = 60
# No start page, no update, no telemetry, no question; a free port for Marionette.
PREFERENCES = {
    "marionette.port": 0,
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "toolkit.telemetry.enabled": False,
    "ui.prefersReducedMotion": 1,
}
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004"}
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
# Errors of pages, without warnings.
MESSAGES = """
const found = [];
const listener = { observe(message) {
  const isError = message instanceof Ci.nsIScriptError && !(message.flags & Ci.nsIScriptError.warningFlag);
  if (isError && message.sourceName.startsWith("file:")) found.push(message.errorMessage);
} };
Services.console.registerListener(listener);
globalThis.nsyswrapMessages = found;
"""
# Requests over the network, without those of Firefox itself, such as for its settings.
REQUESTS = """
globalThis.nsyswrapRequests = [];
Services.obs.addObserver({ observe(subject) {
  const channel = subject.QueryInterface(Ci.nsIHttpChannel);
  if (!channel.loadInfo.triggeringPrincipal.isSystemPrincipal) globalThis.nsyswrapRequests.push(channel.URI.spec);
} }, "http-on-modify-request");
"""


class Firefox:
    """A session of Marionette; it has the methods of ``page_tasks.Driver``."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = b""
        self._count = 0
        self._receive()
        self.send("WebDriver:NewSession", capabilities={})

    def _receive(self) -> Any:  # noqa: ANN401 - a message
        while b":" not in self._buffer:
            self._read()
        size, _, self._buffer = self._buffer.partition(b":")
        while len(self._buffer) < int(size):
            self._read()
        message, self._buffer = self._buffer[: int(size)], self._buffer[int(size) :]
        return json.loads(message)

    def _read(self) -> None:
        part = self._connection.recv(1 << 16)
        if not part:
            raise ConnectionError("Firefox has ended")
        self._buffer += part

    def send(self, command: str, **parameters: Any) -> Any:  # noqa: ANN401 - as the command has them
        self._count += 1
        message = json.dumps([0, self._count, command, parameters])
        self._connection.sendall(f"{len(message)}:{message}".encode())
        _, _, error, result = self._receive()
        assert error is None, f"{command}: {error}"
        return result

    def open(self, path: Path) -> None:
        """Open a page in a tab that had another one."""
        self.send("WebDriver:Navigate", url="about:blank")
        self.send("WebDriver:Navigate", url=path.as_uri())

    def press(self, key: str) -> None:
        self.type(KEYS.get(key, key))

    def type(self, text: str) -> None:
        strokes = [{"type": kind, "value": letter} for letter in text for kind in ("keyDown", "keyUp")]
        self.send("WebDriver:PerformActions", actions=[{"type": "key", "id": "keys", "actions": strokes}])

    def click(self, place: str) -> None:
        """Click the first visible element of a CSS selector, scrolled into view."""
        script = f"""const all = [...document.querySelectorAll({json.dumps(place)})];
        const found = all.find((one) => one.checkVisibility());
        found.scrollIntoView({{ block: "center", inline: "center" }}); return found;"""
        element = self.send("WebDriver:ExecuteScript", script=script, args=[])["value"]
        moves = [
            {"type": "pointerMove", "x": 0, "y": 0, "origin": {ELEMENT: element[ELEMENT]}},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        self.send("WebDriver:PerformActions", actions=[{"type": "pointer", "id": "mouse", "actions": moves}])

    def evaluate(self, body: str) -> Any:  # noqa: ANN401 - what the function returns
        """Run the body of a function in the page and return its value."""
        # Scripts of the page are visible only to one that runs among them.
        return self.send("WebDriver:ExecuteScript", script=body, args=[], sandbox=None)["value"]

    def wait(self) -> None:
        """Let the page work for a moment."""
        time.sleep(0.05)

    def listen(self) -> None:
        """Note errors of pages and requests over the network from now on."""
        self._in_chrome(MESSAGES + REQUESTS)

    def noted(self) -> tuple[list[str], list[str]]:
        """Return the errors and the requests since ``listen``."""
        messages, requests = self._in_chrome("return [globalThis.nsyswrapMessages, globalThis.nsyswrapRequests];")
        return messages, requests

    def _in_chrome(self, script: str) -> Any:  # noqa: ANN401 - what it returns
        self.send("Marionette:SetContext", value="chrome")
        found = self.send("WebDriver:ExecuteScript", script=script, args=[], sandbox="system")["value"]
        self.send("Marionette:SetContext", value="content")
        return found


@contextmanager
def firefox(width: int, height: int) -> Iterator[Firefox]:
    """Start a headless Firefox with a profile of its own, and end it."""
    assert FIREFOX is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        lines = (f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items())
        Path(profile, "user.js").write_text("\n".join(lines))
        size = [f"--width={width}", f"--height={height}"]
        # The system principal may run scripts in the browser itself, to note messages and requests.
        command = [FIREFOX, "--headless", "--marionette", "--remote-allow-system-access", "--no-remote", *size]
        process = subprocess.Popen(
            [*command, "--profile", profile], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            with socket.create_connection(("127.0.0.1", _port(process, Path(profile))), timeout=LIMIT_S) as connection:
                session = Firefox(connection)
                session.send("WebDriver:SetWindowRect", width=width, height=height)
                yield session
                with suppress(ConnectionError):
                    session.send("Marionette:Quit", flags=["eForceQuit"])
        finally:
            with suppress(subprocess.TimeoutExpired):
                process.wait(LIMIT_S / 4)
            process.kill()
            process.wait(LIMIT_S)


def _port(process: "subprocess.Popen[bytes]", profile: Path) -> int:
    """Wait until Firefox has written its port; return it."""
    file, end = profile / "MarionetteActivePort", time.monotonic() + LIMIT_S
    while time.monotonic() < end and process.poll() is None:
        if file.exists() and (text := file.read_text().strip()):
            return int(text)
        time.sleep(0.05)
    pytest.fail("Firefox does not start")
