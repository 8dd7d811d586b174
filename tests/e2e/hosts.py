"""The places a widget is shown in, each started here and opened in a browser without a network."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anywidget
import nbformat
from lab import PATIENCE_MS, Lab, free_port, run_all, take_picture, wait_for_kernel, wait_until_up
from lab import set_theme as set_lab_theme
from playwright.sync_api import Browser, Page, expect

ROOT = Path(__file__).parents[2]

GRAPH = """\
import ipywidgets
import torch
from gradwalk import GraphWidget, compare
x = torch.tensor([1.0, 2.0], requires_grad=True)
w = torch.tensor([4.0, 3.0], requires_grad=True)
b = torch.tensor(0.5, requires_grad=True)
h = w * x + b
loss = (h**2).sum()
g = GraphWidget(loss)
g"""

SAYS = """\
said = ipywidgets.Label()
def say(_=None):
    said.value = f"Python knows: selected {g.selected}, cursor {g.cursor}"
g.observe(say, ["selected", "cursor"])
say()
said"""

RECORD = "g.backward()\ng.reset()"

COMPARE = """\
c = compare({"all": ((w * x + b) ** 2).sum(), "cut": ((w * x.detach() + b) ** 2).sum()})
c"""

MARIMO = f"""\
import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo
    import torch

    from gradwalk import GraphWidget, compare

    return GraphWidget, compare, mo, torch


@app.cell
def _(GraphWidget, mo, torch):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    w = torch.tensor([4.0, 3.0], requires_grad=True)
    b = torch.tensor(0.5, requires_grad=True)
    _h = w * x + b
    loss = (_h**2).sum()
    g = mo.ui.anywidget(GraphWidget(loss))
    g
    return b, g, w, x


@app.cell
def _(g, mo):
    mo.md(f"Python knows: selected {{g.value['selected']}}, cursor {{g.widget.cursor}}")
    return


@app.cell
def _(b, compare, w, x):
    {COMPARE.splitlines()[0]}
    c
    return


if __name__ == "__main__":
    app.run()
"""

# What hosts log, and ask of the internet, with no widget on the page.
NOTEBOOK_KNOWN = ("reading 'schema'",)
VOILA_KNOWN = ("fontawesome", "mathjax", "@jupyter-notebook/lab-extension")


@dataclass
class Host:
    """One host with the widgets on its page.

    Attributes:
        name: What it is called.
        page: Where they are.
        answers: Whether Python is there to answer.
        set_theme: Puts the host into "light" or "dark".
        cells: How many cells the host shows, for those in which keys add and delete some.
    """

    name: str
    page: Page
    answers: bool
    set_theme: Callable[[str], None]
    cells: Callable[[], int] = lambda: 0


def write_notebook(path: Path, *cells: str) -> Path:
    """Write a notebook of code cells."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    nbformat.write(notebook, path)
    return path


@contextlib.contextmanager
def offline_page(browser: Browser, known: tuple[str, ...] = (), **options: Any) -> Iterator[Page]:
    """A page that cannot leave this machine, and on which nothing may go wrong.

    Args:
        browser: In which to open it.
        known: Parts of what the host is known to log or to ask of the internet by itself.
        **options: For the browser's context.
    """
    options = {"viewport": {"width": 1280, "height": 1000}, "color_scheme": "light"} | options
    context = browser.new_context(**options)
    wrong: list[str] = []
    local = re.compile(r"(http|ws)://(127\.0\.0\.1|localhost)[:/]|(file|data|blob):")

    def only_local(route: Any) -> None:
        if local.match(route.request.url):
            route.continue_()
        else:
            wrong.append(f"request: {route.request.url}")
            route.abort()

    context.route("**/*", only_local)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)  # Voila runs the notebook before it answers
    page.on("pageerror", lambda error: wrong.append(f"uncaught: {error.stack}"))
    page.on("console", lambda m: wrong.append(f"console: {m.text}") if m.type == "error" else None)
    try:
        yield page
    except BaseException:
        take_picture(page)
        raise
    finally:
        context.close()
    # What was blocked is also logged as not loaded; what this machine lacks is a failure elsewhere.
    known = (*known, "Failed to load resource", "favicon")
    left = [each for each in wrong if not any(part in each for part in known)]
    assert not left, left


