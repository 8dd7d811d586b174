"""The bar under the graph, as a person in JupyterLab uses it."""

from __future__ import annotations

import time

from lab import PATIENCE_S, Lab, Watched, open_notebook, output_text, run_cell
from playwright.sync_api import Locator, Page, expect

EXAMPLE = """\
import torch
from gradwalk import GraphWidget
x = torch.tensor(3.0, requires_grad=True)
y1 = x + 1
y2 = 2 * x
loss = (y1 - y2) ** 2
g = GraphWidget(loss)
g"""

POSITION = "print(g.cursor, None if x.grad is None else x.grad.item())"


def start(watched: Watched, lab: Lab, name: str, *cells: str) -> Page:
    """Open a notebook of these cells and run the first."""
    open_notebook(lab, watched.page, lab.write(f"stepping-{name}.ipynb", *cells))
    run_cell(watched.page, 0)
    expect(bar(watched.page)).to_be_visible()
    return watched.page


def widget(page: Page, nth: int = 0) -> Locator:
    return page.locator(".gradwalk").nth(nth)


def bar(page: Page, nth: int = 0) -> Locator:
    return widget(page, nth).locator("div.gw-bar")


def drawn(page: Page, selector: str) -> Locator:
    """In the drawing, not in the legend."""
    return widget(page).locator(f".gw-canvas {selector}")


def press(page: Page, label: str, nth: int = 0) -> None:
    """Click a button of the bar."""
    bar(page, nth).get_by_role("button", name=label, exact=True).click()


def at_step(page: Page, text: str, nth: int = 0) -> None:
    """Wait until the bar says where it stands."""
    expect(bar(page, nth).locator(".gw-bar-text")).to_contain_text(text)


def prints(page: Page, index: int, wanted: str) -> None:
    """Run a cell until it prints something: what was clicked may still be on its way to Python."""
    until = time.monotonic() + PATIENCE_S
    while True:
        run_cell(page, index)
        said = output_text(page, index).strip()
        if said == wanted or time.monotonic() > until:
            break
        page.wait_for_timeout(100)
    assert said == wanted


def gradients(page: Page, nth: int = 0) -> list[str]:
    """What is written on the edges and beside the nodes."""
    texts = widget(page, nth).locator(".gw-canvas .gw-gradient text").all_text_contents()
    return sorted(texts)
