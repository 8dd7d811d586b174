"""A module selected in the drawing: the panel's numbers are torch's."""

from __future__ import annotations

import json
import re

import pytest
from lab import (
    WIDGET,
    Lab,
    Watched,
    open_notebook,
    open_view_tools,
    output_text,
    run_all,
    run_cell,
    wait_until_at_rest,
)
from playwright.sync_api import Page, expect

MODEL = """
import json
import torch
from torch import nn
from gradwalk import GraphWidget, watch

torch.manual_seed(0)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0), 2)
        self.mlp = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 8))
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.mlp(self.encoder(self.embed(x))))


model = Tied()


def loss_of():
    return model(torch.randint(0, 11, (4, 5))).logsumexp(-1).mean()


def numbers():
    return {
        path: [len(list(module.parameters())), sum(p.numel() for p in module.parameters()),
               type(module).__name__]
        for path, module in model.named_modules()
    }
"""
SHOW = {
    "watched": "with watch():\n    loss = loss_of()\n(widget := GraphWidget(loss, names=model))",
    "inferred": "widget = GraphWidget(loss_of(), names=model)\nwidget",
}
TOLD = """
print(json.dumps({"numbers": numbers(), "memory": widget._memory,
  "norms": [[edge["source"], edge["target"], norm] for edge, norm in
            zip([widget.model["edges"][i] for i in widget.run["edges"]], widget.run["norms"])],
  "spaces": [node["namespace"] for node in widget.model["nodes"]],
  "stored": {name: parameter.grad is not None for name, parameter in model.named_parameters()},
  "selected": widget.selected}))
"""


def facts(page: Page) -> dict[str, str]:
    """The entries of the panel's list, by their words."""
    rows = page.locator(f"{WIDGET} .gw-panel .gw-facts > div")
    return {
        str(row.locator("dt").text_content()): str(row.locator("dd").text_content())
        for row in rows.all()
    }


def bytes_in(text: str) -> int:
    """Of "1.5 KiB held, 0 bytes by itself", the first, in bytes."""
    found = re.match(r"([\d.]+) (bytes?|KiB|MiB) held", text)
    assert found is not None
    return round(float(found[1]) * {"b": 1, "K": 1024, "M": 1024**2}[found[2][0]])


@pytest.mark.parametrize("how", SHOW)
def test_every_number_is_the_models_own(watched: Watched, lab: Lab, how: str) -> None:
    page = watched.page
    lab.write("modules.ipynb", MODEL, SHOW[how], "widget.backward()", TOLD)
    open_notebook(lab, page, "modules.ipynb")
    run_all(page)
    expect(page.locator(f"{WIDGET} .gw-bar-text")).to_contain_text("backward done")
    page.locator(WIDGET).scroll_into_view_if_needed()
    run_cell(page, 3)
    told = json.loads(output_text(page, 3))
    assert told["selected"] is None
    seen: set[str] = set()
    open_view_tools(page)
    page.select_option(f"{WIDGET} .gw-depth", "0")
    for path in ("encoder", "encoder/layers", "encoder/layers/0", "mlp"):
        page.get_by_role("button", name="Fit the graph").click()  # what is out of view is not drawn
        page.wait_for_selector(box(path), state="attached")
        wait_until_at_rest(page)
        for other in [str(each.get_attribute("data-group")) for each in page.locator(box()).all()]:
            if other not in seen:
                select(page, other)
                check(page, told, other.replace("/", "."), how)
                seen.add(other)
        select(page, path)
        page.locator(f"{WIDGET} .gw-actions").get_by_role("button", name="Open").click()
        page.locator(f"{WIDGET} .gw-actions").get_by_role("button", name="Close").wait_for()
    assert {"embed", "encoder", "mlp", "encoder/layers", "encoder/layers/0"} <= seen
    assert any(path.startswith("encoder/layers/0/") for path in seen)
    run_cell(page, 3)
    assert json.loads(output_text(page, 3))["selected"] is None


def box(path: str | None = None) -> str:
    """A closed box, or all that are drawn."""
    of = "" if path is None else f"='{path}'"
    return f"{WIDGET} .gw-svg .gw-node[data-index][data-group{of}]"


def select(page: Page, path: str) -> None:
    page.locator(f"{box(path)} .gw-text-title").dispatch_event("click")
    title = page.locator(f"{WIDGET} .gw-panel .gw-title")
    title.get_by_text(path.replace("/", "."), exact=True).wait_for()


def check(page: Page, told: dict, path: str, how: str) -> None:
    shown = facts(page)
    count, numbers, kind = told["numbers"][path]
    assert page.locator(f"{WIDGET} .gw-panel .gw-op-name").text_content() == f"{kind} ({how})"
    expected = f"{count} tensor{'s' * (count != 1)}, {numbers:,} element{'s' * (numbers != 1)}"
    assert shown["parameters"] == expected, path
    assert shown[".grad"] == f"reached {count} of {count} parameter{'s' * (count != 1)}"
    if how != "inferred":
        return
    spaces, memory = told["spaces"], told["memory"]

    def inside(node: int) -> bool:
        return f"{spaces[node]}/".startswith(f"{path.replace('.', '/')}/")

    held = zip(memory["nodes"], memory["bytes"], strict=True)
    within = [size for node, size in held if inside(node)]
    if sum(within) == 0:
        assert "memory" not in shown
    else:
        assert bytes_in(shown["memory"]) == pytest.approx(sum(within), rel=5e-3)

    norms = [
        norm for source, target, norm in told["norms"] if inside(target) and not inside(source)
    ]
    ends = [f"{end:.4f}" for end in (min(norms), max(norms))]
    if path not in ("embed", "head"):  # their weight is one, so that its gradients cross too
        single = f"norm {ends[0]}"
        assert shown["gradient in"] == (
            single if ends[0] == ends[1] else f"norms {ends[0]} to {ends[1]}"
        )
