"""Gradients changed on their way, and numbers of tensors that are set, compared with torch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bar import prints, widget
from lab import (
    Lab,
    Watched,
    eventually,
    open_notebook,
    output_text,
    run_cell,
    set_theme,
    wait_until_at_rest,
)
from playwright.sync_api import Locator, Page, expect

AXE = Path(__file__).parents[2] / "js" / "node_modules" / "axe-core" / "axe.min.js"

BLOCK = """\
import torch
from gradwalk import GraphWidget, watch
x, y = torch.tensor(0.5), torch.tensor(2.0)
def block(w0, w1, w2, skip=lambda h: h, whole=lambda out: out):
    h = w0 * x
    out = whole(skip(h) + w2 * torch.tanh(w1 * h))
    return (out - y) ** 2
def leaves():
    return [torch.tensor(number, requires_grad=True) for number in (2.0, 0.5, 0.25)]
w0, w1, w2 = leaves()
with watch():
    h = w0 * x
    out = h + w2 * torch.tanh(w1 * h)
    loss = (out - y) ** 2
g = GraphWidget(loss, direction="left")  # whatever room the page has just then
g.backward()
before = [w.grad.clone() for w in (w0, w1, w2)]
g"""

# What torch gives when the program itself is another.
TRUTH = """\
def hooked(hook):
    def edit(tensor):
        alias = tensor.view_as(tensor)
        alias.register_hook(hook)
        return alias
    return edit
def truth(**edits):
    own = leaves()
    return [grad.item() for grad in torch.autograd.grad(block(*own, **edits), own)]
def told(column="after"):
    by = {leaf["name"]: leaf for leaf in g.effect["leaves"]}
    of = lambda leaf: leaf["after"] if column == "after" else leaf["named"][column]["after"]
    return [of(by[name])["values"] for name in ("w0", "w1", "w2")]
def same(**edits):
    unmoved = all(torch.equal(w.grad, was) for w, was in zip((w0, w1, w2), before))
    return g.effect is not None and told() == truth(**edits) and unmoved
"""

LAYER = """\
import torch
from gradwalk import interact
def layer(W, b):
    h = torch.tanh(W @ torch.tensor([1.0, -0.5]) + b)
    return (h * h).sum()
start = {"W": torch.tensor([[0.5, -1.0], [2.0, 0.25]]), "b": torch.tensor([0.1, -0.2])}
box = interact(layer, **start)
box"""

LAYER_TRUTH = """\
own = {n: torch.tensor(box.controls[n].value, requires_grad=True) for n in start}
layer(**own).backward()
print(all(torch.equal(own[n].grad, box.leaves[n].grad) for n in own), box.leaves["W"].tolist())"""


def begun(watched: Watched, lab: Lab, name: str, *cells: str) -> Page:
    open_notebook(lab, watched.page, lab.write(f"surgery-{name}.ipynb", *cells))
    run_cell(watched.page, 0)
    expect(widget(watched.page).locator(".gw-node").first).to_be_visible()
    return watched.page


def axe_finds_nothing(page: Page) -> None:
    """In light and in dark."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        set_theme(page, theme)
        expect(widget(page)).to_have_attribute("data-theme", re.compile(theme.split()[1].lower()))
        widget(page).scroll_into_view_if_needed()  # JupyterLab hides what has scrolled away
        wait_until_at_rest(page)
        found = page.evaluate("axe.run({ include: [['.gradwalk']] })")
        assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == []
        assert len(found["passes"]) > 10


def click_line(page: Page, place: int) -> None:
    """Click the middle of an edge, by its place among the graph's edges."""
    wait_until_at_rest(page)
    line = widget(page).locator(".gw-canvas .gw-edge").nth(place).locator(".gw-line").first
    x, y = line.evaluate(
        """(path) => {
          const { x, y } = path.getPointAtLength(path.getTotalLength() / 2);
          const { a, d, e, f } = path.getScreenCTM();
          return [a * x + e, d * y + f];
        }"""
    )
    page.mouse.click(x, y)


