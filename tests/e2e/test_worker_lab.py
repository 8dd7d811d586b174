"""Large pictures in JupyterLab are made in a worker: the page answers meanwhile."""

from __future__ import annotations

import pytest
from lab import (
    Lab,
    Watched,
    eventually,
    open_notebook,
    open_view_tools,
    output_text,
    run_cell,
    run_command,
)
from playwright.sync_api import Locator, Page, expect

# A real model with a graph of more than 10,000 nodes.
MODEL = """\
import torch
from torch import nn
from gradwalk import GraphWidget
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
model = nn.TransformerEncoder(layer, {layers})
loss = model(torch.randn(2, 5, 16)).sum()
w = GraphWidget(loss, names=model)
w"""

SLOW = """\
import time, torch
from gradwalk import GraphWidget
class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, grad):
        open("slow-began", "w").close()
        time.sleep(600)
        return grad
x = torch.ones(2, requires_grad=True)
w = GraphWidget(Slow.apply(x * 1).sum())
w"""

# Keeps count of the workers that the page starts and ends, and of what they answer. While `held` is
# a list, what they are asked waits in it.
WORKERS = """
window.held = null;
window.startedWorkers = 0;
window.endedWorkers = 0;
window.answers = [];
window.Worker = class extends window.Worker {
  constructor(url, options) {
    super(url, options);
    this.ours = options?.name === 'gradwalk scenes';
    if (!this.ours) return;
    window.startedWorkers += 1;
    this.addEventListener('message', ({data}) => window.answers.push(data.kind));
  }
  postMessage(...asked) {
    if (this.ours && window.held) window.held.push(asked);
    else super.postMessage(...asked);
  }
  terminate() {
    if (this.ours) window.endedWorkers += 1;
    super.terminate();
  }
};
"""


def start(page: Page, lab: Lab, name: str, layers: int, *cells: str) -> Locator:
    """Run a notebook with a model of so many layers; returns the widget."""
    open_notebook(lab, page, lab.write(f"{name}.ipynb", MODEL.format(layers=layers), *cells))
    run_cell(page, 0)
    widget = page.locator(".gradwalk").first
    expect(widget.locator(".gw-node").first).to_be_attached()
    return widget


def boxes(widget: Locator) -> Locator:
    """The modules that are drawn closed, as tiles or as bars, on the SVG of a near view."""
    return widget.locator(".gw-closed, .gw-strip-bar.gw-node")


def open_all(widget: Locator) -> None:
    """Show every node: all modules open, and nothing folded into edges."""
    open_view_tools(widget.page)
    widget.locator(".gw-depth").select_option("all")
    widget.get_by_role("button", name="Hide views and transposes").click()


def running(page: Page) -> int:
    return int(page.evaluate("startedWorkers - endedWorkers"))


@pytest.mark.full
@pytest.mark.fresh  # it counts its own workers
def test_the_page_answers_while_ten_thousand_nodes_are_laid_out(watched: Watched, lab: Lab) -> None:
    page = watched.page
    page.add_init_script(WORKERS)
    start(page, lab, "small", 2)
    assert page.evaluate("startedWorkers") == 0

    widget = start(page, lab, "worker", 140, "w.close()")
    assert page.evaluate("startedWorkers") == 1
    before = widget.locator(".gw-counts").inner_text()
    page.evaluate("held = []")  # however fast the machine is, there is time to look and to cancel
    open_all(widget)
    bar = widget.locator(".gw-progress")
    expect(bar).to_be_visible()
    expect(bar).to_contain_text("nodes…")
    expect(boxes(widget).first).to_be_attached()  # the picture before it is still there
    bar.get_by_role("button", name="Cancel").click()
    expect(bar).to_be_hidden()
    expect(boxes(widget).first).to_be_attached()
    expect(widget.locator(".gw-depth")).not_to_have_value("all")
    assert page.evaluate("held.length") > 0
    page.evaluate("held = null")

    open_all(widget)
    expect(boxes(widget)).to_have_count(0)
    expect(bar).to_be_hidden()
    expect(widget.locator(".gw-depth")).to_have_value("all")
    expect(widget.locator(".gw-fault")).to_have_count(0)
    assert widget.locator(".gw-counts").inner_text() == before

    # The worker greets with the widths of a sample; in other fonts it would get no work, and the
    # page itself would make the scene.
    assert page.evaluate("answers[0]") == "hello"
    assert page.evaluate("answers.at(-1)") == "scene"
    assert running(page) == 1
    run_cell(page, 1)
    expect(page.locator(".gradwalk")).to_have_count(0)
    assert running(page) == 0


@pytest.mark.full
@pytest.mark.fresh
def test_a_page_that_allows_no_workers_draws_by_itself(watched: Watched, lab: Lab) -> None:
    page = watched.page
    page.add_init_script("window.Worker = class { constructor() { throw new Error('no'); } };")
    widget = start(page, lab, "none", 40)
    open_all(widget)
    expect(boxes(widget)).to_have_count(0)
    expect(widget.locator(".gw-progress")).to_be_hidden()


def test_a_long_backward_says_so_and_ends_with_an_interrupt(watched: Watched, lab: Lab) -> None:
    page = watched.page
    open_notebook(lab, page, lab.write("slow.ipynb", SLOW, "print(x.grad, w.cursor)"))
    run_cell(page, 0)
    bar = page.locator("div.gw-bar")
    expect(page.locator(".gw-node").first).to_be_visible()
    forward = bar.get_by_label("One step", exact=True)
    forward.click()
    expect(bar).to_contain_text("Running backward… Interrupt the kernel to stop it.")
    forward.click()  # does nothing: it runs once
    eventually((lab.folder / "slow-began").exists)
    run_command(page, "notebook:interrupt-kernel")
    stopped = "This backward pass stopped, so every .grad was put back."
    expect(page.locator(".gradwalk")).to_contain_text(stopped)
    expect(bar).not_to_contain_text("Running backward")
    run_cell(page, 1)
    assert output_text(page, 1).split() == ["None", "0"]
