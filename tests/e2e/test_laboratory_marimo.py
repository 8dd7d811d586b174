"""In marimo: its own sliders drive a graph, and gradients are cut, compared with torch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hosts import marimo_server, offline_page
from lab import eventually
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.full

MARIMO = """\
import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo
    import torch

    from gradwalk import GraphWidget

    return GraphWidget, mo, torch


@app.cell
def _(mo):
    slider = mo.ui.slider(-5.0, 5.0, step=0.5, value=-3.0, label="w")
    slider
    return (slider,)


@app.cell
def _(torch):
    def neuron(number):
        w = torch.tensor(number, requires_grad=True)
        x = torch.tensor(2.0, requires_grad=True)
        pred = w * x
        if w > 0:
            pred = pred.tanh()
        return (pred - 1) ** 2, {"w": w, "x": x, "pred": pred}

    return (neuron,)


@app.cell
def _(GraphWidget, mo, neuron):
    _loss, _names = neuron(-3.0)
    g = mo.ui.anywidget(GraphWidget(_loss, names=_names))
    g
    return (g,)


@app.cell
def _(g, mo, neuron, slider, torch):
    _loss, _names = neuron(slider.value)
    g.widget.update(_loss, names=_names)
    _loss.backward()
    _truth, _own = neuron(slider.value)
    _grads = torch.autograd.grad(_truth, [_own["w"], _own["x"]])
    _same = all(torch.equal(_names[n].grad, grad) for n, grad in zip("wx", _grads))
    mo.md(f"Python knows: w {slider.value}, w.grad {_names['w'].grad.item():.4g}, same {_same}")
    return


if __name__ == "__main__":
    app.run()
"""

TOLD = re.compile(r"Python knows: w (\S+), w\.grad (\S+), same (\w+)")


def told(page: Page) -> tuple[float, str, str]:
    """What torch gives for the slider, where it stands now."""
    text = page.get_by_text(TOLD).inner_text()
    found = TOLD.search(text)
    assert found is not None, text
    return float(found[1]), found[2], found[3]


def in_picture(page: Page, name: str) -> str:
    """The numbers in a leaf's card and the gradient in its cell."""
    node = page.locator(".gw-node", has=page.get_by_text(name, exact=True)).first
    index = node.get_attribute("data-node")
    cell = page.locator(f'.gw-gradient[data-beside="{index}"]')
    texts = [*node.locator("text").all_text_contents(), *cell.locator("text").all_text_contents()]
    return " ".join(texts).replace("\u2212", "-")


def is_in_picture(page: Page, w: float, grad: str, same: str) -> bool:
    """Whether the leaf's card says what torch gives."""
    written = in_picture(page, "w").split()
    return same == "True" and f"{w:g}" in written and grad in written


@pytest.mark.parametrize("mode", ["run", "edit"])
def test_marimos_own_slider_updates_the_graph(browser: Browser, tmp_path: Path, mode: str) -> None:
    with marimo_server(tmp_path / "served", mode, MARIMO) as url, offline_page(browser) as page:
        page.goto(url)
        expect(page.get_by_text("w -3.0, w.grad -28, same True")).to_be_visible(timeout=60_000)
        expect(page.locator(".gw-gradients")).to_contain_text("\u221228")
        places = page.locator(".gw-node").evaluate_all(
            "nodes => nodes.map(node => node.getAttribute('transform'))"
        )
        thumb = page.get_by_role("slider", name="w").or_(
            page.locator("marimo-slider [role=slider]")
        )
        box = thumb.first.bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 12, y, steps=6)
        page.mouse.up()
        expect(page.get_by_text("w -3.0,")).to_be_hidden()
        eventually(lambda: is_in_picture(page, *told(page)))
        assert -3 < told(page)[0] <= 0  # the same branch: nothing has moved
        after = page.locator(".gw-node").evaluate_all(
            "nodes => nodes.map(node => node.getAttribute('transform'))"
        )
        assert after == places
        # The other branch, by keys: the graph is another, and the bar says so.
        thumb.first.focus()
        page.keyboard.press("End")
        expect(page.get_by_text("w 5.0,")).to_be_visible()
        assert told(page)[2] == "True"
        expect(page.locator(".gw-bar-text")).to_contain_text("new: pred")
        eventually(lambda: is_in_picture(page, *told(page)))


SURGERY = """\
import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo
    import torch

    from gradwalk import GraphWidget

    return GraphWidget, mo, torch


@app.cell
def _(torch):
    def block(w, v, skip=lambda h: h):
        h = w * 0.5
        out = skip(h) + torch.tanh(v * h)
        return out, h

    def leaves():
        return [torch.tensor(number, requires_grad=True) for number in (2.0, 0.5)]

    return block, leaves


@app.cell
def _(GraphWidget, block, leaves, mo):
    w, v = leaves()
    out, h = block(w, v)
    g = mo.ui.anywidget(GraphWidget(out, names={"w": w, "v": v, "h": h, "out": out}))
    g.widget.backward()
    g
    return (g,)


@app.cell
def _(block, g, leaves, mo, torch):
    def told():
        g.value["edits"]  # so that this cell runs again
        edits = g.widget.edits
        if not edits:
            return "no edit"
        kind = edits[0]["kind"]
        factor = 0.0 if kind == "cut" else float(edits[0]["value"])

        def skip(tensor):
            alias = tensor.view_as(tensor)
            alias.register_hook(lambda grad: grad * factor)
            return tensor.detach() if kind == "cut" else alias

        own = leaves()
        truth = [grad.item() for grad in torch.autograd.grad(block(*own, skip=skip)[0], own)]
        by = {leaf["name"]: leaf["after"]["values"] for leaf in g.widget.effect["leaves"]}
        return f"{kind} {factor:g}, same {[by['w'], by['v']] == truth}"

    mo.md(f"Python knows: {told()}.")
    return


if __name__ == "__main__":
    app.run()
"""


def test_gradients_are_cut_with_the_mouse_and_scaled_with_the_keys(
    browser: Browser, tmp_path: Path
) -> None:
    with marimo_server(tmp_path / "served", "run", SURGERY) as url, offline_page(browser) as page:
        page.goto(url)
        expect(page.get_by_text("Python knows: no edit.")).to_be_visible(timeout=60_000)
        expect(page.locator(".gw-node").first).to_be_visible()
        # The longest line of all is the skip connection's.
        lines = page.locator(".gw-canvas .gw-edge .gw-line")
        lengths = lines.evaluate_all("lines => lines.map((line) => line.getTotalLength())")
        x, y = lines.nth(lengths.index(max(lengths))).evaluate(
            """(line) => {
              const { x, y } = line.getPointAtLength(line.getTotalLength() / 2);
              const { a, d, e, f } = line.getScreenCTM();
              return [a * x + e, d * y + f];
            }"""
        )
        page.mouse.click(x, y)
        tools = page.locator(".gw-edge-bar")
        tools.get_by_role("button", name="Cut out → h").click()
        expect(page.get_by_text("Python knows: cut 0, same True.")).to_be_visible()
        expect(page.locator(".gw-bar-text")).to_contain_text("w.grad would be")
        page.keyboard.press("Tab")
        page.keyboard.type("-3/2")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Python knows: scale -1.5, same True.")).to_be_visible()
        expect(tools.get_by_label("Factor of the gradient along out → h")).to_be_focused()
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Python knows: no edit.")).to_be_visible()
