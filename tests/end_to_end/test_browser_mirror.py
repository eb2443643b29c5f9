"""A real browser mirrors a graph through the JavaScript client, and keeps up when connection or server go away."""

import json
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.browser.graph_process import PEER, TOKEN
from tests.end_to_end.command import environment

_ROOT = Path(__file__).resolve().parent.parent.parent
_PAGE = "/tests/end_to_end/browser/page.html"
_SECONDS_MAX = 120.0

Report = dict[str, Any]


class _Desk:
    """Where the page gets its settings and commands, and leaves its reports."""

    def __init__(self) -> None:
        self.settings: dict[str, object] = {}
        self.commands: queue.SimpleQueue[list[object]] = queue.SimpleQueue()
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        desk = self

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/settings":
                    self._answer(desk.settings)
                else:
                    super().do_GET()

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                desk._reports.put(json.loads(self.rfile.read(length)))
                commands = []
                while not desk.commands.empty():
                    commands.append(desk.commands.get())
                self._answer(commands)

            def _answer(self, value: object) -> None:
                body = json.dumps(value).encode()
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(_ROOT)))
        self.port = self.server.server_address[1]

    def until(self, wanted: Callable[[Report], bool]) -> Report:
        """The first report, from now on, that is as it should be."""
        deadline = time.monotonic() + _SECONDS_MAX
        report: Report | None = None
        while time.monotonic() < deadline:
            try:
                report = self._reports.get(timeout=deadline - time.monotonic())
            except queue.Empty:
                break
            if wanted(report):
                return report
        raise AssertionError(f"the page never came to show it; its last report: {report}")

    def shows(self, count: int) -> Report:
        """The page shows all that it may see of a graph whose count is this, as it is now."""
        nodes = {"count": str(count), "double": str(2 * count), "text": f"count is {count}"}
        return self.until(lambda report: report["status"] == "live" and report["nodes"] == nodes)


@contextmanager
def _desk() -> Iterator[_Desk]:
    desk = _Desk()
    thread = threading.Thread(target=desk.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield desk
    finally:
        desk.server.shutdown()
        desk.server.server_close()
        thread.join()


class _Graph:
    """The process that serves."""

    def __init__(self, port: int, count: int, page_port: int) -> None:
        origin = f"http://127.0.0.1:{page_port}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.end_to_end.browser.graph_process", str(port), str(count), origin],
            cwd=_ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = int(self._line())

    def do(self, command: str) -> int:
        """One command; the count after it."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return int(self._line())

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@contextmanager
def _browser(url: str, folder: Path) -> Iterator[None]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program is not None, "there is no Chromium; scripts/system-packages chromium installs one"
    flags = [
        "--headless=new",
        "--no-sandbox",  # it may run as root here, and opens a page of our own only
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-extensions",
        "--no-first-run",
        f"--user-data-dir={folder}",
    ]
    with subprocess.Popen(
        [program, *flags, url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.mark.slow
def test_a_browser_mirrors_a_graph_over_lost_connections_and_restarts(tmp_path: Path) -> None:
    with _desk() as desk:
        graph = _Graph(0, 1, desk.port)
        try:
            desk.settings = {"url": f"ws://127.0.0.1:{graph.port}/graph", "token": TOKEN, "peer": PEER}
            with _browser(f"http://127.0.0.1:{desk.port}{_PAGE}", tmp_path / "profile"):
                report = desk.shows(1)
                assert (report["edges"], report["roots"]) == (2, 1), "nothing of what is hidden"
                graph.do("set 5")
                desk.shows(5)
                desk.commands.put(["write", "count", 7])
                desk.shows(7)
                assert graph.do("show") == 7
                graph.do("drop")
                graph.do("set 8")
                desk.shows(8)
                graph.process.send_signal(signal.SIGKILL)
                desk.until(lambda report: report["status"] == "offline" and report["nodes"]["count"] == "8")
                # Said while nobody listens: it goes to whoever comes next.
                desk.commands.put(["write", "count", 9])
                desk.until(lambda report: report["unacknowledged"] == 1)
                graph.end()
                graph = _Graph(graph.port, 100, desk.port)
                desk.until(lambda report: report["unacknowledged"] == 0)
                desk.shows(9)
                assert graph.do("show") == 9
                graph.do("set 200")
                desk.shows(200)
        finally:
            graph.end()
