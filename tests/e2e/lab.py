"""A private JupyterLab and a browser to drive it, for the tests and the screenshots."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright
from playwright.sync_api import Error as PlaywrightError

ROOT = Path(__file__).parents[2]

WIDGET = ".gradwalk"

VIEWPORT: Any = {"width": 1280, "height": 1000}

# The machine may have other things to do: a limit only ends what would never end.
PATIENCE_S = 90
PATIENCE_MS = 1000 * PATIENCE_S

Settings = Mapping[str, Mapping[str, Any]]

# No news, no tours, no pop-ups.
QUIET: Settings = {
    # Its question whether to overwrite a changed file would cover the page.
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
}

# Code that makes a used kernel forget. The history of inputs stays, so that
# no cell's number comes twice.
FORGET = """\
__import__("ipywidgets").Widget.close_all()
get_ipython().extension_manager.unload_extension("gradwalk")
get_ipython().reset(new_session=False)
__import__("gc").collect()"""


_COLOURS = re.compile(r"\x1b\[[\d;]*m")  # of a traceback


@dataclass
class Lab:
    """A running JupyterLab.

    Attributes:
        url: Where it listens, on this machine only.
        folder: The notebooks it serves.
        token: The password of each request.
    """

    url: str
    folder: Path
    token: str

    def sessions(self) -> set[str]:
        """The sessions, each with a kernel, that are running."""
        return {session["id"] for session in self._call("GET", "/api/sessions")}

    def stop_kernels(self, keep: Collection[str] = ()) -> None:
        """End the kernels of every session but some."""
        for session in self.sessions() - set(keep):
            self._call("DELETE", f"/api/sessions/{session}")

    def _call(self, method: str, path: str) -> Any:
        request = urllib.request.Request(f"{self.url}{path}?token={self.token}", method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read() or b"null")

    def write(self, name: str, *cells: str) -> str:
        """Write a notebook of code cells into the served folder."""
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        )
        nbformat.write(notebook, self.folder / name)
        return name


@dataclass
class Watched:
    """A page, with everything that went wrong on it.

    Attributes:
        page: The page.
        errors: Console errors, uncaught exceptions, and requests that leave this machine.
    """

    page: Page
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", self._on_uncaught)
        self.page.on("request", self._on_request)

    def _on_uncaught(self, error: PlaywrightError) -> None:
        stack = error.stack or str(error)
        # In a few of some hundred runs something on a page that gets narrow removes what is gone.
        # It counts where gradwalk's script, which is a blob, is in the stack.
        if "removeChild" not in stack or "blob:" in stack:
            self.errors.append(f"uncaught: {stack}")

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not _is_the_hosts(message.text):
            self.errors.append(f"console: {message.text} {message.location}")

    def _on_request(self, request: Request) -> None:
        local = ("http://127.0.0.1", "http://localhost", "ws://127.0.0.1", "data:", "blob:")
        if not request.url.startswith(local):
            self.errors.append(f"request: {request.url}")


def _is_the_hosts(text: str) -> bool:
    """Errors JupyterLab logs by itself, with no widget on the page."""
    return "favicon" in text or "Failed to load resource" in text


def free_port() -> int:
    """A port below those that the system gives to others until the server has taken it."""
    while True:
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", random.SystemRandom().randrange(10_000, 30_000)))
            return int(sock.getsockname()[1])


@contextlib.contextmanager
def running_lab(folder: Path, settings: Settings | None = None) -> Iterator[Lab]:
    """Start JupyterLab on ``folder`` with settings, data and runtime folders of its own.

    Args:
        folder: The notebooks to serve.
        settings: The choices of a person in menus, by the plugin they belong to.
    """
    private = folder.parent / f"{folder.name}-jupyter"
    for name in ("config", "data", "runtime", "ipython", "workspaces", "settings"):
        (private / name).mkdir(parents=True, exist_ok=True)
    for plugin, content in {**QUIET, **(settings or {})}.items():
        file = private / "settings" / f"{plugin.replace(':', '/')}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))
    port, token = free_port(), "test"
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(private / "config"),
        "JUPYTER_DATA_DIR": str(private / "data"),
        "JUPYTER_RUNTIME_DIR": str(private / "runtime"),
        "IPYTHONDIR": str(private / "ipython"),
        "JUPYTERLAB_WORKSPACES_DIR": str(private / "workspaces"),
        "JUPYTERLAB_SETTINGS_DIR": str(private / "settings"),
    }
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"),
        *(f"--port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"),
        *(f"--ServerApp.root_dir={folder}", "--LabApp.expose_app_in_browser=True"),
        "--JupyterNotebookApp.expose_app_in_browser=True",
        *("--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"),
        "--LabApp.extension_manager=readonly",
    ]
    log = (private / "server.log").open("w")
    server = subprocess.Popen(
        command, env=environment, stdout=log, stderr=subprocess.STDOUT, cwd=folder
    )
    lab = Lab(f"http://127.0.0.1:{port}", folder, token)
    try:
        wait_until_up(f"{lab.url}/api/status?token={lab.token}", server, private / "server.log")
        yield lab
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
        log.close()


def wait_until_up(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server answers; what it has written says why it does not."""
    until = time.monotonic() + PATIENCE_S
    while server.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=PATIENCE_S):
            return
        time.sleep(0.25)
    raise RuntimeError(f"The server did not start:\n{log.read_text()[-3000:]}")