@contextlib.contextmanager
def notebook(browser: Browser, lab: Lab, name: str) -> Iterator[Page]:
    """A notebook of the served folder, open in Notebook 7, with a kernel that is ready."""
    with offline_page(browser, NOTEBOOK_KNOWN) as page:
        page.goto(f"{lab.url}/notebooks/{name}?token={lab.token}")
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        wait_for_kernel(page)
        yield page
    lab.stop_kernels()


@contextlib.contextmanager
def notebook_host(browser: Browser, lab: Lab) -> Iterator[Host]:
    """Notebook 7."""
    with notebook(browser, lab, lab.write("hosted.ipynb", GRAPH, SAYS, COMPARE)) as page:
        run_all(page)
        page.locator(".jp-Notebook-cell").last.scroll_into_view_if_needed()

        def set_theme(theme: str) -> None:
            set_lab_theme(page, f"JupyterLab {theme.capitalize()}")

        yield Host("Notebook 7", page, True, set_theme, page.locator(".jp-Notebook-cell").count)


@contextlib.contextmanager
def voila_host(browser: Browser, lab: Lab) -> Iterator[Host]:
    """Voila, which runs the notebook anew for each visit."""
    name = lab.write("voila.ipynb", GRAPH, SAYS, COMPARE)
    with offline_page(browser, VOILA_KNOWN) as page:

        def set_theme(theme: str) -> None:
            page.goto(f"{lab.url}/voila/render/{name}?token={lab.token}&theme={theme}")

        set_theme("light")
        yield Host("Voila", page, True, set_theme)
    lab.stop_kernels()


@contextlib.contextmanager
def marimo_server(folder: Path, mode: str, source: str = MARIMO) -> Iterator[str]:
    """`marimo run` or `marimo edit` on one notebook, with settings of its own. Yields its URL."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hosted.py").write_text(source, encoding="utf-8")
    settings = folder / "config" / "marimo" / "marimo.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        '[display]\ntheme = "system"\n[runtime]\nauto_instantiate = true\n', encoding="utf-8"
    )
    private = {
        f"XDG_{each}_HOME": str(folder / each.lower()) for each in ("CONFIG", "STATE", "CACHE")
    }
    port = free_port()
    command = [
        *(sys.executable, "-m", "marimo", mode, "--headless", "--no-token"),
        *("--host", "127.0.0.1", "--port", str(port), "hosted.py"),
    ]
    log = folder / "server.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            command, cwd=folder, env=os.environ | private, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until_up(f"{url}/health", server, log)
            yield url
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()


@contextlib.contextmanager
def marimo_host(browser: Browser, folder: Path, mode: str) -> Iterator[Host]:
    """Marimo: "run" for the app, "edit" for the editor."""
    with marimo_server(folder, mode) as url, offline_page(browser) as page:
        page.goto(url)

        def set_theme(theme: Any) -> None:
            page.emulate_media(color_scheme=theme)

        yield Host(f"marimo {mode}", page, True, set_theme, page.locator(".marimo-cell").count)


@contextlib.contextmanager
def vscode_page(browser: Browser, lab: Lab, folder: Path) -> Iterator[Page]:
    """A page with VS Code's own renderer of widgets, its style rules, and a kernel."""
    shutil.copytree(ROOT / "tests" / "e2e" / "vscode", folder)
    shutil.copy(
        Path(anywidget.__file__).parent / "nbextension" / "index.js", folder / "anywidget.js"
    )
    esbuild = ROOT / "js" / "node_modules" / ".bin" / "esbuild"
    run_commands(
        folder,
        f"""\
npm ci --silent --no-audit --no-fund
cp node_modules/requirejs/require.js .
tar -xzf "$(npm pack --silent @vscode/jupyter-ipywidgets8@1.0.9)" --strip-components=2 package/dist
{shlex.quote(str(esbuild))} host.mjs --bundle --format=esm --external:./ipywidgets.js \
  --outfile=host.js --log-level=warning""",
    )
    # The page comes from nowhere, and Chromium asks before such a page may talk to this machine.
    with offline_page(browser, permissions=["local-network-access"]) as page:
        at = f"{lab.url}/vscode/"
        page.route(
            f"{at}*",
            lambda route: route.fulfill(path=folder / urlsplit(route.request.url).path[8:]),
        )
        page.goto(f"{at}page.html?token={lab.token}")
        page.wait_for_function("window.isReady")
        yield page
    lab.stop_kernels()


