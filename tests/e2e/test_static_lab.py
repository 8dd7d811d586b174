"""A static graph in JupyterLab, alone and beside a dynamic one."""

from __future__ import annotations

import re

from lab import (
    Lab,
    Watched,
    open_notebook,
    output_text,
    run_cell,
    set_theme,
    wait_until_at_rest,
)
from playwright.sync_api import Page, expect

PROGRAM = """\
import torch
from torch import nn
from gradwalk import GraphWidget, compare
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
x = torch.randn(5, 3)
program = torch.export.export(net, (x,))
w = GraphWidget(program)
w"""

COMPARE = """\
import torch
from torch import nn
from gradwalk import compare
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
x = torch.randn(5, 3)
c = compare({"dynamic": net(x).sum(), "static": torch.export.export(net, (x,))})
c"""

GRADS = "print([parameter.grad is not None for parameter in net.parameters()])"
SELECTED = "print(w.details['forward'])"


def start(watched: Watched, lab: Lab, name: str, *cells: str) -> Page:
    open_notebook(lab, watched.page, lab.write(f"{name}.ipynb", *cells))
    run_cell(watched.page, 0)
    return watched.page


def test_a_static_graph_is_drawn_and_explains_itself(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "static", PROGRAM, SELECTED)
    widget = page.locator(".gradwalk")
    widget.get_by_role("button", name="Legend and keys").click()
    expect(widget.locator(".gw-legend")).to_contain_text("data flows")
    expect(widget.locator(".gw-legend")).to_contain_text("buffer or constant")
    expect(widget.locator(".gw-help")).to_contain_text("Static graph of torch.export")
    expect(widget.locator("div.gw-bar")).to_be_hidden()
    expect(widget.get_by_role("button", name="Diagnose")).to_be_hidden()
    relu = widget.locator(".gw-node").filter(has_text="aten.relu.default")
    relu.click()
    panel = widget.locator(".gw-panel")
    expect(panel).to_contain_text("relu = aten.relu.default(batch_norm)")
    expect(panel).to_contain_text("Run it and pass what it returns")
    expect(panel).not_to_contain_text("requires_grad")
    run_cell(page, 1)
    assert "relu = aten.relu.default(batch_norm)" in output_text(page, 1)
    # Data flows down: what goes in is above what comes out.
    wait_until_at_rest(page)
    boxes = [
        widget.locator(".gw-node").filter(has_text=words).first.bounding_box()
        for words in ("placeholder", "aten.linear.default", "aten.relu.default")
    ]
    assert [box["y"] for box in boxes if box] == sorted(box["y"] for box in boxes if box)


def test_constants_hide_and_a_search_finds_a_parameter(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "static_search", PROGRAM)
    widget = page.locator(".gradwalk")
    buffer = widget.locator(".gw-node").filter(has_text="running_mean")
    expect(buffer).to_be_visible()
    widget.get_by_role("button", name="Constants and cuts").click()
    expect(buffer).to_have_count(0)
    widget.get_by_role("button", name="Find", exact=True).click()
    widget.locator(".gw-search input").fill("parameter")
    expect(widget.locator(".gw-search")).to_contain_text(re.compile("4"))
    set_theme(page, "JupyterLab Dark")
    expect(widget).to_be_visible()


def test_stepping_beside_a_static_graph(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "static_compare", COMPARE, GRADS)
    widget = page.locator(".gradwalk")
    expect(widget.locator(".gw-pane-label")).to_have_text(["dynamic", "static"])
    widget.get_by_role("button", name="To the end").click()
    expect(widget.locator(".gw-bar-text")).to_contain_text("backward done")
    expect(widget).to_contain_text("no backward runs through it")
    run_cell(page, 1)
    assert output_text(page, 1).strip() == "[True, True]"
    static = widget.locator(".gw-pane").nth(1)
    expect(static.locator(".is-done, .is-running")).to_have_count(0)
    static.locator(".gw-node").filter(has_text="net.0").dblclick()  # closed: it is in both graphs
    linear = static.locator(".gw-node").filter(has_text="aten.linear.default")
    linear.click()
    selected = widget.locator(".gw-pane").first.locator(".gw-node.is-selected")
    expect(selected).to_contain_text("AddmmBackward0")
    expect(widget.locator(".gw-leaves tbody")).to_contain_text("static: no gradient")