@contextlib.contextmanager
def running_browser() -> Iterator[Browser]:
    """Chromium as the system has it; Playwright's own download is not needed."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        raise RuntimeError(
            "These tests need Chromium on the PATH (Debian: apt-get install chromium)."
        )
    arguments = [
        *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


def open_notebook(lab: Lab, page: Page, name: str) -> None:
    """Show a notebook alone on the page, with a kernel that is ready.

    A page that shows a notebook already keeps it, its kernel too, and gets the cells of this one.
    """
    if page.url.startswith(f"{lab.url}/doc/tree/"):
        _replace_cells(page, nbformat.read(lab.folder / name, as_version=4).cells)
    else:
        page.goto(f"{lab.url}/doc/tree/{name}?token={lab.token}&reset")
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        wait_for_kernel(page)
    if page.locator("body[data-jp-theme-light='true']").count() == 0:
        set_theme(page, "JupyterLab Light")


def wait_for_kernel(page: Page) -> None:
    """Wait until the notebook's kernel would run a cell at once."""
    page.wait_for_function(
        """() => {
          const context = window.jupyterapp?.shell.currentWidget?.sessionContext;
          const kernel = context?.session?.kernel;
          return context?.isReady && kernel?.connectionStatus === 'connected'
            && kernel.status === 'idle';
        }"""
    )


def save(page: Page) -> None:
    """Save the notebook, and wait until it is."""
    page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")


def clear_notebook(page: Page) -> None:
    """Take every cell away and make the kernel forget what they did.

    When widgets close, their thread in the kernel ends, and messages that it has not handled by
    then are never answered.
    """
    wait_until_heard(page)
    _replace_cells(page, [])
    error = page.evaluate(
        """async ([code, patience]) => {
          const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
          const late = new Promise((done) => setTimeout(done, patience, 'the kernel is busy'));
          const asked = kernel.requestExecute({ code, store_history: false }).done;
          const answer = await Promise.race([asked, late]);
          return answer === 'the kernel is busy' ? answer : answer.content.evalue;
        }""",
        [FORGET, PATIENCE_MS],
    )
    if error:
        raise RuntimeError(f"The kernel could not be used again: {error}")


def _replace_cells(page: Page, cells: list[dict[str, Any]]) -> None:
    page.evaluate(
        """(cells) => {
          const notebook = window.jupyterapp.shell.currentWidget.content;
          const shared = notebook.model.sharedModel;
          shared.transact(() => {
            shared.deleteCellRange(0, shared.cells.length);
            shared.insertCells(0, cells);
          });
          notebook.mode = 'command';
          notebook.activeCellIndex = 0;
        }""",
        cells,
    )


def eventually(true: Callable[[], bool]) -> None:
    """Wait until something holds, at most as long as an expectation would."""
    until = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < until, f"this did not happen within {PATIENCE_S} s"
        time.sleep(0.05)


# Longer than a picture waits for the second click of a double click before it moves.
_REST_MS = 400


def until(page: Page, holds: str, given: Any = None) -> None:
    """Wait until an asynchronous function of the page gives true.

    `Page.wait_for_function` takes the first answer of such a function, whether it is true or not.
    """
    held = page.evaluate(
        f"""async ([given, patience]) => {{
          const holds = {holds};
          const until = Date.now() + patience;
          while (!(await holds(given))) {{
            if (Date.now() > until) return false;
            await new Promise((done) => setTimeout(done, 20));
          }}
          return true;
        }}""",
        [given, PATIENCE_MS],
    )
    assert held, f"this did not come true within {PATIENCE_S} s: {holds}"