def edge(consumer: int, arg_nr: int) -> str:
    """A cell that prints the place of an edge among all."""
    ends = '(edge["source"], edge["arg_nr"])'
    return (
        f'print([{ends} for edge in g.model["edges"]].index(({consumer}, {arg_nr})), '
        f'g.model["nodes"][{consumer}]["name"])'
    )


def place_of(page: Page, index: int) -> int:
    run_cell(page, index)
    place, name = output_text(page, index).split()
    assert name == "out"
    return int(place)


def type_into(field: Locator, words: str) -> None:
    field.click()
    field.fill(words)
    field.press("Enter")


def tab_to(page: Page, part: Locator) -> None:
    """Go to a part of the page with the Tab key alone."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if part.evaluate("(part) => part === part.ownerDocument.activeElement"):
            return
    raise AssertionError(f"Tab never came to {part}")


def walk_to(page: Page, name: str) -> None:
    """Walk from the output along edges, with the arrow keys alone, to a node; and select it."""
    canvas, title = widget(page).locator(".gw-canvas"), widget(page).locator(".gw-title")
    canvas.focus()
    page.keyboard.press("Home")
    for _ in range(12):
        at = canvas.get_attribute("aria-activedescendant")
        page.keyboard.press("Enter")
        expect(title).to_be_visible()
        if title.inner_text() == name:
            return
        page.keyboard.press("ArrowLeft")
        expect(canvas).not_to_have_attribute("aria-activedescendant", at or "")
    raise AssertionError(f"The arrows never came to {name!r}")


def test_edges_are_cut_scaled_and_replaced_with_the_mouse(watched: Watched, lab: Lab) -> None:
    page = begun(
        watched,
        lab,
        "mouse",
        BLOCK,
        TRUTH,
        edge(2, 0),
        "print(same(skip=lambda h: h.detach()))",
        "print(same(skip=hooked(lambda grad: grad / 4)))",
        "print(same(skip=hooked(lambda grad: torch.tensor(-1.5))))",
        "print(g.edits, g.effect)",
    )
    run_cell(page, 1)
    drawing = widget(page)
    click_line(page, place_of(page, 2))
    tools = drawing.locator(".gw-edge-bar")
    tools.get_by_role("button", name="Cut out → h").click()
    expect(drawing.locator(".gw-edited.is-cut")).to_have_count(1)
    expect(drawing.locator(".gw-bar-text")).to_contain_text("w0.grad would be")
    prints(page, 3, "True")
    type_into(tools.get_by_label("Factor of the gradient along out → h"), "1/4")
    expect(drawing.locator(".gw-edit-badge")).to_contain_text("× 0.25")
    prints(page, 4, "True")
    instead = tools.get_by_label("What flows along out → h instead of the gradient")
    type_into(instead, "none")  # no number: said, and nothing changes
    expect(instead).to_have_attribute("aria-invalid", "true")
    prints(page, 4, "True")
    type_into(instead, "−1.5")
    expect(drawing.locator(".gw-edit-badge")).to_contain_text("= −1.5")
    prints(page, 5, "True")
    tools.get_by_role("button", name="Undo the edit of out → h").click()
    expect(drawing.locator(".gw-edited")).to_have_count(0)
    expect(drawing.locator(".gw-bar-text")).not_to_contain_text("what if")
    prints(page, 6, "[] None")


def test_named_edits_are_compared_with_the_keys(watched: Watched, lab: Lab) -> None:
    page = begun(
        watched,
        lab,
        "keys",
        BLOCK,
        TRUTH,
        "print(told(0) == truth(skip=lambda h: h.detach()),"
        " told(1) == truth(whole=hooked(lambda grad: grad * -2)))",
        "print(same(skip=lambda h: h.detach(), whole=hooked(lambda grad: grad * -2)))",
        "print(same(whole=hooked(lambda grad: grad * -2)))",
        "print([each['kind'] for each in g.edits], g.effect is None)",
    )
    run_cell(page, 1)
    drawing = widget(page)
    walk_to(page, "h")
    tab_to(page, drawing.get_by_label("Cut out → h"))
    page.keyboard.press("Space")
    expect(drawing.locator(".gw-edit-list li")).to_have_count(1)
    tab_to(page, drawing.get_by_label("Name of cut out → h"))
    page.keyboard.type("no skip")
    page.keyboard.press("Enter")
    walk_to(page, "out")
    factor = drawing.get_by_label("Factor of the gradient along SubBackward0 → out")
    tab_to(page, factor)
    page.keyboard.type("-2")
    page.keyboard.press("Enter")
    expect(factor).to_be_focused()  # the panel was written anew under it
    expect(drawing.locator(".gw-edit-list li")).to_have_count(2)
    tab_to(page, drawing.locator(".gw-edit-name").last)
    page.keyboard.type("turned")
    page.keyboard.press("Enter")
    heads = drawing.locator(".gw-leaf-changes thead th")
    expect(heads).to_have_text(["leaf", "before", "no skip", "turned", "all on"])
    expect(drawing.locator(".gw-bar-text")).to_contain_text("no skip and turned side by side")
    prints(page, 2, "True True")
    prints(page, 3, "True")
    axe_finds_nothing(page)
    canvas = drawing.locator(".gw-canvas")
    canvas.focus()
    tab_to(page, drawing.get_by_label("On: cut out → h"))
    page.keyboard.press("Space")
    expect(heads).to_have_text(["leaf", "before", "no skip", "turned"])
    expect(heads.nth(3)).to_have_attribute("aria-current", "true")
    prints(page, 4, "True")
    prints(page, 2, "True True")  # what is off is compared all the same
    tab_to(page, drawing.get_by_label("Undo: cut out → h"))
    page.keyboard.press("Enter")
    expect(drawing.locator(".gw-edit-list li")).to_have_count(1)
    prints(page, 5, "['scale'] False")


@pytest.mark.parametrize("width", [1280, pytest.param(800, marks=pytest.mark.full)])
def test_each_number_of_a_tensor_is_set_with_mouse_and_keys(
    watched: Watched, lab: Lab, width: int
) -> None:
    page = watched.page
    page.set_viewport_size({"width": width, "height": 1000})
    page = begun(watched, lab, f"tensor-{width}", LAYER, LAYER_TRUTH)
    drawing = widget(page)
    grids = drawing.locator(".gw-number-input-grid")
    expect(grids).to_have_count(2)
    drawing.scroll_into_view_if_needed()
    wait_until_at_rest(page)
    # A grid is within the box of its leaf, and so over nothing else.
    for grid in grids.all():
        name = grid.get_attribute("aria-label")
        leaf = drawing.locator("[data-kind=leaf]", has=page.get_by_text(name, exact=True))
        inner, outer = grid.bounding_box(), leaf.locator(".gw-box").first.bounding_box()
        assert inner is not None
        assert outer is not None
        for at, size in (("x", "width"), ("y", "height")):
            assert inner[at] > outer[at] - 1
            assert inner[at] + inner[size] < outer[at] + outer[size] + 1
    entry = drawing.get_by_role("slider", name="W[1, 0]")
    entry.press("ArrowRight")
    expect(entry).to_have_text("2.1")
    expect(entry).to_be_focused()
    prints(page, 1, "True [[0.5, -1.0], [2.0999999046325684, 0.25]]")
    entry.press("ArrowLeft")
    expect(entry).to_have_text("2")
    other = drawing.get_by_role("slider", name="b[1]")
    other.hover()
    box = other.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.down()
    page.mouse.move(x + 50, y, steps=5)
    page.mouse.up()
    eventually(lambda: float(other.inner_text().replace("−", "-")) > -0.1)
    prints(page, 1, "True [[0.5, -1.0], [2.0, 0.25]]")
    if width == 1280:
        axe_finds_nothing(page)