def run_in_vscode(page: Page, name: str, code: str) -> None:
    """Run a cell, which loses its output if it ran before, and wait for it."""
    error = page.evaluate("([name, code]) => run(name, code)", [name, code])
    assert error is None, error


@contextlib.contextmanager
def vscode_host(browser: Browser, lab: Lab, folder: Path) -> Iterator[Host]:
    """VS Code's renderer of widgets; not VS Code itself."""
    with vscode_page(browser, lab, folder) as page:
        for name, code in {"graph": GRAPH, "says": SAYS, "compare": COMPARE}.items():
            run_in_vscode(page, name, code)

        def set_theme(theme: str) -> None:
            page.evaluate("(theme) => setTheme(theme)", theme)

        yield Host("VS Code", page, True, set_theme)


@contextlib.contextmanager
def nbconvert_host(browser: Browser, folder: Path) -> Iterator[Host]:
    """The page that `nbconvert --to html` makes by the recipe in the documentation."""
    folder.mkdir()
    write_notebook(folder / "notebook.ipynb", GRAPH, RECORD, COMPARE)
    recipe = commands("nbconvert")
    run_commands(folder, commands("files") + recipe)
    with offline_page(browser) as page:

        def set_theme(theme: str) -> None:
            if theme == "dark":
                run_commands(folder, f"{recipe.rstrip()} --theme dark")
            page.goto((folder / "notebook.html").as_uri())

        set_theme("light")
        yield Host("nbconvert", page, False, set_theme)


@contextlib.contextmanager
def embed_host(browser: Browser, folder: Path) -> Iterator[Host]:
    """The page that `ipywidgets.embed` makes by the recipe in the documentation."""
    folder.mkdir()
    run_commands(folder, commands("files"))
    recipe = f"{GRAPH}\n{RECORD}\n{COMPARE}\n{commands('embed', 'python')}"
    subprocess.run([sys.executable, "-c", recipe], cwd=folder, check=True)
    with offline_page(browser) as page:
        file = folder / "widgets.html"
        text = file.read_text(encoding="utf-8")

        def set_theme(theme: str) -> None:
            ground = {"light": "", "dark": "<style>body { background: #222; }</style>"}[theme]
            file.write_text(text.replace("</head>", f"{ground}</head>"), encoding="utf-8")
            page.goto(file.as_uri())

        set_theme("light")
        yield Host("ipywidgets.embed", page, False, set_theme)


def commands(recipe: str, language: str = "bash") -> str:
    """A recipe of the documentation, as it stands there."""
    text = (ROOT / "docs" / "reference" / "hosts.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- {recipe} -->.*?```{language}\n(.*?)```", text, re.DOTALL)
    assert found, f"docs/reference/hosts.md has no recipe for {recipe} in {language}"
    return found[1]


def run_commands(folder: Path, text: str) -> None:
    """Run shell commands as a person who has this environment on the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", text],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


def expect_drawn(page: Page) -> None:
    """Wait until both widgets are there, without a fault."""
    expect(page.locator(".gradwalk")).to_have_count(2)
    expect(page.locator(".gradwalk .gw-node").first).to_be_visible()
    expect(page.locator(".gradwalk .gw-panes .gw-node").first).to_be_visible()
    expect(page.locator(".gw-fault")).to_have_count(0)