def wait_until_at_rest(page: Page) -> None:
    """Wait until every drawing is where, and as, it stays: nothing moves, scrolls or fades."""
    until(
        page,
        """async (rest) => {
          const roots = [...document.querySelectorAll('.gradwalk')];
          const parts = '.gradwalk .gw-layer, .gradwalk .gw-svg .gw-node';
          const places = () => JSON.stringify([
            roots.map((root) => root.getBoundingClientRect()),
            Array.from(document.querySelectorAll(parts), (part) => part.getAttribute('transform')),
          ]);
          const before = places();
          const until = performance.now() + rest;
          for (let frame = 0; frame < 10 || performance.now() < until; frame++) {
            await new Promise(requestAnimationFrame);
            if (places() !== before) return false;
          }
          return roots.flatMap((root) => root.getAnimations({ subtree: true })).every(
            (each) => each.playState !== 'running'
              || each.effect.getComputedTiming().endTime === Infinity);
        }""",
        _REST_MS,
    )


def take_picture(page: Page) -> Path | None:
    """Keep a picture of the page beside the other results of the test that is running."""
    test, _, when = os.environ.get("PYTEST_CURRENT_TEST", "picture ()").rpartition(" ")
    name = re.sub(r"[^\w.-]+", "-", f"{test.rpartition('/')[2]}-{when.strip('()')}")
    folder = ROOT / "test-results"
    folder.mkdir(exist_ok=True)
    file = next(
        file for nth in itertools.count(1) if not (file := folder / f"{name}-{nth}.png").exists()
    )
    with contextlib.suppress(PlaywrightError):  # a page that has crashed has no picture
        page.screenshot(path=file)
        return file
    return None


def run_command(page: Page, command: str, arguments: dict[str, Any] | None = None) -> None:
    """Run one of JupyterLab's commands, as a menu or a key would."""
    page.evaluate(
        "([command, args]) => { window.jupyterapp.commands.execute(command, args); }",
        [command, arguments or {}],
    )


def run_all(page: Page) -> None:
    """Run every cell and wait for the last."""
    _run(page, "notebook:run-all-cells", 2 * PATIENCE_MS)


def run_cell(page: Page, index: int) -> None:
    """Run one cell, as a click into it and Shift+Enter would, and wait for it."""
    wait_until_heard(page)
    page.evaluate(
        """(index) => {
          const notebook = window.jupyterapp.shell.currentWidget.content;
          notebook.activeCellIndex = index;
          notebook.deselectAll();
        }""",
        index,
    )
    _run(page, "notebook:run-cell", PATIENCE_MS)


def wait_until_heard(page: Page) -> None:
    """Wait until Python has handled what the widgets' users did.

    A widget sends a position with the next frame. ipywidgets holds back the second of two changes
    until the first is handled, and the kernel may handle them in another thread than a cell.
    """
    until(
        page,
        """async () => {
          await new Promise(requestAnimationFrame);
          const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session ?? {};
          return kernel?.status === 'idle' && [...kernel._futures.values()]
            .every(({ msg }) => !msg.header.msg_type.startsWith('comm_'));
        }""",
    )


def _run(page: Page, command: str, patience_ms: int) -> None:
    """Run a command that runs cells; it ends when all that they wrote is here."""
    ended = page.evaluate(
        """([command, patience]) => Promise.race([
          window.jupyterapp.commands.execute(command).then(() => true),
          new Promise((done) => setTimeout(done, patience, false)),
        ])""",
        [command, patience_ms],
    )
    assert ended, f"{command} did not end within {patience_ms // 1000} s"


def output_text(page: Page, index: int) -> str:
    """The output or error of a cell, as text; it need not be on the page yet."""
    text = page.evaluate(
        """(index) => {
          const { outputs } = window.jupyterapp.shell.currentWidget.content.model.cells.get(index);
          return [...Array(outputs.length).keys()].map((i) => outputs.get(i).toJSON())
            .flatMap(({ text, traceback, data }) =>
              text ?? traceback?.join('\\n') ?? data?.['text/plain'] ?? []).join('');
        }""",
        index,
    )
    return _COLOURS.sub("", text)


def open_view_tools(page: Page) -> None:
    """Open the menu that says how a graph is shown."""
    opener = page.locator(".gradwalk .gw-view > button").first
    if opener.get_attribute("aria-expanded") == "false":
        opener.click()


def set_theme(page: Page, name: str) -> None:
    """Switch JupyterLab to "JupyterLab Light" or "JupyterLab Dark"."""
    run_command(page, "apputils:change-theme", {"theme": name})
    light = "true" if "Light" in name else "false"
    page.wait_for_selector(f"body[data-jp-theme-light='{light}']", state="attached")
