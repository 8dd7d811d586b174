"""Running cells again, and closing: nothing is left behind, and nothing raises."""

from __future__ import annotations

from pathlib import Path

import pytest
from hosts import marimo_server, notebook, offline_page, run_in_vscode, vscode_page
from lab import Lab, run_all
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.full

AXE = Path(__file__).parents[2] / "js" / "node_modules" / "axe-core" / "axe.min.js"

START = """\
import gc, torch, weakref
from gradwalk import GraphWidget, compare
seen = []
def loss():
    t = torch.ones(300_000, requires_grad=True)
    u = t.exp()
    seen.append(weakref.ref(u))  # the product saves it, so only a graph that is freed lets it go
    return (u * u).sum()"""

MARIMO = """\
import marimo

app = marimo.App()


@app.cell
def _():
    import gc
    import weakref

    import marimo as mo
    import torch

    from gradwalk import GraphWidget

    seen = []
    return GraphWidget, gc, mo, seen, torch, weakref


@app.cell
def _(mo):
    again = mo.ui.button(label="Run it again", value=0, on_click=lambda count: count + 1)
    again
    return (again,)


@app.cell
def _(GraphWidget, again, mo, seen, torch, weakref):
    again.value

    def _loss():
        t = torch.ones(300_000, requires_grad=True)
        u = t.exp()
        seen.append(weakref.ref(u))
        return (u * u).sum()

    g = mo.ui.anywidget(GraphWidget(_loss()))
    g
    return (g,)


@app.cell
def _(again, g, gc, mo, seen):
    gc.collect()
    _alive = [each() is not None for each in seen]
    mo.md(f"run {again.value} of {type(g.widget).__name__}: alive {_alive}")
    return


if __name__ == "__main__":
    app.run()
"""


def test_a_notebook_that_runs_again_keeps_one_graph(browser: Browser, fresh_lab: Lab) -> None:
    asked = "gc.collect()\nprint('alive', [each() is not None for each in seen])"
    name = fresh_lab.write(
        "again.ipynb", START, "GraphWidget(loss())", asked, "g = GraphWidget(loss())"
    )
    with notebook(browser, fresh_lab, name) as page:
        run_all(page)
        expect(page.get_by_text("alive [True]")).to_be_visible()
        cells = page.locator(".jp-Notebook-cell")
        for alive in ("alive [False, True, True]", "alive [False, True, False, True]"):
            for nth in (1, 2):
                cells.nth(nth).locator(".cm-content").click()
                page.keyboard.press("Control+Enter")
            expect(page.get_by_text(alive)).to_be_visible()
            expect(page.locator(".gradwalk")).to_have_count(1)
        cells.nth(3).locator(".cm-content").click()
        page.keyboard.press("Control+a")
        page.keyboard.type("g.close()\nprint(g)")
        page.keyboard.press("Control+Enter")
        expect(page.get_by_text("closed: make a new one")).to_be_visible()


@pytest.mark.parametrize("mode", ["run", "edit"])
def test_a_marimo_cell_that_runs_again_keeps_one_graph(
    browser: Browser, tmp_path: Path, mode: str
) -> None:
    with marimo_server(tmp_path / "served", mode, MARIMO) as url, offline_page(browser) as page:
        page.goto(url)
        for run in range(3):
            alive = [*[False] * run, True]
            told = page.get_by_text(f"run {run} of GraphWidget: alive {alive}")
            expect(told).to_be_visible()
            expect(page.locator(".gradwalk")).to_have_count(1)
            expect(page.locator(".gw-node").first).to_be_visible()
            page.get_by_role("button", name="Run it again").click()


def test_vs_codes_renderer_ends_the_widgets_of_a_cell_that_runs_again(
    browser: Browser, fresh_lab: Lab, tmp_path: Path
) -> None:
    with vscode_page(browser, fresh_lab, tmp_path / "vscode") as page:
        run_in_vscode(page, "start", START)
        for _ in range(4):
            for name, code in {
                "result": "GraphWidget(loss())",
                "held": "g = GraphWidget(loss())\ng",
            }.items():
                run_in_vscode(page, name, code)
            expect(page.locator(".gradwalk")).to_have_count(2)
        run_in_vscode(
            page, "asked", "gc.collect()\nassert sum(each() is not None for each in seen) == 3"
        )


def test_axe_finds_nothing_in_a_notebook(browser: Browser, fresh_lab: Lab) -> None:
    cells = (
        START,
        "compare([loss(), loss() * 2])",
        "GraphWidget(loss())",
        "g = GraphWidget(loss())\ng.step(2)\ng",
    )
    with notebook(browser, fresh_lab, fresh_lab.write("axe.ipynb", *cells)) as page:
        run_all(page)
        page.locator(".jp-Notebook-cell").last.scroll_into_view_if_needed()
        expect(page.locator(".gradwalk .gw-node").last).to_be_visible()
        expect(page.locator(".gradwalk")).to_have_count(3)
        page.locator(".gradwalk").last.locator("[data-kind=leaf]").click()
        expect(page.locator(".gradwalk").last.locator(".gw-title")).to_have_text("leaf")
        page.evaluate(AXE.read_text(encoding="utf-8"))
        result = page.evaluate("axe.run({ include: [['.gradwalk']] })")
        found = [(each["id"], each["nodes"][0]["html"][:200]) for each in result["violations"]]
        assert found == []
        assert len(result["passes"]) > 10
